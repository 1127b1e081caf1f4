"""Blocks of work over Python threads: compiled code releases the GIL, results come back in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from komd.errors import InputError
from komd.progress import progress

__all__ = ["blocks", "count", "even_blocks", "run"]

Block = TypeVar("Block")
Result = TypeVar("Result")


def count(threads: int | None = None) -> int:
    """The number of threads to use: what was asked for, or every core this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    return int(threads)


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
    An error or Ctrl-C stops after the pieces under way; a single piece runs in the calling thread.
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
        try:
            with _libraries(len(sys.modules)).limit(limits=1):
                pending: list[Future[Result]] = []
                for position, piece in enumerate(pieces):
                    pending.append(pool.submit(work, piece))
                    while len(pending) > 2 * workers:
                        yield _oldest(pending)
                        advance(amounts[position - len(pending)])
                while pending:
                    yield _oldest(pending)
                    advance(amounts[len(pieces) - 1 - len(pending)])
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The thread pools of BLAS and its like; looked for again only when modules have been loaded since."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _oldest(pending: list[Future[Result]]) -> Result:
    first = pending.pop(0)
    while not first.done():  # a time limit keeps Ctrl-C prompt: a bare wait cannot be interrupted everywhere
        wait([first], timeout=0.2, return_when=FIRST_COMPLETED)
    return first.result()
