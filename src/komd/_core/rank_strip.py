"""What is done with a strip of K, one user after another, so that a user's scores of it never leave the cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.auc import level_unchosen, pairs_won, ties_won
from komd._core.compile import compiled
from komd._core.groups import StripArrays, TieRule, WeightedUsers
from komd._core.strip_counting import score_strip
from komd._core.top_n import mask_strip, push_top

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
    """The candidates of the strip, and each user's best so far as `push_top` keeps them; n = 0 is not asked for."""

    candidates: NDArray[np.int32]
    items: NDArray[np.int32]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]


class TargetPairs(NamedTuple):
    """Each user's targets (empty `indptr`: not asked for), their scores ascending, and the pairs won so far.

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
    won: NDArray[np.float64]


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
    scores: np.ndarray,
) -> None:
    """Score a strip for each user, mask the items they know, merge into their best, and count the pairs won.

    The strip begins at item `first`. `correction` (users × width, or empty) is subtracted from the scores. `scores` is
    scratch, one row as long as the strip is wide.
    """
    measured = targets.indptr.shape[0] > 0
    row = scores[0]
    for u in range(users.indptr.shape[0] - 1):
        p, stop = users.indptr[u], users.indptr[u + 1]
        if p == stop:
            row[:] = terms.popularity
        else:
            score_strip(strip, terms.S, users.indices[p:stop], users.weights[p:stop], users.offsets[u], row)
            if correction.shape[0] > 0:
                for j in range(correction.shape[1]):
                    row[j] -= correction[u, j]
            for j in range(terms.factors.shape[0]):
                row[j] *= terms.factors[j]
        if known.exclude:
            mask_strip(known.indptr[u + 1], known.indices, first, known.cursor[u : u + 1], row)
        if never.indptr.shape[0] > 0:
            mask_strip(never.indptr[u + 1], never.indices, first, never.cursor[u : u + 1], row)
        if best.items.shape[1] > 0:
            push_top(
                scores, best.candidates, first, best.items[u : u + 1], best.scores[u : u + 1], best.counts[u : u + 1]
            )
        if measured:
            if not known.exclude:
                mask_strip(known.indptr[u + 1], known.indices, first, known.cursor[u : u + 1], row)
            mask_strip(targets.indptr[u + 1], targets.indices, first, targets.cursor[u : u + 1], row)
            level_unchosen(row, targets.chosen - first)
            tested = targets.scores[targets.indptr[u] : targets.indptr[u + 1]]
            if targets.rule.places.shape[0] == 0:
                targets.won[u] += pairs_won(row, tested, targets.rule.share)
            else:
                places = targets.places[targets.indptr[u] : targets.indptr[u + 1]]
                targets.won[u] += pairs_won(row, tested, 0.0) + ties_won(row, tested, places, targets.rule)
