"""The threads that do everything slow, each with a bounded queue of requests that is fair to clients.

A queue has one thread. A second one for the same work makes every request slower: a request releases the GIL about ten
times, and each time it may have to wait for the other thread (measured: twice the processor time a request). There are
several queues for different kinds of work; more cores are used by more workers. The thread takes work from the queue
and hands the result to the event loop, nothing more: `concurrent.futures` spends as much time on a future as a small
problem takes to solve.

A request whose deadline is over is answered at once, and its work is abandoned at the next `check` of its context; so
is that of a client that closed its connection. Large work lets small requests go first (`RightOfWay`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from komd.errors import KomdError
from komd.serve import request_context, tracing
from komd.serve.fair_jobs import FairJobs
from komd.serve.prometheus import ServiceMetrics
from komd.serve.request_context import DeadlineExceeded, RequestContext

__all__ = ["ClientGone", "QueueFull", "RequestQueue", "RightOfWay"]

Result = TypeVar("Result")

_NICE = 10  # how much small requests come before large ones
_LONGEST_RETRY = 60  # seconds
_RECENT = 0.1  # the weight of the last request in the mean of their seconds
_STEP = 0.0005  # seconds between two looks whether small requests are done
_LONGEST_WAIT = 0.02  # seconds that a part of large work waits at most: it goes on, whatever the number of small ones


class QueueFull(KomdError):
    """Too many requests are waiting. `retry_after`: in how many seconds to try again."""

    def __init__(self, message: str = "", retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ClientGone(KomdError):
    """The client closed the connection: nobody waits for the answer."""


class RightOfWay:
    """Large work waits between its parts while there are small requests, but never long."""

    def __init__(self) -> None:
        self.small = 0
        """How many small requests there are. Changed by the event loop alone."""

    def give_way(self) -> None:
        """Wait until there are no small requests, or for a moment."""
        if self.small:
            until = time.monotonic() + _LONGEST_WAIT
            while self.small and time.monotonic() < until:
                time.sleep(_STEP)


@dataclass(eq=False, slots=True)
class _QueuedRequest:
    client: str
    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    context: RequestContext
    since: float
    began: float | None = None
    """When its work began; None while it waits."""


class _InThread(threading.local):
    """Whether this is the thread of a queue."""

    work = False


_in_thread = _InThread()


class RequestQueue:
    """A thread and the requests that wait for it."""

    def __init__(
        self, name: str, *, waiting: int, metrics: ServiceMetrics, way: RightOfWay | None = None, large: bool = False
    ) -> None:
        self._most = waiting + 1
        self._present = 0
        self._seconds = 0.0  # that a request takes, a mean of recent ones
        self._metrics = metrics
        self._wait = metrics.wait_seconds.labels(name)
        self._way = way or RightOfWay()
        self._large = large
        self._jobs: FairJobs[_QueuedRequest] = FairJobs()
        self._tokens: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True for each job, False at the end
        self._expiring: deque[_QueuedRequest] = deque()  # those with a deadline; deadlines come in their order, about
        self._timer: asyncio.TimerHandle | None = None  # of the first of them: one for each request would cost as much
        self._thread = threading.Thread(target=self._work, name=f"komd-{name}", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], Result]) -> Result:
        """`work()`, done in the thread; at once if this is the thread of a queue already.

        Raises QueueFull when too many requests are waiting, DeadlineExceeded at the request's deadline, and ClientGone
        when the client closes its connection, if the queue is for large requests.
        """
        if _in_thread.work:
            return work()
        context = request_context.current()
        self._make_room(context.client)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        job = _QueuedRequest(context.client, work, answer, loop, self._watched(context, answer), time.monotonic())
        if context.deadline != math.inf:
            self._await_deadline(job)
        gone = None
        if self._large and context.receive is not None:
            gone = loop.create_task(_watch(context.receive, answer))
        self._count(1)
        try:
            self._jobs.add(job)
            self._tokens.put(True)
            return await answer
        finally:
            self._count(-1)
            if job.began is None:
                self._jobs.discard(job)
            else:
                tracing.part("wait", job.since, job.began)
                tracing.part("work", job.began, time.monotonic())
            if gone is not None:
                gone.cancel()

    def _count(self, change: int) -> None:
        self._present += change
        self._metrics.waiting.inc(change)
        if not self._large:
            self._way.small += change

    def _make_room(self, client: str) -> None:
        """Raise QueueFull if there is no place for a request of this client."""
        if self._present < self._most:
            return
        full = QueueFull(f"{self._present} requests wait already; try again in a moment", self.retry_after)
        displaced = self._jobs.displaced(client)
        if displaced is None:
            raise full
        if not displaced.answer.done():
            displaced.answer.set_exception(full)

    @property
    def retry_after(self) -> int:
        """In how many seconds the requests that wait now will be done, about."""
        return min(max(math.ceil(self._present * self._seconds), 1), _LONGEST_RETRY)

    def _await_deadline(self, job: _QueuedRequest) -> None:
        """See to it that a request is answered at its deadline."""
        while self._expiring and self._expiring[0].answer.done():
            self._expiring.popleft()
        self._expiring.append(job)
        if self._timer is None:
            self._timer = job.loop.call_at(job.context.deadline, self._expire)

    def _expire(self) -> None:
        """Answer the requests whose deadline is over, and wait for the next one."""
        self._timer, now = None, time.monotonic()
        while self._expiring:
            job = self._expiring[0]
            if not job.answer.done():
                if job.context.deadline > now:
                    self._timer = job.loop.call_at(job.context.deadline, self._expire)
                    return
                self._metrics.deadline_exceeded.inc()
                words = "no answer within the time limit; ask for less, or try again"
                job.answer.set_exception(DeadlineExceeded(words, self.retry_after))
            self._expiring.popleft()

    def _watched(self, context: RequestContext, answer: asyncio.Future[Any]) -> RequestContext:
        if not self._large:
            return context

        def between() -> None:
            if answer.done():
                raise ClientGone("nobody waits for the answer any more")
            self._way.give_way()

        return context._replace(between=between)

    def _work(self) -> None:
        _in_thread.work = True
        if self._large:
            _yield_processors()
        while self._tokens.get() and self._do_next():
            pass

    def _do_next(self) -> bool:
        """Do the next job, if one still waits. False when the loop is closed: no request waits any more."""
        job = self._jobs.take()
        if job is None or job.answer.done():  # displaced, cancelled, or waited beyond its deadline
            return True
        job.began = start = time.monotonic()
        request_context.enter(job.context)
        self._wait.observe(start - job.since)
        result, error = None, None
        try:
            result = job.work()
        except BaseException as raised:
            error = raised
        seconds = time.monotonic() - start
        self._seconds += _RECENT * (seconds - self._seconds)
        self._jobs.charge(job.client, seconds)
        try:
            job.loop.call_soon_threadsafe(_resolve, job.answer, result, error)
        except RuntimeError:
            return False
        return True

    def close(self) -> None:
        """End the thread when the queue is empty."""
        self._tokens.put(False)
        self._thread.join()


def _yield_processors() -> None:
    """Let other threads have the processors first, where the system gives each thread a priority of its own (Linux)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)


def _resolve(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


async def _watch(receive: Callable[[], Awaitable[Any]], answer: asyncio.Future[Any]) -> None:
    """Give up an answer when the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not answer.done():
        answer.set_exception(ClientGone("the client closed the connection"))
