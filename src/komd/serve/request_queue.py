"""The threads in which everything slow is done, and the lines in front of them, which have an end.

A bench is one thread. A second one on the same work makes every request dearer, not quicker: a request lets go of the
GIL about ten times, and with two threads each time is a chance to wait for the other (measured: twice the processor
time a request). There are several benches for different kinds of work; more cores are for more workers. The thread
takes work from a queue and hands the result to the loop, nothing more: `concurrent.futures` spends as much on a future
as a small problem takes to solve.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from komd.errors import KomdError
from komd.serve.prometheus import Metrics

__all__ = ["Bench", "Busy"]

Result = TypeVar("Result")
_Job: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class Busy(KomdError):
    """Too many requests wait already."""


class Bench:
    """A thread and its queue."""

    def __init__(self, name: str, *, waiting: int, metrics: Metrics) -> None:
        self._most = waiting + 1
        self._present = 0
        self._metrics = metrics
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"komd-{name}", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], Result]) -> Result:
        """`work()`, done in a thread. Raises Busy when too much is waiting."""
        if self._present >= self._most:
            raise Busy(f"{self._present} requests wait already; try again in a moment")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._present += 1
        self._metrics.waiting.inc()
        try:
            self._jobs.put((work, answer, loop))
            return await answer
        finally:
            self._present -= 1
            self._metrics.waiting.dec()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, answer, loop = job
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, answer, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            del job, work, answer, result, error  # nothing is held while waiting for more

    def close(self) -> None:
        """Let the thread go when what is queued is done."""
        self._jobs.put(None)
        self._thread.join()


def _settle(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
