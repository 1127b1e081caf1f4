"""Sparse non-negative regressions of each item on the items that share users with it: SLIM's problems.

Items that the same users chose have equal columns in R. They are one variable here, with `copies`: the optimum gives
them equal weights, so that one weight v stands for all of them, and one regression serves all of them as targets.

An item that shares no more than l1 users with j cannot have weight in j's regression (w >= 0 and G = R'R >= 0 leave it
a gradient of at least l1 − G_ij >= 0): loops run over the others, the candidates of j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.groups import CountedPairs, Rows

__all__ = [
    "FoundWeights",
    "ItemRegression",
    "RegressionScratch",
    "descend",
    "regress_items",
    "regression_scratch",
    "scratch_bytes",
    "write_rows",
]

_ENTERING = 64  # columns that may enter a problem on G at a time, or as many as it has: those with the longest steps
_LARGEST = 2048  # columns of a problem on G, at most; with more, residuals are faster


class ItemRegression(NamedTuple):
    """What does not change from item to item."""

    pairs: CountedPairs
    """The users of each distinct column of R, and the distinct columns of each user."""
    copies: NDArray[np.int64]
    """How many items have each column."""
    G: NDArray[np.float32]
    """R'R of the distinct columns, or an array of shape (0, 0): then only residuals are used."""
    l1: float
    l2: float
    tol: float
    """The longest step that any single weight may still want, at the end."""
    max_sweeps: int


class RegressionScratch(NamedTuple):
    """Buffers of one thread; `square` and the names that end in `_kept` hold the columns that are worked on."""

    counter: NDArray[np.int32]
    candidates: NDArray[np.int32]
    nonzero: NDArray[np.int32]
    v: NDArray[np.float64]
    r: NDArray[np.float64]
    q: NDArray[np.float64]
    entering: NDArray[np.float64]
    square: NDArray[np.float32]
    curvature: NDArray[np.float64]
    copies_kept: NDArray[np.float64]
    q_kept: NDArray[np.float64]
    v_kept: NDArray[np.float64]


class FoundWeights(NamedTuple):
    """The weights of consecutive targets, one after another; those of the t-th target end at `ends[t]`."""

    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


def regression_scratch(columns: int, users: int, gram: bool) -> RegressionScratch:
    """Scratch buffers for `regress_items`; `gram`: with G."""
    m, most = (columns, min(columns, _LARGEST)) if gram else (0, 0)
    return RegressionScratch(
        np.zeros(columns, np.int32),
        np.empty(columns, np.int32),
        np.empty(columns, np.int32),
        np.zeros(columns),
        np.empty(users),
        np.empty(m),
        np.empty(m),
        np.empty(most * most, np.float32),
        *(np.empty(most) for _ in range(4)),
    )


def scratch_bytes(columns: int, users: int, gram: bool) -> int:
    """The bytes of `regression_scratch`, and of the copy of `entering` that is made to find the longest steps."""
    most = min(columns, _LARGEST)
    return 20 * columns + 8 * users + gram * (24 * columns + 4 * most * most + 32 * most)


@compiled
def descend(
    G: np.ndarray,
    l1: float,
    l2: float,
    tol: float,
    max_sweeps: int,
    copies: np.ndarray,
    curvature: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
) -> int:
    """Sweeps of exact coordinate steps on a small problem: minimise ½w'Gw − w'b + l1 Σw + ½ l2 w'w over w >= 0.

    v_i is the weight of each of `copies[i]` equal variables. `q = b − G (copies v) − l2 v` arrives and leaves with v;
    `curvature` is copies diag(G) + l2, positive. A coordinate whose neighbours stay where they are has its minimum at
    max(0, v + (q − l1) / curvature): it is put there, and q follows (a covariance update: one row of G). Ends when in
    a sweep no single variable would have moved by more than `tol`; returns the sweeps, or -1.
    Twin: tests/reference.py::coordinate_sweep.
    """
    m = v.shape[0]
    for sweep in range(max_sweeps):
        longest = 0.0
        for i in range(m):
            best = max(0.0, v[i] + (q[i] - l1) / curvature[i])
            step = best - v[i]
            if step != 0.0:
                row = G[i]
                # One variable alone, without its copies, moves further: its curvature is smaller.
                longest = max(longest, abs(step) * curvature[i] / (row[i] + l2))
                v[i] = best
                shift = step * copies[i]
                for k in range(m):
                    q[k] -= shift * row[k]
                q[i] -= step * l2
        if longest <= tol:
            return sweep + 1
    return -1


@compiled
def regress_items(
    problem: ItemRegression, first: int, last: int, scratch: RegressionScratch, found: FoundWeights, steps: np.ndarray
) -> int:
    """The weights of the targets first <= j < last: minimise ½‖r_j − Rw‖² + l1 Σw + ½ l2 w'w, w >= 0, w_j = 0.

    Targets and weights are those of distinct columns: v_i is the weight of every item with column i, except the target
    itself where i = j. `steps[j - first]` gets the longest step that any single weight would still take. Returns how
    many problems missed `tol` within `max_sweeps` sweeps. Twin: tests/reference.py::regress_item.
    """
    v, candidates = scratch.v, scratch.candidates
    unsolved, end = 0, 0
    for j in range(first, last):
        size = _find_candidates(problem, j, scratch)
        longest = -1.0
        if problem.G.shape[0] > 0:
            longest = _solve_by_gram(problem, j, size, scratch)
        if longest < 0.0:
            longest = _solve_by_residuals(problem, j, size, scratch)
        steps[j - first] = longest
        if longest > problem.tol:
            unsolved += 1
        for x in range(size):
            i = candidates[x]
            if v[i] > 0.0:
                found.columns[end] = i
                found.values[end] = v[i]
                end += 1
            v[i] = 0.0
        found.ends[j - first] = end
    return unsolved


@inner
def _find_candidates(problem: ItemRegression, j: int, scratch: RegressionScratch) -> int:
    """List the columns that share more than l1 users with j, and j itself if it has copies; returns how many."""
    pairs, counter, candidates = problem.pairs, scratch.counter, scratch.candidates
    size, touched = 0, 0
    if problem.G.shape[0] > 0:
        for i in range(problem.G.shape[0]):
            if problem.G[j, i] > problem.l1 and (i != j or problem.copies[j] > 1):
                candidates[size] = i
                size += 1
        return size
    for p in range(pairs.item_indptr[j], pairs.item_indptr[j + 1]):
        u = pairs.item_users[p]
        for e in range(pairs.user_indptr[u], pairs.user_indptr[u + 1]):
            i = pairs.user_items[e]
            if counter[i] == 0:
                candidates[touched] = i
                touched += 1
            counter[i] += 1
    for x in range(touched):
        i = candidates[x]
        if counter[i] > problem.l1 and (i != j or problem.copies[j] > 1):
            candidates[size] = i
            size += 1
        counter[i] = 0
    return size


@inner
def _solve_by_residuals(problem: ItemRegression, j: int, size: int, scratch: RegressionScratch) -> float:
    """Coordinate steps on r = r_j − Rw, one entry for each user: a step visits the users of one column.

    A sweep over all candidates, then sweeps over those with weight until they have converged; repeated until no
    candidate would move. Returns the longest step that any single weight would still take.
    """
    candidates, nonzero, v = scratch.candidates, scratch.nonzero, scratch.v
    half = 0.5 * problem.tol
    for x in range(size):
        v[candidates[x]] = 0.0
    _fill_residuals(problem, j, size, scratch)
    left = problem.max_sweeps
    while True:
        longest = _sweep(problem, j, candidates, size, True, scratch)
        left -= 1
        count = 0
        for x in range(size):
            if v[candidates[x]] > 0.0:
                nonzero[count] = candidates[x]
                count += 1
        while longest > half and left > 0:
            longest = _sweep(problem, j, nonzero, count, True, scratch)
            left -= 1
        _fill_residuals(problem, j, size, scratch)
        longest = _sweep(problem, j, candidates, size, False, scratch)
        if longest <= problem.tol or left <= 0:
            return longest


@inner
def _fill_residuals(problem: ItemRegression, j: int, size: int, scratch: RegressionScratch) -> None:
    """r = r_j − Rw from scratch: rounding errors of the steps do not add up."""
    pairs, r = problem.pairs, scratch.r
    r[:] = 0.0
    for p in range(pairs.item_indptr[j], pairs.item_indptr[j + 1]):
        r[pairs.item_users[p]] = 1.0
    for x in range(size):
        i = scratch.candidates[x]
        if scratch.v[i] > 0.0:
            w = scratch.v[i] * (problem.copies[i] - (i == j))
            for p in range(pairs.item_indptr[i], pairs.item_indptr[i + 1]):
                r[pairs.item_users[p]] -= w


@inner
def _sweep(
    problem: ItemRegression, j: int, columns: np.ndarray, size: int, moves: bool, scratch: RegressionScratch
) -> float:
    """The longest step that a single weight wants, of the first `size` columns; with `moves`, each takes its step."""
    pairs, v, r = problem.pairs, scratch.v, scratch.r
    l1, l2 = problem.l1, problem.l2
    users = pairs.item_users
    longest = 0.0
    for x in range(size):
        i = columns[x]
        start, stop = pairs.item_indptr[i], pairs.item_indptr[i + 1]
        q = 0.0
        for p in range(start, stop):
            q += r[np.uint32(users[p])]
        wanted = q - l1 - l2 * v[i]
        if v[i] == 0.0 and wanted <= 0.0:
            continue
        longest = max(longest, abs(max(0.0, v[i] + wanted / (stop - start + l2)) - v[i]))
        if moves:
            copies = problem.copies[i] - (i == j)
            best = max(0.0, v[i] + wanted / (copies * (stop - start) + l2))
            shift = copies * (best - v[i])
            v[i] = best
            if shift != 0.0:
                for p in range(start, stop):
                    r[np.uint32(users[p])] -= shift
    return longest


@compiled
def _solve_by_gram(problem: ItemRegression, j: int, size: int, scratch: RegressionScratch) -> float:
    """The same on G. Only columns that have weight or want some are worked on: their square of G is gathered, solved
    by `descend`, q = G_j − Gw − l2 w is recomputed, and those that now want weight enter.

    Returns -1 where more columns have weight than the square may have.
    """
    G, l1, l2, tol = problem.G, problem.l1, problem.l2, problem.tol
    v, q, entering, candidates, kept = scratch.v, scratch.q, scratch.entering, scratch.candidates, scratch.nonzero
    m = G.shape[0]
    for k in range(m):
        q[k] = G[j, k]
    left = problem.max_sweeps
    count = 0
    while True:
        longest = 0.0
        wanting = 0
        for x in range(size):
            i = candidates[x]
            step = max(0.0, v[i] + (q[i] - l1) / (G[i, i] + l2)) - v[i]
            longest = max(longest, abs(step))
            entering[x] = 0.0
            if v[i] == 0.0 and step > tol:
                entering[x] = step
                wanting += 1
        if longest <= tol or left <= 0:
            return longest
        # The problem at most doubles, longest steps first: this keeps the square small.
        room = max(_ENTERING, count)
        least = 0.0
        if wanting > room:
            least = np.partition(entering[:size], size - room)[size - room]
        count = 0
        for x in range(size):
            i = candidates[x]
            if v[i] > 0.0 or (entering[x] > 0.0 and entering[x] >= least):
                if count == _LARGEST:
                    return -1.0
                kept[count] = i
                count += 1
        left -= _solve_kept(problem, j, count, left, scratch)
        for k in range(m):
            q[k] = G[j, k]
        for x in range(count):
            i = kept[x]
            if v[i] > 0.0:
                w = v[i] * (problem.copies[i] - (i == j))
                row = G[i]
                for k in range(m):
                    q[k] -= w * row[k]
                q[i] -= v[i] * l2


@inner
def _solve_kept(problem: ItemRegression, j: int, count: int, sweeps: int, scratch: RegressionScratch) -> int:
    """Solve for the first `count` columns of `scratch.nonzero` and write their weights to v; returns the sweeps."""
    kept, v, q = scratch.nonzero, scratch.v, scratch.q
    q_kept, v_kept = scratch.q_kept[:count], scratch.v_kept[:count]
    copies, curvature = scratch.copies_kept[:count], scratch.curvature[:count]
    small = scratch.square[: count * count].reshape(count, count)
    for x in range(count):
        i = kept[x]
        row, out = problem.G[i], small[x]
        for y in range(count):
            out[y] = row[kept[y]]
        q_kept[x], v_kept[x] = q[i], v[i]
        copies[x] = problem.copies[i] - (i == j)
        curvature[x] = copies[x] * row[i] + problem.l2
    used = descend(small, problem.l1, problem.l2, 0.5 * problem.tol, sweeps, copies, curvature, q_kept, v_kept)
    for x in range(count):
        v[kept[x]] = v_kept[x]
    return used if used > 0 else sweeps


@compiled
def write_rows(
    column_of: np.ndarray,
    members: Rows,
    found: FoundWeights,
    ends: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
) -> None:
    """Compressed rows of the items' W from the weights of distinct columns; columns ascend in every row.

    `column_of[i]` is the distinct column of item i, `members` the items of each, `found` the weights of all targets.
    `ends[i]` arrives as the beginning of row i and leaves as its end. Twin: tests/reference.py::item_weights.
    """
    for j in range(column_of.shape[0]):
        t = column_of[j]
        for e in range(found.ends[t - 1] if t > 0 else 0, found.ends[t]):
            a = found.columns[e]
            for p in range(members.indptr[a], members.indptr[a + 1]):
                i = members.indices[p]
                if i != j:
                    indices[ends[i]] = j
                    values[ends[i]] = found.values[e]
                    ends[i] += 1
