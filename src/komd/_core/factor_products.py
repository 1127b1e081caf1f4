"""The low-rank correction W W' of a matrix: of scores and of single entries; and products of a matrix with vectors.

Sums over the factors are taken one after another, in single precision, whatever users or items they are taken for
together: an answer does not depend, to the last bit, on how the work was cut. W is transposed a few items at a time, so
that the innermost loops run over neighbours in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.groups import Rows

__all__ = [
    "Tile",
    "factor_products",
    "multiply_rows",
    "project",
    "subtract_squares",
    "subtract_targets",
    "tile_for",
]

_TILE = 64  # items whose factors are transposed at a time


class Tile(NamedTuple):
    """Scratch of one thread: the factors of some items (factors × items), and a number for each of these items."""

    factors: NDArray[np.float32]
    line: NDArray[np.float32]


def tile_for(factors: int) -> Tile:
    """Scratch for so many factors."""
    return Tile(np.empty((factors, _TILE), np.float32), np.empty(_TILE, np.float32))


@compiled
def project(W: np.ndarray, rows: Rows, weights: np.ndarray, sums: np.ndarray, out: np.ndarray) -> None:
    """out[u] = the sum over u's items i of weights_i W[i]: the user's projection on the factors. `sums` is scratch."""
    for u in range(rows.indptr.shape[0] - 1):
        sums[:] = 0.0
        for p in range(rows.indptr[u], rows.indptr[u + 1]):
            w = weights[p]
            row = W[rows.indices[p]]
            for k in range(row.shape[0]):
                sums[k] += w * row[k]
        for k in range(sums.shape[0]):
            out[u, k] = sums[k]


@compiled
def factor_products(A: np.ndarray, W: np.ndarray, tile: Tile, out: np.ndarray) -> None:
    """out[u, j] = A[u] · W[j]. Twin: A @ W.T."""
    for start in range(0, W.shape[0], _TILE):
        width = min(_TILE, W.shape[0] - start)
        for j in range(width):
            _transpose(W[start + j], tile.factors, j)
        for u in range(A.shape[0]):
            _products(A[u], tile.factors, out[u, start : start + width])


@compiled
def subtract_targets(W: np.ndarray, projected: np.ndarray, targets: Rows, tile: Tile, scores: np.ndarray) -> None:
    """Subtract projected[u] · W[j] from the score of each target j of user u, to the last bit as `factor_products`."""
    for u in range(projected.shape[0]):
        end = targets.indptr[u + 1]
        for start in range(targets.indptr[u], end, _TILE):
            width = min(_TILE, end - start)
            for j in range(width):
                _transpose(W[targets.indices[start + j]], tile.factors, j)
            _products(projected[u], tile.factors, tile.line[:width])
            for j in range(width):
                scores[start + j] -= tile.line[j]


@compiled
def subtract_squares(W: np.ndarray, added: int, rows: Rows, starts: np.ndarray, tile: Tile, blocks: np.ndarray) -> None:
    """Subtract W[i] · W[j] for each user's items i and j, where `blocks` holds the entries between them.

    The last `added` factors are added instead. A user's entries stand row by row from `starts[u]`; rows may go on with
    others, up to the `starts` of the next user.
    """
    for u in range(rows.indptr.shape[0] - 1):
        h = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        m_u = h.shape[0]
        stride = (starts[u + 1] - starts[u]) // max(m_u, 1)
        for start in range(0, m_u, _TILE):
            width = min(_TILE, m_u - start)
            for j in range(width):
                _transpose(W[h[start + j]], tile.factors, j)
            for k in range(W.shape[1] - added, W.shape[1]):
                for j in range(width):
                    tile.factors[k, j] = -tile.factors[k, j]
            for x in range(m_u):
                _products(W[h[x]], tile.factors, tile.line[:width])
                at = starts[u] + x * stride + start
                for j in range(width):
                    blocks[at + j] -= tile.line[j]


@inner
def _transpose(row: np.ndarray, tile: np.ndarray, j: int) -> None:
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
