"""The erasure of what deleted rows leave in the files of a database.

SQLite overwrites deleted rows (`secure_delete`), but not the copies that stay behind when rows move between pages, and
its write-ahead log has every page as it was. So the database is rewritten from its rows (`VACUUM`), and then the log is
copied into it and truncated. That takes about half a second for a million events, in which no process can write.

PostgreSQL is asked to release the rows (`VACUUM`), which lets it write over them; that is done as far as it can be
within the time limit of a statement, and as far as no other transaction still sees the rows. Its own write-ahead log,
archives, replicas and backups are the database's own business.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

__all__ = ["EventErasure"]

log = logging.getLogger("komd.serve")
_SECONDS = 3.0  # of trying before the request that deleted rows is answered
_PAUSE = 0.02  # seconds between two tries: some conflicts with other writers are reported at once
_AGAIN = 5.0  # seconds until what could not be erased is tried again
_BUSY = 500  # milliseconds a try waits for readers; meanwhile nobody writes
_Step = Callable[[sql.Engine], bool]


class EventErasure:
    """What remains to be erased of one database. For the thread that writes."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine
        sqlite = engine.dialect.name == "sqlite"
        self._steps: list[_Step] = [_rewrite, _truncate_log] if sqlite else [_vacuum]
        self._due: list[_Step] = [_truncate_log] if sqlite else []  # a process may have been killed before it
        self._next = time.monotonic()

    @property
    def wait(self) -> float | None:
        """In how many seconds to `retry`; None: nothing that was deleted is left to be erased."""
        return max(self._next - time.monotonic(), 0.0) if self._due else None

    def erase(self) -> None:
        """Erase what was deleted by the commits before. If that fails, the log says so, and it is to be tried again."""
        self._due = list(self._steps)
        last = time.monotonic() + _SECONDS
        self.retry()
        while self._due and time.monotonic() < last:
            time.sleep(_PAUSE)
            self.retry()
        if not self._due:
            return
        log.warning(
            "ids of forgotten users may still be in the files of the store: it is in use by another program, or the "
            "disk is full. It is tried again"
        )

    def retry(self) -> None:
        """Try once to erase what is left."""
        self._next = time.monotonic() + _AGAIN
        try:
            while self._due and self._due[0](self._engine):
                self._due.pop(0)
        except SQLAlchemyError as error:
            log.debug("deleted rows could not be erased: %s", error)


def _rewrite(engine: sql.Engine) -> bool:
    with engine.connect() as connection:
        connection.exec_driver_sql("VACUUM")
    return True


def _truncate_log(engine: sql.Engine) -> bool:
    with engine.connect() as connection:
        (usual,) = connection.exec_driver_sql("PRAGMA busy_timeout").one()
        connection.exec_driver_sql(f"PRAGMA busy_timeout={_BUSY}")
        try:
            busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={usual}")
    return not busy


def _vacuum(engine: sql.Engine) -> bool:
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM (SKIP_LOCKED, TRUNCATE FALSE) komd_events, komd_log, komd_settings")
    except SQLAlchemyError as error:
        log.debug("deleted rows could not be released: %s", error)
    return True  # PostgreSQL's own vacuum does it later
