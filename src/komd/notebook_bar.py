"""A progress bar in Jupyter: one HTML element that is replaced as work goes on, and removed at its end."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

__all__ = ["NotebookBar", "in_notebook"]

_PAUSE = 0.2  # seconds between two updates of the bar: each is a message to the browser


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (and not IPython in a terminal)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar with a label, a rate and the time left: a `Bar` of `progress`."""

    def __init__(self, label: str, total: float) -> None:
        self._label = label
        self._total = max(total, 1e-9)
        self._done = 0.0
        self._began = time.monotonic()
        self._drawn = 0.0
        self._handle: Any = None

    def start(self) -> None:
        """Show it."""
        from IPython.display import HTML, display

        self._handle = display(HTML(self.html()), display_id=True)  # type: ignore[no-untyped-call]

    def advance(self, amount: float) -> None:
        """Add to the amount that is done."""
        self._done += amount
        if self._handle is not None and time.monotonic() - self._drawn > _PAUSE:
            self._show(self.html())

    def stop(self) -> None:
        """Remove it."""
        if self._handle is not None:
            self._show("")

    def html(self) -> str:
        """The bar as it is now; colours follow the notebook, light or dark."""
        share = min(self._done / self._total, 1.0)
        seconds = time.monotonic() - self._began
        rate = f"{self._done / seconds:,.0f}/s" if seconds > 0 and self._done else ""
        left = f"{seconds * (1 - share) / share:,.0f} s left" if share > 0 else ""
        counts = f"{self._done:,.0f}/{self._total:,.0f}"
        words = " · ".join(part for part in (counts, rate, left) if part)
        return (
            '<div role="status" style="display:flex;gap:.75em;align-items:center;font-size:.9em">'
            f'<span>{escape(self._label)}</span><progress value="{share:.4f}" max="1" style="width:16em"></progress>'
            f'<span style="opacity:.75">{words}</span></div>'
        )

    def _show(self, html: str) -> None:
        from IPython.display import HTML

        self._handle.update(HTML(html))  # type: ignore[no-untyped-call]
        self._drawn = time.monotonic()
