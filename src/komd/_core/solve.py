"""CF-KOMD's weights of many users: each one's small matrix K_u gathered, the problem on it solved."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.factor_products import subtract_squares
from komd._core.groups import OwnEntries, Rows, StoredMatrix
from komd._core.row_sums import add_rows
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
from komd._core.symmetric_part import copy_part
from komd._core.uneven_simplex import SPREAD, solve_uneven, step_together
from komd._core.vector_sums import fill

__all__ = [
    "MarginProblem",
    "Solved",
    "SolverScratch",
    "gather_row",
    "gather_squares",
    "own_gathered",
    "solve_block",
    "solve_users",
    "solver_scratch",
]

_GATHERED = 4096  # longest history whose K_u is gathered from a stored matrix: 134 MB of scratch for each thread
_EASY = 1e-3  # λ from which ill-conditioned problems are rare
_ROUNDING = 1e-15  # times λ: half gradients are of its size, and gaps below are rounding
_MOST = 1e300  # of λ_i
_TILE = 32  # rows and columns that are mirrored together
_HELD = 1024  # items: 8 MB for each thread

_of_thread = threading.local()


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
    chosen: NDArray[np.int32]
    simplex: SimplexScratch


def solver_scratch(own: OwnEntries, longest: int) -> SolverScratch:
    """Scratch for users of at most so many items. Of a stored matrix, larger K_u are gathered row by row.

    Each thread keeps one for users of up to `_HELD` items: fresh memory costs more than short problems do.
    """
    side = longest if own.blocks.size else min(longest, _GATHERED)
    if side < longest or longest > _HELD:
        return _fresh_scratch(longest, side)
    held: SolverScratch | None = getattr(_of_thread, "scratch", None)
    if held is None:
        held = _of_thread.scratch = _fresh_scratch(_HELD, _HELD)
    return held


def _fresh_scratch(longest: int, side: int) -> SolverScratch:
    K_u = np.empty(side**2, np.float32)
    return SolverScratch(K_u, np.arange(longest, dtype=np.int32), simplex_scratch(longest, side))


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


def solve_block(own: OwnEntries, problem: MarginProblem, rows: Rows, h: NDArray[np.float32] | None, out: Solved) -> int:
    """`solve_users`, with scratch buffers, compiled for no more than these users need.

    Two things are rare: histories so long that K_u is read row by row, and problems that whole faces do not solve. The
    first are known beforehand; the second are left unsolved, and then solved one by one from their beginning.
    """
    own = own_gathered(own, rows, always=h is not None and bool((h < 0).any()))
    longest = int(np.diff(rows.indptr).max(initial=0))
    scratch = solver_scratch(own, longest)
    two_rows = np.empty((2, longest), np.float32) if longest**2 > scratch.K_u.size else None
    K, blocks, starts = own.stored, own.blocks, own.starts
    pairs = None if h is None and problem.lam >= _EASY else True
    unsolved = solve_users(K, blocks, starts, problem, rows, h, out, scratch, two_rows, pairs)
    if unsolved and pairs is None:
        unsolved = 0
        for u in np.flatnonzero(~(out.gaps <= problem.tol)):
            one, mine = rows._replace(indptr=rows.indptr[u : u + 2]), slice(u, u + 1)
            solved = Solved(out.weights, out.offsets[mine], out.gaps[mine])
            unsolved += solve_users(K, blocks, starts[u : u + 2], problem, one, h, solved, scratch, two_rows, True)
    return unsolved


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
    two_rows: np.ndarray | None = None,
    pairs: bool | None = True,
) -> int:
    """The weights of a block of users, in the form that scoring takes (docs/guide/maths.md, "One scorer").

    K between their own items is gathered from K, or stands in `blocks` already: see `OwnEntries`. `h` says how much
    each item counts: λ_i = λ / h_i. It is aligned with `rows`, or None: each counts 1. Below 0 an item is a dislike.

    With exact negatives the weight of item i is alpha_i + theta/m_u- and the offset theta/m_u-; else alpha_i and
    theta/m. The weight of a dislike is -omega over their number. Returns the number of users whose gap stayed above
    `tol`, or above the rounding of their gradients. `two_rows` is scratch, needed if a K_u is larger than that of
    `scratch`. `pairs`: see `solve_shrinking`.
    """
    m = problem.S.shape[0]
    side = int(np.sqrt(scratch.K_u.shape[0]))
    lines = scratch.simplex.lines
    unsolved = 0
    for u in range(rows.indptr.shape[0] - 1):
        items = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        weights = out.weights[rows.indptr[u] : rows.indptr[u + 1]]
        if h is None:
            chosen = scratch.simplex.kept[1, : items.shape[0]]  # all of them
        else:
            h_u = h[rows.indptr[u] : rows.indptr[u + 1]]
            chosen = scratch.chosen[: _list_chosen(h_u, scratch.chosen)]
        m_u = chosen.shape[0]
        disliked = items.shape[0] - m_u
        out.gaps[u] = 0.0
        out.offsets[u] = 0.0
        if m_u == 0:
            fill(weights, 0.0)
            continue
        alpha = weights if disliked == 0 else lines[ALPHA, :m_u]
        g, q, floor = lines[G, :m_u], lines[Q, :m_u], lines[FLOOR, :m_u]
        lam = lam_like(h, problem.lam, lines[LAM, :m_u])
        least = problem.lam
        even, uneven = True, False
        if h is None:
            fill(alpha, 1.0 / m_u)
        else:
            even = _start(problem.lam, h_u, chosen, lam, alpha)
            least = lam.min()
            uneven = lam.max() > SPREAD * least
        tol = max(problem.tol, _ROUNDING * least)
        if two_rows is None or m_u <= side:
            K_u = scratch.K_u[: m_u * m_u].reshape(m_u, m_u)
            stride = (starts[u + 1] - starts[u]) // items.shape[0] if blocks.shape[0] > 0 else 0
            if stride > 0:  # to the last bit the same as from a matrix
                for i in range(m_u):
                    at = starts[u] + chosen[i] * stride
                    for k in range(i + 1):
                        K_u[i, k] = blocks[at + chosen[k]]
                _mirror(K_u)
            else:
                _gather_square(K, items, K_u)
            rows_of_all = scratch.simplex.kept[1, :m_u]
            fill(q, 0.0)
            fill(g, 1.0)
            add_rows(K_u, rows_of_all, g, 0, q)
            if even:
                for k in range(m_u):
                    g[k] = q[k]
            else:
                fill(g, 0.0)
                add_rows(K_u, rows_of_all, alpha, 0, g)
            _begin(problem, items, chosen, q, g, alpha, lam, even)
            if h is not None:
                if disliked > 0:
                    _oppose(blocks[starts[u] : starts[u + 1]], stride, h_u, chosen, problem.omega / disliked, q, g)
                if uneven:
                    solve_uneven(K_u, q, g, lam, alpha, tol, scratch.simplex)
            if not uneven:
                solve_shrinking(K_u, q, g, lam, alpha, tol, scratch.simplex, pairs)
            low, high = worst_pair(g, alpha, floor)
        else:
            low_row, high_row = two_rows[0, :m_u], two_rows[1, :m_u]
            D, step = lines[WIDTH, :m_u], lines[ALL_STEP, :m_u]  # of uneven problems: see `solve_uneven`
            for i in range(m_u):
                gather_row(K, items, i, low_row)
                q[i] = row_total(low_row)
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
        unsolved += not out.gaps[u] <= tol  # so that NaN counts
        out.offsets[u] = _as_scored(problem.exact, problem.theta, m, alpha)
        if disliked > 0:
            fill(weights, -problem.omega / disliked)
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
def gather_row(K: StoredMatrix, h: np.ndarray, x: int, out: np.ndarray) -> None:
    """out = K[h[x], h], without the correction, for one user's sorted items h."""
    if K.dense.shape[0] > 0:
        _pick_dense(K.dense, h, x, h.shape[0], out)
    else:
        _pick_sparse(K.indptr, K.indices, K.values, h, x, h.shape[0], out)


@inner
def _gather_square(K: StoredMatrix, h: np.ndarray, K_u: np.ndarray) -> None:
    """K_u = K between one user's sorted items h, without the correction. Only half of it is read from K."""
    if K.dense.shape[0] > 0:
        copy_part(K.dense, h, K_u)
    else:
        for x in range(h.shape[0]):
            _pick_sparse(K.indptr, K.indices, K.values, h, x, x + 1, K_u[x])
        _mirror(K_u)


@inner
def _pick_dense(dense: np.ndarray, h: np.ndarray, x: int, count: int, out: np.ndarray) -> None:
    """out[y] = K[h[x], h[y]] for the first `count` items y."""
    row = dense[np.uint32(h[x])]
    for y in range(count):
        out[y] = row[np.uint32(h[y])]


@inner
def _pick_sparse(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, h: np.ndarray, x: int, count: int, out: np.ndarray
) -> None:
    """The same from compressed rows."""
    low = indptr[h[x]]
    end = indptr[h[x] + 1]
    for y in range(count):
        high = end
        wanted = h[y]
        while low < high:  # first place whose column is not below the wanted one
            middle = (low + high) >> 1
            if indices[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        out[y] = values[low] if low < end and indices[low] == wanted else np.float32(0.0)


@inner
def _mirror(K_u: np.ndarray) -> None:
    """Copy what is below the diagonal to above it, a tile after another, so that both stay in the cache."""
    m = K_u.shape[0]
    for first in range(0, m, _TILE):
        last = min(first + _TILE, m)
        for start in range(0, first, _TILE):
            for x in range(first, last):
                for y in range(start, start + _TILE):
                    K_u[y, x] = K_u[x, y]
        for x in range(first, last):
            for y in range(first, x):
                K_u[y, x] = K_u[x, y]


@inner
def row_total(row: np.ndarray) -> float:
    """The sum of a row, in four sums: one alone would wait for itself at every addition."""
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
