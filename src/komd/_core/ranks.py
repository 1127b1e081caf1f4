"""Where the test items of a user stand among all the others."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled

__all__ = ["area_under_curve", "mark_hits"]


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
        size = tested.shape[0]
        others = 0
        won = 0.0
        for j in range(row.shape[0]):
            x = row[j]
            if x == -np.inf:
                continue
            others += 1
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
        areas[u] = won / (size * others) if size > 0 and others > 0 else np.nan


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
