"""Sparse non-negative regressions of each item on all others, from the Gram matrix alone: SLIM's problems."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner

__all__ = ["ItemRegression", "RegressionScratch", "descend", "regress_items", "regression_scratch"]

_ENTERING = 64  # items that may enter a problem at a time, at least: those with the longest steps


class ItemRegression(NamedTuple):
    """What does not change from item to item."""

    G: NDArray[np.float32]
    """R'R, items x items."""
    l1: float
    l2: float
    tol: float
    """The longest step that a single weight may still want to make."""
    max_sweeps: int


class RegressionScratch(NamedTuple):
    """Buffers of one thread; `square` and the names that end in `_kept` hold the items that are worked on."""

    square: NDArray[np.float32]
    kept: NDArray[np.int32]
    q: NDArray[np.float64]
    entering: NDArray[np.float64]
    curvature: NDArray[np.float64]
    q_kept: NDArray[np.float64]
    w_kept: NDArray[np.float64]


def regression_scratch(items: int) -> RegressionScratch:
    """Scratch buffers for `regress_items`."""
    return RegressionScratch(
        np.empty(items * items, np.float32), np.empty(items, np.int32), *(np.empty(items) for _ in range(5))
    )


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
    Twin: tests/reference.py::coordinate_sweep.
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
    problem: ItemRegression, first: int, last: int, scratch: RegressionScratch, W: np.ndarray, steps: np.ndarray
) -> int:
    """W[j - first] = the weights w of item j on all items: minimise ½‖r_j − Rw‖² + l1 Σw + ½ l2 w'w, w >= 0, w_j = 0.

    For items first <= j < last. Only items that have weight or want some are worked on: their square of G is gathered,
    solved by `descend`, q = G_j − Gw − l2 w is recomputed for all items, and those that now want weight enter.
    `steps[j - first]` gets the longest step that any single weight would still take. Returns how many problems missed
    `tol` within `max_sweeps` sweeps. Twin: tests/reference.py::regress_item.
    """
    G, l1, l2, tol = problem.G, problem.l1, problem.l2, problem.tol
    m = G.shape[0]
    q, entering, kept = scratch.q, scratch.entering, scratch.kept
    unsolved = 0
    for j in range(first, last):
        w = W[j - first]
        w[:] = 0.0
        for i in range(m):
            q[i] = G[j, i]
        left = problem.max_sweeps
        size = 0
        while True:
            # How far would each weight move alone? Items with no users are left out: they explain nothing.
            longest = 0.0
            wanting = 0
            for i in range(m):
                entering[i] = 0.0
                if i == j or G[i, i] == 0.0:
                    continue
                step = max(0.0, w[i] + (q[i] - l1) / (G[i, i] + l2)) - w[i]
                longest = max(longest, abs(step))
                if w[i] == 0.0 and step > tol:
                    entering[i] = step
                    wanting += 1
            steps[j - first] = longest
            if longest <= tol:
                break
            if left <= 0:
                unsolved += 1
                break
            # At most as many enter as are inside already, longest steps first: that keeps the square small.
            room = max(_ENTERING, size)
            least = 0.0
            if wanting > room:
                least = np.partition(entering[:m], m - room)[m - room]
            size = 0
            for i in range(m):
                if w[i] > 0.0 or (entering[i] > 0.0 and entering[i] >= least):
                    kept[size] = i
                    size += 1
            left -= _solve_kept(problem, q, w, size, left, scratch)
            for i in range(m):
                q[i] = G[j, i]
            for x in range(size):
                i = kept[x]
                v = w[i]
                if v > 0.0:
                    row = G[i]
                    for k in range(m):
                        q[k] -= v * row[k]
                    q[i] -= v * l2
    return unsolved


@inner
def _solve_kept(
    problem: ItemRegression, q: np.ndarray, w: np.ndarray, size: int, sweeps: int, scratch: RegressionScratch
) -> int:
    """Solve for the first `size` items of `scratch.kept` and write their weights to w; returns the sweeps used."""
    kept = scratch.kept
    q_kept, w_kept, curvature = scratch.q_kept[:size], scratch.w_kept[:size], scratch.curvature[:size]
    small = scratch.square[: size * size].reshape(size, size)
    for x in range(size):
        row = problem.G[kept[x]]
        out = small[x]
        for y in range(size):
            out[y] = row[kept[y]]
        q_kept[x] = q[kept[x]]
        w_kept[x] = w[kept[x]]
        curvature[x] = row[kept[x]] + problem.l2
    used = descend(small, problem.l1, problem.l2, 0.5 * problem.tol, sweeps, curvature, q_kept, w_kept)
    for x in range(size):
        w[kept[x]] = w_kept[x]
    return used if used > 0 else sweeps
