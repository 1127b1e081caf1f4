"""How test items rank among the others: the area under the ROC curve, and hits in a list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.groups import TieRule

__all__ = ["LOWEST", "area_under_curve", "ascending", "level_unchosen", "mark_hits", "pairs_lost", "ties_won"]

LOWEST = -np.finfo(np.float64).max  # the score of every item that nobody chose, where areas are measured

_FEW = 256  # test items up to which each is compared with scores; more are searched by bisection


def area_under_curve(
    scores: NDArray[np.float64],
    chosen: int,
    test_indptr: NDArray[np.int64],
    test: NDArray[np.int32],
    rule: TieRule,
    areas: NDArray[np.float64],
) -> None:
    """The share of (test item, other item) pairs that a user's scores put in the right order.

    Others are the items neither in the test row nor at minus infinity (the training history). Equal
    pairs count by `rule`. Items from `chosen` on, which nobody chose, are below all others and equal.
    Not a number where a side is empty. `scores` is overwritten: test items end at minus infinity.
    Twins: scikit-learn's roc_auc_score; with places, tests/reference.py::area_in_order.
    """
    owner = np.repeat(np.arange(len(scores)), np.diff(test_indptr))
    tested, places = ascending(scores[owner, test], test, owner, chosen, rule)
    _areas(scores, chosen, test_indptr, test, tested, places, rule, areas)


def ascending(
    scores: NDArray[np.float64], items: NDArray[np.int32], owner: NDArray[np.int64], chosen: int, rule: TieRule
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The scores of test items in ascending order for each owner, and the places of the items in that order.

    Items from `chosen` on are put below all others first, as `level_unchosen` does.
    """
    levelled = np.where((items >= chosen) & (scores > -np.inf), LOWEST, scores)
    order = np.lexsort((levelled, owner))
    return levelled[order], rule.places[items[order]] if len(rule.places) else rule.places


@compiled
def _areas(
    scores: np.ndarray,
    chosen: int,
    test_indptr: np.ndarray,
    test: np.ndarray,
    tested_scores: np.ndarray,
    tested_places: np.ndarray,
    rule: TieRule,
    areas: np.ndarray,
) -> None:
    """`area_under_curve` with the test scores and their places as `ascending` gives them."""
    near = np.empty(scores.shape[1] + 1)
    for u in range(test_indptr.shape[0] - 1):
        begin, end = test_indptr[u], test_indptr[u + 1]
        row, tested = scores[u], tested_scores[begin:end]
        level_unchosen(row, chosen)
        for p in range(begin, end):
            row[test[p]] = -np.inf
        others = 0
        for j in range(row.shape[0]):
            others += row[j] > -np.inf
        pairs = tested.shape[0] * others
        if pairs == 0:
            areas[u] = np.nan
        elif rule.places.shape[0] == 0:
            areas[u] = (pairs - pairs_lost(row, tested, rule.share, near)) / pairs
        else:
            lost = pairs_lost(row, tested, 0.0, near) - ties_won(row, tested, tested_places[begin:end], rule)
            areas[u] = (pairs - lost) / pairs


@inner
def level_unchosen(row: np.ndarray, chosen: int) -> None:
    """Put the items from `chosen` on, except those at minus infinity, below every score."""
    for j in range(max(chosen, 0), row.shape[0]):
        row[j] = LOWEST if row[j] > -np.inf else row[j]


@inner
def pairs_lost(row: np.ndarray, tested: np.ndarray, tie: float, near: np.ndarray) -> float:
    """Pairs (test item, item of `row` above minus infinity) not in the right order, an equal pair counting 1 − `tie`.

    `tested` are the scores of the test items, ascending; in `row` they are at minus infinity. Items that nobody chose
    are at `LOWEST` in both. Over strips of items the numbers add up. `near` is scratch, one longer than `row`.
    As soon as few scores reach a test item, those that reach the next one are sought among them alone.
    """
    size = tested.shape[0]
    lost = 0.0
    if size > _FEW:
        for j in range(_reaching(row, row.shape[0], tested[0], near)):
            x = near[j]
            low = _how_many_below(tested, x)
            end = low
            while end < size and tested[end] == x:
                end += 1
            lost += end - tie * (end - low)
        return lost
    t = 0
    found = row.shape[0]
    reaching = found
    while t < size and 2 * reaching >= found:
        reaching, equal = _compared(row, found, tested[t])
        lost += reaching - tie * equal
        t += 1
    if t < size and reaching > 0:
        found = _reaching(row, found, tested[t], near)
    while t < size and reaching > 0:
        reaching, equal = _compared(near, found, tested[t])
        lost += reaching - tie * equal
        if 2 * reaching < found:
            found = _reaching(near, found, tested[t], near)
        t += 1
    return lost


@inner
def _compared(scores: np.ndarray, size: int, least: float) -> tuple[int, int]:
    """How many of the first `size` scores are at least `least`, and how many of them equal."""
    reaching = 0
    equal = 0
    for j in range(size):
        reaching += scores[j] >= least
        equal += scores[j] == least
    return reaching, equal


@inner
def _reaching(scores: np.ndarray, size: int, least: float, out: np.ndarray) -> int:
    """Copy the first `size` scores that are at least `least` to `out`, which may be `scores`; returns their number."""
    found = 0
    for j in range(size):
        x = scores[j]
        out[found] = x
        found += x >= least
    return found


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
    """What pairs of equal scores count, where places of items decide: subtracted from `pairs_lost` with a tie of 0.

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
