"""Blocks of work over Python threads: compiled code releases the GIL, results come back in order."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from komd.checks import whole
from komd.progress import progress

__all__ = ["apart", "blocks", "count", "even_blocks", "for_each", "run", "uninterrupted"]

_MOST = 4096  # threads that any machine has a use for

Block = TypeVar("Block")
Result = TypeVar("Result")


def count(threads: int | None = None) -> int:
    """The number of threads to use: what was asked for, or every core this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return whole("threads", threads, 1, most=_MOST)


def blocks(total: int, size: int) -> list[tuple[int, int]]:
    """`range(total)` cut into consecutive (start, stop) pieces of at most `size`.

    >>> blocks(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    size = max(1, size)
    return [(start, min(start + size, total)) for start in range(0, total, size)]


def even_blocks(work: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """`range(len(work))` cut into consecutive (start, stop) pieces of about `size` work each.

    >>> even_blocks(np.array([5, 5, 1, 1, 9]), 10)
    [(0, 2), (2, 5)]
    """
    cuts = np.searchsorted(np.cumsum(work), np.arange(size, work.sum(), size)) + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(work)]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def run(
    work: Callable[[Block], Result],
    pieces: Sequence[Block],
    *,
    threads: int | None = None,
    label: str = "",
    size: Callable[[Block], int] | None = None,
) -> Iterator[Result]:
    """Yield `work(piece)` for each piece, in order, computed by several threads.

    At most two pieces per thread are under way or waiting to be taken, so results do not pile up.
    With a `label`, long work shows a bar whose length is the sum of `size(piece)` (1 each by default).
    An error stops after the pieces under way; Ctrl-C does not wait for them, and what they still write is lost. A
    single piece runs in the calling thread.
    """
    workers = min(count(threads), len(pieces))
    amounts = [size(piece) if size else 1 for piece in pieces]
    with progress(label, sum(amounts)) as advance:
        if workers <= 1:
            for piece, amount in zip(pieces, amounts, strict=True):
                yield work(piece)
                advance(amount)
            return
        pool = ThreadPoolExecutor(workers, thread_name_prefix="komd")
        patient = True
        try:
            with _libraries(len(sys.modules)).limit(limits=1):
                submitted = (pool.submit(work, piece) for piece in pieces)
                pending = deque(islice(submitted, 2 * workers))
                for amount in amounts:
                    pending.extend(islice(submitted, 1))
                    yield _waited(pending.popleft())
                    advance(amount)
        except KeyboardInterrupt:
            patient = False
            raise
        finally:
            pool.shutdown(wait=patient, cancel_futures=True)


def for_each(
    work: Callable[[Block], object],
    pieces: Sequence[Block],
    *,
    threads: int | None = None,
    label: str = "",
    size: Callable[[Block], int] | None = None,
) -> None:
    """`run` for work that is done for its effect."""
    for _ in run(work, pieces, threads=threads, label=label, size=size):
        pass


def apart(work: Callable[[Callable[[], None]], Result]) -> Result:
    """`work(check)` in a thread of its own, for a long call that Ctrl-C cannot interrupt: the caller can always leave.

    `work` should call `check()` now and then: it raises when nobody waits for the result any more.
    """
    left = threading.Event()
    done: Future[Result] = Future()

    def check() -> None:
        if left.is_set():
            raise KeyboardInterrupt

    def body() -> None:
        try:
            done.set_result(work(check))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=body, name="komd-apart", daemon=True).start()
    try:
        return _waited(done)
    finally:
        left.set()


def uninterrupted(work: Callable[[], Result]) -> Result:
    """`work()`, which must be short, in a thread of its own: Ctrl-C is raised when it is done."""
    begun, done = threading.Event(), Future[Result]()

    def body() -> None:
        begun.set()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    try:
        threading.Thread(target=body, name="komd-uninterrupted").start()
        wait([done])
    except KeyboardInterrupt:
        if begun.wait(1.0):  # else Ctrl-C came before the thread was there
            wait([done])
        raise
    return done.result()


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The thread pools of BLAS and its like; looked for again only when modules have been loaded since."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _waited(future: Future[Result]) -> Result:
    while not future.done():  # a time limit keeps Ctrl-C prompt: a bare wait cannot be interrupted everywhere
        wait([future], timeout=0.2)
    return future.result()
