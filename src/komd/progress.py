"""Progress bars for long work: on a terminal only, and only once the work has lasted a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]

_PATIENCE = 0.5  # seconds before a bar appears: short work stays quiet


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[float], None]]:
    """Yield `advance(amount)`; shows a bar with rate and time left on stderr when that is a terminal.

    An empty `label` is silent always.
    """
    if not label or not sys.stderr.isatty():
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
