"""The counts of the report: lists that were given out, and events that go back to them.

Events are counted in the transaction that stores them. Lists are counted in memory (`Impressions`) and added to the
store about every second: nothing is written for a single list, and a worker that is killed loses a second of them.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sql

from komd.serve.event_records import ReportKey
from komd.serve.event_tables import EventTables
from komd.serve.recommendation_id import today

__all__ = ["Impressions", "ReleaseCounts", "ReportCounts", "released", "wilson"]

_Z = 1.959963984540054  # of 95 %


class ReportCounts:
    """The statements of the table of counts."""

    def __init__(self, tables: EventTables) -> None:
        report = tables.report
        adding = tables.insert(report)
        self._add = adding.on_conflict_do_update(
            index_elements=[report.c[name] for name in ReportKey._fields],
            set_={"count": report.c.count + adding.excluded.count},
        )
        self.since = (
            sql.select(report.c.release, report.c.arm, report.c.name, sql.func.sum(report.c["count"]))
            .where(report.c.day >= sql.bindparam("first", type_=sql.Integer))
            .group_by(report.c.release, report.c.arm, report.c.name)
            .order_by(report.c.release, report.c.arm, report.c.name)
        )
        """Rows (release, arm, name, count) from the day `first` on."""

    def add(self, connection: sql.Connection, counts: Mapping[ReportKey, int]) -> None:
        """Add to the counts."""
        rows = [{**key._asdict(), "count": count} for key, count in sorted(counts.items()) if count]
        if rows:
            connection.execute(self._add, rows)


_COUNTED = ("lists", "items")


class Impressions:
    """Lists that were given out and are not in the store yet. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, str, int], list[int]] = {}  # lists and items, by day, release and arm
        self.lists: Counter[int] = Counter()
        """How many lists were given out, by arm."""

    def count(self, release: str, arm: int, items: int, *, reported: bool = True) -> None:
        """Count one list of so many items; in the report too, if it is `reported`."""
        day = today()
        with self._lock:
            self.lists[arm] += 1
            if reported:
                counts = self._waiting.setdefault((day, release, arm), [0, 0])
                counts[0] += 1
                counts[1] += items

    def take(self) -> Counter[ReportKey]:
        """What waits, which from now on is not here any more."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return Counter(
            {
                ReportKey(*key, name): count
                for key, counts in waiting.items()
                for name, count in zip(_COUNTED, counts, strict=True)
            }
        )

    def put_back(self, counts: Counter[ReportKey]) -> None:
        """Keep counts that could not be stored."""
        with self._lock:
            for key, count in counts.items():
                self._waiting.setdefault(key[:3], [0, 0])[_COUNTED.index(key.name)] += count


class ReleaseCounts(NamedTuple):
    """What was counted of one arm of one release."""

    release: str
    arm: int
    impressions: int
    items: int
    clicked: int
    """Lists that led to a choice."""
    clicks: int
    """Choices they led to."""
    types: dict[str, int]
    """Events of each type that they led to."""


def released(rows: list[Any]) -> list[ReleaseCounts]:
    """The rows of `ReportCounts.since`, by release and arm."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for release, arm, name, count in rows:
        found.setdefault((str(release), int(arm)), {})[str(name)] = int(count)
    return [
        ReleaseCounts(
            release,
            arm,
            impressions=counts.get("lists", 0),
            items=counts.get("items", 0),
            clicked=counts.get("clicked", 0),
            clicks=counts.get("clicks", 0),
            types={name.removeprefix("event:"): n for name, n in counts.items() if name.startswith("event:") and n},
        )
        for (release, arm), counts in found.items()
    ]


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of Wilson for a rate.

    >>> [round(limit, 4) for limit in wilson(10, 100)]
    [0.0552, 0.1744]
    """
    if not trials:
        return 0.0, 1.0
    rate, spread = successes / trials, _Z * _Z / trials
    middle, half = rate + spread / 2, _Z * math.sqrt(rate * (1 - rate) / trials + spread / (4 * trials))
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return max(low, 0.0) if successes else 0.0, min(high, 1.0) if successes < trials else 1.0
