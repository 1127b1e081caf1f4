"""SLIM: each item explained by a few others, in a sparse non-negative regression (Ning & Karypis 2011)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import CountedPairs, Rows
from komd.checks import at_least, whole
from komd.engine.catalogue import Catalogue
from komd.engine.item_based import Neighbourhood
from komd.errors import InputError, SolverError, argument
from komd.kernels.asymmetric import CoOccurrence
from komd.kernels.entries import KernelEntries
from komd.matrix.from_counts import dense_from_counts
from komd.matrix.item_matrix import ItemMatrix
from komd.matrix.sparse import SparseMatrix
from komd.memory import budget, readable
from komd.rows import pointers, transpose

if TYPE_CHECKING:
    from komd._core.slim_descent import FoundWeights

__all__ = ["SLIM"]

_BLOCK = 16  # items solved in one call: enough for a thread to be efficient, few enough for progress and Ctrl-C
_LONG = 32  # mean users per item from which R'R is faster than residuals over the users
_GRAM_SHARE = 0.5  # of the budget that R'R may take
_PER_PAIR = 32  # bytes: the interactions by item, as keys of a dictionary, and of distinct columns both ways
_PER_ITEM = 400  # bytes: of a dictionary key, of pointers and numbers
_COUNTING = 64 * 40  # bytes for each column, in each thread, while R'R is counted in blocks of 64


class SLIM(Neighbourhood):
    """Sparse linear method (Ning & Karypis, 2011): the column of each item is regressed on those of all others.

    For each item j, with r_j its column of R,

        minimise  ½‖r_j − R w‖² + l1 ‖w‖₁ + ½ l2 ‖w‖²   over w >= 0, w_j = 0

    and score(u, j) = Σ_{i ∈ I_u} w_i. Nothing depends on a random seed.

    Solved by coordinate descent over the items that share more than `l1` users with j; all others have weight 0. Items
    with identical users have equal weights and are solved once. If items have 32 users or more on average, the Gram
    matrix R'R is held, provided that it takes at most half of the memory budget; otherwise no item-item matrix is
    needed beside the result. Both ways agree within `tolerance`.

    scikit-learn's `ElasticNet(positive=True, fit_intercept=False)` divides the squared error by the number of users n,
    and so solves the same problem with alpha = (l1 + l2) / n and l1_ratio = l1 / (l1 + l2).

    Parameters
    ----------
    l1 : float
        Penalty that makes W sparse, in users: an item that shares at most `l1` users with j has no weight for j.
    l2 : float
        Penalty that distributes weight between items that carry the same information, also in users.
    tolerance : float
        Each problem is solved until no single weight would move by more than this.
    max_iterations : int
        Sweeps over the weights of one item; SolverError is raised for a problem that needs more.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.SLIM(l1=1, l2=10).fit(data)
    >>> model
    SLIM(l1=1, l2=10)
    >>> len(model.recommend("user-00042", n=3))
    3
    """

    def __init__(
        self, *, l1: float = 0.5, l2: float = 1000.0, tolerance: float = 1e-4, max_iterations: int = 10_000
    ) -> None:
        self.l1 = at_least("l1", l1, 0)
        self.l2 = at_least("l2", l2, 0)
        self.tolerance = at_least("tolerance", tolerance, 0, open_end=True)
        self.max_iterations = whole("max_iterations", max_iterations, 1)

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        from komd._core.slim_descent import (
            FoundWeights,
            ItemRegression,
            regress_items,
            regression_scratch,
            scratch_bytes,
        )

        users, m, room = catalogue.histories.rows, len(catalogue.order), budget(memory)
        n, workers = len(users.indptr) - 1, pool.count(threads)
        needed = _PER_PAIR * len(users.indices) + 24 * n + _PER_ITEM * m
        needed += workers * (scratch_bytes(m, n, gram=False) + _found_bytes(m))
        _check(needed, room, m, workers)
        distinct = _DistinctColumns.of(users, m)
        g = len(distinct.copies)
        # Decided independently of the number of threads, because the bits of W depend on it.
        gram = len(distinct.rows.indices) >= _LONG * g and 4 * g * g <= _GRAM_SHARE * room
        G = np.zeros((0, 0), np.float32)
        if gram:
            needed += 4 * g * g + workers * (scratch_bytes(g, n, gram=True) + _COUNTING * g)
            _check(needed, room, m, workers)
            # Counts are exact in single precision up to 2^24 users.
            G = dense_from_counts(KernelEntries.of(CoOccurrence(), distinct.rows, g), distinct.rows, threads).values
        limits = float(self.l1), float(self.l2), float(self.tolerance), int(self.max_iterations)
        problem = ItemRegression(distinct.pairs, distinct.copies, G, *limits)
        local = threading.local()

        def solve(block: tuple[int, int]) -> tuple[FoundWeights, NDArray[np.float64]]:
            first, last = block
            if not hasattr(local, "scratch"):
                local.scratch = regression_scratch(g, n, gram)
                local.columns, local.values = np.empty(_BLOCK * g, np.int32), np.empty(_BLOCK * g, np.float32)
            found = FoundWeights(np.empty(last - first, np.int64), local.columns, local.values)
            steps = np.empty(last - first)
            regress_items(problem, first, last, local.scratch, found, steps)
            size = found.ends[-1]
            return FoundWeights(found.ends, found.columns[:size].copy(), found.values[:size].copy()), steps

        parts, steps, size, lengths = [], [], 0, np.zeros(g, np.int64)
        blocks = pool.blocks(g, _BLOCK)
        solved = pool.run(solve, blocks, threads=threads, label="slim", size=lambda b: b[1] - b[0])
        for (first, _), (found, reached) in zip(blocks, solved, strict=True):
            lengths += distinct.row_lengths(found, first)
            parts.append(found._replace(ends=found.ends + size))
            steps.append(reached)
            size += len(found.columns)
            # The weights of columns are in memory twice when they are joined, then those of items are added.
            _check(needed + 16 * size + 8 * int(lengths @ distinct.copies), room, m, workers)
        longest = np.concatenate(steps)
        unsolved = int(distinct.copies[longest > self.tolerance].sum())
        if unsolved:
            raise SolverError(
                f"{unsolved} of {m:,} regressions were not solved in {self.max_iterations} iterations: a weight "
                f"would still move by {longest.max():.3g}, asked for {self.tolerance:g}; raise max_iterations, "
                "tolerance or l2"
            )
        found = FoundWeights(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return distinct.matrix(found, lengths)


@dataclass(frozen=True, eq=False)
class _DistinctColumns:
    """The distinct columns of R: items that the same users chose share one.

    `column_of[i]` is the column of item i; columns are numbered by their first items. `rows` are the users' columns.
    """

    column_of: NDArray[np.int32]
    copies: NDArray[np.int64]
    pairs: CountedPairs

    @staticmethod
    def of(users: Rows, items: int) -> _DistinctColumns:
        indptr, indices = transpose(*users, items)
        numbers: dict[bytes, int] = {}
        column_of = np.empty(items, np.int32)
        first = np.zeros(items, bool)
        bounds = indptr.tolist()
        for item in range(items):
            key = indices[bounds[item] : bounds[item + 1]].tobytes()
            first[item] = key not in numbers
            column_of[item] = numbers.setdefault(key, len(numbers))
        kept = first[users.indices]
        rows = Rows(pointers(kept)[users.indptr], column_of[users.indices[kept]])
        pairs = CountedPairs(*transpose(*rows, len(numbers)), *rows)
        return _DistinctColumns(column_of, np.bincount(column_of, minlength=len(numbers)), pairs)

    @property
    def rows(self) -> Rows:
        return Rows(self.pairs.user_indptr, self.pairs.user_items)

    def row_lengths(self, found: FoundWeights, first: int) -> NDArray[np.int64]:
        """How many weights an item of each column has, in its row of W, for the targets from column `first` on."""
        targets = np.repeat(np.arange(first, first + len(found.ends)), np.diff(found.ends, prepend=0))
        each = self.copies[targets] - (targets == found.columns)
        return np.bincount(found.columns, weights=each, minlength=len(self.copies)).astype(np.int64)

    def matrix(self, found: FoundWeights, lengths: NDArray[np.int64]) -> SparseMatrix:
        """W of all items; `lengths` of the rows of each column."""
        from komd._core.slim_descent import write_rows

        members = Rows(pointers(self.copies), np.argsort(self.column_of, kind="stable").astype(np.int32))
        indptr = pointers(lengths[self.column_of])
        indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
        write_rows(self.column_of, members, found, indptr[:-1].copy(), indices, values)
        return SparseMatrix(indptr, indices, values)


def _found_bytes(columns: int) -> int:
    """For one thread: of the weights of a block, of two more that wait to be taken, and of what counts them."""
    return (3 * 8 + 32) * _BLOCK * columns


def _check(needed: int, room: int, items: int, workers: int) -> None:
    if needed > room:
        raise InputError(
            f"SLIM needs {readable(needed)} for {items:,} items and {workers} threads, and the budget is "
            f"{readable(room)}; use fewer threads or a larger l1, raise {argument('memory')}, or leave out the rarest "
            "items"
        )
