"""The log of posted events, and what the events of a pair come to.

The rule, for the events of a pair in the order in which they were committed, without ignored ones:

- another kind begins the pair anew; the earlier events stay in the log and count again if those after them are
  withdrawn;
- the last weight that was given holds, and `least` is the largest that a type says;
- the latest time holds. An event that gives no time happened when it was stored, if it is one of its own (it has a type
  or an id of its client) or says something new; else it may have been sent again, and does not change the time.

So the state of a pair and its next event give the next state: events are added without reading the earlier ones. Only a
withdrawal reads the log of its pair again (`replayed`).

An event with a derived id that is in the log already was sent again, or it was posted again after others of its pair.
If it says something new now it moves to the end of the log; else it changes nothing. An id that the client gave is
taken once.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sql

from komd.serve.event_records import LoggedEvent, NewEvent, ReportKey, WithdrawnEvent
from komd.serve.event_tables import EventTables
from komd.serve.recommendation_id import recommendation_of

__all__ = ["EventCommit", "EventLog", "EventState", "replayed"]

_Pair = tuple[str, str]
_ID_BYTES = 16  # of a derived id


class EventState(NamedTuple):
    """What the events of a pair came to."""

    kind: str
    weight: float | None
    least: float | None
    time: int


def _joined(state: EventState | None, kind: str, weight: float | None, least: float | None, when: int) -> EventState:
    if state is None or kind != state.kind:
        return EventState(kind, weight, least, when)
    if least is None or (state.least is not None and state.least > least):
        least = state.least
    return EventState(kind, state.weight if weight is None else weight, least, max(state.time, when))


def replayed(events: Iterable[LoggedEvent]) -> EventState | None:
    """What these events of one pair, in their order, come to; None if there are none."""
    state: EventState | None = None
    for event in events:
        if event.kind == "ignored":
            continue
        anew = state is None or event.kind != state.kind
        when = event.time if event.time is not None else event.at if anew or state is None else state.time
        state = _joined(state, event.kind, event.weight, event.least, when)
    return state


class EventLog:
    """The statements of the log, made once: building one takes longer than running it."""

    def __init__(self, tables: EventTables, key: bytes) -> None:
        self._key = key
        sqlite = tables.dialect.name == "sqlite"
        # The wanted rows come as one JSON text, so that a statement is the same for any number of them.
        given = "json_each(:given) AS given" if sqlite else "json_array_elements(CAST(:given AS json)) AS given(value)"
        first, second = (f"json_extract(given.value, '$[{k}]')" if sqlite else f"given.value ->> {k}" for k in (0, 1))
        self.pairs = sql.text(
            "SELECT e.user_id, e.item_id, e.kind, e.weight, e.least, e.time, e.at, e.seq, EXISTS "
            "(SELECT 1 FROM komd_log l WHERE l.user_id = e.user_id AND l.item_id = e.item_id) "
            f"FROM {given} CROSS JOIN komd_events e WHERE e.user_id = {first} AND e.item_id = {second}"
        )
        self.known = sql.text(
            "SELECT l.event_id, l.user_id, l.item_id, l.time "
            f"FROM {given} CROSS JOIN komd_log l WHERE l.event_id = {first}"
        )
        self.clicked = sql.text(
            f"SELECT DISTINCT l.recommendation FROM {given} CROSS JOIN komd_log l "
            f"WHERE l.kind = 'chosen' AND l.recommendation = {first}"
        )
        log, events = tables.log, tables.events
        adding, storing = tables.insert(log), tables.insert(events)
        self.add = _of_rows(
            adding.on_conflict_do_update(
                index_elements=[log.c.event_id],
                set_={name: adding.excluded[name] for name in ("least", "time", "at", "seq", "position")},
            ),
            tables.dialect,
        )
        """For rows of all columns of the log, as tuples."""
        self.store = _of_rows(
            storing.on_conflict_do_update(
                index_elements=[events.c.user_id, events.c.item_id],
                set_={name: storing.excluded[name] for name in ("at", "kind", "weight", "time", "seq", "least")},
            ),
            tables.dialect,
        )
        """For rows of all columns of the pairs, as tuples."""
        columns = [log.c[name] for name in _LOGGED]
        self.one = sql.select(*columns).where(log.c.event_id == sql.bindparam("event"))
        self.of_pair = (
            sql.select(*columns)
            .where(log.c.user_id == sql.bindparam("user"), log.c.item_id == sql.bindparam("item"))
            .order_by(log.c.seq, log.c.position)
        )
        self.of_user = (
            sql.select(*columns)
            .where(log.c.user_id == sql.bindparam("user"))
            .order_by(log.c.seq.desc(), log.c.position.desc())
            .limit(sql.bindparam("newest", type_=sql.Integer))
        )
        self.remove = sql.delete(log).where(
            log.c.user_id == sql.bindparam("user"),
            log.c.item_id == sql.bindparam("item"),
            log.c.event_id == sql.bindparam("event"),
        )
        self.remove_user = sql.delete(log).where(log.c.user_id == sql.bindparam("user"))

    def event_id(self, event: NewEvent) -> str:
        """The id of an event: as it was given, or derived, the same each time the event is sent."""
        if event.event_id is not None:
            return event.event_id
        user, item, kind, weight, when, name, _, _, shown = event
        said = f"{user}\0{item}\0{kind}\0{weight}\0{when}\0{name}\0{shown}"  # none of them has a NUL
        found = hashlib.blake2b(said.encode(), key=self._key, digest_size=_ID_BYTES).digest()
        return base64.urlsafe_b64encode(found)[:-2].decode()  # without the padding


def _of_rows(statement: Any, dialect: sql.Dialect) -> str:
    """A statement for the driver, with a mark for each value of a row.

    SQLAlchemy takes longer to prepare the values of many rows than SQLite to store them.
    """
    return re.sub(r"%\(\w+\)s", "%s", str(statement.compile(dialect=dialect)))


_LOGGED = ("event_id", "user_id", "item_id", "kind", "type", "weight", "least", "time", "at", "recommendation")


class _LogRow(NamedTuple):
    """A row of the log: its columns in their order."""

    user_id: str
    item_id: str
    event_id: str
    kind: str
    type: str | None
    weight: float | None
    least: float | None
    time: int | None
    at: int
    seq: int
    position: int
    recommendation: str | None


class _Known(NamedTuple):
    """An event that is in the log already."""

    pair: _Pair
    time: int | None


class EventCommit:
    """What is done to the log and the pairs in one transaction."""

    def __init__(self, log: EventLog, connection: sql.Connection, seq: int) -> None:
        self._log = log
        self.connection = connection
        self.seq = seq
        self._position = 0
        self.changed = False
        """Whether an event was added or withdrawn."""
        self.counts: Counter[ReportKey] = Counter()
        """What this adds to the report."""
        self.attributed: Counter[int] = Counter()
        """How many events were added that go back to a recommendation, by its arm."""

    # ---- adding events ----------------------------------------------------------------------------------------

    def add(self, posts: Sequence[Sequence[tuple[str, NewEvent]]]) -> list[int]:
        """Store the events of posts, with their ids; of how many pairs each post says something new."""
        pairs = {event[:2] for post in posts for _, event in post}
        if not pairs:
            return [0] * len(posts)
        states, former = self._read_pairs(pairs)
        ids = list({event_id for post in posts for event_id, _ in post})
        known = {
            event_id: _Known((user, item), when)
            for event_id, user, item, when in self._selected(self._log.known, [[one] for one in ids])
        }
        for pair, row in former.items():
            known.setdefault(row.event_id, _Known(pair, row.time))
        added: dict[str, _LogRow] = {}
        stored: dict[_Pair, tuple[Any, ...]] = {}
        attributed: list[NewEvent] = []
        now = time.time_ns() // 1_000_000
        answers = []
        for post in posts:
            changed = set()
            for event_id, event in post:
                pair, before = event[:2], known.get(event_id)
                if before is not None and (event.event_id is not None or before.pair != pair):
                    continue
                state = states.get(pair)
                when, after = _said(event, state, before, now)
                if before is not None and after == state:
                    continue
                row = self._row(event_id, event, when, now)
                if before is None and event.recommendation is not None:
                    attributed.append(event)
                added[event_id], known[event_id] = row, _Known(pair, when)
                if after is not None and after != state:
                    states[pair] = after
                    stored[pair] = self._pair_row(pair, after, now)
                    changed.add(pair)
            answers.append(len(changed))
        if attributed:
            self._count(attributed, 1)
            self.attributed.update(recommendation_of(event.recommendation or "").arm for event in attributed)
        if added:
            if former:
                for pair in {row[:2] for row in added.values()}.intersection(former):
                    added.setdefault(former[pair].event_id, former[pair])
            self.connection.exec_driver_sql(self._log.add, sorted(added.values(), key=_place))
            self.changed = True
        if stored:
            self.connection.exec_driver_sql(self._log.store, [stored[pair] for pair in sorted(stored)])
        return answers

    def _selected(self, statement: Any, given: list[Any]) -> Any:
        return self.connection.execute(statement, {"given": json.dumps(given, ensure_ascii=False)})

    def _read_pairs(self, pairs: Iterable[_Pair]) -> tuple[dict[_Pair, EventState], dict[_Pair, _LogRow]]:
        """The states of pairs that have one; and of pairs that have no log, what is known of them as rows of it."""
        states, former = {}, {}
        for user, item, kind, weight, least, when, at, seq, in_log in self._selected(self._log.pairs, list(pairs)):
            if kind == "none":
                continue
            states[user, item] = EventState(kind, weight, least, at if when is None else when)
            if not in_log:
                event = NewEvent(user, item, kind, weight, when)
                row = self._row(self._log.event_id(event), event, at if when is None else when, at)
                former[user, item] = row._replace(least=least, seq=seq, position=-1)
        return states, former

    def _row(self, event_id: str, event: NewEvent, when: int | None, now: int) -> _LogRow:
        self._position += 1
        user, item, kind, weight, _, name, least, _, shown = event
        return _LogRow(user, item, event_id, kind, name, weight, least, when, now, self.seq, self._position, shown)

    def _pair_row(self, pair: _Pair, state: EventState, now: int) -> tuple[Any, ...]:
        """A row of the pairs: its columns in their order."""
        return *pair, now, state.kind, state.weight, state.time, self.seq, state.least

    # ---- withdrawing one --------------------------------------------------------------------------------------

    def withdraw(self, event_id: str) -> WithdrawnEvent | None:
        """Remove one event, as if it had never been posted; None if there is no such event."""
        found = self.connection.execute(self._log.one, {"event": event_id}).one_or_none()
        if found is None:
            return None
        event = LoggedEvent._make(found)
        pair = event.user, event.item
        of = {"user": event.user, "item": event.item}
        self.connection.execute(self._log.remove, of | {"event": event_id})
        self.changed = True
        if event.recommendation is not None:
            self._count([event], -1)
        before = self._read_pairs([pair])[0].get(pair)
        state = replayed(LoggedEvent._make(row) for row in self.connection.execute(self._log.of_pair, of))
        if state != before:
            now = time.time_ns() // 1_000_000
            row = self._pair_row(pair, EventState("none", None, None, now) if state is None else state, now)
            self.connection.exec_driver_sql(self._log.store, row)
        return WithdrawnEvent(*pair, self.seq)

    # ---- the report -------------------------------------------------------------------------------------------

    def _count(self, events: Sequence[NewEvent | LoggedEvent], step: int) -> None:
        """Count events that go back to recommendations, before they are in the log or after they were removed."""
        asked = list({(event.recommendation,) for event in events})
        clicked = {row[0] for row in self._selected(self._log.clicked, asked)}
        for event in events:
            assert event.recommendation is not None
            shown = recommendation_of(event.recommendation)
            key = functools.partial(ReportKey, shown.day, shown.release, shown.arm)
            self.counts[key(f"event:{event.type or event.kind}")] += step
            if event.kind == "chosen":
                self.counts[key("clicks")] += step
                if event.recommendation not in clicked:
                    self.counts[key("clicked")] += step
                    clicked.add(event.recommendation)


def _said(
    event: NewEvent, state: EventState | None, before: _Known | None, now: int
) -> tuple[int | None, EventState | None]:
    """When the event happened, as far as it changes the pair's time; and the state of the pair after it."""
    when = event.time
    if when is None and before is None and (event.type is not None or event.event_id is not None):
        when = now
    if event.kind == "ignored":
        return when, state
    said = event.kind, event.weight, event.least
    if when is None:
        if state is not None and _joined(state, *said, state.time) == state:
            return None, state
        when = now
    if before is not None and before.time is not None:
        when = max(when, before.time)
    return when, _joined(state, *said, when)


def _place(row: _LogRow) -> tuple[str, str, str]:
    return row[:3]
