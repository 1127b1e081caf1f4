"""Where the test items of a user stand among all the others."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner

__all__ = ["add_won", "area_under_curve", "mark_hits"]


@compiled
def area_under_curve(
    scores: np.ndarray, test_indptr: np.ndarray, test: np.ndarray, tie: float, areas: np.ndarray
) -> None:
    """The share of (test item, other item) pairs that a user's scores put in the right order.

    Others are the items neither in the test row nor at minus infinity (the training history). An
    equal pair counts `tie`: one half, or nothing. Not a number where a side is empty.
    Twin: scikit-learn's roc_auc_score. `scores` is spoiled: test items end at minus infinity.
    """
    for u in range(test_indptr.shape[0] - 1):
        wanted = test[test_indptr[u] : test_indptr[u + 1]]
        row = scores[u]
        tested = np.empty(wanted.shape[0], np.float64)
        for k in range(wanted.shape[0]):
            tested[k] = row[wanted[k]]
        for k in range(wanted.shape[0]):
            row[wanted[k]] = -np.inf
        tested.sort()
        others = 0
        for j in range(row.shape[0]):
            others += row[j] > -np.inf
        size = tested.shape[0]
        areas[u] = _won(row, tested, tie) / (size * others) if size > 0 and others > 0 else np.nan


@compiled
def add_won(scores: np.ndarray, test_indptr: np.ndarray, tested: np.ndarray, tie: float, won: np.ndarray) -> None:
    """The same strip by strip: won[u] += pairs in the right order between u's test items and the items of the strip.

    `tested` are the scores of all test items, ascending for each user; in the strip they, too, are at minus infinity.
    """
    for u in range(test_indptr.shape[0] - 1):
        won[u] += _won(scores[u], tested[test_indptr[u] : test_indptr[u + 1]], tie)


@inner
def _won(row: np.ndarray, tested: np.ndarray, tie: float) -> float:
    """Pairs (test item, item of `row` above minus infinity) in the right order, an equal pair counting `tie`."""
    size = tested.shape[0]
    if size == 0:
        return 0.0
    least = tested[0]
    most = tested[size - 1]
    below = 0  # below every test item, as most are: they are only counted
    for j in range(row.shape[0]):
        below += (row[j] < least) & (row[j] > -np.inf)
    won: float = float(below) * size
    for j in range(row.shape[0]):
        x = row[j]
        if x < least or x > most:
            continue
        low = 0
        high = size
        while low < high:  # tested[:low] < x
            middle = (low + high) >> 1
            if tested[middle] < x:
                low = middle + 1
            else:
                high = middle
        end = low
        while end < size and tested[end] == x:
            end += 1
        won += (size - end) + tie * (end - low)
    return won


@compiled
def mark_hits(
    best_items: np.ndarray,
    counts: np.ndarray,
    test_indptr: np.ndarray,
    test: np.ndarray,
    mark: np.ndarray,
    hits: np.ndarray,
) -> None:
    """hits[u, r] says whether the item at rank r of user u is one of the test items.

    `mark` is scratch of one byte per item, all zero on entry and on return.
    """
    for u in range(counts.shape[0]):
        for p in range(test_indptr[u], test_indptr[u + 1]):
            mark[test[p]] = 1
        for r in range(hits.shape[1]):
            hits[u, r] = r < counts[u] and mark[best_items[u, r]] == 1
        for p in range(test_indptr[u], test_indptr[u + 1]):
            mark[test[p]] = 0
