"""The circuit of the store: while the database does not answer, requests are refused at once instead of waiting for it.

Closed, everything passes. It opens when the database has let one request wait in vain, or a few in a row have failed
at once. Open, everything is refused; after a pause, which grows with each failure, one request is let through to probe
the database, and its outcome closes the circuit or opens it again. So at any time at most one request waits for a
database that is silent, and the service recovers by itself.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from types import TracebackType

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError, TimeoutError

from komd.errors import KomdError

__all__ = ["CircuitOpen", "OutcomeUnknown", "StoreCircuit", "StoreError", "is_silence"]

log = logging.getLogger("komd.serve")

_PAUSES = (1.0, 2.0, 4.0, 5.0)  # seconds until the next probe, after each failure in a row
_FAILURES = 3  # in a row that open it, where each failed at once
_LOCKED = "55P03"  # state of PostgreSQL: another writer has kept the lock for too long
_STATEMENT = ("57014", "40001", "40P01")  # it was cancelled after its time limit, or rolled back for another one


class StoreError(KomdError):
    """The database cannot be reached or does not answer."""

    retry_after = 2.0
    """After how many seconds to try again."""
    detail = "the store does not answer now"
    """What a client is told: nothing of the database itself."""


class OutcomeUnknown(StoreError):
    """The database went silent during a commit, which may or may not take effect."""

    detail = (
        "the store did not answer in time: what was sent may or may not be stored; send it again, which does no harm"
    )


class CircuitOpen(StoreError):
    """The database did not answer a moment ago, and was not asked again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the store does not answer; it is asked again in {seconds:.0f} s")
        self.retry_after = max(seconds, 1.0)


class StoreCircuit:
    """One circuit, a context manager around each use of the database. Safe to use from many threads.

    Examples
    --------
    >>> circuit = StoreCircuit("reads")
    >>> with circuit:
    ...     answer = 42
    >>> circuit.is_open
    False
    """

    def __init__(self, noun: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._noun = noun
        self._clock = clock
        self._lock = threading.Lock()
        self._row = 0  # failures since the last success
        self._pauses = 0  # probes that failed since it was closed
        self._open_until: float | None = None
        self._prober: int | None = None  # the thread that probes the database
        self.failures = 0
        """How many uses have failed because the database did not answer."""

    @property
    def is_open(self) -> bool:
        """Whether requests are refused, but for the one that probes the database."""
        return self._open_until is not None

    def check(self) -> None:
        """Raise CircuitOpen if a request would be refused now."""
        until = self._open_until
        if until is None:
            return
        remaining = until - self._clock()
        if remaining > 0 or self._prober is not None:
            raise CircuitOpen(max(remaining, 0.0))

    def __enter__(self) -> None:
        if self._open_until is None:  # the usual case takes no lock
            return
        with self._lock:
            self.check()
            if self._open_until is not None:
                self._prober = threading.get_ident()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            if self._row or self._open_until is not None:
                self._succeeded()
        elif isinstance(error, SQLAlchemyError) and _is_outage(error):
            self._failed(at_once=not is_silence(error))
        elif isinstance(error, SQLAlchemyError):
            self._succeeded()  # it was the statement, not the database
        elif self._prober == threading.get_ident():
            with self._lock:
                self._prober = None  # nothing was learned of the database: the next request probes it

    def _succeeded(self) -> None:
        with self._lock:
            # What began before it opened may end well after it opened: only the probe closes it.
            if self._open_until is None:
                self._row = 0
            elif self._prober == threading.get_ident():
                self._row = self._pauses = 0
                self._open_until = self._prober = None
                log.warning("the store answers %s again", self._noun)

    def _failed(self, *, at_once: bool) -> None:
        with self._lock:
            self.failures += 1
            self._row += 1
            probed = self._prober == threading.get_ident()
            if self._open_until is not None and not probed:
                return
            if at_once and not probed and self._row < _FAILURES:
                return
            self._prober = None
            pause = _PAUSES[min(self._pauses, len(_PAUSES) - 1)]
            self._pauses += 1
            if self._open_until is None:
                log.error("the store does not answer %s: they are refused until it does", self._noun)
            self._open_until = self._clock() + pause


def is_silence(error: SQLAlchemyError) -> bool:
    """Whether the database let us wait until our own time limit."""
    if isinstance(error, TimeoutError):  # of the pool: all connections are in use
        return True
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        return _primary_code(cause) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(cause, "is_silence", False) or getattr(cause, "sqlstate", None) == _LOCKED


def _is_outage(error: SQLAlchemyError) -> bool:
    """Whether the database does not work at all, and not only this statement: one that takes too long is no outage."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        return isinstance(cause, sqlite3.OperationalError) and _primary_code(cause) != sqlite3.SQLITE_ERROR
    if is_silence(error):
        return True
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return lost or (isinstance(error, OperationalError) and getattr(cause, "sqlstate", None) not in _STATEMENT)


def _primary_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
