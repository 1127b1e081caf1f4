"""CF-KOMD's weights of many users: each one's small matrix K_u gathered, the problem on it solved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.factor_products import subtract_squares
from komd._core.groups import OwnEntries, Rows, StoredMatrix
from komd._core.simplex import (
    ALL_STEP,
    ALPHA,
    EASY_STEPS,
    FLOOR,
    LAM,
    ROUNDS,
    WIDTH,
    G,
    Lambda,
    Q,
    SimplexScratch,
    lam_at,
    lam_like,
    move_weight,
    simplex_scratch,
    solve_shrinking,
    worst_pair,
)
from komd._core.uneven_simplex import SPREAD, solve_uneven, step_together

__all__ = [
    "MarginProblem",
    "Solved",
    "SolverScratch",
    "gather_row",
    "gather_squares",
    "own_gathered",
    "solve_users",
    "solver_scratch",
]

_GATHERED = 4096  # longest history whose K_u is gathered from a stored matrix: 134 MB of scratch for each thread
_ROUNDING = 1e-15  # times λ: half gradients are of its size, and gaps below are rounding
_MOST = 1e300  # of λ_i


class MarginProblem(NamedTuple):
    """What is the same for all users: S, how the negatives count, λ, and the KKT gap to reach.

    `theta` is the weight of the negatives: of all others than the user's own items if `exact`, else of all items.
    `omega` is the weight of the mean of the user's dislikes.
    """

    S: NDArray[np.float64]
    exact: bool
    theta: float
    lam: float
    tol: float
    omega: float = 0.0


class Solved(NamedTuple):
    """Weights, aligned with the users' items; an offset and a KKT gap for each user."""

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    gaps: NDArray[np.float64]


class SolverScratch(NamedTuple):
    """Buffers of one thread."""

    K_u: NDArray[np.float32]
    pair: NDArray[np.float32]
    chosen: NDArray[np.int32]
    simplex: SimplexScratch


def solver_scratch(own: OwnEntries, longest: int) -> SolverScratch:
    """Scratch for users of at most so many items. Of a stored matrix, larger K_u are gathered row by row."""
    side = longest if own.blocks.size else min(longest, _GATHERED)
    K_u, pair = np.empty(side**2, np.float32), np.empty((2, longest), np.float32)
    return SolverScratch(K_u, pair, np.arange(longest, dtype=np.int32), simplex_scratch(longest, side))


def own_gathered(own: OwnEntries, rows: Rows, *, always: bool) -> OwnEntries:
    """The entries of these users, gathered from a stored matrix that has a correction, or `always`; others as they are.

    `solve_users` needs them gathered where rows hold dislikes.
    """
    if own.blocks.size or not (own.W.size or always):
        return own
    starts = np.append(0, np.cumsum(np.diff(rows.indptr) ** 2))
    blocks = np.empty(starts[-1], np.float32)
    gather_squares(own.stored, rows, starts, blocks)
    if own.W.size:
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
    h: np.ndarray | None,
    out: Solved,
    scratch: SolverScratch,
) -> int:
    """The weights of a block of users, in the form that scoring takes (docs/guide/maths.md, "One scorer").

    K between their own items is gathered from K, or stands in `blocks` already: see `OwnEntries`. `h` says how much
    each item counts: λ_i = λ / h_i. It is aligned with `rows`, or None: each counts 1. Below 0 an item is a dislike.

    With exact negatives the weight of item i is alpha_i + theta/m_u- and the offset theta/m_u-; else alpha_i and
    theta/m. The weight of a dislike is -omega over their number. Returns the number of users whose gap stayed above
    `tol`, or above the rounding of their gradients.
    """
    m = problem.S.shape[0]
    side = int(np.sqrt(scratch.K_u.shape[0]))
    lines = scratch.simplex.lines
    unsolved = 0
    for u in range(rows.indptr.shape[0] - 1):
        items = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        weights = out.weights[rows.indptr[u] : rows.indptr[u + 1]]
        if h is None:
            chosen = scratch.chosen[: items.shape[0]]  # all of them
        else:
            h_u = h[rows.indptr[u] : rows.indptr[u + 1]]
            chosen = scratch.chosen[: _list_chosen(h_u, scratch.chosen)]
        m_u = chosen.shape[0]
        disliked = items.shape[0] - m_u
        out.gaps[u] = 0.0
        out.offsets[u] = 0.0
        if m_u == 0:
            weights[:] = 0.0
            continue
        alpha = weights if disliked == 0 else lines[ALPHA, :m_u]
        g, q, floor = lines[G, :m_u], lines[Q, :m_u], lines[FLOOR, :m_u]
        lam = lam_like(h, problem.lam, lines[LAM, :m_u])
        least = problem.lam
        even, uneven = True, False
        if h is None:
            alpha[:] = 1.0 / m_u
        else:
            even = _start(problem.lam, h_u, chosen, lam, alpha)
            least = lam.min()
            uneven = lam.max() > SPREAD * least
        tol = max(problem.tol, _ROUNDING * least)
        if m_u <= side:
            K_u = scratch.K_u[: m_u * m_u].reshape(m_u, m_u)
            stride = (starts[u + 1] - starts[u]) // items.shape[0] if blocks.shape[0] > 0 else 0
            for i in range(m_u):  # to the last bit the same from blocks and from a matrix
                if stride > 0:
                    at = starts[u] + chosen[i] * stride
                    if disliked == 0:
                        for k in range(m_u):
                            K_u[i, k] = blocks[at + k]
                    else:
                        for k in range(m_u):
                            K_u[i, k] = blocks[at + chosen[k]]
                    q[i] = row_total(K_u[i])
                else:
                    q[i] = gather_row(K, items, i, K_u[i])
                g[i] = q[i] if even else _product(K_u[i], alpha)
            _begin(problem, items, chosen, q, g, alpha, lam, even)
            if h is not None:
                if disliked > 0:
                    _oppose(blocks[starts[u] : starts[u + 1]], stride, h_u, chosen, problem.omega / disliked, q, g)
                if uneven:
                    solve_uneven(K_u, q, g, lam, alpha, tol, scratch.simplex)
            if not uneven:
                solve_shrinking(K_u, q, g, lam, alpha, tol, scratch.simplex)
            low, high = worst_pair(g, alpha, floor)
        else:
            low_row, high_row = scratch.pair[0, :m_u], scratch.pair[1, :m_u]
            D, step = lines[WIDTH, :m_u], lines[ALL_STEP, :m_u]  # of uneven problems: see `solve_uneven`
            for i in range(m_u):
                q[i] = gather_row(K, items, i, low_row)
                g[i] = q[i] if even else _product(low_row, alpha)
                if uneven:
                    D[i] = lam_at(lam, i) + np.abs(low_row).sum()
            _begin(problem, items, chosen, q, g, alpha, lam, even)
            low, high = worst_pair(g, alpha, floor)
            for move in range(ROUNDS * EASY_STEPS * m_u):
                if g[high] - g[low] <= tol:
                    break
                if uneven and move % m_u == 0:
                    step_together(g, alpha, D, step)
                    for i in range(m_u):
                        gather_row(K, items, i, low_row)
                        g[i] = (_product(low_row, alpha) + lam_at(lam, i) * alpha[i]) - q[i]
                    low, high = worst_pair(g, alpha, floor)
                gather_row(K, items, low, low_row)
                gather_row(K, items, high, high_row)
                low, high = move_weight(low_row, high_row, low, high, g, lam, alpha, floor)
        out.gaps[u] = g[high] - g[low]
        unsolved += out.gaps[u] > tol
        out.offsets[u] = _as_scored(problem.exact, problem.theta, m, alpha)
        if disliked > 0:
            weights[:] = -problem.omega / disliked
            for i in range(m_u):
                weights[chosen[i]] = alpha[i]
    return unsolved


@inner
def _list_chosen(h: np.ndarray, chosen: np.ndarray) -> int:
    """List the places of a row whose items are not dislikes; returns how many there are."""
    found = 0
    for p in range(h.shape[0]):
        chosen[found] = p
        found += h[p] > 0.0
    return found


@inner
def _start(lam: float, h: np.ndarray, chosen: np.ndarray, lam_of: np.ndarray, alpha: np.ndarray) -> bool:
    """λ_i = λ / h_i, and the first weights, proportional to h; returns whether they are even."""
    m_u = chosen.shape[0]
    total = 0.0
    even = True
    for i in range(m_u):
        alpha[i] = 1.0 / m_u
        lam_of[i] = min(lam / h[chosen[i]], _MOST)
        total += h[chosen[i]]
        even = even and h[chosen[i]] == h[chosen[0]]
    if not even:
        for i in range(m_u):
            alpha[i] = h[chosen[i]] / total
    return even


@inner
def _product(row: np.ndarray, alpha: np.ndarray) -> float:
    total = 0.0
    for k in range(alpha.shape[0]):
        total += row[k] * alpha[k]
    return total


@inner
def _oppose(
    block: np.ndarray, stride: int, h: np.ndarray, chosen: np.ndarray, share: float, q: np.ndarray, g: np.ndarray
) -> None:
    """Add the dislikes to q, `share` of K to each of them, and to the gradient."""
    for i in range(chosen.shape[0]):
        total = 0.0
        for p in range(h.shape[0]):
            if h[p] < 0.0:
                total += block[chosen[i] * stride + p]
        q[i] += share * total
        g[i] -= share * total


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
def _begin(
    problem: MarginProblem,
    items: np.ndarray,
    chosen: np.ndarray,
    q: np.ndarray,
    g: np.ndarray,
    alpha: np.ndarray,
    lam: Lambda,
    even: bool,
) -> None:
    """q and the first gradient. `q` arrives as the sums of the rows of K_u; `g` too if `even`, else as K_u alpha."""
    S, exact, theta = problem.S, problem.exact, problem.theta
    m = S.shape[0]
    m_u = chosen.shape[0]
    negatives = m - m_u
    for i in range(m_u):
        S_i = S[items[chosen[i]]]
        if not exact:
            q[i] = S_i / m
        elif negatives > 0:
            q[i] = (S_i - q[i]) / negatives
        else:
            q[i] = 0.0
        q[i] *= theta
        if even:
            g[i] = (g[i] + lam_at(lam, i)) / m_u - q[i]
        else:
            g[i] = (g[i] + lam_at(lam, i) * alpha[i]) - q[i]


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
