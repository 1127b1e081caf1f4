"""What a matrix loses to its low-rank part W W': of scores, and of single entries; and products of it with vectors.

Sums over the factors are taken one after another, in single precision, whatever people or items they are taken for
together: an answer does not depend, to the last bit, on how the work was cut. W is transposed a few items at a time, so
that the innermost loops run over neighbours in memory.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner

__all__ = ["multiply_rows", "project", "take_squares", "take_targets", "taken_scores"]


@compiled
def project(
    W: np.ndarray, indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, sums: np.ndarray, out: np.ndarray
) -> None:
    """out[u] = sum over u's items i of weights_i W[i]: where a person stands among the factors. `sums` is scratch."""
    for u in range(indptr.shape[0] - 1):
        sums[:] = 0.0
        for p in range(indptr[u], indptr[u + 1]):
            w = weights[p]
            row = W[indices[p]]
            for k in range(row.shape[0]):
                sums[k] += w * row[k]
        for k in range(sums.shape[0]):
            out[u, k] = sums[k]


@compiled
def taken_scores(W: np.ndarray, people: np.ndarray, tile: np.ndarray, out: np.ndarray) -> None:
    """out[u, j] = people[u] · W[j]. `tile` is scratch, factors x some items. Twin: people @ W.T."""
    for start in range(0, W.shape[0], tile.shape[1]):
        width = min(tile.shape[1], W.shape[0] - start)
        for j in range(width):
            _turn(W[start + j], tile, j)
        for u in range(people.shape[0]):
            _products(people[u], tile, out[u, start : start + width])


@compiled
def take_targets(
    W: np.ndarray,
    people: np.ndarray,
    indptr: np.ndarray,
    targets: np.ndarray,
    tile: np.ndarray,
    line: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Subtract people[u] · W[j] from the scores of each person's targets j, to the last bit as `taken_scores` has it.

    `tile` and `line` are scratch: factors x some items, and a number for each of these.
    """
    for u in range(people.shape[0]):
        for start in range(indptr[u], indptr[u + 1], tile.shape[1]):
            width = min(tile.shape[1], indptr[u + 1] - start)
            for j in range(width):
                _turn(W[targets[start + j]], tile, j)
            _products(people[u], tile, line[:width])
            for j in range(width):
                scores[start + j] -= line[j]


@compiled
def take_squares(
    W: np.ndarray,
    added: int,
    indptr: np.ndarray,
    indices: np.ndarray,
    starts: np.ndarray,
    tile: np.ndarray,
    line: np.ndarray,
    blocks: np.ndarray,
) -> None:
    """Subtract W[i] · W[j] for each person's items i and j, where `blocks` holds the entries between them.

    The last `added` factors are added instead.
    A person's entries stand row by row from `starts[u]`; rows may go on with others, up to the `starts` of the next
    person. Scratch as above.
    """
    for u in range(indptr.shape[0] - 1):
        h = indices[indptr[u] : indptr[u + 1]]
        m_u = h.shape[0]
        if m_u == 0:
            continue
        stride = (starts[u + 1] - starts[u]) // m_u
        for start in range(0, m_u, tile.shape[1]):
            width = min(tile.shape[1], m_u - start)
            for j in range(width):
                _turn(W[h[start + j]], tile, j)
            for k in range(W.shape[1] - added, W.shape[1]):
                for j in range(width):
                    tile[k, j] = -tile[k, j]
            for x in range(m_u):
                _products(W[h[x]], tile, line[:width])
                at = starts[u] + x * stride + start
                for j in range(width):
                    blocks[at + j] -= line[j]


@inner
def _turn(row: np.ndarray, tile: np.ndarray, j: int) -> None:
    """Column j of the tile is this row."""
    for k in range(row.shape[0]):
        tile[k, j] = row[k]


@inner
def _products(q: np.ndarray, tile: np.ndarray, out: np.ndarray) -> None:
    """out[j] = sum over k of q[k] tile[k, j], from the first k to the last."""
    width = out.shape[0]
    for j in range(width):
        out[j] = np.float32(0.0)
    k = 0
    while k + 4 <= q.shape[0]:  # four at a time: a quarter of the loads and stores of `out`
        q0 = q[k]
        q1 = q[k + 1]
        q2 = q[k + 2]
        q3 = q[k + 3]
        t0 = tile[k]
        t1 = tile[k + 1]
        t2 = tile[k + 2]
        t3 = tile[k + 3]
        for j in range(width):
            x = out[j]
            x += q0 * t0[j]
            x += q1 * t1[j]
            x += q2 * t2[j]
            x += q3 * t3[j]
            out[j] = x
        k += 4
    while k < q.shape[0]:
        q0 = q[k]
        t0 = tile[k]
        for j in range(width):
            out[j] += q0 * t0[j]
        k += 1


@compiled
def multiply_rows(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, X: np.ndarray, out: np.ndarray) -> None:
    """out[i] = sum over the entries (i, j) of these compressed rows of value · X[j]."""
    for i in range(indptr.shape[0] - 1):
        line = out[i]
        line[:] = np.float32(0.0)
        for p in range(indptr[i], indptr[i + 1]):
            v = values[p]
            row = X[indices[p]]
            for k in range(row.shape[0]):
                line[k] += v * row[k]
