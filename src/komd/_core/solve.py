"""The weights of one person: convex quadratic problems on one simplex, or on two."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.sweep import sweep

__all__ = [
    "gather_row",
    "project_two_simplexes",
    "solve_shrinking",
    "solve_simplex",
    "solve_users",
]

_WORTH_SWEEPING = 96  # items from which four at a time are faster than one
_FLAT = 1e-12  # curvature below this is rounding: two items are the same item


@compiled
def solve_simplex(
    K: np.ndarray, g: np.ndarray, lam: float, alpha: np.ndarray, tol: float, max_steps: int, floor: np.ndarray
) -> int:
    """Weights on one user's items: minimise a'Ka + lam a'a - 2a'q over the simplex (PAPER section 4).

    `alpha` arrives feasible with `g = K alpha + lam alpha - q`, half of the gradient; both leave
    optimal to a KKT gap of `tol`: no item with weight has a g more than `tol` above the least g.
    `floor` is scratch. Returns the steps taken, or -1 when `max_steps` ran out.
    Twin: tests/reference.py::solve_simplex.
    """
    low, high = _worst_pair(g, alpha, floor)
    for step in range(max_steps):
        if g[high] - g[low] <= tol:
            return step
        low, high = _move(K[low], K[high], low, high, g, lam, alpha, floor)
    return -1


@inner
def _worst_pair(g: np.ndarray, alpha: np.ndarray, floor: np.ndarray) -> tuple[int, int]:
    """The item with the least g, and the one with the largest among those with weight; fills `floor` for `_move`."""
    low = 0
    high = 0
    g_low = np.inf
    g_high = -np.inf
    for k in range(alpha.shape[0]):
        floor[k] = 0.0 if alpha[k] > 0.0 else -np.inf
        if g[k] < g_low:
            g_low = g[k]
            low = k
        if alpha[k] > 0.0 and g[k] > g_high:
            g_high = g[k]
            high = k
    return low, high


@inner
def _move(
    K_low: np.ndarray,
    K_high: np.ndarray,
    low: int,
    high: int,
    g: np.ndarray,
    lam: float,
    alpha: np.ndarray,
    floor: np.ndarray,
) -> tuple[int, int]:
    """Move weight from `high` to `low`, exactly to the minimum along that line; returns the next pair.

    Updating the gradient and finding the next pair is one pass: it is what all the time is spent on. `floor` is 0 for
    items with weight and minus infinity for others.
    """
    curvature = K_low[low] + K_high[high] - 2.0 * K_low[high] + 2.0 * lam
    move = (g[high] - g[low]) / max(curvature, _FLAT)
    if move >= alpha[high]:
        move = alpha[high]
        alpha[high] = 0.0
        floor[high] = -np.inf
    else:
        alpha[high] -= move
    alpha[low] += move
    floor[low] = 0.0
    g[low] += lam * move
    g[high] -= lam * move
    if g.shape[0] >= _WORTH_SWEEPING:
        return sweep(g, floor, K_low, K_high, move)
    g_low = np.inf
    g_high = -np.inf
    for k in range(alpha.shape[0]):
        x = g[k] + move * (np.float64(K_low[k]) - np.float64(K_high[k]))
        g[k] = x
        if x < g_low:
            g_low = x
            low = k
        if x + floor[k] > g_high:
            g_high = x
            high = k
    return low, high


_WORTH_SHRINKING = 32  # items below which the whole problem sits in the cache anyway
_FIRST_STEPS = 0.8  # times m_u: by then most items that end without weight have lost it
_EASY_STEPS = 20  # times m_u: a problem that needs more is ill-conditioned, and pairs of items will not get far
_ROUNDS = 50


@compiled
def solve_shrinking(
    K: np.ndarray,
    q: np.ndarray,
    g: np.ndarray,
    lam: float,
    alpha: np.ndarray,
    tol: float,
    kept: np.ndarray,
    K_kept: np.ndarray,
    lines: np.ndarray,
) -> None:
    """The same answer as `solve_simplex`, sooner: finish on the items that still matter, then look at the others.

    After some steps on all items, those without weight and far from gaining any are set aside, the rest is solved as a
    smaller problem that fits the cache, and the gradient of those set aside is computed afresh; if one of them now
    wants weight, the round is repeated. The caller judges the answer by its gap. Scratch: `kept` as long as alpha,
    `K_kept` its square, `lines` (7, as long).
    """
    m = alpha.shape[0]
    first = _EASY_STEPS * m if m < _WORTH_SHRINKING else int(_FIRST_STEPS * m)
    floor = lines[6]
    if solve_simplex(K, g, lam, alpha, tol, first, floor[:m]) >= 0:
        return
    for _ in range(_ROUNDS):
        low, high = _worst_pair(g, alpha, floor[:m])
        if g[high] - g[low] <= tol:
            return
        middle = 0.5 * (g[low] + g[high])
        size = 0
        for k in range(m):
            if alpha[k] > 0.0 or g[k] <= middle:
                kept[size] = k
                size += 1
        K_small = K_kept[: size * size].reshape(size, size)
        g_kept, alpha_kept = lines[0, :size], lines[1, :size]
        for x in range(size):
            row = K[kept[x]]
            out = K_small[x]
            for y in range(size):
                out[y] = row[kept[y]]
            g_kept[x] = g[kept[x]]
            alpha_kept[x] = alpha[kept[x]]
        for _ in range(_ROUNDS):
            if solve_simplex(K_small, g_kept, lam, alpha_kept, 0.5 * tol, _EASY_STEPS * size, floor[:size]) >= 0:
                break
            _descend_together(K_small, g_kept, lam, alpha_kept, tol, lines[2:6, :size])
        for x in range(size):
            alpha[kept[x]] = alpha_kept[x]
        place = 0
        for k in range(m):
            if place < size and kept[place] == k:
                g[k] = g_kept[place]
                place += 1
            else:
                row = K[k]
                total = 0.0
                for x in range(size):
                    total += row[kept[x]] * alpha_kept[x]
                g[k] = total - q[k]


@inner
def _descend_together(
    K: np.ndarray, g: np.ndarray, lam: float, alpha: np.ndarray, tol: float, lines: np.ndarray
) -> None:
    """One long step for ill-conditioned problems: towards the minimum over all items with weight at once.

    Conjugate gradients on K + lam I among directions that keep the sum, then as far along the direction found as no
    weight turns negative. Where K is flat the step goes to the edge. Pairwise steps before and after do the rest.
    """
    m = alpha.shape[0]
    d, r, p, Hp = lines[0], lines[1], lines[2], lines[3]
    free = 0
    mean = 0.0
    for i in range(m):
        if alpha[i] > 0.0:
            free += 1
            mean += g[i]
    mean /= free
    left = 0.0
    for i in range(m):
        d[i] = 0.0
        r[i] = mean - g[i] if alpha[i] > 0.0 else 0.0
        p[i] = r[i]
        left += r[i] * r[i]
    flat = False
    for _ in range(2 * free):
        if left <= (0.01 * tol) ** 2:
            break
        mean = 0.0
        length = 0.0
        for i in range(m):
            Hp[i] = 0.0
            if alpha[i] > 0.0:
                row = K[i]
                total = lam * p[i]
                for j in range(m):
                    total += row[j] * p[j]
                Hp[i] = total
                mean += total
                length += p[i] * p[i]
        mean /= free
        curvature = 0.0
        for i in range(m):
            if alpha[i] > 0.0:
                Hp[i] -= mean
                curvature += p[i] * Hp[i]
        if curvature <= _FLAT * length:
            flat = True
            for i in range(m):
                d[i] = p[i]
            break
        step = left / curvature
        fresh = 0.0
        for i in range(m):
            d[i] += step * p[i]
            r[i] -= step * Hp[i]
            fresh += r[i] * r[i]
        for i in range(m):
            p[i] = r[i] + (fresh / left) * p[i]
        left = fresh
    reach = np.inf if flat else 1.0
    for i in range(m):
        if d[i] < 0.0:
            reach = min(reach, -alpha[i] / d[i])
    if reach == np.inf:
        return
    excess = 0.0  # what rounding adds to the sum; the largest weight takes it back
    largest = 0
    for i in range(m):
        d[i] *= reach
        if alpha[i] + d[i] < 1e-15:
            d[i] = -alpha[i]
        excess += d[i]
        if alpha[i] + d[i] > alpha[largest] + d[largest]:
            largest = i
    d[largest] -= excess
    for i in range(m):
        alpha[i] += d[i]
        row = K[i]
        total = lam * d[i]
        for j in range(m):
            total += row[j] * d[j]
        g[i] += total


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
    s0 = 0.0
    if dense.shape[0] > 0:
        row = dense[np.uint32(h[x])]
        whole = m_u - m_u % 4
        s1 = 0.0  # four sums: one alone would wait for itself at every addition
        s2 = 0.0
        s3 = 0.0
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
        if low < end and indices[low] == wanted:
            out[y] = values[low]
            s0 += values[low]
        else:
            out[y] = 0.0
    return s0


@compiled
def solve_users(
    dense: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    S: np.ndarray,
    exact: bool,
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
    """CF-KOMD's weights for a block of users, in the form the scorer takes (docs/maths.md, "One scorer").

    K is `dense`, or compressed rows when `dense` is empty. With `exact` negatives the weight of item i is
    alpha_i + 1/m_u- and the offset 1/m_u-; else alpha_i and 1/m. `gaps` gets each user's KKT gap.
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
        negatives = m - m_u
        for i in range(m_u):
            total = gather_row(dense, indptr, indices, values, h, i, K_u[i if whole else 0])
            if not exact:
                q[i] = S[h[i]] / m
            elif negatives > 0:
                q[i] = (S[h[i]] - total) / negatives
            else:
                q[i] = 0.0
            alpha[i] = 1.0 / m_u
            g[i] = (total + lam) / m_u - q[i]
        if whole:
            solve_shrinking(K_u, q, g, lam, alpha, tol, kept, squares[1], lines[2:])
            low, high = _worst_pair(g, alpha, lines[8])
        else:
            floor = lines[8, :m_u]
            low, high = _worst_pair(g, alpha, floor)
            for _ in range(_ROUNDS * _EASY_STEPS * m_u):
                if g[high] - g[low] <= tol:
                    break
                gather_row(dense, indptr, indices, values, h, low, rows[0])
                gather_row(dense, indptr, indices, values, h, high, rows[1])
                low, high = _move(rows[0, :m_u], rows[1, :m_u], low, high, g, lam, alpha, floor)
        gaps[u] = g[high] - g[low]
        unsolved += gaps[u] > tol
        if not exact:
            offsets[u] = 1.0 / m
        elif negatives > 0:
            offsets[u] = 1.0 / negatives
            for i in range(m_u):
                alpha[i] += offsets[u]
    return unsolved


@compiled
def project_two_simplexes(
    V: np.ndarray,
    positive: np.ndarray,
    shrink_p: float,
    shrink_n: float,
    thresholds: np.ndarray,
    A: np.ndarray,
) -> None:
    """A = the nearest point to (V shrunk) whose positives sum to one, and whose negatives sum to one.

    Row by row. On each side the answer is max(0, v - t) for one threshold t, the root of a convex
    piecewise-linear function; Newton from the last threshold (`thresholds`, users x 2) ends after a
    few passes, from any start. Twin: tests/reference.py::project_simplex.
    """
    m = V.shape[1]
    for u in range(V.shape[0]):
        for side in range(2):
            shrink = shrink_p if side == 1 else shrink_n
            t = thresholds[u, side]
            for _ in range(200):
                total = 0.0
                above = 0
                most = -np.inf
                for j in range(m):
                    if positive[u, j] == side:
                        v = V[u, j] * shrink
                        most = max(most, v)
                        if v > t:
                            total += v - t
                            above += 1
                if above == 0:
                    t = most - 1.0
                    continue
                t += (total - 1.0) / above
                if abs(total - 1.0) < 1e-14:
                    break
            thresholds[u, side] = t
            for j in range(m):
                if positive[u, j] == side:
                    A[u, j] = max(0.0, V[u, j] * shrink - t)
