"""The n best of a strip of scores."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner

__all__ = ["merge_top", "veil"]


@compiled
def veil(indptr: np.ndarray, indices: np.ndarray, scores: np.ndarray) -> None:
    """Put the items of each user's row out of the running: their scores become minus infinity."""
    for u in range(indptr.shape[0] - 1):
        for p in range(indptr[u], indptr[u + 1]):
            scores[u, indices[p]] = -np.inf


@compiled
def merge_top(
    scores: np.ndarray,
    candidates: np.ndarray,
    first: int,
    best_items: np.ndarray,
    best_scores: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Merge a strip of scores into each user's best so far, best first; equal scores go to the lower number.

    `scores` (users x width) are those of items first, first + 1, ...; `candidates` are the ascending item
    numbers of the strip that may be chosen. `best_items` and `best_scores` (users x n) hold `counts[u]`
    entries each. Items at minus infinity are never taken, so a list may stay shorter than n. Strips must
    come in ascending order. A heap with the worst on top while merging, sorted by `merge_top`'s last
    lines after each strip. Twin: tests/reference.py::top.
    """
    n = best_items.shape[1]
    for u in range(scores.shape[0]):
        row = scores[u]
        items = best_items[u]
        values = best_scores[u]
        count = counts[u]
        # Sorted best first is also a valid heap when read from its end, so reverse: the worst comes to the root.
        for k in range(count // 2):
            values[k], values[count - 1 - k] = values[count - 1 - k], values[k]
            items[k], items[count - 1 - k] = items[count - 1 - k], items[k]
        worst = values[0] if count == n else -np.inf
        for c in range(candidates.shape[0]):
            j = candidates[c]
            x = row[j - first]
            if x <= worst:  # also a tie with the worst: the lower number, already inside, stays
                continue
            if count < n:
                k = count  # climb from a new leaf
                count += 1
                while k > 0:
                    parent = (k - 1) >> 1
                    if values[parent] < x:  # equal: the newcomer has the higher number and is worse, so it climbs
                        break
                    values[k] = values[parent]
                    items[k] = items[parent]
                    k = parent
                values[k] = x
                items[k] = j
            else:
                _sink(values, items, count, x, j)
            if count == n:
                worst = values[0]
        # Take the worst off the heap again and again, filling from the end.
        left = count
        while left > 1:
            left -= 1
            x = values[left]
            j = items[left]
            values[left] = values[0]
            items[left] = items[0]
            _sink(values, items, left, x, j)
        counts[u] = count


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
