"""Live histories in a database: SQLite (write-ahead log) or PostgreSQL, through SQLAlchemy Core.

One thread writes and commits all waiting requests together: a request is answered after the commit has reached the
disk, and many requests share one flush. Processes write one after the other. Reading takes one statement and sees every
commit before it.

Commits are numbered from 2 on in their order, and each row has the number of the commit that changed it last: a reader
that asks again and again for what changed after the number it has reached (`EventStore.changes`) misses nothing.

A pair of a user and an item has one row, which says what the events of the pair came to. They are taken in the order in
which they are committed, whatever their times: `EventTables.upsert` has the rule.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from komd.errors import KomdError
from komd.serve.event_databases import engine
from komd.serve.event_erasure import EventErasure
from komd.serve.event_records import (
    Forgot,
    NewEvent,
    PendingChanges,
    StoreChanges,
    StoredAvailability,
    StoredChange,
    StoredEvent,
    StoredHistory,
)
from komd.serve.event_tables import FORMAT, EventTables

__all__ = ["EventStore", "StoreError"]

_REQUESTS = 256  # in one commit
_ROWS = 10_000  # events in one commit, about
_RETRYABLE = ("40001", "40P01")  # states of PostgreSQL: serialization failure, deadlock
_TRIES = 3  # of a commit that was rolled back by another one
_FETCHED = 10_000  # changed rows fetched at once


class StoreError(KomdError):
    """The database cannot be reached or does not answer."""


class EventStore:
    """The store. Safe to use from many threads and, on the same database, from many processes."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        self._engine = engine(url, threads)
        self._writing = self._engine.execution_options(transaction="writing")
        self._snapshot = self._engine.execution_options(transaction="snapshot")
        self._tables = EventTables(self._engine.dialect)
        self._history_query = self._tables.history_query()  # building a statement takes longer than running it
        self._upsert = self._tables.upsert()
        self._last_seq, self._count_commit = self._tables.last_seq(), self._tables.count_commit()
        self._pending = self._tables.pending()
        self._changed_items, self._set_item = self._tables.changed_items(), self._tables.set_item()
        try:
            self._key = self._prepare(url)
        except SQLAlchemyError as error:
            raise StoreError(f"the store {self.name} cannot be used: {_reason(error)}") from error
        self._erasure = EventErasure(self._engine)
        self._queue: queue.Queue[_Write | None] = queue.Queue()
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="komd-events", daemon=True)
        self._writer.start()

    @property
    def name(self) -> str:
        """Where the store is, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    # ---- reading ----------------------------------------------------------------------------------------------

    def history(self, user: str, *, newest: int = 10_000) -> StoredHistory:
        """What is stored of a user: their `newest` events, and whether they were forgotten."""
        rows = self._read(self._history_query, {"user": user, "newest": newest, "mark": self.mark(user)})
        found = [
            StoredEvent(str(item), int(at), str(kind), weight, int(at if when is None else when))
            for item, at, kind, weight, when in rows
            if item is not None
        ]
        return StoredHistory(sorted(found, key=lambda event: (event.at, event.item)), len(found) < len(rows))

    def users(self, prefix: str, n: int) -> list[str]:
        """Up to n users with live events, other than withdrawn ones, whose id has this prefix, in order."""
        user = self._tables.events.c.user_id
        query = sql.select(user).where(self._tables.events.c.kind != "withdrawn")
        if prefix:
            query = query.where(user >= prefix, user < prefix + "\U0010ffff")
        return [str(row[0]) for row in self._read(query.distinct().order_by(user).limit(n))]

    def among_forgotten(self, users: Sequence[str]) -> set[str]:
        """Those of these users that were forgotten."""
        marks = {self.mark(user): user for user in users}
        rows = self._read(
            sql.select(self._tables.forgotten.c.mark).where(self._tables.forgotten.c.mark.in_(list(marks)))
        )
        return {marks[row[0]] for row in rows}

    def mark(self, user: str) -> str:
        """What the store keeps of the id of a forgotten user: a hash with the store's own key."""
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()

    def last_seq(self) -> int:
        """The number of the last commit."""
        return int(self._read(self._last_seq)[0][0])

    def changes(self, after: int, *, limit: int = 100_000) -> StoreChanges:
        """What the commits after number `after` changed; 0 is before all.

        Once `limit` events are reached it ends with the commit they belong to, and the next call goes on after it. The
        events of one commit are never divided: rows of a store that had no numbers yet all belong to commit 1.
        """
        try:
            with self._snapshot.connect() as connection:
                last = int(connection.execute(self._last_seq).scalar_one())
                if last <= after:
                    return StoreChanges(last, [], [], False)
                place = {"after": after, "skipped": max(limit, 1) - 1}
                reached = connection.execute(self._tables.seq_at_limit(), place).scalar()
                seq = last if reached is None else int(reached)
                between = {"after": after, "last": seq}
                # In portions: a database limits the time of each statement, not of the transaction.
                rows = connection.execute(
                    self._tables.changed_events(), between, execution_options={"yield_per": _FETCHED}
                )
                events = [StoredChange._make(row) for row in rows]
                marks = [str(row[0]) for row in connection.execute(self._tables.forgotten_marks(), between)]
        except SQLAlchemyError as error:
            raise _no_answer(error) from error
        return StoreChanges(seq, events, marks, seq < last)

    def pending(self, after: int) -> PendingChanges:
        """How much the commits after number `after` changed: cheap enough to be asked many times a second."""
        seq, events, oldest, forgotten = self._read(self._pending, {"after": after})[0]
        return PendingChanges(int(seq), int(events), None if oldest is None else int(oldest), int(forgotten))

    def availability(self, after: int) -> list[StoredAvailability]:
        """The items whose availability the commits after number `after` changed, in the order of the commits."""
        return [StoredAvailability._make(row) for row in self._read(self._changed_items, {"after": after})]

    def ping(self) -> None:
        """Raises StoreError when the database does not answer."""
        self._read(sql.select(self._tables.settings.c.value).limit(1))

    def _read(self, statement: Any, values: dict[str, Any] | None = None) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement, values).all())
        except SQLAlchemyError as error:
            raise _no_answer(error) from error

    # ---- writing ----------------------------------------------------------------------------------------------

    def add(self, events: Iterable[NewEvent]) -> Future[int]:
        """Store events, in this order. When the future is done they are on the disk.

        It says of how many pairs they said something new.
        """
        return self._submit(_Write(tuple(events)))

    def forget(self, user: str) -> Future[Forgot]:
        """Delete a user's events and ignore what models know of them.

        When the future is done, the id is not in the files of an SQLite store either, unless another program was
        reading them all the time (`EventErasure` says what then); what PostgreSQL keeps, see there.
        """
        return self._submit(_Write((), user))

    def set_available(self, items: Mapping[str, bool]) -> Future[int]:
        """Store whether items are available. When the future is done it is on the disk; says how many changed."""
        return self._submit(_Write((), items=tuple(items.items())))

    def _submit(self, write: _Write) -> Future[Any]:
        if self._closed:
            raise StoreError("the store is closed")
        self._queue.put(write)
        return write.answer

    def close(self) -> None:
        """Finish what was submitted, then close the database."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._writer.join()
            self._engine.dispose()

    def _write(self) -> None:
        """The writing thread: take the waiting requests, commit them together, answer."""
        while (first := self._next()) is not None:
            group, rows = [first], len(first.events)
            while len(group) < _REQUESTS and rows < _ROWS and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)  # ends the outer loop
                    break
                group.append(following)
                rows += len(following.events)
            group = [write for write in group if write.answer.set_running_or_notify_cancel()]
            try:
                answers = self._commit(group)
            except SQLAlchemyError as error:
                reason = f"the store does not take events now: {_reason(error)}"
                for write in group:
                    write.answer.set_exception(StoreError(reason))
            except BaseException as error:
                for write in group:
                    write.answer.set_exception(error)
            else:
                for forgot in (False, True):
                    if forgot and any(write.forget is not None for write in group):
                        self._erasure.erase()
                    for write, answer in zip(group, answers, strict=True):
                        if (write.forget is not None) == forgot:
                            write.answer.set_result(answer)

    def _next(self) -> _Write | None:
        """The next request, None at the end. Meanwhile, what could not be erased is tried again."""
        while True:
            wait = self._erasure.wait
            if wait is None or wait > 0:
                with contextlib.suppress(queue.Empty):
                    return self._queue.get(timeout=wait)
            self._erasure.retry()

    def _commit(self, group: list[_Write]) -> list[int | Forgot]:
        """Execute writes in their order, in one transaction, which takes the next number if it changes something.

        Writers take turns: the last number is that of the commit before, and nobody sees a commit without those before.
        """
        for attempt in range(_TRIES):
            try:
                with self._writing.begin() as connection:
                    seq = int(connection.execute(self._last_seq).scalar_one()) + 1
                    answers = [
                        self._store_items(connection, write.items, seq)
                        if write.items
                        else self._store(connection, write.events, seq)
                        if write.forget is None
                        else self._delete(connection, write.forget, seq)
                        for write in group
                    ]
                    if any(answers):  # a Forgot is never false
                        connection.execute(self._count_commit, {"number": str(seq)})
                    return answers
            except DBAPIError as error:
                # Another program may lock the same rows in opposite order, or an idle connection may be lost: what was
                # rolled back is retried.
                retryable = getattr(error.orig, "sqlstate", None) in _RETRYABLE or error.connection_invalidated
                if attempt == _TRIES - 1 or not retryable:
                    raise
        raise AssertionError("unreachable")

    def _store(self, connection: sql.Connection, events: Sequence[NewEvent], seq: int) -> int:
        now = time.time_ns() // 1_000_000
        # The events of each pair together and in their order, without immediate repetitions.
        ordered = [event for event, _ in itertools.groupby(sorted(events, key=lambda event: event[:2]))]
        names = ("user_id", "item_id", "kind", "weight", "time", "at", "seq")
        rows = [dict(zip(names, (*event, now, seq), strict=True)) for event in ordered]
        counted = {"preserve_rowcount": True}
        if not rows:
            return 0
        if len({event[:2] for event in ordered}) == len(rows):
            return int(connection.execute(self._upsert, rows, execution_options=counted).rowcount)
        changed = {
            event[:2]
            for event, row in zip(ordered, rows, strict=True)
            if connection.execute(self._upsert, row, execution_options=counted).rowcount
        }
        return len(changed)

    def _store_items(self, connection: sql.Connection, items: Sequence[tuple[str, bool]], seq: int) -> int:
        now = time.time_ns() // 1_000_000
        rows = [{"item_id": item, "available": available, "at": now, "seq": seq} for item, available in sorted(items)]
        counted = {"preserve_rowcount": True}
        return int(connection.execute(self._set_item, rows, execution_options=counted).rowcount)

    def _delete(self, connection: sql.Connection, user: str, seq: int) -> Forgot:
        gone = connection.execute(sql.delete(self._tables.events).where(self._tables.events.c.user_id == user)).rowcount
        connection.execute(self._tables.forget(), {"mark": self.mark(user), "seq": seq})
        return Forgot(int(gone), seq)

    def _prepare(self, url: str) -> bytes:
        """Make the tables ready; returns the key of the marks."""
        patient = engine(url, 0, patient=True).execution_options(transaction="writing")
        try:
            for attempt in range(_TRIES):
                try:
                    with patient.begin() as connection:
                        held = self._tables.prepare(connection)
                        break
                except DBAPIError:  # another worker is creating them at the same moment
                    if attempt == _TRIES - 1:
                        raise
                    time.sleep(0.1)
        finally:
            patient.dispose()
        if held["format"] != FORMAT:
            raise StoreError(f"the store {self.name} is of format {held['format']}; this komd reads {FORMAT}")
        return bytes.fromhex(held["key"])


@dataclass(frozen=True)
class _Write:
    """A request to the writing thread: events to add, a user to forget, or items that are available or not."""

    events: tuple[NewEvent, ...]
    forget: str | None = None
    items: tuple[tuple[str, bool], ...] = ()
    answer: Future[Any] = field(default_factory=Future)


def _no_answer(error: SQLAlchemyError) -> StoreError:
    return StoreError(f"the store does not answer: {_reason(error)}")


def _reason(error: SQLAlchemyError) -> str:
    """The first line of what went wrong; parameters are hidden by the engine."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().split("\n")[0] or type(cause).__name__
