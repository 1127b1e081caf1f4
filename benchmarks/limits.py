"""The limits of this machine, and the counting kernels against scipy, measured in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

__all__ = ["counting", "machine_limits"]


@njit(nogil=True, fastmath=True)  # sums in any order, so that memory is the limit and not the latency of an addition
def _sum(a: np.ndarray) -> float:
    s = 0.0
    for k in range(a.shape[0]):
        s += a[k]
    return s


@njit(nogil=True)
def _touch(a: np.ndarray, order: np.ndarray) -> int:
    s = 0
    for k in range(order.shape[0]):
        s += a[np.uint32(order[k])]
    return s


@njit(nogil=True)
def _increment(a: np.ndarray, order: np.ndarray, times: int) -> None:
    for _ in range(times):
        for k in range(order.shape[0]):
            a[np.uint32(order[k])] += 1


@njit(nogil=True, fastmath={"contract"})
def _scatter(out: np.ndarray, names: np.ndarray, values: np.ndarray, w: float, times: int) -> None:
    for _ in range(times):
        for k in range(names.shape[0]):
            out[np.uint32(names[k])] += w * values[k]


@njit(nogil=True, fastmath={"contract"})
def _add(out: np.ndarray, values: np.ndarray, w: float, times: int) -> None:
    for _ in range(times):
        for k in range(out.shape[0]):
            out[k] += w * values[k]


@njit(nogil=True)
def _above(scores: np.ndarray, worst: float, times: int) -> int:
    found = 0
    for _ in range(times):
        for k in range(scores.shape[0]):
            found += scores[k] > worst
    return found


def _best(work: Callable[[int], Any], threads: int, rounds: int = 4) -> float:
    """Seconds of `work(thread)` on this many threads at once; the best of some rounds after a warm-up."""
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for turn in range(rounds + 1):
            start = time.perf_counter()
            list(pool.map(work, range(threads)))
            if turn:
                best = min(best, time.perf_counter() - start)
    return best


def machine_limits(size: int = 1 << 29) -> dict[str, float]:
    """Rates per second: bytes of memory (one core and two), and simple steps in and out of the cache (per core)."""
    rng = np.random.default_rng(0)
    far = [np.ones(size // 8) for _ in range(2)]
    copy = np.empty_like(far[0])
    out: dict[str, float] = {}
    for threads in (1, 2):
        words = "1 core" if threads == 1 else f"{threads} cores"
        out[f"read, {words}"] = threads * size / _best(lambda t: _sum(far[t]), threads)
    out["copy, 1 core"] = 2 * size / _best(lambda t: np.copyto(copy, far[0]), 1)  # read and written
    order = rng.integers(0, size // 4, 1 << 23).astype(np.int32)
    plain = [a.view(np.int32) for a in far]
    out["random reads, 1 core"] = len(order) / _best(lambda t: _touch(plain[t], order), 1)
    out["random reads, 2 cores"] = 2 * len(order) / _best(lambda t: _touch(plain[t], order), 2)
    table, order = plain[0][: 10_000_000 // 4], order % (10_000_000 // 4)
    out["random reads of 10 MB, 1 core"] = len(order) / _best(lambda t: _touch(table, order), 1)
    width, times = 4096, 4000
    names = np.sort(rng.choice(width, 1000, replace=False)).astype(np.uint16)
    near, values = np.zeros(width), rng.random(width).astype(np.float32)
    out["scattered multiply-adds, 1 core"] = (
        times * len(names) / _best(lambda t: _scatter(near, names, values[: len(names)], 0.5, times), 1)
    )
    out["straight multiply-adds, 1 core"] = times * width / _best(lambda t: _add(near, values, 0.5, times), 1)
    counter, some = np.zeros(width, np.int32), rng.integers(0, width, 2000).astype(np.int32)
    out["increments in the cache, 1 core"] = times * len(some) / _best(lambda t: _increment(counter, some, times), 1)
    scores = rng.random(64 * width)
    out["comparisons in the cache, 1 core"] = 200 * len(scores) / _best(lambda t: _above(scores, 2.0, 200), 1)
    return out


def counting(indptr: Any, indices: Any, items: int, counts: float = 2e8) -> dict[str, Any]:
    """Rows of co-occurrence of a random sample of items, by komd's three kernels and by scipy, one core each."""
    import scipy.sparse

    from komd._core import gather as gathered
    from komd._core import strip_counting as strips
    from komd._core.cooccurrence import count_pairs
    from komd._core.groups import Rows
    from komd.kernels.entries import KernelEntries
    from komd.kernels.functions import Linear
    from komd.matrix.streamed import StreamedMatrix

    users = Rows(indptr, indices)
    matrix = StreamedMatrix(KernelEntries.of(Linear(), users, items), users)
    shuffled = np.random.default_rng(0).permutation(items)
    enough = int(np.searchsorted(np.cumsum(matrix.work[shuffled]), counts)) + 1
    sample = np.sort(shuffled[:enough]).astype(np.int32)
    done = float(matrix.work[sample].sum())
    left, right = matrix.of.factors
    seconds: dict[str, float] = {}
    spent, count_strip, gather_rows = [0.0], strips.count_strip, gathered.gather_rows

    def timed(*args: Any) -> int:
        start = time.perf_counter()
        out = count_strip(*args)
        spent[0] += time.perf_counter() - start
        return out

    def in_strips() -> None:  # only the compiled part: the preparation is for all rows, not for the sample
        spent[0] = 0.0
        for _ in matrix.row_strips(sample, threads=1):
            pass
        seconds["count_strip"] = min(spent[0], seconds.get("count_strip", np.inf))

    def pairs() -> None:
        counter, ends = np.zeros(items, np.int32), np.zeros(2, np.int64)
        columns, found = np.empty(items + 1, np.int32), np.empty(items + 1, np.int32)
        for i in sample.tolist():
            count_pairs(matrix.pairs, np.array([i], np.int32), counter, ends, columns, found, None)

    def gather() -> None:
        empty = np.zeros(0, np.int32)
        nobody, nothing = Rows(np.zeros(items + 1, np.int64), empty), Rows(np.zeros(1, np.int64), empty)
        scratch = gathered.gather_scratch(items, np.int32)
        out = gathered.GatheredEntries(empty.copy(), np.zeros(0))
        gather_rows(matrix.pairs, sample, left, right, nobody, nothing, scratch, out, None)

    X = scipy.sparse.csr_matrix((np.ones(len(indices), np.int32), indices, indptr), shape=(len(indptr) - 1, items))
    XT = X[:, sample].T.tocsr()

    def product() -> None:
        XT @ X

    strips.count_strip = timed
    for _ in range(2):  # the first time compiles
        in_strips()
        for name, work in (("count_pairs", pairs), ("gather_rows", gather), ("scipy", product)):
            start = time.perf_counter()
            work()
            seconds[name] = min(time.perf_counter() - start, seconds.get(name, np.inf))
    strips.count_strip = count_strip
    return {"items": len(sample), "counts": done, "per_second": {name: done / s for name, s in seconds.items()}}
