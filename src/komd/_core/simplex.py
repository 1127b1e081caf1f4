"""One convex quadratic problem on the simplex: minimise a'Ka + Σ lam_i a_i² - 2a'q, by moving weight between items."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.simplex_faces import LINES, descend_by_faces
from komd._core.sweep import sweep
from komd._core.vector_sums import padded_length

__all__ = [
    "ALL_STEP",
    "ALPHA",
    "EASY_STEPS",
    "FLOOR",
    "LAM",
    "ROUNDS",
    "WIDTH",
    "G",
    "Lambda",
    "Q",
    "SimplexScratch",
    "lam_at",
    "lam_like",
    "move_weight",
    "simplex_scratch",
    "solve_shrinking",
    "solve_simplex",
    "worst_pair",
]

_WORTH_SWEEPING = 96  # items from which four at a time are faster than one
_FLAT = 1e-12  # curvature below this is rounding: two items are the same item


Lambda: TypeAlias = np.ndarray | float
"""λ of each item, or one for all. Which of the two is settled when a function is compiled."""


def lam_at(lam: Lambda, i: int) -> float:
    """λ of item i."""
    return float(lam[i]) if isinstance(lam, np.ndarray) else lam


@overload(lam_at, inline="always")
def _lam_at(lam, i):  # type: ignore[no-untyped-def]
    if isinstance(lam, types.Array):
        return lambda lam, i: lam[i]
    return lambda lam, i: lam


def lam_like(like: Any, one: float, each: np.ndarray) -> Any:
    """λ as a user's items have it: `each` of them if `like` is an array, and otherwise `one` for all."""
    return each if isinstance(like, np.ndarray) else one


@overload(lam_like, inline="always")
def _lam_like(like, one, each):  # type: ignore[no-untyped-def]
    if isinstance(like, types.Array):
        return lambda like, one, each: each
    return lambda like, one, each: one


@compiled
def solve_simplex(
    K: np.ndarray, g: np.ndarray, lam: Lambda, alpha: np.ndarray, tol: float, max_steps: int, floor: np.ndarray
) -> int:
    """Weights on one user's items: minimise a'Ka + Σ lam_i a_i² - 2a'q over the simplex (PAPER section 4).

    `alpha` arrives feasible with `g_i = (K alpha)_i + lam_i alpha_i - q_i`, half of the gradient; both leave
    optimal to a KKT gap of `tol`: no item with weight has a g more than `tol` above the least g.
    `floor` is scratch. Returns the steps taken, or -1 when `max_steps` ran out.
    Twin: tests/reference.py::solve_simplex.
    """
    low, high = worst_pair(g, alpha, floor)
    for step in range(max_steps):
        if g[high] - g[low] <= tol:
            return step
        low, high = move_weight(K[low], K[high], low, high, g, lam, alpha, floor)
    return -1


@inner
def worst_pair(g: np.ndarray, alpha: np.ndarray, floor: np.ndarray) -> tuple[int, int]:
    """The item with the least g, and the one with the largest among those with weight; fills `floor`."""
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
def move_weight(
    K_low: np.ndarray,
    K_high: np.ndarray,
    low: int,
    high: int,
    g: np.ndarray,
    lam: Lambda,
    alpha: np.ndarray,
    floor: np.ndarray,
) -> tuple[int, int]:
    """Move weight from `high` to `low`, exactly to the minimum along that line; returns the next pair.

    Updating the gradient and finding the next pair is one pass: it is what all the time is spent on. `floor` is 0 for
    items with weight and minus infinity for others.
    """
    curvature = K_low[low] + K_high[high] - 2.0 * K_low[high] + (lam_at(lam, low) + lam_at(lam, high))
    move = (g[high] - g[low]) / max(curvature, _FLAT)
    if move >= alpha[high]:
        move = alpha[high]
        alpha[high] = 0.0
        floor[high] = -np.inf
    else:
        alpha[high] -= move
    alpha[low] += move
    floor[low] = 0.0
    cost = lam_at(lam, low) * move  # rounded once for both where λ is the same: the same bits as with one λ for all
    g[low] += cost
    g[high] -= cost if lam_at(lam, high) == lam_at(lam, low) else lam_at(lam, high) * move
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
EASY_STEPS = 20  # times m_u: a problem that needs more is ill-conditioned, and pairs of items will not get far
ROUNDS = 50


# Rows of `SimplexScratch.lines`; those of the second line are for callers.
_G_KEPT, _ALPHA_KEPT, _LAM_KEPT, _DIRECTION, _RESIDUAL, _SEARCH, _PRODUCT = range(7)
FLOOR, G, Q, LAM, ALPHA, WIDTH, ALL_STEP = range(7, 14)


class SimplexScratch(NamedTuple):
    """Buffers of one thread: a smaller problem within the problem, and lines as long as the problem.

    The first row of `kept` is for the items of the smaller problem, the second counts 0, 1, 2, ... There are few
    arrays, since each costs a part of a microsecond in every call.
    """

    kept: NDArray[np.int32]
    K_kept: NDArray[np.float32]
    lines: NDArray[np.float64]


def simplex_scratch(items: int, side: int) -> SimplexScratch:
    """Scratch for problems of so many items, of which `solve_shrinking` sees those of at most `side`."""
    wide = padded_length(items)
    kept = np.empty((2, wide), np.int32)
    kept[1] = np.arange(wide)
    return SimplexScratch(kept, np.empty(side * padded_length(side), np.float32), np.empty((LINES, wide)))


@compiled
def solve_shrinking(
    K: np.ndarray,
    q: np.ndarray,
    g: np.ndarray,
    lam: Lambda,
    alpha: np.ndarray,
    tol: float,
    scratch: SimplexScratch,
    pairs: bool | None = True,
) -> None:
    """The same answer as `solve_simplex`, sooner: by faces, or else by pairs among the items that still matter.

    Where faces fail: after some steps on all items, those without weight and far from gaining any are set aside, the
    rest is solved as a smaller problem that fits the cache, and the gradient of those set aside is computed afresh; if
    one of them now wants weight, the round is repeated. The caller judges the answer by its gap. Where `pairs` is None,
    what faces do not solve is left as it is, and the rest of this function is not compiled.
    """
    kept, lines, floor = scratch.kept[0], scratch.lines, scratch.lines[FLOOR]
    m = alpha.shape[0]
    for k in range(m):
        lines[_LAM_KEPT, k] = lam_at(lam, k)
    if descend_by_faces(K, q, g, lines[_LAM_KEPT, :m], alpha, tol, scratch):
        return
    if pairs is None:
        return
    first = EASY_STEPS * m if m < _WORTH_SHRINKING else int(_FIRST_STEPS * m)
    if solve_simplex(K, g, lam, alpha, tol, first, floor[:m]) >= 0:
        return
    for _ in range(ROUNDS):
        low, high = worst_pair(g, alpha, floor[:m])
        if g[high] - g[low] <= tol:
            return
        middle = 0.5 * (g[low] + g[high])
        size = 0
        for k in range(m):
            if alpha[k] > 0.0 or g[k] <= middle:
                kept[size] = k
                size += 1
        K_small = scratch.K_kept[: size * size].reshape(size, size)
        g_kept, alpha_kept = lines[_G_KEPT, :size], lines[_ALPHA_KEPT, :size]
        for x in range(size):
            row = K[kept[x]]
            out = K_small[x]
            for y in range(size):
                out[y] = row[kept[y]]
            g_kept[x] = g[kept[x]]
            alpha_kept[x] = alpha[kept[x]]
            lines[_LAM_KEPT, x] = lam_at(lam, kept[x])
        lam_small = lam_like(lam, lam_at(lam, 0), lines[_LAM_KEPT, :size])
        for _ in range(ROUNDS):
            if solve_simplex(K_small, g_kept, lam_small, alpha_kept, 0.5 * tol, EASY_STEPS * size, floor[:size]) >= 0:
                break
            _descend_together(K_small, g_kept, lam_small, alpha_kept, tol, lines)
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
    K: np.ndarray, g: np.ndarray, lam: Lambda, alpha: np.ndarray, tol: float, lines: np.ndarray
) -> None:
    """One long step for ill-conditioned problems: towards the minimum over all items with weight at once.

    Conjugate gradients on K + diag(lam) among directions that keep the sum, then as far along the direction found as no
    weight turns negative. Where K is flat the step goes to the edge. Pairwise steps before and after do the rest.
    """
    m = alpha.shape[0]
    d, r, p, Hp = lines[_DIRECTION, :m], lines[_RESIDUAL, :m], lines[_SEARCH, :m], lines[_PRODUCT, :m]
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
                total = lam_at(lam, i) * p[i]
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
        total = lam_at(lam, i) * d[i]
        for j in range(m):
            total += row[j] * d[j]
        g[i] += total
