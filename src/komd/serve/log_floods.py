"""The same line again and again is logged once every few seconds, with how many more there were.

Lines are the same if they differ in numbers only. Requests (level INFO) are not held back: who wants those asked for
each of them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

from komd.serve.path_names import names_only

__all__ = ["FloodFilter"]

_SECONDS = 5.0
_MOST = 200  # kinds of lines that are remembered
_NUMBER = re.compile(r"\d+")


class _Flood:
    """Lines of one kind since the last one that was logged."""

    __slots__ = ("held", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.held = 0


class FloodFilter(logging.Filter):
    """Of the handler whose `handle` it is given; it uses that to say how many lines were held back."""

    def __init__(self, handle: Callable[[logging.LogRecord], object], seconds: float = _SECONDS) -> None:
        super().__init__()
        self._handle = handle
        self._seconds = seconds
        self._lock = threading.Lock()
        self._floods: dict[tuple[int, str], _Flood] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it now."""
        if record.levelno < logging.WARNING or getattr(record, "counted", False):
            return True
        text = record.getMessage()
        key, now = (record.levelno, _NUMBER.sub("0", text)), time.monotonic()
        with self._lock:
            flood = self._floods.get(key)
            if flood is None or (not flood.held and now - flood.since >= self._seconds):
                self._floods.pop(key, None)
                if len(self._floods) >= _MOST:
                    self._floods.pop(next(iter(self._floods)))  # the one that was logged longest ago
                self._floods[key] = _Flood(now)
                return True
            flood.held += 1
            if flood.held == 1:  # when the time is over, somebody must say how many there were
                timer = threading.Timer(flood.since + self._seconds - now, self._count, (record, flood, text))
                timer.daemon = True
                timer.start()
        return False

    def _count(self, record: logging.LogRecord, flood: _Flood, text: str) -> None:
        with self._lock:
            held, flood.held = flood.held, 0
            flood.since = time.monotonic()  # the line with the number is one of its kind
        words = f"{held:,} more of these in {self._seconds:g} s: {names_only(text.splitlines()[0])}"
        counted = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, words, (), None)
        counted.counted = True
        self._handle(counted)
