"""Live histories in a database: SQLite (write-ahead log) or PostgreSQL, through SQLAlchemy Core.

One thread writes and commits all waiting requests together: a request is answered after the commit has reached the
disk, and many requests share one flush. Processes write one after the other. Reading takes one statement and sees every
commit before it.

Commits are numbered from 2 on in their order, and each row has the number of the commit that changed it last: a reader
that asks again and again for what changed after the number it has reached (`EventStore.changes`) misses nothing.

A pair of a user and an item has one row, which says what the events of the pair came to. They are taken in the order in
which they are committed, whatever their times: `event_log.py` has the rule, and the log of single events.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from komd.serve import forget_key
from komd.serve.event_databases import engine
from komd.serve.event_erasure import EventErasure
from komd.serve.event_log import EventCommit, EventLog
from komd.serve.event_records import (
    Forgot,
    LoggedEvent,
    NewEvent,
    PendingChanges,
    ReportKey,
    StoreChanges,
    StoredAvailability,
    StoredChange,
    StoredEvent,
    StoredHistory,
    WithdrawnEvent,
)
from komd.serve.event_tables import FORMAT, EventTables
from komd.serve.forget_key import ForgetKey
from komd.serve.report_counts import ReportCounts
from komd.serve.store_circuit import OutcomeUnknown, StoreCircuit, StoreError, is_silence

__all__ = ["EventStore", "StoreError"]

_REQUESTS = 256  # in one commit
_ROWS = 10_000  # events in one commit, about
_RETRYABLE = ("40001", "40P01")  # states of PostgreSQL: serialization failure, deadlock
_TRIES = 3  # of a commit that was rolled back by another one
_FETCHED = 10_000  # changed rows fetched at once


class EventStore:
    """The store. Safe to use from many threads and, on the same database, from many processes."""

    def __init__(self, url: str, *, threads: int = 4, key_file: Path | None = None) -> None:
        """`key_file` has the key of the marks; by default it is beside an SQLite store (`forget_key.py`)."""
        self._engine = engine(url, threads)
        self._writing = self._engine.execution_options(transaction="writing")
        self._snapshot = self._engine.execution_options(transaction="snapshot")
        self._tables = EventTables(self._engine.dialect)
        self._history_query = self._tables.history_query()  # building a statement takes longer than running it
        self._last_seq, self._count_commit = self._tables.last_seq(), self._tables.count_commit()
        self._pending, self._last_forgotten = self._tables.pending(), self._tables.last_forgotten()
        settings = self._tables.settings.c
        self._key_check = sql.select(settings.value).where(settings.name == forget_key.CHECK)
        self._reads, self._writes = StoreCircuit("reads"), StoreCircuit("writes")
        self._erasure = EventErasure(self._engine)
        self._changed_items, self._set_item = self._tables.changed_items(), self._tables.set_item()
        try:
            self._key, erase_key = self._prepare(url, key_file)
            if erase_key:
                self._erase_key()
        except SQLAlchemyError as error:
            raise StoreError(f"the store {self.name} cannot be used: {_reason(error)}") from error
        self._log = EventLog(self._tables, self.derived_key("event"))
        self._report = ReportCounts(self._tables)
        self.attributed: Counter[int] = Counter()
        """How many events were stored here that go back to a recommendation, by its arm."""
        self._queue: queue.Queue[_Write | None] = queue.Queue()
        self._closed = False
        self._in_doubt = False  # whether the commit that failed last may have taken effect
        self._writer = threading.Thread(target=self._write, name="komd-events", daemon=True)
        self._writer.start()

    @property
    def name(self) -> str:
        """Where the store is, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    # ---- whether it answers -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise StoreError at once if the database did not answer a moment ago: then it is not worth queueing."""
        self._reads.check()

    @property
    def is_refusing(self) -> bool:
        """Whether reads or writes are refused because the database did not answer."""
        return self._reads.is_open or self._writes.is_open

    @property
    def failures(self) -> int:
        """How many reads and commits have failed because the database did not answer."""
        return self._reads.failures + self._writes.failures

    # ---- reading ----------------------------------------------------------------------------------------------

    def history(self, user: str, *, newest: int = 10_000) -> StoredHistory:
        """What is stored of a user: their `newest` events, and whether they were forgotten."""
        rows = self._read(self._history_query, {"user": user, "newest": newest, "mark": self.mark(user)})
        found = [
            StoredEvent(str(item), int(at), str(kind), weight, int(at if when is None else when), least)
            for item, at, kind, weight, when, least in rows
            if item is not None
        ]
        return StoredHistory(sorted(found, key=lambda event: (event.at, event.item)), len(found) < len(rows))

    def logged(self, user: str, *, newest: int = 10_000) -> list[LoggedEvent]:
        """The user's `newest` events that were not withdrawn, in their order."""
        rows = self._read(self._log.of_user, {"user": user, "newest": newest})
        return [LoggedEvent._make(row) for row in reversed(rows)]

    def report(self, first: int) -> list[Any]:
        """What was counted from the day `first` on: rows (release, arm, name, count)."""
        return self._read(self._report.since, {"first": first})

    def users(self, prefix: str, n: int) -> list[str]:
        """Up to n users with live events, other than withdrawn ones, whose id has this prefix, in order."""
        user = self._tables.events.c.user_id
        query = sql.select(user).where(self._tables.events.c.kind.not_in(["withdrawn", "none"]))
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
        return self._key.mark(user)

    def marks(self) -> set[str]:
        """The marks of all users who were forgotten."""
        return {str(row[0]) for row in self._read(sql.select(self._tables.forgotten.c.mark))}

    def derived_key(self, purpose: str) -> bytes:
        """A key for another purpose, which the key of the marks cannot be found from."""
        return self._key.derived(purpose)

    def event_id(self, event: NewEvent) -> str:
        """The id of an event: as it was given, or derived, the same each time the event is sent."""
        return self._log.event_id(event)

    def last_seq(self) -> int:
        """The number of the last commit."""
        return int(self._read(self._last_seq)[0][0])

    def last_forgotten(self) -> int:
        """The number of the commit that forgot a user last; 0 if none was."""
        return int(self._read(self._last_forgotten)[0][0] or 0)

    def changes(self, after: int, *, limit: int = 100_000) -> StoreChanges:
        """What the commits after number `after` changed; 0 is before all.

        Once `limit` events are reached it ends with the commit they belong to, and the next call goes on after it. The
        events of one commit are never divided: rows of a store that had no numbers yet all belong to commit 1.
        """
        try:
            with self._reads, self._snapshot.connect() as connection:
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
            with self._reads, self._engine.connect() as connection:
                return list(connection.execute(statement, values).all())
        except SQLAlchemyError as error:
            raise _no_answer(error) from error

    # ---- settings that all workers share ------------------------------------------------------------------------

    def setting(self, name: str) -> str | None:
        """A setting; None if it was never set."""
        settings = self._tables.settings.c
        rows = self._read(sql.select(settings.value).where(settings.name == name))
        return str(rows[0][0]) if rows else None

    def replace_setting(self, name: str, value: str, expected: str | None) -> bool:
        """Set a setting that has the value `expected` (None: that was never set); returns whether it had it.

        When it returns, the value is on the disk.
        """
        settings = self._tables.settings
        statement: Any
        if expected is None:
            statement = self._tables.insert(settings).values(name=name, value=value).on_conflict_do_nothing()
        else:
            here = sql.and_(settings.c.name == name, settings.c.value == expected)
            statement = sql.update(settings).where(here).values(value=value)
        try:
            with self._writing.begin() as connection:
                done = connection.execute(statement, execution_options={"preserve_rowcount": True})
                return done.rowcount > 0
        except SQLAlchemyError as error:
            raise _no_answer(error) from error

    # ---- writing ----------------------------------------------------------------------------------------------

    def add(self, events: Iterable[NewEvent], ids: Iterable[str] | None = None) -> Future[int]:
        """Store events, in this order. When the future is done they are on the disk.

        It says of how many pairs they said something new. `ids` are their `event_id`s, if they are known already.
        """
        events = tuple(events)
        ids = map(self._log.event_id, events) if ids is None else ids
        return self._submit(_Write(tuple(zip(ids, events, strict=True))))

    def withdraw(self, event_id: str) -> Future[WithdrawnEvent | None]:
        """Remove one event, as if it had never been posted; None if there is no such event."""
        return self._submit(_Write(action=lambda commit: commit.withdraw(event_id)))

    def count(self, counts: Counter[ReportKey]) -> Future[None]:
        """Add to the counts of the report."""
        return self._submit(_Write(action=lambda commit: commit.counts.update(counts)))

    def forget(self, user: str) -> Future[Forgot]:
        """Delete a user's events and ignore what models know of them.

        When the future is done, the id is not in the files of an SQLite store either, unless another program was
        reading them all the time (`EventErasure` says what then); what PostgreSQL keeps, see there.
        """
        return self._submit(_Write(action=lambda commit: self._delete(commit, user), erases=True))

    def set_available(self, items: Mapping[str, bool]) -> Future[int]:
        """Store whether items are available. When the future is done it is on the disk; says how many changed."""
        return self._submit(_Write(action=lambda commit: self._store_items(commit, items)))

    def _submit(self, write: _Write) -> Future[Any]:
        if self._closed:
            raise StoreError("the store is closed")
        self._writes.check()
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
                with self._writes:
                    answers = self._commit(group)
            except SQLAlchemyError as error:
                kind = OutcomeUnknown if self._in_doubt else StoreError
                for write in group:
                    write.answer.set_exception(kind(f"the store does not take events now: {_reason(error)}"))
            except BaseException as error:
                for write in group:
                    write.answer.set_exception(error)
            else:
                for erases in (False, True):
                    if erases and any(write.erases for write in group):
                        self._erasure.erase()
                    for write, answer in zip(group, answers, strict=True):
                        if write.erases == erases:
                            write.answer.set_result(answer)

    def _next(self) -> _Write | None:
        """The next request, None at the end. Meanwhile, what could not be erased is tried again."""
        while True:
            wait = self._erasure.wait
            if wait is None or wait > 0:
                with contextlib.suppress(queue.Empty):
                    return self._queue.get(timeout=wait)
            self._erasure.retry()

    def _commit(self, group: list[_Write]) -> list[Any]:
        """Execute writes in their order, in one transaction, which takes the next number if it changes something.

        Writers take turns: the last number is that of the commit before, and nobody sees a commit without those before.
        """
        self._in_doubt = False
        for attempt in range(_TRIES):
            complete = False
            try:
                with self._writing.begin() as connection:
                    seq = int(connection.execute(self._last_seq).scalar_one()) + 1
                    commit = EventCommit(self._log, connection, seq)
                    answers = self._execute(commit, group)
                    if commit.changed:
                        connection.execute(self._count_commit, {"number": str(seq)})
                    complete = True
                self.attributed.update(commit.attributed)
                return answers
            except DBAPIError as error:
                self._in_doubt |= complete and error.connection_invalidated
                # Another program may lock the same rows in opposite order, or an idle connection may be lost: what was
                # rolled back is retried.
                retryable = getattr(error.orig, "sqlstate", None) in _RETRYABLE or error.connection_invalidated
                if attempt == _TRIES - 1 or not retryable or is_silence(error):
                    raise
        raise AssertionError("unreachable")

    def _execute(self, commit: EventCommit, group: list[_Write]) -> list[Any]:
        answers: list[Any] = []
        for action, writes in itertools.groupby(group, key=lambda write: write.action):
            if action is None:
                answers += commit.add([write.events for write in writes])
            else:
                answers += [action(commit) for _ in writes]
        self._report.add(commit.connection, commit.counts)
        return answers

    def _store_items(self, commit: EventCommit, items: Mapping[str, bool]) -> int:
        now = time.time_ns() // 1_000_000
        names = ("item_id", "available", "at", "seq")
        rows = [dict(zip(names, (*each, now, commit.seq), strict=True)) for each in sorted(items.items())]
        counted = {"preserve_rowcount": True}
        changed = int(commit.connection.execute(self._set_item, rows, execution_options=counted).rowcount)
        commit.changed |= changed > 0
        return changed

    def _delete(self, commit: EventCommit, user: str) -> Forgot:
        connection = commit.connection
        if connection.execute(self._key_check).scalar() != self._key.check:
            raise StoreError("the key of the store was replaced while it was in use: start the service again")
        events = self._tables.events.c
        of_user = sql.delete(self._tables.events).where(events.user_id == user)
        connection.execute(of_user.where(events.kind == "none"))  # all of whose events were withdrawn: none is left
        gone = connection.execute(of_user).rowcount
        connection.execute(self._log.remove_user, {"user": user})
        connection.execute(self._tables.forget(), {"mark": self.mark(user), "seq": commit.seq})
        commit.changed = True
        return Forgot(int(gone), commit.seq)

    def _prepare(self, url: str, key_file: Path | None) -> tuple[ForgetKey, bool]:
        """Make the tables ready; returns the key of the marks, and whether one is still to be erased from the files."""
        patient = engine(url, 0, patient=True).execution_options(transaction="writing")
        try:
            for attempt in range(_TRIES):
                try:
                    with patient.begin() as connection:
                        held = self._tables.prepare(connection)
                        if held["format"] != FORMAT:
                            words = f"is of format {held['format']}; this komd reads {FORMAT}"
                            raise StoreError(f"the store {self.name} {words}")
                        key = forget_key.agree(connection, self._tables, held, forget_key.key_file(url, key_file))
                        erasure = self._tables.settings.c.name == forget_key.ERASURE
                        due = connection.execute(sql.select(self._tables.settings).where(erasure)).first() is not None
                        return key, due
                except DBAPIError:  # another worker is creating them at the same moment
                    if attempt == _TRIES - 1:
                        raise
                    time.sleep(0.1)
        finally:
            patient.dispose()
        raise AssertionError("unreachable")

    def _erase_key(self) -> None:
        """Erase a key that was deleted from a table from the files of the database as well."""
        self._erasure.erase()
        if self._erasure.wait is None:  # else it is tried again, and when the store is opened the next time
            erasure = self._tables.settings.c.name == forget_key.ERASURE
            with self._writing.begin() as connection:
                connection.execute(sql.delete(self._tables.settings).where(erasure))


@dataclass(frozen=True)
class _Write:
    """A request to the writing thread: events to add, or something else to do within the commit."""

    events: tuple[tuple[str, NewEvent], ...] = ()
    action: Callable[[EventCommit], Any] | None = None
    erases: bool = False
    """Whether it deletes what must not stay in the database's files."""
    answer: Future[Any] = field(default_factory=Future)


def _no_answer(error: SQLAlchemyError) -> StoreError:
    return StoreError(f"the store does not answer: {_reason(error)}")


def _reason(error: SQLAlchemyError) -> str:
    """The first line of what went wrong; parameters are hidden by the engine."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().split("\n")[0] or type(cause).__name__
