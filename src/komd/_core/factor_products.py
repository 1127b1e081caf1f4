"""The low-rank correction W W' of a matrix: of scores and of single entries; and products of a matrix with vectors.

All products with rows of W are computed by `row_products`, whose sums do not depend on what is computed beside them: an
answer is the same to the last bit, however the work is divided.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.groups import Rows
from komd._core.row_products import SIDE, row_products

__all__ = ["multiply_rows", "project", "subtract_products", "subtract_squares", "subtract_targets"]

_TILE = 64  # rows of W that are used together: they stay in the cache
_CACHED = 1 << 19  # bytes of X that are used together, likewise


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
def subtract_products(A: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
    """Subtract A[u] · W[j] from out[u, j]. Twin: out - A @ W.T."""
    users, items = out.shape
    found = np.empty(SIDE * SIDE, np.float32)
    for start in range(0, items, _TILE):
        end = min(start + _TILE, items)
        for u in range(0, users, SIDE):
            for j in range(start, end, SIDE):
                row_products(A, _four(u, users), W, _four(j, items), found)
                if u + SIDE <= users and j + SIDE <= end:
                    for x in range(SIDE):
                        for y in range(SIDE):
                            out[u + x, j + y] -= found[SIDE * x + y]
                else:
                    for x in range(min(SIDE, users - u)):
                        for y in range(min(SIDE, end - j)):
                            out[u + x, j + y] -= found[SIDE * x + y]


@compiled
def subtract_targets(W: np.ndarray, projected: np.ndarray, targets: Rows, scores: np.ndarray) -> None:
    """Subtract projected[u] · W[j] from the score of each target j of user u; same bits as `subtract_products`."""
    found = np.empty(SIDE * SIDE, np.float32)
    for u in range(projected.shape[0]):
        end = targets.indptr[u + 1]
        for p in range(targets.indptr[u], end, SIDE):
            row_products(projected, (u, u, u, u), W, _items(targets.indices, _four(p, end)), found)
            for y in range(min(SIDE, end - p)):
                scores[p + y] -= found[y]


@compiled
def subtract_squares(W: np.ndarray, added: int, rows: Rows, starts: np.ndarray, blocks: np.ndarray) -> None:
    """Subtract W[i] · W[j] for each user's items i and j, where `blocks` holds the entries between them.

    The last `added` factors are added instead. A user's entries are stored row by row from `starts[u]`; rows may be
    longer than needed, up to the next user's `starts`.
    """
    factors = W.shape[1]
    tile = np.empty((_TILE, factors), np.float32)
    found = np.empty(SIDE * SIDE, np.float32)
    for u in range(rows.indptr.shape[0] - 1):
        h = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        m_u = h.shape[0]
        stride = (starts[u + 1] - starts[u]) // max(m_u, 1)
        for start in range(0, m_u, _TILE):
            end = min(start + _TILE, m_u)
            for j in range(start, end):
                row = tile[j - start]
                row[:] = W[h[j]]
                for k in range(factors - added, factors):
                    row[k] = -row[k]
            for i in range(0, end, SIDE):
                for j in range(max(start, i), end, SIDE):  # by symmetry, half of the products
                    row_products(W, _items(h, _four(i, m_u)), tile, _four(j - start, end - start), found)
                    for x in range(i, min(i + SIDE, m_u)):
                        for y in range(j, min(j + SIDE, end)):
                            value = found[SIDE * (x - i) + y - j]
                            blocks[starts[u] + x * stride + y] -= value
                            if i < j:
                                blocks[starts[u] + y * stride + x] -= value


@inner
def _four(first: int, end: int) -> tuple[int, int, int, int]:
    """The numbers first .. first + 3, those from `end` on replaced by the last."""
    last = end - 1
    return first, min(first + 1, last), min(first + 2, last), min(first + 3, last)


@inner
def _items(items: np.ndarray, places: tuple[int, int, int, int]) -> tuple[np.int64, ...]:
    """The items at these places."""
    a, b, c, d = places
    return np.int64(items[a]), np.int64(items[b]), np.int64(items[c]), np.int64(items[d])


@compiled
def multiply_rows(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, X: np.ndarray, out: np.ndarray) -> None:
    """out[i] = sum over the entries (i, j) of these compressed rows of value · X[j], j ascending.

    All rows use one part of X, which stays in the cache, before the next part.
    """
    rows, (items, width) = indptr.shape[0] - 1, X.shape
    at = indptr[:-1].copy()
    out[:, :] = np.float32(0.0)
    step = max(1, _CACHED // (4 * max(width, 1)))
    for first in range(0, items, step):
        stop = first + step
        for i in range(rows):
            line, p, end = out[i], at[i], indptr[i + 1]
            while p + 4 <= end and indices[p + 3] < stop:  # four at a time: a quarter of the loads and stores of `line`
                v0 = values[p]
                v1 = values[p + 1]
                v2 = values[p + 2]
                v3 = values[p + 3]
                r0 = X[indices[p]]
                r1 = X[indices[p + 1]]
                r2 = X[indices[p + 2]]
                r3 = X[indices[p + 3]]
                for k in range(width):
                    x = line[k]
                    x += v0 * r0[k]
                    x += v1 * r1[k]
                    x += v2 * r2[k]
                    x += v3 * r3[k]
                    line[k] = x
                p += 4
            while p < end and indices[p] < stop:
                v0 = values[p]
                r0 = X[indices[p]]
                for k in range(width):
                    line[k] += v0 * r0[k]
                p += 1
            at[i] = p
