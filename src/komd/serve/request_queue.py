"""The threads that do everything slow, each with a bounded queue of requests.

A queue has one thread. A second one for the same work makes every request slower: a request releases the GIL about ten
times, and each time it may have to wait for the other thread (measured: twice the processor time a request). There are
several queues for different kinds of work; more cores are used by more workers. The thread takes work from the queue
and hands the result to the event loop, nothing more: `concurrent.futures` spends as much time on a future as a small
problem takes to solve.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from komd.errors import KomdError
from komd.serve import request_context
from komd.serve.prometheus import ServiceMetrics
from komd.serve.request_context import RequestContext

__all__ = ["QueueFull", "RequestQueue"]

Result = TypeVar("Result")
_Job: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop, RequestContext]


class QueueFull(KomdError):
    """Too many requests are waiting."""


class RequestQueue:
    """A thread and the requests that wait for it."""

    def __init__(self, name: str, *, waiting: int, metrics: ServiceMetrics) -> None:
        self._most = waiting + 1
        self._present = 0
        self._metrics = metrics
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"komd-{name}", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], Result]) -> Result:
        """`work()`, done in the thread. Raises QueueFull when too many requests are waiting."""
        if self._present >= self._most:
            raise QueueFull(f"{self._present} requests wait already; try again in a moment")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._present += 1
        self._metrics.waiting.inc()
        try:
            self._jobs.put((work, answer, loop, request_context.current()))
            return await answer
        finally:
            self._present -= 1
            self._metrics.waiting.dec()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, answer, loop, context = job
            request_context.enter(context)
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_resolve, answer, result, error)
            except RuntimeError:  # the loop is closed: no request waits any more
                return
            del job, work, answer, result, error  # nothing is kept alive while the queue is empty

    def close(self) -> None:
        """End the thread when the queue is empty."""
        self._jobs.put(None)
        self._thread.join()


def _resolve(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
