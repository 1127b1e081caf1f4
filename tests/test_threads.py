"""Blocks over threads: in order, bounded, interruptible, and never more BLAS threads than asked for."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.errors import InputError
from komd.threads import apart, blocks, count, run, uninterrupted


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(-3, 320))
def test_blocks_cover_everything_once(total, size):
    pieces = blocks(total, size)
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(total))
    assert all(0 < stop - start <= max(1, size) for start, stop in pieces)


def test_count():
    assert count(3) == 3
    assert 1 <= count() <= (os.cpu_count() or 1)
    for wrong in (0, -2):
        with pytest.raises(InputError, match=f"threads must be a whole number >= 1, got {wrong}"):
            count(wrong)
    for wrong in (10**400, 5000):
        with pytest.raises(InputError, match="threads must be <= 4,096"):
            count(wrong)
    for wrong in (2.5, True, "2"):
        with pytest.raises(InputError, match="threads must be a whole number >= 1, got"):
            count(wrong)


@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_results_come_in_order(threads):
    rng = np.random.default_rng(0)
    waits = rng.random(40) * 0.004

    def work(k):
        time.sleep(waits[k])
        return k * k

    assert list(run(work, range(40), threads=threads, label="squares", size=lambda k: k)) == [k * k for k in range(40)]


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_to_do(threads):
    assert list(run(lambda k: k, [], threads=threads)) == []


def test_a_single_piece_runs_in_the_calling_thread():
    assert list(run(lambda _: threading.current_thread(), [0], threads=8)) == [threading.current_thread()]


def test_several_threads_work():
    meet = threading.Barrier(3, timeout=30)

    def work(_):
        meet.wait()  # passes only when three are here at once
        return threading.current_thread().name

    names = set(run(work, range(3), threads=3))
    assert len(names) == 3
    assert all(name.startswith("komd") for name in names)


def test_results_do_not_pile_up():
    started = []
    lock = threading.Lock()

    def work(k):
        with lock:
            started.append(k)
        return k

    results = run(work, range(100), threads=2)
    for taken in range(1, 50):
        next(results)
        time.sleep(0.001)
        assert len(started) <= taken + 2 * 2 + 1
    results.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_stops_the_rest(threads):
    done = []

    def work(k):
        if k == 5:
            raise ZeroDivisionError("five")
        done.append(k)
        return k

    taken = []
    with pytest.raises(ZeroDivisionError, match="five"):
        for result in run(work, range(1000), threads=threads):
            taken.append(result)
    assert taken == [0, 1, 2, 3, 4]
    assert len(done) < 50


def test_leaving_early_stops_the_threads():
    before = set(threading.enumerate())  # other tests of this process may have left some
    results = run(lambda k: k, range(1000), threads=2)
    assert next(results) == 0
    results.close()
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("komd")]


def test_ctrl_c_does_not_wait_for_pieces_under_way():
    release = threading.Event()

    def work(k):
        release.wait(60)
        return k

    def interrupt():
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(run(work, range(8), threads=2))
        assert not release.is_set()  # nobody let the pieces go on
    finally:
        signal.signal(signal.SIGINT, before)
        release.set()


def test_a_call_apart():
    assert apart(lambda check: (check(), threading.current_thread().name)[1]) == "komd-apart"
    with pytest.raises(ZeroDivisionError):
        apart(lambda check: 1 / 0)


def test_a_call_apart_is_told_when_nobody_waits():
    told = threading.Event()

    def work(check):
        try:
            while True:
                time.sleep(0.01)
                check()
        except KeyboardInterrupt:
            told.set()

    def interrupt():
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            apart(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert told.wait(60)


def test_blas_is_held_to_one_thread():
    def work(_):
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    np.ones((2, 2)) @ np.ones((2, 2))
    before = work(0)
    for found in run(work, range(4), threads=2):
        assert all(number == 1 for number in found)
    assert work(0) == before


def test_uninterrupted_work_is_done_before_ctrl_c_is_raised():
    done = []

    def work():
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        done.append(threading.current_thread() is not threading.main_thread())
        return 7

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            uninterrupted(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [True]
    assert uninterrupted(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 // 0)
