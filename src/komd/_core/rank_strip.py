"""What is done with a strip of K, one user after another, so that a user's scores of it never leave the cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.auc import level_unchosen, pairs_lost, ties_won
from komd._core.compile import compiled
from komd._core.groups import StripArrays, TieRule, WeightedUsers
from komd._core.strip_counting import score_tile
from komd._core.top_n import Waiting, collect_top, mask_strip, take_waiting

__all__ = ["ItemTerms", "Lists", "Masked", "NeverListed", "TargetPairs", "rank_strip"]


class ItemTerms(NamedTuple):
    """Of the items of a strip: S, what scores are multiplied by, and the popularity that users without history get.

    Empty `factors` are ones.
    """

    S: NDArray[np.float64]
    factors: NDArray[np.float64]
    popularity: NDArray[np.float64]


class Masked(NamedTuple):
    """The items each user knows, how far they have been used (`cursor`), and whether lists leave them out."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    cursor: NDArray[np.int64]
    exclude: bool


class NeverListed(NamedTuple):
    """Items that each user dislikes and lists leave out, where `Masked` does not do so; `indptr` is empty for none."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    cursor: NDArray[np.int64]


class Lists(NamedTuple):
    """The candidates of the strip, and each user's best so far as `push_top` keeps them; n = 0 is not asked for.

    Nobody waits for these lists before and after: `waiting_for(scores, counts)`.
    """

    candidates: NDArray[np.int32]
    items: NDArray[np.int32]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    waiting: Waiting


class TargetPairs(NamedTuple):
    """Each user's targets (empty `indptr`: not asked for), their scores ascending, and the pairs lost so far.

    Equal pairs count by `rule`, which has the places of the strip's items; `places` are those of the targets, in the
    order of `scores`. Items from number `chosen` on, which nobody chose, lose to every other item.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    cursor: NDArray[np.int64]
    scores: NDArray[np.float64]
    places: NDArray[np.int32]
    rule: TieRule
    chosen: int
    lost: NDArray[np.float64]


@compiled
def rank_strip(
    strip: StripArrays,
    first: int,
    terms: ItemTerms,
    users: WeightedUsers,
    correction: np.ndarray,
    known: Masked,
    never: NeverListed,
    best: Lists,
    targets: TargetPairs,
) -> None:
    """Score a strip for each user, mask the items they know, merge into their best, and count the pairs lost.

    The strip begins at item `first`. `correction` (users × width, or empty) is subtracted from the scores. A tile of
    the strip is used by all users before the next: the rows that many have are read from the cache.
    """
    measured = targets.indptr.shape[0] > 0
    begin = users.indptr[0]
    rows = strip.row_of[users.indices[begin : users.indptr[-1]]]
    whole = terms.S.shape[0]
    wide = strip.dense.shape[2]
    scores = np.empty(wide)
    near = np.empty(wide + 1)
    slots = np.empty(rows.shape[0], np.int32)
    listed = best.items.shape[1] > 0
    low = 0
    for tile in range(strip.places.shape[0]):
        start = tile * wide
        stop = min(start + wide, whole)
        high = low
        while high < best.candidates.shape[0] and best.candidates[high] < first + stop:
            high += 1
        row = scores[: stop - start]
        S = terms.S[start:stop]
        for u in range(users.indptr.shape[0] - 1):
            p, end = users.indptr[u], users.indptr[u + 1]
            if p == end:
                row[:] = terms.popularity[start:stop]
            else:
                mine = rows[p - begin : end - begin]
                score_tile(strip, tile, S, mine, users.weights[p:end], users.offsets[u], slots, row)
                if correction.shape[0] > 0:
                    for j in range(stop - start):
                        row[j] -= correction[u, start + j]
                if terms.factors.shape[0] > 0:
                    for j in range(stop - start):
                        row[j] *= terms.factors[start + j]
            if known.exclude:
                mask_strip(known.indptr[u + 1], known.indices, first + start, known.cursor[u : u + 1], row)
            if never.indptr.shape[0] > 0:
                mask_strip(never.indptr[u + 1], never.indices, first + start, never.cursor[u : u + 1], row)
            if listed:
                some = best.candidates[low:high]
                collect_top(u, row, some, first + start, best.waiting, best.items, best.scores, best.counts)
            if measured:
                if not known.exclude:
                    mask_strip(known.indptr[u + 1], known.indices, first + start, known.cursor[u : u + 1], row)
                mask_strip(targets.indptr[u + 1], targets.indices, first + start, targets.cursor[u : u + 1], row)
                level_unchosen(row, targets.chosen - first - start)
                tested = targets.scores[targets.indptr[u] : targets.indptr[u + 1]]
                if targets.rule.places.shape[0] == 0:
                    targets.lost[u] += pairs_lost(row, tested, targets.rule.share, near)
                else:
                    rule = TieRule(targets.rule.share, targets.rule.places[start:stop])
                    places = targets.places[targets.indptr[u] : targets.indptr[u + 1]]
                    targets.lost[u] += pairs_lost(row, tested, 0.0, near) - ties_won(row, tested, places, rule)
        low = high
    if listed:
        for u in range(best.counts.shape[0]):
            take_waiting(u, best.waiting, best.items, best.scores, best.counts)
