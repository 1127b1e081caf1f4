"""The nearest point on two simplexes."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled

__all__ = ["project_two_simplexes"]


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
