"""SLIM: each item explained by a few others, in a sparse non-negative regression (Ning & Karypis 2011)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
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
from komd.rows import pointers

__all__ = ["SLIM"]

_BLOCK = 16  # items solved in one call: enough to be worth a thread's while, few enough for progress and Ctrl-C


class SLIM(Neighbourhood):
    """Sparse linear method: the column of every item is regressed on the columns of all others.

    For each item j, with r_j its column of R,

        minimise  ½‖r_j − R w‖² + l1 ‖w‖₁ + ½ l2 ‖w‖²   over w >= 0, w_j = 0

    and score(u, j) = Σ_{i ∈ I_u} w_i. Solved by coordinate descent on the Gram matrix R'R. Nothing depends on a seed.

    scikit-learn's `ElasticNet(positive=True, fit_intercept=False)` divides the squared error by the number of users n
    and so solves the same problem with alpha = (l1 + l2) / n and l1_ratio = l1 / (l1 + l2).

    Parameters
    ----------
    l1
        The penalty that makes W sparse, counted in users: an item that shares no more than `l1` users with j has no
        weight in j's regression.
    l2
        The penalty that shares weight between items that say the same, counted in users as well.
    tolerance
        Every problem is solved until no single weight, the others being kept, would move by more than this.
    max_iterations
        Sweeps over the weights of one item; a problem that needs more raises SolverError.

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
        from komd._core.slim_descent import ItemRegression, regress_items, regression_scratch

        m = len(catalogue.order)
        workers = pool.count(threads)
        needed = 4 * m * m * (1 + workers)  # G, and at worst as much again in each thread
        if needed > budget(memory):
            raise InputError(
                f"SLIM works on the Gram matrix whole: up to {readable(needed)} for {m:,} items and {workers} threads, "
                f"and the budget is {readable(budget(memory))}; use fewer threads, raise "
                f"{argument('memory')}, or leave out the rarest items"
            )
        users = catalogue.histories.rows
        # Counts are exact in single precision up to 2^24 users.
        G = dense_from_counts(KernelEntries.of(CoOccurrence(), users, m), users, threads).values
        problem = ItemRegression(G, float(self.l1), float(self.l2), float(self.tolerance), int(self.max_iterations))

        def solve(
            block: tuple[int, int],
        ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]:
            first, last = block
            W = np.empty((last - first, m))
            steps = np.empty(last - first)
            regress_items(problem, first, last, regression_scratch(m), W, steps)
            columns, rows = np.nonzero(W)
            return columns + first, rows.astype(np.int32), W[columns, rows].astype(np.float32), steps

        parts = list(pool.run(solve, pool.blocks(m, _BLOCK), threads=threads, label="slim", size=lambda b: b[1] - b[0]))
        columns, rows, values, steps = (np.concatenate(part) for part in zip(*parts, strict=True))
        unsolved = int((steps > self.tolerance).sum())
        if unsolved:
            raise SolverError(
                f"{unsolved} of {m:,} regressions were not solved in {self.max_iterations} iterations: a weight would "
                f"still move by {steps.max():.3g}, asked for {self.tolerance:g}; raise max_iterations, tolerance or l2"
            )
        return _by_rows(rows, columns.astype(np.int32), values, m)


def _by_rows(
    rows: NDArray[np.int32], columns: NDArray[np.int32], values: NDArray[np.float32], items: int
) -> SparseMatrix:
    """Compressed rows of entries that come column by column: a stable sort leaves columns ascending in each row."""
    order = np.argsort(rows, kind="stable")
    indptr = pointers(np.bincount(rows, minlength=items))
    return SparseMatrix(indptr, columns[order], values[order])
