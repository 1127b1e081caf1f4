"""The threads in which everything slow is done, and the line in front of them, which has an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from komd import threads as pool
from komd.errors import KomdError
from komd.serve.metrics import Metrics

__all__ = ["Bench", "Busy"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

_LEAST = 4  # some wait for the database while others compute


class Busy(KomdError):
    """Too many requests wait already."""


class Bench:
    """A few threads; compiled code in them releases the GIL."""

    def __init__(self, waiting: int, metrics: Metrics) -> None:
        self.size = max(_LEAST, pool.count())
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="komd-serve")
        self._most = waiting + self.size
        self._present = 0
        self._metrics = metrics

    async def run(self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """`work(*args)`, done in a thread. Raises Busy when too much is waiting."""
        if self._present >= self._most:
            raise Busy(f"{self._present} requests wait already; try again in a moment")
        self._present += 1
        self._metrics.waiting.inc()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*args, **kwargs))
        finally:
            self._present -= 1
            self._metrics.waiting.dec()

    def close(self) -> None:
        """Let the threads go when they are done."""
        self._threads.shutdown(wait=True, cancel_futures=True)
