"""CF-KOMD's weights of many users: each one's small matrix K_u gathered, the problem on it solved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.factor_products import subtract_squares
from komd._core.groups import OwnEntries, Rows, StoredMatrix
from komd._core.simplex import (
    EASY_STEPS,
    FLOOR,
    ROUNDS,
    G,
    Q,
    SimplexScratch,
    move_weight,
    simplex_scratch,
    solve_shrinking,
    worst_pair,
)

__all__ = [
    "MarginProblem",
    "Solved",
    "SolverScratch",
    "gather_row",
    "gather_squares",
    "own_corrected",
    "solve_users",
    "solver_scratch",
]

_GATHERED = 4096  # longest history whose K_u is gathered from a stored matrix: 134 MB of scratch for each thread


class MarginProblem(NamedTuple):
    """What is the same for all users: S, how the negatives count, λ, and the KKT gap to reach.

    `theta` is the weight of the negatives: of all others than the user's own items if `exact`, else of all items.
    """

    S: NDArray[np.float64]
    exact: bool
    theta: float
    lam: float
    tol: float


class Solved(NamedTuple):
    """Weights, aligned with the users' items; an offset and a KKT gap for each user."""

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    gaps: NDArray[np.float64]


class SolverScratch(NamedTuple):
    """Buffers of one thread."""

    K_u: NDArray[np.float32]
    pair: NDArray[np.float32]
    simplex: SimplexScratch


def solver_scratch(own: OwnEntries, longest: int) -> SolverScratch:
    """Scratch for users of at most so many items. Of a stored matrix, larger K_u are gathered row by row."""
    side = longest if own.blocks.size else min(longest, _GATHERED)
    K_u, pair = np.empty(side**2, np.float32), np.empty((2, longest), np.float32)
    return SolverScratch(K_u, pair, simplex_scratch(longest, side))


def own_corrected(own: OwnEntries, rows: Rows) -> OwnEntries:
    """The entries of these users, gathered from a stored matrix that has a correction; others as they are."""
    if own.blocks.size or not own.W.size:
        return own
    starts = np.append(0, np.cumsum(np.diff(rows.indptr) ** 2))
    blocks = np.empty(starts[-1], np.float32)
    gather_squares(own.stored, rows, starts, blocks)
    subtract_squares(own.W, own.added, rows, starts, blocks)
    return own._replace(blocks=blocks, starts=starts)


@compiled
def gather_squares(K: StoredMatrix, rows: Rows, starts: np.ndarray, blocks: np.ndarray) -> None:
    """K between each user's own items, without the correction, row by row from `starts[u]` of `blocks`."""
    for u in range(rows.indptr.shape[0] - 1):
        h = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        for i in range(h.shape[0]):
            at = starts[u] + i * h.shape[0]
            gather_row(K, h, i, blocks[at : at + h.shape[0]])


@compiled
def solve_users(
    K: StoredMatrix,
    blocks: np.ndarray,
    starts: np.ndarray,
    problem: MarginProblem,
    rows: Rows,
    out: Solved,
    scratch: SolverScratch,
) -> int:
    """The weights of a block of users, in the form that scoring takes (docs/guide/maths.md, "One scorer").

    K between their own items is gathered from K, or stands in `blocks` already: see `OwnEntries`.

    With exact negatives the weight of item i is alpha_i + theta/m_u- and the offset theta/m_u-; else alpha_i and
    theta/m. Returns the number of users whose gap stayed above `tol`.
    """
    m = problem.S.shape[0]
    side = int(np.sqrt(scratch.K_u.shape[0]))
    lam, tol = problem.lam, problem.tol
    unsolved = 0
    for u in range(rows.indptr.shape[0] - 1):
        h = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        alpha = out.weights[rows.indptr[u] : rows.indptr[u + 1]]
        m_u = h.shape[0]
        out.gaps[u] = 0.0
        out.offsets[u] = 0.0
        if m_u == 0:
            continue
        lines = scratch.simplex.lines
        g, q, floor = lines[G, :m_u], lines[Q, :m_u], lines[FLOOR, :m_u]
        if m_u <= side:
            K_u = scratch.K_u[: m_u * m_u].reshape(m_u, m_u)
            stride = (starts[u + 1] - starts[u]) // m_u if blocks.shape[0] > 0 else 0
            for i in range(m_u):  # to the last bit the same from blocks and from a matrix
                if stride > 0:
                    for k in range(m_u):
                        K_u[i, k] = blocks[starts[u] + i * stride + k]
                    g[i] = row_total(K_u[i])
                else:
                    g[i] = gather_row(K, h, i, K_u[i])
            _begin(problem, h, q, g, alpha)
            solve_shrinking(K_u, q, g, lam, alpha, tol, scratch.simplex)
            low, high = worst_pair(g, alpha, floor)
        else:
            low_row, high_row = scratch.pair[0, :m_u], scratch.pair[1, :m_u]
            for i in range(m_u):
                g[i] = gather_row(K, h, i, low_row)
            _begin(problem, h, q, g, alpha)
            low, high = worst_pair(g, alpha, floor)
            for _ in range(ROUNDS * EASY_STEPS * m_u):
                if g[high] - g[low] <= tol:
                    break
                gather_row(K, h, low, low_row)
                gather_row(K, h, high, high_row)
                low, high = move_weight(low_row, high_row, low, high, g, lam, alpha, floor)
        out.gaps[u] = g[high] - g[low]
        unsolved += out.gaps[u] > tol
        out.offsets[u] = _as_scored(problem.exact, problem.theta, m, alpha)
    return unsolved


@compiled
def gather_row(K: StoredMatrix, h: np.ndarray, x: int, out: np.ndarray) -> float:
    """out = K[h[x], h], without the correction, for one user's sorted items h; returns its sum."""
    m_u = h.shape[0]
    whole = m_u - m_u % 4
    s0 = 0.0
    s1 = 0.0  # four sums: one alone would wait for itself at every addition
    s2 = 0.0
    s3 = 0.0
    if K.dense.shape[0] > 0:
        row = K.dense[np.uint32(h[x])]
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
    low = K.indptr[h[x]]
    end = K.indptr[h[x] + 1]
    for y in range(m_u):
        high = end
        wanted = h[y]
        while low < high:  # first place whose column is not below the wanted one
            middle = (low + high) >> 1
            if K.indices[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        out[y] = K.values[low] if low < end and K.indices[low] == wanted else np.float32(0.0)
    return row_total(out[:m_u])


@inner
def row_total(row: np.ndarray) -> float:
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


@inner
def _begin(problem: MarginProblem, h: np.ndarray, q: np.ndarray, g: np.ndarray, alpha: np.ndarray) -> None:
    """Even weights, q and the first gradient of the user with items h; `g` arrives as the sums of the rows of K_u."""
    S, exact, theta, lam = problem.S, problem.exact, problem.theta, problem.lam
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
    """Change alpha into the weights that scoring takes; returns the offset that belongs to them."""
    if not exact:
        return theta / m
    negatives = m - alpha.shape[0]
    if negatives == 0:
        return 0.0
    for i in range(alpha.shape[0]):
        alpha[i] += theta / negatives
    offset: float = theta / negatives
    return offset
