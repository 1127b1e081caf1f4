"""The threads of the service: results, errors, bounded queues, deadlines, and fairness between clients."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from komd.serve import request_context
from komd.serve.prometheus import ServiceMetrics
from komd.serve.request_context import DeadlineExceeded, RequestContext
from komd.serve.request_queue import ClientGone, QueueFull, RequestQueue, RightOfWay


def on_a_queue(test, waiting=10, large=False):
    queue = RequestQueue("test", waiting=waiting, metrics=ServiceMetrics(), large=large)
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


# ---- fairness, deadlines, clients that go away ------------------------------------------------------------------


def as_client(name, deadline=float("inf"), receive=None):
    request_context.enter(RequestContext(name, deadline, receive))


async def asked(queue, name, work, **more):
    as_client(name, **more)
    return await queue.run(work)


async def busy(queue):
    """Keep the thread busy; returns what frees it, and the task."""
    started, free = threading.Event(), threading.Event()
    task = asyncio.create_task(asked(queue, "first", lambda: (started.set(), free.wait(20))))
    while not started.is_set():
        await asyncio.sleep(0.001)
    return free, task


def test_clients_are_served_in_turn():
    async def test(queue):
        free, first = await busy(queue)
        order = []
        waiting = [
            asyncio.create_task(asked(queue, name, lambda name=name: (order.append(name), time.sleep(0.01))))
            for name in "aaaaaab"
        ]
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(first, *waiting)
        assert order.index("b") <= 1 and sorted(order) == list("aaaaaab")

    on_a_queue(test)


def test_a_client_that_fills_the_queue_makes_room_for_others():
    async def test(queue):
        free, first = await busy(queue)
        greedy = [asyncio.create_task(asked(queue, "greedy", lambda k=k: k)) for k in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull) as full:
            await asked(queue, "greedy", lambda: None)
        assert full.value.retry_after >= 1
        other = asyncio.create_task(asked(queue, "other", lambda: "other"))
        done = await asyncio.gather(greedy[3], return_exceptions=True)
        assert isinstance(done[0], QueueFull)
        free.set()
        assert await other == "other"
        assert await asyncio.gather(*greedy[:3]) == [0, 1, 2]
        await first

    on_a_queue(test, waiting=4)


def test_who_waits_beyond_the_deadline_is_answered_and_never_worked_on():
    async def test(queue):
        free, first = await busy(queue)
        done = []
        with pytest.raises(DeadlineExceeded) as late:
            await asked(queue, "a", lambda: done.append(1), deadline=time.monotonic() + 0.05)
        assert late.value.retry_after >= 1
        free.set()
        await first
        assert await asked(queue, "a", lambda: 3) == 3
        assert not done
        assert queue._metrics.deadline_exceeded._value.get() == 1

    on_a_queue(test)


def test_work_beyond_the_deadline_is_abandoned_between_its_parts():
    ended = threading.Event()

    def work():
        try:
            while True:
                time.sleep(0.005)
                request_context.current().check()
        finally:
            ended.set()

    async def test(queue):
        with pytest.raises(DeadlineExceeded, match="time limit"):
            await asked(queue, "a", work, deadline=time.monotonic() + 0.05)
        assert await asyncio.to_thread(ended.wait, 20)
        assert await asked(queue, "a", lambda: 3) == 3

    on_a_queue(test)


def test_large_work_of_a_client_that_went_away_is_abandoned():
    started, ended = threading.Event(), threading.Event()

    def work():
        started.set()
        try:
            while True:
                time.sleep(0.005)
                request_context.current().check()
        finally:
            ended.set()

    async def receive():
        while not started.is_set():
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def test(queue):
        with pytest.raises(ClientGone):
            await asked(queue, "a", work, receive=receive)
        assert await asyncio.to_thread(ended.wait, 20)

    on_a_queue(test, large=True)


def test_large_work_lets_small_requests_go_first_but_not_for_ever():
    way = RightOfWay()
    way.small = 1
    start = time.monotonic()
    way.give_way()
    assert time.monotonic() > start
    released = threading.Timer(0.001, lambda: setattr(way, "small", 0))
    released.start()
    way.give_way()
    released.join()

    async def test(queue):
        assert await asked(queue, "a", lambda: queue._way.small) == 1

    on_a_queue(test)


def test_inside_a_thread_work_is_done_at_once():
    async def test(queue):
        def outer():
            return asyncio.run(queue.run(threading.get_ident)) == threading.get_ident()

        assert await queue.run(outer)

    on_a_queue(test)
