"""Progress bars and notes on a terminal, for work that takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["be_quiet", "note_once", "progress"]

_noted: set[str] = set()
_quiet = False
_PATIENCE = 0.5  # seconds before a bar appears: short work stays quiet


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[float], None]]:
    """Yield `advance(amount)`; shows a bar with rate and time left on stderr when that is a terminal.

    With an empty `label` nothing is shown.
    """
    if not label or sys.stderr is None or not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f}/s" if speed else "", style="dim")

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(label, total=total)
    started = time.monotonic()
    shown = False

    def advance(amount: float) -> None:
        nonlocal shown
        bar.advance(task, amount)
        if not shown and time.monotonic() - started > _PATIENCE:
            bar.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


def note_once(text: str) -> None:
    """A line on stderr, the first time only, where that is a terminal."""
    if text not in _noted and not _quiet and sys.stderr is not None and sys.stderr.isatty():
        _noted.add(text)
        print(text, file=sys.stderr, flush=True)


def be_quiet() -> None:
    """No notes from now on: a program reads what is printed."""
    global _quiet
    _quiet = True
