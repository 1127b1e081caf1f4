"""Where the time of a streamed ranking goes: komd's own functions, wrapped in a clock from outside."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from komd._core.strip_counting import DENSE

__all__ = ["PHASES", "Clock"]

# name: (module, class or None, function). Whole phases are called by one thread, the compiled parts by all of them.
PHASES = {
    "gather": ("komd.matrix.streamed", "StreamedMatrix", "gather"),
    "solve": ("komd.models.cfkomd", "CFKOMD", "weigh"),
    "count": ("komd.matrix.strip_builder", "StripBuilder", "filled"),
    "use": ("komd.engine.streamed_ranking", "_Group", "_use"),
    "gather_rows": ("komd._core.gather", None, "gather_rows"),
    "solve_users": ("komd._core.solve", None, "solve_users"),
    "cut_strip": ("komd._core.strip_counting", None, "cut_strip"),
    "count_strip": ("komd._core.strip_counting", None, "count_strip"),
    "rank_strip": ("komd._core.rank_strip", None, "rank_strip"),
}


class Clock:
    """Seconds spent in each of `PHASES`, summed over threads, and the work done in them, since the last `lap`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = defaultdict(float)
        self._work: dict[str, float] = defaultdict(float)
        self._having = np.zeros(0, np.int64)  # how many users of the current group have each item
        self._largest = 0
        for name, (module, owner, function) in PHASES.items():
            home: Any = import_module(module)
            home = getattr(home, owner) if owner else home
            setattr(home, function, self._timed(name, getattr(home, function)))
        import_module("komd.engine.item_based")._ROWS_SHARE = 0.0  # stream at any size, as at full size
        self._watch_groups()

    def lap(self) -> dict[str, Any]:
        """What was spent and done since the last time."""
        out = {"seconds": dict(self._seconds), "work": dict(self._work), "largest_strip": self._largest}
        self._seconds, self._work, self._largest = defaultdict(float), defaultdict(float), 0
        return out

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        after = {"count": self._after_count, "gather": self._after_gather}.get(name)

        def timed(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            out = function(*args, **options)
            seconds = time.perf_counter() - start
            with self._lock:
                self._seconds[name] += seconds
            if after:
                after(out, *args)
            return out

        return timed

    def _watch_groups(self) -> None:
        from komd.engine import streamed_ranking as streaming

        ranked = streaming._Group.ranked

        def watched(group: Any, room: int, advance: Any) -> Any:
            rows, matrix = group.histories, group.model.matrix
            self._having = np.bincount(rows.indices, minlength=matrix.items)
            self._work["groups"] += 1
            self._work["scores"] += float(len(rows)) * matrix.items
            self._work["counts"] += float(matrix.work[self._having > 0].sum())
            out = ranked(group, room, advance)
            self._having = np.zeros(0, np.int64)
            return out

        streaming._Group.ranked = watched  # type: ignore[method-assign]

    def _after_gather(self, found: Any, matrix: Any, users: Any, targets: Any) -> None:
        rows, lengths = np.unique(users.indices), np.diff(users.indptr)
        wanted = lengths if targets is None else lengths + np.diff(targets.indptr)
        self._work["gathered visits"] += float(np.diff(matrix.by_item.indptr)[rows].sum())
        self._work["gathered counts"] += float(matrix.work[rows].sum())
        self._work["gathered entries"] += float((lengths * wanted).sum())

    def _after_count(self, strip: Any, builder: Any, first: int, last: int, *_: Any) -> None:
        """Entries of the strip, and the work of scoring it: every user who has the item uses its row."""
        rows, width = builder.rows, last - first
        dense = strip.places[0, :, 1] == DENSE
        lengths = np.zeros(len(rows), np.int64)
        for places in strip.places:
            lengths += places[:, 1] - places[:, 0]
        lengths[dense] = width
        self._work["strips"] += 1
        self._work["visits"] += float(np.diff(builder.by_item.indptr)[rows].sum())
        self._work["entries"] += float(lengths.sum())
        self._largest = max(self._largest, int(lengths.sum()))
        if len(self._having):
            ranked_users = self._having[rows].astype(np.float64)
            self._work["multiply-adds"] += float(ranked_users @ lengths)
            self._work["bytes scored"] += float(ranked_users @ (lengths * np.where(dense, 4, 6)))
