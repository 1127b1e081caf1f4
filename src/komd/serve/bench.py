"""The threads in which everything slow is done, and the line in front of them, which has an end.

Few threads: what they do in Python takes turns with the event loop, and every further one makes the turns costlier.
Compiled code and databases let go of the GIL, so two keep two cores busy, and a long batch does not hold up the rest.
More cores are for more workers. A thread takes work from a queue and hands the result to the loop, nothing more:
`concurrent.futures` spends as much on a future as a small problem takes to solve.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from komd.errors import KomdError
from komd.serve.metrics import Metrics

__all__ = ["Bench", "Busy"]

Result = TypeVar("Result")
_Job: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class Busy(KomdError):
    """Too many requests wait already."""


class Bench:
    """A few threads and their queue."""

    def __init__(self, name: str, *, size: int, waiting: int, metrics: Metrics) -> None:
        self._most = waiting + size
        self._present = 0
        self._metrics = metrics
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"komd-{name}-{k}", daemon=True) for k in range(size)]
        for thread in self._threads:
            thread.start()

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
        """Let the threads go when what is queued is done."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()


def _settle(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
