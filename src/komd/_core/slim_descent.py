"""Sparse non-negative regressions of each item on all others, from the Gram matrix alone: SLIM's problems."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled

__all__ = ["descend", "regress_items"]

_FRESH = 64  # items let into a problem at a time, at least: the most correlated of those that want to enter


@compiled
def descend(
    G: np.ndarray,
    l1: float,
    l2: float,
    tol: float,
    max_sweeps: int,
    curvature: np.ndarray,
    q: np.ndarray,
    w: np.ndarray,
) -> int:
    """Sweeps of exact coordinate steps on a small problem: minimise ½w'Gw − w'b + l1 Σw + ½ l2 w'w over w >= 0.

    `q = b − Gw − l2 w` arrives and leaves with w; `curvature` is diag(G) + l2, positive. A coordinate whose neighbours
    stay where they are has its minimum at max(0, w + (q − l1) / curvature): it is put there, and q follows (a
    covariance update: one row of G). Ends when no step of a sweep is longer than `tol`; returns the sweeps, or -1.
    """
    m = w.shape[0]
    for sweep in range(max_sweeps):
        longest = 0.0
        for i in range(m):
            best = max(0.0, w[i] + (q[i] - l1) / curvature[i])
            step = best - w[i]
            if step != 0.0:
                longest = max(longest, abs(step))
                w[i] = best
                row = G[i]
                for k in range(m):
                    q[k] -= step * row[k]
                q[i] -= step * l2
        if longest <= tol:
            return sweep + 1
    return -1


@compiled
def regress_items(
    G: np.ndarray,
    l1: float,
    l2: float,
    tol: float,
    max_sweeps: int,
    first: int,
    last: int,
    square: np.ndarray,
    lines: np.ndarray,
    kept: np.ndarray,
    W: np.ndarray,
    steps: np.ndarray,
) -> int:
    """W[j - first] = the weights w of item j on all items: minimise ½‖r_j − Rw‖² + l1 Σw + ½ l2 w'w, w >= 0, w_j = 0.

    For items first <= j < last, G = R'R (items x items). Only items that have weight or want some are worked on: their
    square of G is gathered, solved by `descend`, q = G_j − Gw − l2 w is computed afresh for all items, and those that
    now want weight enter. `steps[j - first]` gets the longest step that any single weight would still take; `tol` asks
    for it. Scratch: `square` (items²) float32, `lines` (4, items) float64, `kept` (items) int32. Returns how many
    problems missed `tol` within `max_sweeps` sweeps. Twin: tests/models/test_slim.py, scikit-learn's ElasticNet.
    """
    m = G.shape[0]
    q, curvature, q_kept, w_kept = lines[0], lines[1], lines[2], lines[3]
    wish = lines[2]  # shares its place with q_kept: one is done with before the other begins
    unsolved = 0
    for j in range(first, last):
        w = W[j - first]
        w[:] = 0.0
        for i in range(m):
            q[i] = G[j, i]
        left = max_sweeps
        size = 0
        while True:
            # How far would each weight go alone? An item nobody chose has no say: it explains nothing.
            longest = 0.0
            wanting = 0
            for i in range(m):
                wish[i] = 0.0
                if i == j or G[i, i] == 0.0:
                    continue
                step = max(0.0, w[i] + (q[i] - l1) / (G[i, i] + l2)) - w[i]
                longest = max(longest, abs(step))
                if w[i] == 0.0 and step > tol:
                    wish[i] = step
                    wanting += 1
            steps[j - first] = longest
            if longest <= tol:
                break
            if left <= 0:
                unsolved += 1
                break
            # Let in the keenest, as many as are inside already: a whole crowd would make the square needlessly large.
            room = max(_FRESH, size)
            least = 0.0
            if wanting > room:
                least = np.partition(wish[:m], m - room)[m - room]
            size = 0
            for i in range(m):
                if w[i] > 0.0 or (wish[i] > 0.0 and wish[i] >= least):
                    kept[size] = i
                    size += 1
            small = square[: size * size].reshape(size, size)
            for x in range(size):
                row = G[kept[x]]
                out = small[x]
                for y in range(size):
                    out[y] = row[kept[y]]
                q_kept[x] = q[kept[x]]
                w_kept[x] = w[kept[x]]
                curvature[x] = row[kept[x]] + l2
            taken = descend(small, l1, l2, 0.5 * tol, left, curvature[:size], q_kept[:size], w_kept[:size])
            left = left - taken if taken > 0 else 0
            for i in range(m):
                q[i] = G[j, i]
            for x in range(size):
                i = kept[x]
                v = w_kept[x]
                w[i] = v
                if v > 0.0:
                    row = G[i]
                    for k in range(m):
                        q[k] -= v * row[k]
                    q[i] -= v * l2
    return unsolved
