"""The n best of a strip of scores."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.groups import Rows

__all__ = ["mask", "mask_strip", "push_top", "sort_top"]


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


_CHUNK = 16  # scores compared together: one comparison of vectors, and almost always none is good enough


@compiled
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
    some = candidates.shape[0]
    if some == 0:
        return
    n = best_items.shape[1]
    low = candidates[0] - first
    high = candidates[some - 1] + 1 - first
    whole = high - (high - low) % _CHUNK
    for u in range(scores.shape[0]):
        row = scores[u]
        items = best_items[u]
        values = best_scores[u]
        count = counts[u]
        worst = values[0] if count == n else -np.inf
        if some < high - low:
            for c in range(some):
                if row[candidates[c] - first] > worst:  # not in a tie: the lower number, already inside, stays
                    count = _offer(values, items, count, n, row[candidates[c] - first], candidates[c])
                    worst = values[0] if count == n else -np.inf
        else:  # without gaps
            for start in range(low, whole, _CHUNK):
                better = 0
                for k in range(start, start + _CHUNK):
                    better += row[k] > worst
                if better:
                    for k in range(start, start + _CHUNK):
                        if row[k] > worst:
                            count = _offer(values, items, count, n, row[k], first + k)
                            worst = values[0] if count == n else -np.inf
            for k in range(whole, high):
                if row[k] > worst:
                    count = _offer(values, items, count, n, row[k], first + k)
                    worst = values[0] if count == n else -np.inf
        counts[u] = count


@compiled
def sort_top(best_items: np.ndarray, best_scores: np.ndarray, counts: np.ndarray) -> None:
    """Turn each user's heap into a list, best first."""
    for u in range(best_items.shape[0]):
        items = best_items[u]
        values = best_scores[u]
        left = counts[u]
        while left > 1:  # take the worst off the heap again and again, filling from the end
            left -= 1
            x = values[left]
            j = items[left]
            values[left] = values[0]
            items[left] = items[0]
            _sink(values, items, left, x, j)


@inner
def _offer(values: np.ndarray, items: np.ndarray, count: int, n: int, x: float, j: int) -> int:
    """Take (x, j) into a heap of `count`, at most n; it is known to be better than the worst of a full one."""
    if count == n:
        _sink(values, items, count, x, j)
        return count
    k = count  # climb from a new leaf
    while k > 0:
        parent = (k - 1) >> 1
        if values[parent] < x:  # equal: the newcomer has the higher number and is worse, so it climbs
            break
        values[k] = values[parent]
        items[k] = items[parent]
        k = parent
    values[k] = x
    items[k] = j
    return count + 1


@inner
def _sink(values: np.ndarray, items: np.ndarray, size: int, x: float, j: int) -> None:
    """Put (x, j) in place of the root of a heap of `size` whose root is the worst, and let it sink."""
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            values[right] < values[child] or (values[right] == values[child] and items[right] > items[child])
        ):
            child = right
        if values[child] < x or (values[child] == x and items[child] > j):
            values[k] = values[child]
            items[k] = items[child]
            k = child
        else:
            break
    values[k] = x
    items[k] = j
