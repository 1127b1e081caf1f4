"""The n best of a strip of scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.groups import Rows
from komd._core.vector_sums import COMPARED, any_above

__all__ = ["Waiting", "collect_top", "mask", "mask_strip", "push_top", "sort_top", "take_waiting", "waiting_for"]


@compiled
def mask(rows: Rows, scores: np.ndarray) -> None:
    """Exclude the items of each user's row: their scores become minus infinity."""
    for u in range(rows.indptr.shape[0] - 1):
        for p in range(rows.indptr[u], rows.indptr[u + 1]):
            scores[u, rows.indices[p]] = -np.inf


@compiled
def mask_strip(end: int, indices: np.ndarray, first: int, cursor: np.ndarray, scores: np.ndarray) -> None:
    """The same for one user's scores of a strip: items first, first + 1, ... `cursor[0]` moves on towards `end`."""
    width = scores.shape[0]
    p = cursor[0]
    while p < end and indices[p] < first + width:
        scores[indices[p] - first] = -np.inf
        p += 1
    cursor[0] = p


_WAITING = 64  # candidates that wait before they are merged into a list: lists are not in the cache


class Waiting(NamedTuple):
    """Candidates of each user that were better than the worst of their list when it was last looked at."""

    scores: NDArray[np.float64]
    items: NDArray[np.int32]
    counts: NDArray[np.int64]
    worst: NDArray[np.float64]


def waiting_for(best_scores: NDArray[np.float64], counts: NDArray[np.int64]) -> Waiting:
    """Nobody waits yet for these lists."""
    users, n = best_scores.shape
    worst = np.full(users, -np.inf)
    if n > 0:
        full = counts == n
        worst[full] = best_scores[full, 0]
    shape = (users, _WAITING)
    return Waiting(np.empty(shape, np.float64), np.empty(shape, np.int32), np.zeros(users, np.int64), worst)


def push_top(
    scores: np.ndarray,
    candidates: np.ndarray,
    first: int,
    best_items: np.ndarray,
    best_scores: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Merge a strip of scores into each user's best so far; equal scores go to the lower number.

    `scores` (users x width) are those of items first, first + 1, ...; `candidates` are the ascending item
    numbers of the strip that may be chosen. `best_items` and `best_scores` (users x n) hold `counts[u]`
    entries each, as a heap with the worst on top: `sort_top` brings them into order after the last strip.
    Items at minus infinity are never taken, so a list may stay shorter than n. Strips must come in
    ascending order. Twin: tests/reference.py::top.
    """
    _push(scores, candidates, first, waiting_for(best_scores, counts), best_items, best_scores, counts)


@compiled
def _push(
    scores: np.ndarray,
    candidates: np.ndarray,
    first: int,
    waiting: Waiting,
    best_items: np.ndarray,
    best_scores: np.ndarray,
    counts: np.ndarray,
) -> None:
    for u in range(scores.shape[0]):
        collect_top(u, scores[u], candidates, first, waiting, best_items, best_scores, counts)
        take_waiting(u, waiting, best_items, best_scores, counts)


@inner
def collect_top(
    u: int,
    row: np.ndarray,
    candidates: np.ndarray,
    first: int,
    waiting: Waiting,
    best_items: np.ndarray,
    best_scores: np.ndarray,
    counts: np.ndarray,
) -> None:
    """`push_top` for user u, whose scores of the strip are `row`; the last that were found may still wait."""
    some = candidates.shape[0]
    if some == 0:
        return
    low = candidates[0] - first
    high = candidates[some - 1] + 1 - first
    whole = high - (high - low) % COMPARED
    worst = waiting.worst[u]
    if some < high - low:
        for c in range(some):
            k = candidates[c] - first
            if row[k] > worst:  # not in a tie: the lower number, already inside, stays
                _wait(u, row[k], first + k, waiting, best_items, best_scores, counts)
                worst = waiting.worst[u]
    else:  # without gaps
        for start in range(low, whole, COMPARED):  # almost always none of them is good enough
            if any_above(row, start, worst):
                for k in range(start, start + COMPARED):
                    if row[k] > worst:
                        _wait(u, row[k], first + k, waiting, best_items, best_scores, counts)
                        worst = waiting.worst[u]
        for k in range(whole, high):
            if row[k] > worst:
                _wait(u, row[k], first + k, waiting, best_items, best_scores, counts)
                worst = waiting.worst[u]


@inner
def _wait(
    u: int,
    x: float,
    j: int,
    waiting: Waiting,
    best_items: np.ndarray,
    best_scores: np.ndarray,
    counts: np.ndarray,
) -> None:
    size = waiting.counts[u]
    waiting.scores[u, size] = x
    waiting.items[u, size] = j
    waiting.counts[u] = size + 1
    if size + 1 == _WAITING:
        take_waiting(u, waiting, best_items, best_scores, counts)


@inner
def take_waiting(u: int, waiting: Waiting, best_items: np.ndarray, best_scores: np.ndarray, counts: np.ndarray) -> None:
    """Take what waits into the list of user u, in the order in which it came."""
    n = best_items.shape[1]
    items = best_items[u]
    values = best_scores[u]
    count = counts[u]
    for k in range(waiting.counts[u]):
        x = waiting.scores[u, k]
        if count < n or x > values[0]:
            count = _offer(values, items, count, n, x, np.int64(waiting.items[u, k]))
    counts[u] = count
    waiting.counts[u] = 0
    waiting.worst[u] = values[0] if count == n else -np.inf


@compiled
def sort_top(best_items: np.ndarray, best_scores: np.ndarray, counts: np.ndarray) -> None:
    """Turn each user's heap into a list, best first."""
    for u in range(best_items.shape[0]):
        items = best_items[u]
        values = best_scores[u]
        left = counts[u]
        while left > 1:  # remove the worst from the heap repeatedly, filling the list from the end
            left -= 1
            x = values[left]
            j = np.int64(items[left])
            values[left] = values[0]
            items[left] = items[0]
            _sink(values, items, left, x, j)


@inner
def _offer(values: np.ndarray, items: np.ndarray, count: int, n: int, x: float, j: np.int64) -> int:
    """Take (x, j) into a heap of `count`, at most n; it is known to be better than the worst of a full one."""
    if count == n:
        _sink(values, items, count, x, j)
        return count
    k = count  # climb from a new leaf
    while k > 0:
        parent = (k - 1) >> 1
        if values[parent] < x:  # if equal, the new entry has the higher number and is worse, so it climbs
            break
        values[k] = values[parent]
        items[k] = items[parent]
        k = parent
    values[k] = x
    items[k] = j
    return count + 1


@inner
def _sink(values: np.ndarray, items: np.ndarray, size: int, x: float, j: np.int64) -> None:
    """Put (x, j) in place of the root of a heap of `size` whose root is the worst, and let it sink."""
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size:  # the worse of the two, without a branch, which would be unpredictable
            left, right = values[child], values[child + 1]
            child += (right < left) | ((right == left) & (items[child + 1] > items[child]))
        if values[child] < x or (values[child] == x and items[child] > j):
            values[k] = values[child]
            items[k] = items[child]
            k = child
        else:
            break
    values[k] = x
    items[k] = j
