"""The threads of the service: results, errors, and a bounded queue."""

from __future__ import annotations

import asyncio
import threading

import pytest

from komd.serve.prometheus import ServiceMetrics
from komd.serve.request_queue import QueueFull, RequestQueue


def on_a_queue(test, waiting=10):
    queue = RequestQueue("test", waiting=waiting, metrics=ServiceMetrics())
    try:
        return asyncio.run(test(queue))
    finally:
        queue.close()
        assert not any(thread.name == "komd-test" for thread in threading.enumerate())


def test_work_is_done_in_order_in_another_thread():
    async def test(queue):
        here = threading.get_ident()
        found = await asyncio.gather(*(queue.run(lambda k=k: (k, threading.get_ident())) for k in range(9)))
        assert [k for k, _ in found] == list(range(9))
        assert {thread for _, thread in found}.isdisjoint({here})

    on_a_queue(test)


def test_the_loop_runs_on_meanwhile():
    async def test(queue):
        free = threading.Event()
        slow = asyncio.create_task(queue.run(lambda: free.wait(20)))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not slow.done()
        free.set()
        assert await slow

    on_a_queue(test)


def test_errors_come_back_and_do_no_harm():
    async def test(queue):
        with pytest.raises(ZeroDivisionError):
            await queue.run(lambda: 1 // 0)
        assert await queue.run(lambda: 7) == 7

    on_a_queue(test)


def test_the_line_has_an_end():
    async def test(queue):
        free = threading.Event()
        waiting = [asyncio.create_task(queue.run(lambda: free.wait(20))) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull, match="3 requests wait already"):
            await queue.run(lambda: 1)
        free.set()
        await asyncio.gather(*waiting)
        assert await queue.run(lambda: 2) == 2

    on_a_queue(test, waiting=2)


def test_who_gives_up_is_not_waited_for():
    async def test(queue):
        free = threading.Event()
        first = asyncio.create_task(queue.run(lambda: free.wait(20)))
        second = asyncio.create_task(queue.run(lambda: 2))
        await asyncio.sleep(0)
        first.cancel()
        free.set()
        assert await second == 2
        assert first.cancelled()

    on_a_queue(test)
