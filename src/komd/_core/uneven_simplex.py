"""The problem of `simplex.py` where the λ_i of a user's items differ by much.

Moving weight between two items then converges slowly: the item with the larger λ takes over the gradient of the other,
and along a chain of items with ever larger λ, wrong values are passed on many times before the right one arrives. A
step of all items at once, each as long as its own λ allows, corrects all items whose λ is large compared with K; moves
between two items do the rest.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.simplex import ALL_STEP, FLOOR, WIDTH, SimplexScratch, solve_shrinking, solve_simplex, worst_pair

__all__ = ["SPREAD", "solve_uneven", "step_together"]

SPREAD = 8.0  # λ_i that differ by more than this factor are uneven
_ROUNDS = 1000


@compiled
def solve_uneven(
    K: np.ndarray, q: np.ndarray, g: np.ndarray, lam: np.ndarray, alpha: np.ndarray, tol: float, scratch: SimplexScratch
) -> None:
    """The same answer as `solve_simplex`, for any λ_i. The caller judges it by its gap."""
    m = alpha.shape[0]
    floor, D, step = scratch.lines[FLOOR, :m], scratch.lines[WIDTH, :m], scratch.lines[ALL_STEP, :m]
    for i in range(m):  # D - K - diag(lam) is positive semi-definite, by Gershgorin's circles
        D[i] = lam[i]
        for k in range(m):
            D[i] += abs(K[i, k])
    for _ in range(_ROUNDS):
        low, high = worst_pair(g, alpha, floor)
        if g[high] - g[low] <= tol:
            return
        step_together(g, alpha, D, step)
        for i in range(m):
            row = K[i]
            total = 0.0
            for k in range(m):
                total += row[k] * alpha[k]
            g[i] = (total + lam[i] * alpha[i]) - q[i]
        if solve_simplex(K, g, lam, alpha, tol, m, floor) >= 0:
            return
    solve_shrinking(K, q, g, lam, alpha, tol, scratch)


@inner
def step_together(g: np.ndarray, alpha: np.ndarray, D: np.ndarray, step: np.ndarray) -> None:
    """Go to the minimum of 2 (x - alpha)'g + Σ D_i (x_i - alpha_i)² over the simplex; g is then to be computed afresh.

    It is never below the objective's own change, so that the objective falls. The minimum is
    x_i = max(0, alpha_i - (g_i - level) / D_i), with the level at which they sum to what alpha sums to.
    """
    m = alpha.shape[0]
    total = 0.0
    level = -np.inf
    for i in range(m):
        total += alpha[i]
        level = max(level, g[i])
    for _ in range(100):  # Newton from above on a convex, piecewise linear function: a few steps
        held = 0.0
        slope = 0.0
        for i in range(m):
            x = alpha[i] - (g[i] - level) / D[i]
            if x > 0.0:
                held += x
                slope += 1.0 / D[i]
        change = (held - total) / slope
        level -= change
        if abs(change) <= 1e-16 * abs(level):
            break
    held = 0.0
    largest = 0
    for i in range(m):
        step[i] = max(0.0, alpha[i] - (g[i] - level) / D[i])
        held += step[i]
        if step[i] > step[largest]:
            largest = i
    step[largest] += total - held  # corrects the sum for rounding
    for i in range(m):
        alpha[i] = step[i]
