"""The weights of many people: each one's small matrix gathered, their problem solved."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.simplex import EASY_STEPS, ROUNDS, move_weight, solve_shrinking, worst_pair

__all__ = ["gather_row", "gather_squares", "solve_gathered", "solve_users"]


@compiled
def gather_row(
    dense: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    h: np.ndarray,
    x: int,
    out: np.ndarray,
) -> float:
    """out = K[h[x], h] for one user's sorted items h; returns its sum. K is dense, or sorted compressed rows."""
    m_u = h.shape[0]
    whole = m_u - m_u % 4
    s0 = 0.0
    s1 = 0.0  # four sums: one alone would wait for itself at every addition
    s2 = 0.0
    s3 = 0.0
    if dense.shape[0] > 0:
        row = dense[np.uint32(h[x])]
        for y in range(0, whole, 4):
            v0 = row[np.uint32(h[y])]
            v1 = row[np.uint32(h[y + 1])]
            v2 = row[np.uint32(h[y + 2])]
            v3 = row[np.uint32(h[y + 3])]
            out[y] = v0
            out[y + 1] = v1
            out[y + 2] = v2
            out[y + 3] = v3
            s0 += v0
            s1 += v1
            s2 += v2
            s3 += v3
        for y in range(whole, m_u):
            v0 = row[np.uint32(h[y])]
            out[y] = v0
            s0 += v0
        return (s0 + s1) + (s2 + s3)
    low = indptr[h[x]]
    end = indptr[h[x] + 1]
    for y in range(m_u):
        high = end
        wanted = h[y]
        while low < high:  # first place whose column is not below the wanted one
            middle = (low + high) >> 1
            if indices[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        out[y] = values[low] if low < end and indices[low] == wanted else np.float32(0.0)
    return _total(out[:m_u])


@compiled
def gather_squares(
    dense: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    history_indptr: np.ndarray,
    history: np.ndarray,
    starts: np.ndarray,
    blocks: np.ndarray,
) -> None:
    """K between each user's own items, row by row from `starts[u]` of `blocks`."""
    for u in range(history_indptr.shape[0] - 1):
        h = history[history_indptr[u] : history_indptr[u + 1]]
        for i in range(h.shape[0]):
            at = starts[u] + i * h.shape[0]
            gather_row(dense, indptr, indices, values, h, i, blocks[at : at + h.shape[0]])


@inner
def _total(row: np.ndarray) -> float:
    """The sum of a row, to the last bit as `gather_row` takes it."""
    whole = row.shape[0] - row.shape[0] % 4
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    for y in range(0, whole, 4):
        s0 += row[y]
        s1 += row[y + 1]
        s2 += row[y + 2]
        s3 += row[y + 3]
    for y in range(whole, row.shape[0]):
        s0 += row[y]
    total: float = (s0 + s1) + (s2 + s3)
    return total


@compiled
def solve_users(
    dense: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    S: np.ndarray,
    exact: bool,
    theta: float,
    lam: float,
    tol: float,
    history_indptr: np.ndarray,
    history: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    gaps: np.ndarray,
    squares: np.ndarray,
    lines: np.ndarray,
    rows: np.ndarray,
    kept: np.ndarray,
) -> int:
    """CF-KOMD's weights for a block of users, in the form the scorer takes (docs/guide/maths.md, "One scorer").

    K is `dense`, or compressed rows when `dense` is empty. `theta` is how much the negatives count. With `exact` ones
    the weight of item i is alpha_i + theta/m_u- and the offset theta/m_u-; else alpha_i and theta/m. `gaps` gets each
    user's KKT gap.
    Scratch for the largest m_u of the block: `lines` (9, m_u) float64, `rows` (2, m_u) float32, `kept` (m_u) int32; and
    `squares` (2, side * side) float32: K_u is gathered whole up to m_u = side, else row by row as steps need it.
    Returns the number of users whose gap stayed above `tol`.
    """
    m = S.shape[0]
    side = int(np.sqrt(squares.shape[1]))
    unsolved = 0
    for u in range(history_indptr.shape[0] - 1):
        h = history[history_indptr[u] : history_indptr[u + 1]]
        alpha = weights[history_indptr[u] : history_indptr[u + 1]]
        m_u = h.shape[0]
        gaps[u] = 0.0
        offsets[u] = 0.0
        if m_u == 0:
            continue
        whole = m_u <= side
        K_u = squares[0, : m_u * m_u].reshape(m_u, m_u) if whole else rows
        g, q = lines[0, :m_u], lines[1, :m_u]
        for i in range(m_u):
            g[i] = gather_row(dense, indptr, indices, values, h, i, K_u[i if whole else 0])
        _begin(S, exact, theta, lam, h, q, g, alpha)
        if whole:
            solve_shrinking(K_u, q, g, lam, alpha, tol, kept, squares[1], lines[2:])
            low, high = worst_pair(g, alpha, lines[8])
        else:
            floor = lines[8, :m_u]
            low, high = worst_pair(g, alpha, floor)
            for _ in range(ROUNDS * EASY_STEPS * m_u):
                if g[high] - g[low] <= tol:
                    break
                gather_row(dense, indptr, indices, values, h, low, rows[0])
                gather_row(dense, indptr, indices, values, h, high, rows[1])
                low, high = move_weight(rows[0, :m_u], rows[1, :m_u], low, high, g, lam, alpha, floor)
        gaps[u] = g[high] - g[low]
        unsolved += gaps[u] > tol
        offsets[u] = _as_scored(exact, theta, m, alpha)
    return unsolved


@compiled
def solve_gathered(
    blocks: np.ndarray,
    starts: np.ndarray,
    S: np.ndarray,
    exact: bool,
    theta: float,
    lam: float,
    tol: float,
    history_indptr: np.ndarray,
    history: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    gaps: np.ndarray,
    squares: np.ndarray,
    lines: np.ndarray,
    kept: np.ndarray,
) -> int:
    """The same, to the last bit, where each user's K_u has been gathered before.

    It stands row by row from `starts[u]` of `blocks`, where every row goes on with entries that are not needed here, up
    to the `starts` of the next user.
    """
    unsolved = 0
    for u in range(history_indptr.shape[0] - 1):
        h = history[history_indptr[u] : history_indptr[u + 1]]
        alpha = weights[history_indptr[u] : history_indptr[u + 1]]
        m_u = h.shape[0]
        gaps[u] = 0.0
        offsets[u] = 0.0
        if m_u == 0:
            continue
        K_u = squares[0, : m_u * m_u].reshape(m_u, m_u)
        g, q = lines[0, :m_u], lines[1, :m_u]
        stride = (starts[u + 1] - starts[u]) // m_u
        for i in range(m_u):
            at = starts[u] + i * stride
            K_u[i] = blocks[at : at + m_u]
            g[i] = _total(K_u[i])
        _begin(S, exact, theta, lam, h, q, g, alpha)
        solve_shrinking(K_u, q, g, lam, alpha, tol, kept, squares[1], lines[2:])
        low, high = worst_pair(g, alpha, lines[8])
        gaps[u] = g[high] - g[low]
        unsolved += gaps[u] > tol
        offsets[u] = _as_scored(exact, theta, S.shape[0], alpha)
    return unsolved


@inner
def _begin(
    S: np.ndarray,
    exact: bool,
    theta: float,
    lam: float,
    h: np.ndarray,
    q: np.ndarray,
    g: np.ndarray,
    alpha: np.ndarray,
) -> None:
    """Even weights, q and the first gradient of the user with items h; `g` arrives as the sums of the rows of K_u."""
    m = S.shape[0]
    m_u = h.shape[0]
    negatives = m - m_u
    for i in range(m_u):
        if not exact:
            q[i] = S[h[i]] / m
        elif negatives > 0:
            q[i] = (S[h[i]] - g[i]) / negatives
        else:
            q[i] = 0.0
        q[i] *= theta
        alpha[i] = 1.0 / m_u
        g[i] = (g[i] + lam) / m_u - q[i]


@inner
def _as_scored(exact: bool, theta: float, m: int, alpha: np.ndarray) -> float:
    """Turn alpha into the weights that the scorer takes; returns the offset that belongs to them."""
    if not exact:
        return theta / m
    negatives = m - alpha.shape[0]
    if negatives == 0:
        return 0.0
    for i in range(alpha.shape[0]):
        alpha[i] += theta / negatives
    offset: float = theta / negatives
    return offset
