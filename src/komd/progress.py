"""Progress bars and notes on a terminal or in a notebook, for work that takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from komd.notebook_bar import NotebookBar, in_notebook

__all__ = ["be_quiet", "note_once", "progress"]

_noted: set[str] = set()
_quiet = False
_PATIENCE = 0.5  # seconds before a bar appears: short work stays quiet


class Bar(Protocol):
    """A bar that can be shown."""

    def start(self) -> None: ...

    def advance(self, amount: float) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[float], None]]:
    """Yield `advance(amount)`; shows a bar with rate and time left in Jupyter, and on stderr if it is a terminal.

    With an empty `label` nothing is shown.
    """
    bar = _bar(label, total) if label else None
    if bar is None:
        yield lambda amount: None
        return
    started = time.monotonic()
    shown = False

    def advance(amount: float) -> None:
        nonlocal shown
        bar.advance(amount)
        if not shown and time.monotonic() - started > _PATIENCE:
            bar.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


def _bar(label: str, total: int) -> Bar | None:
    if _terminal():
        return _terminal_bar(label, total)
    return NotebookBar(label, total) if in_notebook() else None


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _terminal_bar(label: str, total: int) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f}/s" if speed else "", style="dim")

    class OneTask:
        def __init__(self) -> None:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
                Rate(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task(label, total=total)
            self.start, self.stop = self.bar.start, self.bar.stop

        def advance(self, amount: float) -> None:
            self.bar.advance(self.task, amount)

    return OneTask()


def note_once(text: str) -> None:
    """A line on stderr, the first time only, where that is a terminal or the output of a notebook's cell."""
    if text not in _noted and not _quiet and (_terminal() or in_notebook()):
        _noted.add(text)
        print(text, file=sys.stderr, flush=True)


def be_quiet() -> None:
    """No notes from now on: a program reads what is printed."""
    global _quiet
    _quiet = True
