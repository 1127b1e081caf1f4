"""The requests that wait for a thread, in a fair order: the next one is of the client that has used least time.

Weighted fair queueing with equal weights. Every client has a virtual time, which grows by the seconds that its requests
took; the request of the client with the smallest one is next. The virtual time of the queue grows by every client's
share of these seconds, and a client that was away continues there: it has no claim for the time in which it asked
nothing. When nobody waits, all is forgotten: nobody owes time that nobody else wanted.

A client that comes without having used more than its share is new: every second job is that of a new client, if there
is one. So small requests that come seldom wait for a job or two, and a stream of new clients cannot keep an old one
waiting for ever. Requests of one client keep their order.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

__all__ = ["FairJobs"]

_REMEMBERED = 64  # clients, before those are forgotten that neither wait nor owe time


class _Waits(Protocol):
    """A job as far as it matters here."""

    client: str


Job = TypeVar("Job", bound=_Waits)


@dataclass
class _Client(Generic[Job]):
    order: int
    time: float
    new: bool = True
    jobs: deque[Job] = field(default_factory=deque)


class FairJobs(Generic[Job]):
    """Jobs of several clients. Used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[str, _Client[Job]] = {}
        self._now = 0.0  # virtual time of the queue
        self._new_last = False  # whether the last job was that of a new client
        self._numbers = itertools.count()

    def add(self, job: Job) -> None:
        """Let a job wait."""
        with self._lock:
            client = self._clients.get(job.client)
            if client is None:
                client = self._clients[job.client] = _Client(next(self._numbers), self._now)
            elif not client.jobs and client.time <= self._now:
                client.time, client.new = self._now, True
            client.jobs.append(job)

    def take(self) -> Job | None:
        """The next job, which does not wait any more; None if none does."""
        with self._lock:
            waiting = [client for client in self._clients.values() if client.jobs]
            if not waiting:
                return None
            new = [] if self._new_last else [client for client in waiting if client.new]
            client = min(new or waiting, key=lambda one: (one.time, one.order))
            self._new_last, client.new = bool(new), False
            self._now = max(self._now, client.time)
            return client.jobs.popleft()

    def charge(self, name: str, seconds: float) -> None:
        """Say how long a job took; clients without claim or debt are forgotten."""
        with self._lock:
            client = self._clients.get(name)
            if client is not None:
                client.time += seconds
            waiting = sum(bool(one.jobs) for one in self._clients.values())
            if not waiting:
                self._clients.clear()
                return
            self._now += seconds / (waiting + (client is not None and not client.jobs))
            if len(self._clients) > _REMEMBERED:
                self._clients = {key: one for key, one in self._clients.items() if one.jobs or one.time > self._now}

    def discard(self, job: Job) -> None:
        """Take a job out, if it still waits."""
        with self._lock:
            client = self._clients.get(job.client)
            if client is not None and job in client.jobs:
                client.jobs.remove(job)

    def displaced(self, name: str) -> Job | None:
        """The newest job of the client with the most jobs, taken out to make room for one of the client `name`.

        None if no client would still have more than `name` afterwards: then it is `name` that has to wait.
        """
        with self._lock:
            own = self._clients.get(name)
            most = max(self._clients.values(), key=lambda one: len(one.jobs), default=None)
            if most is None or len(most.jobs) < (0 if own is None else len(own.jobs)) + 2:
                return None
            return most.jobs.pop()
