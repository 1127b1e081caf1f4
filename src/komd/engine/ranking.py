"""The ranking engine: users' histories and a request in, blocks of lists and areas out.

`Recommender.ranked_blocks` is the entry point, for `recommend`, `recommend_to`, `evaluate`, `serve`, `spark` and
`tune`. A model that can score a block of users is ranked here; `streamed_ranking.py` ranks where the item-item matrix
does not fit the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import TieRule
from komd.engine.histories import Histories

__all__ = ["TIES_HALF", "RankedBlock", "RankingRequest", "Score", "rank_blocks", "users_per_block"]

_STRIP_BYTES = 2 << 20  # bytes of scores held at a time: they stay in the cache between scoring and ranking
_MOST_USERS = 64
_SHARES = 4  # blocks of users per thread, if blocks are not too small: with fewer, threads would lack work

TIES_HALF = TieRule(0.5, np.zeros(0, np.int32))

Score = Callable[[Histories], NDArray[np.float64]]
"""Scores (users × items) of a block of users."""


@dataclass(frozen=True, eq=False)
class RankingRequest:
    """What is asked about users: their `n` best of these candidates (ascending numbers), and where targets rank.

    With `targets`, one row of items for each user, the area under the curve is measured as well: the share of pairs
    (target, other item that the user does not know) in the right order, equal pairs counting by `ties`. For this,
    items that nobody chose rank below all others and are equal.
    """

    n: int
    candidates: NDArray[np.int32]
    exclude_seen: bool = True
    targets: Histories | None = None
    ties: TieRule = TIES_HALF

    @property
    def length(self) -> int:
        """The length of a list, at most."""
        return min(self.n, len(self.candidates))


@dataclass(frozen=True, eq=False)
class RankedBlock:
    """Lists of consecutive users, best first: items and scores (users × n), how many are filled, and areas."""

    items: NDArray[np.int32]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    areas: NDArray[np.float64] | None = None

    @staticmethod
    def empty(users: int, length: int) -> RankedBlock:
        """Empty lists, to be filled."""
        return RankedBlock(
            np.empty((users, length), np.int32), np.empty((users, length)), np.zeros(users, np.int64), np.zeros(users)
        )

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which places of the lists hold an item."""
        out: NDArray[np.bool_] = np.arange(self.items.shape[1]) < self.counts[:, None]
        return out


def users_per_block(items: int) -> int:
    """How many users to score together: many enough to share rows of the matrix, few enough for the cache.

    >>> users_per_block(3706), users_per_block(400_000)
    (64, 1)
    """
    return min(max(_STRIP_BYTES // (8 * max(items, 1)), 1), _MOST_USERS)


def rank_blocks(
    score: Score,
    rows: Histories,
    request: RankingRequest,
    chosen: int,
    block: int,
    *,
    threads: int | None = None,
    label: str = "",
) -> Iterator[RankedBlock]:
    """The answers for all these users, `block` of them at a time. Nobody chose the items from number `chosen` on."""
    block = min(block, max(_MOST_USERS, -(-len(rows) // (_SHARES * pool.count(threads)))))

    def answer(piece: tuple[int, int]) -> RankedBlock:
        histories = rows.block(*piece)
        return _ranked(score(histories), histories, request, piece[0], chosen)

    return pool.run(answer, pool.blocks(len(rows), block), threads=threads, label=label, size=lambda b: b[1] - b[0])


def _ranked(
    scores: NDArray[np.float64], histories: Histories, request: RankingRequest, first: int, chosen: int
) -> RankedBlock:
    """The lists and areas of a block of users, the first of whom is user `first` of the request."""
    from komd._core.auc import area_under_curve
    from komd._core.top_n import mask, push_top, sort_top

    known, out = histories.known_items.rows, RankedBlock.empty(len(histories), request.length)
    if request.exclude_seen:
        mask(known, scores)
    elif histories.dislikes is not None:
        mask(histories.dislikes.rows, scores)
    if request.length:
        push_top(scores, request.candidates, 0, out.items, out.scores, out.counts)
        sort_top(out.items, out.scores, out.counts)
    if request.targets is None:
        return RankedBlock(out.items, out.scores, out.counts)
    if not request.exclude_seen:
        mask(known, scores)
    tested = request.targets.block(first, first + len(histories))
    assert out.areas is not None
    area_under_curve(scores, chosen, tested.indptr, tested.indices, request.ties, out.areas)  # overwrites the scores
    return out
