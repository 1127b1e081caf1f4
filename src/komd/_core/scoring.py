"""Scores: weighted sums of rows of an item-item matrix, and a multiple of one global vector."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled
from komd._core.groups import StoredMatrix, WeightedUsers
from komd._core.row_sums import add_distant_rows

__all__ = ["score_dense", "score_sparse", "score_targets"]

_STRIP = 128  # columns worked on at a time: their rows of the matrix stay in the cache for all users of a block


@compiled
def score_dense(M: np.ndarray, S: np.ndarray, users: WeightedUsers, scores: np.ndarray) -> None:
    """scores[u, j] = sum over u's items i of weights_i M[i, j], minus offsets_u S_j. Twin: reference.py::scores."""
    m = M.shape[1]
    indptr = users.indptr
    for start in range(0, m, _STRIP):
        stop = min(start + _STRIP, m)
        width = stop - start
        S_strip = S[start:stop]
        for u in range(indptr.shape[0] - 1):
            out = scores[u, start:stop]
            offset = users.offsets[u]
            for j in range(width):
                out[j] = -offset * S_strip[j]
            mine = slice(indptr[u], indptr[u + 1])
            add_distant_rows(M, users.indices[mine], users.weights[mine], start, out)


@compiled
def score_sparse(M: StoredMatrix, S: np.ndarray, users: WeightedUsers, scores: np.ndarray) -> None:
    """The same as `score_dense` for the compressed rows of M: only entries that are stored are read."""
    for u in range(users.indptr.shape[0] - 1):
        out = scores[u]
        offset = users.offsets[u]
        for j in range(S.shape[0]):
            out[j] = -offset * S[j]
        for p in range(users.indptr[u], users.indptr[u + 1]):
            w = users.weights[p]
            i = users.indices[p]
            for k in range(M.indptr[i], M.indptr[i + 1]):
                out[np.uint32(M.indices[k])] += w * M.values[k]


@compiled
def score_targets(
    blocks: np.ndarray,
    starts: np.ndarray,
    skip: bool,
    S: np.ndarray,
    users: WeightedUsers,
    target_indptr: np.ndarray,
    targets: np.ndarray,
    scores: np.ndarray,
) -> None:
    """The scores of each user's targets, from K(i, t) gathered: to the last bit those of `score_strip`.

    The block of user u begins at `starts[u]` of `blocks`: a row for each item of the history, with a column for each
    target, after one for each item of the history if `skip`.
    """
    indptr = users.indptr
    for u in range(indptr.shape[0] - 1):
        first = target_indptr[u]
        out = scores[first : target_indptr[u + 1]]
        width = out.shape[0]
        offset = users.offsets[u]
        for k in range(width):
            out[k] = -offset * S[targets[first + k]]
        before = indptr[u + 1] - indptr[u] if skip else 0
        at = starts[u] + before
        for p in range(indptr[u], indptr[u + 1]):
            w = users.weights[p]
            line = blocks[at : at + width]
            for k in range(width):
                out[k] += w * line[k]
            at += before + width
