"""From scores to lists: the one way in which a block of people is ranked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from komd.models.histories import Histories

__all__ = ["best_of_block", "rank_block", "users_per_block"]

_STRIP_BYTES = 2 << 20  # of scores held at a time: stays in the cache between scoring and ranking
_MOST_USERS = 64


def users_per_block(items: int) -> int:
    """How many people to score together: many enough to share rows of the matrix, few enough for the cache.

    >>> users_per_block(3706), users_per_block(400_000)
    (64, 1)
    """
    return int(np.clip(_STRIP_BYTES // (8 * max(items, 1)), 1, _MOST_USERS))


def rank_block(
    scores: NDArray[np.float64], candidates: NDArray[np.int32], n: int
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
    """The n best candidates of each row: (items, scores, counts), people × n; equal scores by lower number."""
    from komd._core.topn import merge_top

    n = min(n, len(candidates))
    items = np.empty((len(scores), n), np.int32)
    values = np.empty((len(scores), n))
    counts = np.zeros(len(scores), np.int64)
    if n:
        merge_top(scores, candidates, 0, items, values, counts)
    return items, values, counts


def best_of_block(
    score: Callable[[Histories], NDArray[np.float64]],
    histories: Histories,
    candidates: NDArray[np.int32],
    n: int,
    exclude_seen: bool,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
    """Score a block of people and rank: ragged items and scores one after another, and how many each person got."""
    from komd._core.topn import veil

    scores = score(histories)
    if exclude_seen:
        veil(histories.indptr, histories.indices, scores)
    items, values, counts = rank_block(scores, candidates, n)
    filled = np.arange(items.shape[1]) < counts[:, None]
    return items[filled], values[filled], counts
