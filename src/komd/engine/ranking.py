"""From scores to lists: the one way in which a block of people is ranked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.engine.histories import Histories

__all__ = ["TIES", "RankedBlock", "RankingRequest", "rank_block", "users_per_block"]

TIES = {"half": 0.5, "strict": 0.0}
_STRIP_BYTES = 2 << 20  # of scores held at a time: stays in the cache between scoring and ranking
_MOST_USERS = 64


@dataclass(frozen=True, eq=False)
class RankingRequest:
    """What is asked about people: their `n` best of these candidates (ascending numbers), and how targets stand.

    With `targets`, one row of items a user, the area under the curve is measured as well: the share of pairs (target,
    other item that the user does not know) in the right order, an equal pair counting `tie`. There the items that
    nobody chose stand below all others and are equal.
    """

    n: int
    candidates: NDArray[np.int32]
    exclude_seen: bool = True
    targets: Histories | None = None
    tie: float = 0.5


@dataclass(frozen=True, eq=False)
class RankedBlock:
    """Lists of consecutive people, best first: items and scores (people × n), how many are filled, and areas."""

    items: NDArray[np.int32]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    areas: NDArray[np.float64] | None = None

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which places of the lists are taken."""
        out: NDArray[np.bool_] = np.arange(self.items.shape[1]) < self.counts[:, None]
        return out


def users_per_block(items: int) -> int:
    """How many people to score together: many enough to share rows of the matrix, few enough for the cache.

    >>> users_per_block(3706), users_per_block(400_000)
    (64, 1)
    """
    return int(np.clip(_STRIP_BYTES // (8 * max(items, 1)), 1, _MOST_USERS))


def rank_block(
    score: Callable[[Histories], NDArray[np.float64]],
    histories: Histories,
    question: RankingRequest,
    first: int,
    chosen: int,
) -> RankedBlock:
    """Score a block of users, the first of whom is user `first` of the question, and rank.

    Items from number `chosen` on are those that nobody chose.
    """
    from komd._core.auc import area_under_curve
    from komd._core.top_n import push_top, sort_top, veil

    scores, known = score(histories), histories.known_items
    if question.exclude_seen:
        veil(known.indptr, known.indices, scores)
    people, n = len(histories), min(question.n, len(question.candidates))
    items, values, counts = np.empty((people, n), np.int32), np.empty((people, n)), np.zeros(people, np.int64)
    if n:
        push_top(scores, question.candidates, 0, items, values, counts)
        sort_top(items, values, counts)
    areas = None
    if question.targets is not None:
        if not question.exclude_seen:
            veil(known.indptr, known.indices, scores)
        tested = question.targets.block(first, first + people)
        areas = np.empty(people)
        area_under_curve(scores, chosen, tested.indptr, tested.indices, question.tie, areas)  # spoils the scores
    return RankedBlock(items, values, counts, areas)
