"""How test items rank among the others: the area under the ROC curve, and hits in a list."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.groups import TieRule

__all__ = ["LOWEST", "area_under_curve", "level_unchosen", "mark_hits", "pairs_won", "ties_won"]

LOWEST = -np.finfo(np.float64).max  # the score of every item that nobody chose, where areas are measured

_CHUNK = 16  # scores compared together: most often all are below every test item
_FEW = 256  # test items up to which each is compared with every score; more are searched by bisection


@compiled
def area_under_curve(
    scores: np.ndarray, chosen: int, test_indptr: np.ndarray, test: np.ndarray, rule: TieRule, areas: np.ndarray
) -> None:
    """The share of (test item, other item) pairs that a user's scores put in the right order.

    Others are the items neither in the test row nor at minus infinity (the training history). Equal
    pairs count by `rule`. Items from `chosen` on, which nobody chose, are below all others and equal.
    Not a number where a side is empty. `scores` is overwritten: test items end at minus infinity.
    Twins: scikit-learn's roc_auc_score; with places, tests/reference.py::area_in_order.
    """
    for u in range(test_indptr.shape[0] - 1):
        wanted = test[test_indptr[u] : test_indptr[u + 1]]
        row = scores[u]
        level_unchosen(row, chosen)
        tested = np.empty(wanted.shape[0], np.float64)
        for k in range(wanted.shape[0]):
            tested[k] = row[wanted[k]]
        for k in range(wanted.shape[0]):
            row[wanted[k]] = -np.inf
        others = 0
        for j in range(row.shape[0]):
            others += row[j] > -np.inf
        size = tested.shape[0]
        if size == 0 or others == 0:
            areas[u] = np.nan
        elif rule.places.shape[0] == 0:
            tested.sort()
            areas[u] = pairs_won(row, tested, rule.share) / (size * others)
        else:
            order = np.argsort(tested)
            tested = tested[order]
            won = pairs_won(row, tested, 0.0) + ties_won(row, tested, rule.places[wanted[order]], rule)
            areas[u] = won / (size * others)


@inner
def level_unchosen(row: np.ndarray, chosen: int) -> None:
    """Put the items from `chosen` on, except those at minus infinity, below every score."""
    for j in range(max(chosen, 0), row.shape[0]):
        row[j] = LOWEST if row[j] > -np.inf else row[j]


@inner
def pairs_won(row: np.ndarray, tested: np.ndarray, tie: float) -> float:
    """Pairs (test item, item of `row` above minus infinity) in the right order, an equal pair counting `tie`.

    `tested` are the scores of the test items, ascending; in `row` they are at minus infinity. Items that nobody chose
    are at `LOWEST` in both. Over strips of items the numbers add up.
    """
    size = tested.shape[0]
    if size == 0:
        return 0.0
    least = tested[0]
    near = np.empty(row.shape[0] + 1, np.float64)  # the scores that are not below every test item
    found = 0
    full = row.shape[0] - row.shape[0] % _CHUNK
    for start in range(0, full, _CHUNK):
        reaching = 0
        for j in range(start, start + _CHUNK):
            reaching += row[j] >= least
        if reaching:
            for j in range(start, start + _CHUNK):
                near[found] = row[j]
                found += row[j] >= least
    for j in range(full, row.shape[0]):
        near[found] = row[j]
        found += row[j] >= least
    others = 0
    for j in range(row.shape[0]):
        others += row[j] > -np.inf
    won: float = float(others - found) * size
    if size > _FEW:
        for j in range(found):
            x = near[j]
            low = _how_many_below(tested, x)
            end = low
            while end < size and tested[end] == x:
                end += 1
            won += (size - end) + tie * (end - low)
    else:
        for t in range(size):
            smaller = 0
            equal = 0
            for j in range(found):
                smaller += near[j] < tested[t]
                equal += near[j] == tested[t]
            won += smaller + tie * equal
    return won


@inner
def _how_many_below(tested: np.ndarray, x: float) -> int:
    """How many of these ascending scores are below x."""
    low = 0
    high = tested.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if tested[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def ties_won(row: np.ndarray, tested: np.ndarray, tested_places: np.ndarray, rule: TieRule) -> float:
    """What the pairs of equal scores count, where the places of items decide: added to `pairs_won` with a tie of 0.

    `row` and `tested` are as there. `tested_places` are the places of the test items in the order of `tested`,
    `rule.places` those of the items of `row`.
    """
    size = tested.shape[0]
    won = 0.0
    for j in range(row.shape[0]):
        x = row[j]
        if size == 0 or x < tested[0] or x > tested[size - 1]:
            continue
        low = _how_many_below(tested, x)
        while low < size and tested[low] == x:
            if tested_places[low] < rule.places[j]:
                won += 1.0
            elif tested_places[low] == rule.places[j]:
                won += rule.share
            low += 1
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

    `mark` is scratch of one byte per item, all zero on entry and on return. Twin: sets, in tests/_core/test_auc.py.
    """
    for u in range(counts.shape[0]):
        for p in range(test_indptr[u], test_indptr[u + 1]):
            mark[test[p]] = 1
        for r in range(hits.shape[1]):
            hits[u, r] = r < counts[u] and mark[best_items[u, r]] == 1
        for p in range(test_indptr[u], test_indptr[u + 1]):
            mark[test[p]] = 0
