"""CF-OMD in full: weights on what a user chose and on what they did not (PAPER section 3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.checks import at_least, one_of
from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.engine.recommender import Recommender
from komd.engine.requests import one_problem
from komd.engine.results import Contributions, Solution
from komd.engine.weighted_histories import WeightedHistories
from komd.errors import InputError, SolverError, argument
from komd.kernels.entries import KernelEntries
from komd.kernels.functions import Kernel, kernel_named
from komd.kernels.interaction_weights import WEIGHTINGS, half_life_text
from komd.matrix.from_counts import dense_from_counts
from komd.matrix.item_matrix import Arrays
from komd.matrix.saved import layouts, restored
from komd.memory import budget, readable

__all__ = ["CFOMD"]

_ROUNDING = 1e-16  # times λ: gaps below are rounding
_UNEVEN = 100.0  # times that, for users whose items count differently
_PRODUCTS = 4_000_000_000  # of an iteration of a block: about a second


class CFOMD(WeightedHistories, Recommender):
    """The original method: one distribution on the positives, one on the negatives, for each user.

        minimise  α'(Y K Y + Λ)α   with Σ_{i ∈ I_u} α_i = 1, Σ_{i ∉ I_u} α_i = 1, α >= 0
        score(u, j) = Σ_i y_i α_i K(i, j)

    As many unknowns as there are items, so it is slow by design; many users are solved at once, so that each step reads
    K once for all of them. With `regularization_negatives` → ∞ it becomes ECF-OMD.

    Parameters
    ----------
    kernel
        The name of a kernel or an object of `komd.kernels`.
    regularization
        λ_p, on the items of the history.
    regularization_negatives
        λ_n, on all others.
    tolerance
        How far the objective may be from its minimum (a certified duality gap). A score is then within its square
        root of the exact one (K(i, i) being at most 1), on every machine; it does not depend on the block at all.
        Gaps below 1e-16 times the larger λ are rounding and are not asked for.
    max_iterations
        After so many, SolverError.
    weighting, half_life
        As in `CFKOMD`: λ_p / h_i on the items of the history.
    """

    def __init__(
        self,
        *,
        kernel: Kernel | str = "linear",
        regularization: float = 0.01,
        regularization_negatives: float = 100.0,
        tolerance: float = 1e-9,
        max_iterations: int = 20_000,
        weighting: str = "log",
        half_life: str | None = None,
    ) -> None:
        kernel_named(kernel)
        self.kernel = kernel
        self.regularization = at_least("regularization", regularization, 0)
        self.regularization_negatives = at_least("regularization_negatives", regularization_negatives, 0)
        self.tolerance = at_least("tolerance", tolerance, 0, open_end=True)
        self.max_iterations = at_least("max_iterations", max_iterations, 1)
        self.weighting = one_of("weighting", weighting, WEIGHTINGS)
        self.half_life = half_life_text(half_life)

    _K: NDArray[np.float32]

    def learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        m = len(catalogue.order)
        needed = 4 * m * m
        if needed > budget(memory):
            raise InputError(
                f"CFOMD works on all of K, dense: {readable(needed)} for {m:,} items, and the budget is "
                f"{readable(budget(memory))}; use CFKOMD or ECFOMD, or raise {argument('memory')}"
            )
        rows = catalogue.histories.rows
        entries = KernelEntries.of(kernel_named(self.kernel), rows, m)
        self._prepare(dense_from_counts(entries, rows, threads).values)

    def _prepare(self, K: NDArray[np.float32]) -> None:
        """Keep K, and the largest eigenvalue of the centred K: the weights of a side move by vectors that sum to zero.

        Centring removes the eigenvalue that belongs to popularity alone, which makes the steps several times longer.
        """
        from komd._core.two_simplexes import multiply_symmetric

        self._K = K
        x = np.random.default_rng(0).standard_normal((1, len(K)))
        y = np.empty_like(x)
        bound = 0.0
        for _ in range(100):  # power iteration; its estimate is from below, hence the margin
            x -= x.mean()
            multiply_symmetric(K, x, y)
            y -= y.mean()
            bound, before = float(np.sqrt((y * y).sum())), bound
            if bound == 0 or abs(bound - before) < 1e-4 * bound:
                break
            x = y / bound
        self._largest = max(1.02 * bound, 1e-9)

    def _users_per_block(self) -> int:
        # Wide enough to read K once for many users; narrow enough that Ctrl-C does not wait long for an iteration.
        return int(np.clip(_PRODUCTS // len(self.catalogue.order) ** 2, 1, 64))

    def _solve(self, histories: Histories) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """β = yα (users × items) and duality gaps (docs/guide/maths.md, "Solving CF-OMD").

        Users who are done leave the block. A user who has every item has no negatives: their side of the problem is
        CF-KOMD's with q = 0, and they have nothing to be recommended; uniform weights stand in.
        """
        from komd._core.two_simplexes import (
            TwoSimplexProblem,
            measure_gaps,
            multiply_symmetric,
            scratch_for,
            state_for,
            step_users,
        )

        lam_n, m = float(self.regularization_negatives), len(self.catalogue.order)
        beta, gaps = np.zeros((len(histories), m)), np.zeros(len(histories))
        beta[histories.lengths == m] = 1.0 / m
        active = np.flatnonzero((histories.lengths > 0) & (histories.lengths < m)).astype(np.int32)
        rows = histories.take(active)
        given = self.interaction_weights(rows)
        h: NDArray[np.float64] = np.ones(len(rows.indices)) if given is None else given.astype(np.float64)
        lam_p: NDArray[np.float64] = float(self.regularization) / h
        owner = np.repeat(np.arange(len(rows)), rows.lengths)
        # Half gradients are of the size of λ; of an item that counts less, its weight is smaller.
        sizes = np.full(len(rows), lam_n)
        if len(rows):
            least = np.minimum.reduceat(lam_p, rows.indptr[:-1])
            sizes = np.maximum(sizes, least if given is None else _UNEVEN * least)
        tolerances = np.maximum(float(self.tolerance), _ROUNDING * sizes)
        state = state_for(rows.indptr, rows.indices, m, h / np.bincount(owner, h, len(rows))[owner])
        scratch = scratch_for(int(rows.lengths.max(initial=0)), m)
        multiply_symmetric(self._K, state.a, state.Ka)
        state.Ka_before[:] = state.Ka
        for _ in range(int(self.max_iterations)):
            if not len(active):
                break
            step = 1.0 / (2.0 * self._largest)
            problem = TwoSimplexProblem(self._K, rows.indptr, rows.indices, lam_p, lam_n, step, 0.1 * tolerances)
            step_users(problem, state, scratch)
            multiply_symmetric(self._K, state.a, state.Ka)
            measure_gaps(problem, state)
            gaps[active] = state.gap
            done = state.gap <= tolerances
            if done.any():
                owners = np.repeat(active, rows.lengths)
                beta[active[done]] = -state.a[done]
                finished = np.isin(owners, active[done])
                beta[owners[finished], rows.indices[finished]] = state.p[finished]
                left = np.flatnonzero(~done).astype(np.int32)
                state = state._replace(
                    p=state.p[~finished], **{name: getattr(state, name)[left] for name in state._fields if name != "p"}
                )
                active, rows, lam_p, tolerances = active[left], rows.take(left), lam_p[~finished], tolerances[left]
        if len(active):
            raise SolverError(
                f"{len(active)} of {len(histories)} problems were not solved in {self.max_iterations} iterations: the "
                f"gap is still {gaps[active].max():.3g}, asked for {tolerances.max():g}; raise "
                "max_iterations or tolerance"
            )
        return beta, gaps

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        from komd._core.two_simplexes import multiply_symmetric

        multiply_symmetric(self._K, self._solve(histories)[0], scores)

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        beta = self._solve(history)[0][0]
        weights = beta[history.indices]
        columns = self._K[:, items]
        similarities = columns[history.indices]
        beta[history.indices] = 0.0
        return Contributions(weights, similarities, weights[:, None] * similarities, beta @ columns, history.indices)

    def similarities_to(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self._K[item]
        return out

    def learned_arrays(self) -> Arrays:
        return {"matrix": self._K}

    def _layouts(self) -> list[set[str]]:
        return layouts("dense")

    def _restore(self, arrays: Arrays) -> None:
        self._prepare(restored(arrays, len(arrays["order"])).stored.dense)

    def solve(self, user: Any = None, *, history: Any = None, dislikes: Any = None, at: Any = None) -> Solution:
        """The solved problem of a known user, or of a stranger with this history; arguments are as in `explain`."""
        row = one_problem(self.catalogue, user, history, dislikes, at)
        beta, gaps = self._solve(row)
        positive = np.zeros(len(beta[0]), bool)
        positive[row.indices] = True
        items = self.catalogue.item_ids(np.arange(len(positive), dtype=np.int32)).to_pylist()
        return Solution(items, np.abs(beta[0]), positive, float(gaps[0]))
