"""What the work of a request may know of it besides its content: who asks, and until when an answer is of use.

`access.py` sets it, `request_queue.py` carries it to the thread that works. Long work calls `current().check()` between
its parts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from komd.errors import KomdError

__all__ = ["DeadlineExceeded", "RequestContext", "current", "enter"]


class DeadlineExceeded(KomdError):
    """The time limit of a request is over. `retry_after`: in how many seconds to try again."""

    def __init__(self, message: str = "", retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RequestContext(NamedTuple):
    """One request."""

    client: str = ""
    """What requests of the same client have in common: their token (a hash of it) or else their address."""
    deadline: float = float("inf")
    """Of `time.monotonic`: when an answer is of no use any more."""
    receive: Callable[[], Awaitable[Any]] | None = None
    """What tells, after the body, that the client closed the connection; None where that is not watched."""
    between: Callable[[], None] | None = None
    """Called between the parts of long work: raises if it is to be abandoned, and lets small requests go first."""

    def check(self) -> None:
        """Call between the parts of long work. Raises DeadlineExceeded after the deadline."""
        if self.between is not None:
            self.between()
        if time.monotonic() > self.deadline:
            raise DeadlineExceeded("the time limit of the request is over; ask for less, or try again")


_NONE = RequestContext()
_current: ContextVar[RequestContext] = ContextVar("komd_request", default=_NONE)


def current() -> RequestContext:
    """The request that is worked on here."""
    return _current.get()


def enter(context: RequestContext) -> None:
    """Work on another request from now on, in this task or thread."""
    _current.set(context)
