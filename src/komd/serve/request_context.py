"""What the work of a request may know of it besides its content: who asks, and until when an answer is of use.

`access.py` sets it, `request_queue.py` carries it to the thread that works. Long work calls `current().check()` between
its parts.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import NamedTuple

from komd.errors import KomdError

__all__ = ["DeadlineExceeded", "RequestContext", "current", "enter"]


class DeadlineExceeded(KomdError):
    """The time limit of a request is over."""


class RequestContext(NamedTuple):
    """One request."""

    client: str = ""
    """What requests of the same client have in common: their token (a hash of it) or else their address."""
    deadline: float = float("inf")
    """Of `time.monotonic`: when an answer is of no use any more."""

    def check(self) -> None:
        """Raise DeadlineExceeded after the deadline."""
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
