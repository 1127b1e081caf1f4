"""CF-OMD in full: weights on what a user chose and on what they did not (PAPER section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

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
from komd.matrix.dense import DenseMatrix
from komd.matrix.eigenvectors import VECTORS, leading
from komd.matrix.from_counts import dense_from_counts
from komd.matrix.item_matrix import Arrays
from komd.matrix.saved import layouts, restored
from komd.memory import budget, readable
from komd.threads import count

if TYPE_CHECKING:
    from komd._core.deflated_steps import Deflation

__all__ = ["CFOMD"]

_ROUNDING = 1e-16  # times λ_n: gaps below are rounding
_ROUNDING_OF_HISTORY = 1e-14  # times the least λ_p / h_i: half gradients of the history are of its size
_PRODUCTS = 30_000_000_000  # multiply-adds of one iteration of a block: about a second
_BLOCK = 64  # users at most
_ARRAYS = 11  # arrays of users x items, in double precision, held while a block is solved
_RANK = 48  # leading eigenvectors of K that the steps treat exactly
_DEFLATED = 60  # iterations with them, at most; proximal gradient steps follow, whose convergence is certain
_SLOWEST = 0.85  # share of the error that an iteration with them may leave; above, they are not used
_NODES = (0.5, 0.2061, 0.7939, 0.0245, 0.9755)  # Chebyshev nodes of degree 5 on [0, 1]
_CLOSE = 2e-10  # how far scores may be from exact ones


class CFOMD(WeightedHistories, Recommender):
    """The paper's original method (CF-OMD): one distribution on a user's items, one on all others.

        minimise  α'(Y K Y + Λ)α   with Σ_{i ∈ I_u} α_i = 1,  Σ_{i ∉ I_u} α_i = 1,  α >= 0

        score(u, j) = Σ_i y_i α_i K(i, j)

    Y = diag(y), with y_i = 1 for the items of the history and −1 for all others. Λ is diagonal: λ_p on the items of the
    history, λ_n on all others.

    There are as many unknowns as items, which is much more work than CF-KOMD. Many users are solved together, so that
    each iteration reads K once for all of them. With `regularization_negatives` → ∞ it becomes ECF-OMD.

    Parameters
    ----------
    kernel : str or Kernel
        Name of a kernel or an object of `komd.kernels`.
    regularization : float
        λ_p, on the items of the history.
    regularization_negatives : float
        λ_n, on all others.
    tolerance : float
        How far the objective may be from its minimum (a certified duality gap). Iterations also continue until scores
        are estimated to be within about 1e-9 of the exact ones, unless λ_n is small compared with the eigenvalues of
        K beyond the 48 largest. In that case, scores are within the square root of the tolerance (if K(i, i) is at most
        1). Gaps below 1e-16 λ_n or 1e-14 λ_p are rounding errors and are not required.
    max_iterations : int
        Number of iterations, at most. SolverError is raised for a problem that needs more.
    weighting : {"log", "sqrt", "linear", "none"}
        As in `CFKOMD`: λ_p / h_i on the items of the history.
    half_life : str, optional
        As in `CFKOMD`.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> len(komd.CFOMD().fit(data).recommend("user-00042", n=3))
    3
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

    _kernel: _PreparedKernel

    def learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        m = len(catalogue.order)
        needed = 4 * m * m
        needed += int(max(VECTORS * 4 * min(_RANK, m), count(threads) * _ARRAYS * 8 * _users_together(m)) * m)
        if needed > budget(memory):
            raise InputError(
                f"CFOMD works on all of K, dense: {readable(needed)} for {m:,} items, and the budget is "
                f"{readable(budget(memory))}; use CFKOMD or ECFOMD, or raise {argument('memory')}"
            )
        rows = catalogue.histories.rows
        entries = KernelEntries.of(kernel_named(self.kernel), rows, m)
        self._kernel = _PreparedKernel.of(dense_from_counts(entries, rows, threads), threads)

    def _users_per_block(self) -> int:
        return _users_together(len(self.catalogue.order))

    def _solve(self, histories: Histories) -> _Answers:
        """Weights, scores and duality gaps (docs/guide/maths.md, "Solving CF-OMD").

        Users who are done leave the block. A user who has every item has no negatives: their side of the problem is
        CF-KOMD's with q = 0, and they have nothing to be recommended; uniform weights stand in.
        """
        from komd._core.deflated_steps import deflated_scratch, start_users, step_deflated
        from komd._core.two_simplexes import TwoSimplexProblem, measure_gaps, state_for, step_users
        from komd._core.wide_products import multiply_symmetric

        kernel, lam_n, m = self._kernel, float(self.regularization_negatives), len(self.catalogue.order)
        K = kernel.K
        shape = (len(histories), m)
        answers = _Answers(np.zeros(shape), np.zeros(shape), np.zeros(len(histories)))
        everything = np.flatnonzero(histories.lengths == m)
        answers.beta[everything] = 1.0 / m
        answers.scores[everything] = kernel.S / m
        active = np.flatnonzero((histories.lengths > 0) & (histories.lengths < m)).astype(np.int32)
        if not len(active):
            return answers
        rows = histories.take(active)
        given = self.interaction_weights(rows)
        h: NDArray[np.float64] = np.ones(len(rows.indices)) if given is None else given.astype(np.float64)
        lam_p: NDArray[np.float64] = float(self.regularization) / h
        owner = np.repeat(np.arange(len(rows)), rows.lengths)
        # Half gradients are of the size of λ. An item that counts less (a larger λ_p / h_i) has a smaller weight.
        roundings = np.maximum(_ROUNDING * lam_n, _ROUNDING_OF_HISTORY * np.minimum.reduceat(lam_p, rows.indptr[:-1]))
        tolerances = np.maximum(float(self.tolerance), roundings)
        state = state_for(rows.indptr, rows.indices, m, h / np.bincount(owner, h, len(rows))[owner])
        scratch = deflated_scratch(int(rows.lengths.max()), m, kernel.U.shape[1])
        rounds = _DEFLATED if kernel.left_by_an_iteration(lam_n) <= _SLOWEST else 0
        for iteration in range(int(self.max_iterations)):
            step = 1.0 / (2.0 * kernel.largest) if iteration >= rounds else 0.0
            problem = TwoSimplexProblem(K, rows.indptr, rows.indices, lam_p, lam_n, step, 0.1 * tolerances)
            if iteration == 0 and rounds:
                start_users(problem, kernel.deflation(lam_n, 0), state, scratch)
            elif iteration == 0:
                multiply_symmetric(K, state.a, state.Ka)
            if iteration == rounds:
                state.a_before[:], state.Ka_before[:] = state.a, state.Ka
            if iteration < rounds:
                step_deflated(problem, kernel.deflation(lam_n, iteration), state, scratch)
            else:
                step_users(problem, state, scratch.sides)
            multiply_symmetric(K, state.a, state.Ka)
            before = state.change.copy()
            measure_gaps(problem, state)
            answers.gaps[active] = state.gap
            # Assume that the next change shrinks by the same factor as this one did.
            last = np.where(before < np.inf, np.maximum(before, state.change), state.change)
            ahead = state.change**2 / np.maximum(last, np.finfo(float).tiny)
            done = (state.gap <= tolerances) & ((ahead <= _CLOSE) | (iteration >= rounds))
            if not done.any():
                continue
            owners = np.repeat(active, rows.lengths)
            finished = np.isin(owners, active[done])
            answers.beta[active[done]] = -state.a[done]
            answers.beta[owners[finished], rows.indices[finished]] = state.p[finished]
            answers.scores[active[done]] = state.scores[done]
            left = np.flatnonzero(~done).astype(np.int32)
            if not len(left):
                return answers
            state = state._replace(
                p=state.p[~finished], **{name: getattr(state, name)[left] for name in state._fields if name != "p"}
            )
            active, rows, lam_p, tolerances = active[left], rows.take(left), lam_p[~finished], tolerances[left]
        raise SolverError(
            f"{len(active)} of {len(histories)} problems were not solved in {self.max_iterations} iterations: the "
            f"gap is still {answers.gaps[active].max():.3g}, asked for {tolerances.max():g}; raise "
            "max_iterations or tolerance"
        )

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        scores[:] = self._solve(histories).scores

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        beta = self._solve(history).beta[0]
        weights = beta[history.indices]
        columns = self._kernel.K[:, items]
        similarities = columns[history.indices]
        beta[history.indices] = 0.0
        return Contributions(weights, similarities, weights[:, None] * similarities, beta @ columns, history.indices)

    def similarities_to(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self._kernel.K[item]
        return out

    def learned_arrays(self) -> Arrays:
        return {"matrix": self._kernel.K}

    def _layouts(self) -> list[set[str]]:
        return layouts("dense")

    def _restore(self, arrays: Arrays) -> None:
        self._kernel = _PreparedKernel.of(DenseMatrix(restored(arrays, len(arrays["order"])).stored.dense))

    def solve(self, user: Any = None, *, history: Any = None, dislikes: Any = None, at: Any = None) -> Solution:
        """Return the solution of one user's convex problem, on the items of the history and on all others.

        Parameters
        ----------
        user, history, dislikes, at
            As in `CFKOMD.solve`.

        Returns
        -------
        Solution
            All items, their weights on both sides and the duality gap.

        Raises
        ------
        UnknownIdError
            If the user or an item is unknown.
        InputError
            If not exactly one of `user` and `history` is given, or the history is empty.
        SolverError
            If the gap is not reached.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> solution = komd.CFOMD().fit(data).solve("user-00042")
        >>> bool(solution.gap < 1e-6)
        True
        """
        row = one_problem(self.catalogue, user, history, dislikes, at)
        answers = self._solve(row)
        positive = np.zeros(answers.beta.shape[1], bool)
        positive[row.indices] = True
        items = self.catalogue.item_ids(np.arange(len(positive), dtype=np.int32)).to_pylist()
        return Solution(items, np.abs(answers.beta[0]), positive, float(answers.gaps[0]))


class _Answers(NamedTuple):
    """Solutions of a block of users: β = yα and scores Kβ (both users × items), and duality gaps."""

    beta: NDArray[np.float64]
    scores: NDArray[np.float64]
    gaps: NDArray[np.float64]


def _users_together(items: int) -> int:
    # Wide enough to read K once for many users; narrow enough that Ctrl-C does not wait long for an iteration.
    return int(np.clip(_PRODUCTS // items**2, 1, _BLOCK))


@dataclass(frozen=True, eq=False)
class _PreparedKernel:
    """K, and what is known of it before any user is solved."""

    K: NDArray[np.float32]
    S: NDArray[np.float64]
    """Row sums of K."""
    U: NDArray[np.float32]
    """Leading eigenvectors, times the roots of their eigenvalues."""
    beyond: float
    """The largest eigenvalue of K - U U', approximately."""

    @classmethod
    def of(cls, matrix: DenseMatrix, threads: int | None = None) -> _PreparedKernel:
        chosen = int(np.count_nonzero(matrix.diagonal()))
        if not chosen:
            return cls(matrix.values, matrix.sums(threads), np.zeros((matrix.items, 1), np.float32), 0.0)
        spectrum = leading(matrix, min(_RANK, chosen), chosen, threads=threads)
        U = (spectrum.vectors * np.sqrt(spectrum.values)).astype(np.float32)
        beyond = max(spectrum.beyond_found, 1e-5 * float(spectrum.values[0]))  # rounding in single precision
        return cls(matrix.values, matrix.sums(threads), U, beyond)

    def left_by_an_iteration(self, lam_n: float) -> float:
        """The share of the error that a step with U leaves, at most (approximately)."""
        return 0.5 * self.beyond / (lam_n + 0.5 * self.beyond) if self.beyond > 0 else 0.0

    def deflation(self, lam_n: float, iteration: int) -> Deflation:
        """The approximation of K that an iteration uses.

        If λ_n is large compared with `beyond`, σ takes the Chebyshev nodes in turn. Otherwise an iteration might
        increase errors that only later ones decrease, so σ is always the middle of the interval.
        """
        from komd._core.deflated_steps import Deflation

        part = _NODES[iteration % len(_NODES)] if lam_n >= 4.0 * self.beyond else 0.5
        share = 1.0 - part * (1.0 - lam_n / (lam_n + self.beyond)) if self.beyond > 0 else 1.0
        arrays = (self.U, self._columns, self._gram, self._sums, self.S)
        return Deflation(*arrays, tau=lam_n + part * self.beyond, share=share)

    @cached_property
    def _columns(self) -> NDArray[np.float32]:
        return np.ascontiguousarray(self.U.T)

    @cached_property
    def _sums(self) -> NDArray[np.float64]:
        out: NDArray[np.float64] = self.U.sum(axis=0, dtype=np.float64)
        return out

    @cached_property
    def _gram(self) -> NDArray[np.float64]:
        wide = self.U.astype(np.float64)
        out: NDArray[np.float64] = np.einsum("jk,jl->kl", wide, wide)
        return out

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue of the centred K: changes of the weights of one side sum to zero.

        Centring removes the eigenvalue that belongs to popularity alone, which makes the steps several times longer.
        """
        from komd._core.wide_products import multiply_symmetric

        x = np.random.default_rng(0).standard_normal((1, len(self.K)))
        y = np.empty_like(x)
        bound = 0.0
        for _ in range(100):  # power iteration: the estimate is too low, hence the margin
            x -= x.mean()
            multiply_symmetric(self.K, x, y)
            y -= y.mean()
            bound, before = float(np.sqrt((y * y).sum())), bound
            if bound == 0 or abs(bound - before) < 1e-4 * bound:
                break
            x = y / bound
        return max(1.02 * bound, 1e-9)
