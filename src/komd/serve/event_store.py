"""Live histories in a database: SQLite (write-ahead log) or PostgreSQL, through SQLAlchemy Core.

    events(user_id, item_id, at)     one row a pair; the same pair again changes nothing
    forgotten(mark)                  a keyed hash of each forgotten id: what a model knows of that user is not used
    settings(name, value)            the format and the key of those hashes

One thread writes and commits all waiting requests together: a request is answered after the commit has reached the
disk, and many writers share one flush. Reading takes one statement and sees every commit before it.
"""

from __future__ import annotations

import hashlib
import hmac
import queue
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from komd.errors import KomdError
from komd.serve.event_databases import engine

__all__ = ["EventStore", "StoreError", "StoredHistory"]

_FORMAT = "1"
_REQUESTS = 256  # in one commit
_ROWS = 10_000  # pairs in one commit, about
_RETRYABLE = ("40001", "40P01")  # states of PostgreSQL: serialization failure, deadlock
_TRIES = 3  # of a commit that was rolled back by another one


class StoreError(KomdError):
    """The database cannot be reached or does not answer."""


class StoredHistory(NamedTuple):
    """What the store knows of a user."""

    events: list[tuple[str, int]]
    """Items and the time each came (milliseconds since 1970), oldest first."""
    forgotten: bool
    """Whether what a model knows of this user must not be used."""


class EventStore:
    """The store. Safe to use from many threads and, on the same database, from many processes."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        self._engine = engine(url, threads)
        self._writing = self._engine.execution_options(writing=True)
        self._text = sql.Text(collation="C") if self._engine.dialect.name == "postgresql" else sql.Text()
        schema = sql.MetaData()
        self._events = sql.Table(
            "komd_events",
            schema,
            sql.Column("user_id", self._text, primary_key=True),
            sql.Column("item_id", self._text, primary_key=True),
            sql.Column("at", sql.BigInteger, nullable=False),
            sqlite_with_rowid=False,
        )
        self._forgotten = sql.Table("komd_forgotten", schema, sql.Column("mark", sql.Text, primary_key=True))
        self._settings = sql.Table(
            "komd_settings",
            schema,
            sql.Column("name", sql.Text, primary_key=True),
            sql.Column("value", sql.Text, nullable=False),
        )
        self._history_query = self._make_history_query()
        self._insert = postgresql_insert if self._engine.dialect.name == "postgresql" else sqlite_insert
        try:
            self._key = self._prepare(schema)
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise StoreError(f"the store {self.name} cannot be used: {_reason(error)}") from error
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
        rows = self._read(self._history_query, {"user": user, "newest": newest, "mark": self._mark(user)})
        found = [(str(item), int(at)) for item, at in rows if item is not None]
        return StoredHistory(sorted(found, key=lambda event: (event[1], event[0])), len(found) < len(rows))

    def _make_history_query(self) -> Any:
        """The query of `history`: one statement, so that both parts see the same state. Made once: building it takes
        longer than running it."""
        events = self._events.c
        latest = (
            sql.select(events.item_id, events.at)
            .where(events.user_id == sql.bindparam("user"))
            .order_by(events.at.desc(), events.item_id.desc())
            .limit(sql.bindparam("newest", type_=sql.Integer))
            .subquery()
        )
        forgotten = self._forgotten.c.mark == sql.bindparam("mark")
        mark = sql.select(sql.null().label("item_id"), sql.literal(-1).label("at")).where(forgotten)
        return sql.union_all(sql.select(latest.c.item_id, latest.c.at), mark)

    def users(self, prefix: str, n: int) -> list[str]:
        """Up to n users with live events whose id has this prefix, in order."""
        user = self._events.c.user_id
        query = sql.select(user).where(user >= prefix, user < prefix + "\U0010ffff") if prefix else sql.select(user)
        return [str(row[0]) for row in self._read(query.distinct().order_by(user).limit(n))]

    def among_forgotten(self, users: Sequence[str]) -> set[str]:
        """Those of these users that were forgotten."""
        marks = {self._mark(user): user for user in users}
        rows = self._read(sql.select(self._forgotten.c.mark).where(self._forgotten.c.mark.in_(list(marks))))
        return {marks[row[0]] for row in rows}

    def ping(self) -> None:
        """Raises StoreError when the database does not answer."""
        self._read(sql.select(self._settings.c.value).limit(1))

    def _read(self, statement: Any, values: dict[str, Any] | None = None) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement, values).all())
        except SQLAlchemyError as error:
            raise StoreError(f"the store does not answer: {_reason(error)}") from error

    # ---- writing ----------------------------------------------------------------------------------------------

    def add(self, pairs: Iterable[tuple[str, str]]) -> Future[int]:
        """Store these (user, item) pairs. When the future is done they are on the disk; it says how many were new."""
        return self._submit(_Write(tuple(dict.fromkeys(pairs))))

    def forget(self, user: str) -> Future[int]:
        """Delete a user's events and ignore what models know of them. The future says how many events there were."""
        return self._submit(_Write((), user))

    def _submit(self, write: _Write) -> Future[int]:
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
        while (first := self._queue.get()) is not None:
            group, pairs = [first], len(first.pairs)
            while len(group) < _REQUESTS and pairs < _ROWS and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)  # ends the outer loop
                    break
                group.append(following)
                pairs += len(following.pairs)
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
                for write, answer in zip(group, answers, strict=True):
                    write.answer.set_result(answer)

    def _commit(self, group: list[_Write]) -> list[int]:
        """Execute writes in their order, in one transaction."""
        for attempt in range(_TRIES):
            try:
                with self._writing.begin() as connection:
                    return [
                        self._insert_new(connection, write.pairs)
                        if write.forget is None
                        else self._delete(connection, write.forget)
                        for write in group
                    ]
            except DBAPIError as error:
                # Two processes may lock the same rows in opposite order, or an idle connection may be lost:
                # what was rolled back is retried.
                retryable = getattr(error.orig, "sqlstate", None) in _RETRYABLE or error.connection_invalidated
                if attempt == _TRIES - 1 or not retryable:
                    raise
        raise AssertionError("unreachable")

    def _insert_new(self, connection: sql.Connection, pairs: Sequence[tuple[str, str]]) -> int:
        now = time.time_ns() // 1_000_000
        rows = [{"user_id": u, "item_id": i, "at": now} for u, i in sorted(pairs)]  # one order: fewer deadlocks
        if not rows:
            return 0
        statement = self._insert(self._events).on_conflict_do_nothing()
        return int(connection.execute(statement, rows, execution_options={"preserve_rowcount": True}).rowcount)

    def _delete(self, connection: sql.Connection, user: str) -> int:
        gone = connection.execute(sql.delete(self._events).where(self._events.c.user_id == user)).rowcount
        connection.execute(self._insert(self._forgotten).values(mark=self._mark(user)).on_conflict_do_nothing())
        return int(gone)

    # ---- inside -----------------------------------------------------------------------------------------------

    def _mark(self, user: str) -> str:
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()

    def _prepare(self, schema: sql.MetaData) -> bytes:
        """Create the tables if they do not exist; returns the key of the marks."""
        for attempt in range(_TRIES):
            try:
                with self._writing.begin() as connection:
                    schema.create_all(connection)
                    for row in (("format", _FORMAT), ("key", secrets.token_hex(32))):
                        connection.execute(self._insert(self._settings).values(row).on_conflict_do_nothing())
                    held = {str(name): str(value) for name, value in connection.execute(sql.select(self._settings))}
                    break
            except DBAPIError:  # another worker is creating them at the same moment
                if attempt == _TRIES - 1:
                    raise
                time.sleep(0.1)
        if held["format"] != _FORMAT:
            raise StoreError(f"the store {self.name} is of format {held['format']}; this komd reads {_FORMAT}")
        return bytes.fromhex(held["key"])


@dataclass(frozen=True)
class _Write:
    """A request to the writing thread: pairs to add, or a user to forget."""

    pairs: tuple[tuple[str, str], ...]
    forget: str | None = None
    answer: Future[int] = field(default_factory=Future)


def _reason(error: SQLAlchemyError) -> str:
    """The first line of what went wrong; parameters are hidden by the engine."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().split("\n")[0] or type(cause).__name__
