"""Scores of a regression between items that is held as an inverse between users: `matrix/dual.py` says what it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled
from komd._core.groups import DualArrays, WeightedUsers

__all__ = ["DualScratch", "dual_scratch", "quadratic_forms", "score_dual"]


class DualScratch(NamedTuple):
    """Buffers of one thread: a number for each user of Q."""

    z: NDArray[np.float64]
    y: NDArray[np.float64]


def dual_scratch(users: int) -> DualScratch:
    """Scratch buffers for `score_dual`."""
    return DualScratch(np.empty(users), np.empty(users))


@compiled
def quadratic_forms(indptr: np.ndarray, users: np.ndarray, Q: np.ndarray, out: np.ndarray) -> None:
    """out[j] = (X' Q X)[j, j]: the sum of Q over all pairs of item j's users. Twin: tests/_core/test_dual_scores.py."""
    for j in range(indptr.shape[0] - 1):
        mine = users[indptr[j] : indptr[j + 1]]
        total = 0.0
        for a in range(mine.shape[0]):
            row = Q[mine[a]]
            for b in range(mine.shape[0]):
                total += row[mine[b]]
        out[j] = total


@compiled
def score_dual(dual: DualArrays, S: np.ndarray, users: WeightedUsers, scratch: DualScratch, scores: np.ndarray) -> None:
    """scores[u, j] = sum over u's items i of weights_i B[i, j], minus offsets_u S_j.

    z_v is the sum of the weights of u's items over the training users v who have them, y = Q z, and an item's score is
    the sum of y over its users. Users are scored one at a time, in a fixed order: the same bits in any block.
    Twin: tests/_core/test_dual_scores.py.
    """
    indptr, Q = dual.indptr, dual.Q
    z, y = scratch.z, scratch.y
    for u in range(users.indptr.shape[0] - 1):
        z[:] = 0.0
        y[:] = 0.0
        for p in range(users.indptr[u], users.indptr[u + 1]):
            i = users.indices[p]
            w = users.weights[p] * dual.left[i]
            for k in range(indptr[i], indptr[i + 1]):
                z[dual.users[k]] += w
        for v in range(z.shape[0]):
            weight = z[v]
            if weight != 0.0:
                row = Q[v]
                for k in range(row.shape[0]):
                    y[k] += weight * row[k]
        offset = users.offsets[u]
        for j in range(scores.shape[1]):
            total = 0.0
            for k in range(indptr[j], indptr[j + 1]):
                total += y[dual.users[k]]
            scores[u, j] = -offset * S[j] + dual.right[j] * total
        for p in range(users.indptr[u], users.indptr[u + 1]):
            i = users.indices[p]
            scores[u, i] -= users.weights[p] * dual.own[i]
