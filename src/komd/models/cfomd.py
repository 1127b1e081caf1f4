"""CF-OMD in full: weights on what a person chose and on what they did not (PAPER section 3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd.errors import InputError, SolverError
from komd.kernels.dot_product import Kernel, kernel_named
from komd.kernels.gram import kernel_matrix
from komd.kernels.matrix import DenseMatrix
from komd.kernels.plan import plan
from komd.memory import budget, readable
from komd.models.catalogue import Catalogue
from komd.models.cfkomd import CFKOMD, Solution
from komd.models.histories import Histories
from komd.models.parameters import at_least
from komd.models.recommender import Arrays, Recommender

__all__ = ["CFOMD"]

_CHECK = 20  # iterations between looks at the gap, which cost as much as an iteration
_ROUGH = 1e-3  # gap down to which gradients in single precision, at half the price, lead the same way


class CFOMD(Recommender):
    """The original method: one distribution on the positives, one on the negatives, for each person.

        minimise  α'(Y K Y + Λ)α   with Σ_{i ∈ I_u} α_i = 1, Σ_{i ∉ I_u} α_i = 1, α >= 0
        score(u, j) = Σ_i y_i α_i K(i, j)

    As many unknowns as there are items, so it is slow by design; many people are solved at once, and each step of all
    of them is one matrix product. With `regularization_negatives` → ∞ it becomes ECF-OMD.

    Parameters
    ----------
    kernel
        The name of a kernel or an object of `komd.kernels`.
    regularization
        λ_p, on the items of the history.
    regularization_negatives
        λ_n, on all others.
    tolerance
        How far the objective may be from its minimum (a certified duality gap).
    max_iterations
        After so many, SolverError.
    """

    def __init__(
        self,
        *,
        kernel: Kernel | str = "linear",
        regularization: float = 0.01,
        regularization_negatives: float = 100.0,
        tolerance: float = 1e-6,
        max_iterations: int = 20_000,
    ) -> None:
        kernel_named(kernel)
        at_least("regularization", regularization, 0)
        at_least("regularization_negatives", regularization_negatives, 0)
        at_least("tolerance", tolerance, 0, open_end=True)
        at_least("max_iterations", max_iterations, 1)
        self.kernel = kernel
        self.regularization = regularization
        self.regularization_negatives = regularization_negatives
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    _K: NDArray[np.float64]

    def _learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        m = len(catalogue.order)
        needed = 3 * 8 * m * m
        if needed > budget(memory):
            raise InputError(
                f"CFOMD works on K whole, in double precision: {readable(needed)} for {m:,} items, and the budget is "
                f"{readable(budget(memory))}; use CFKOMD or ECFOMD, or raise memory="
            )
        rows = catalogue.histories
        how = plan(catalogue.popularity.astype(np.int64), rows.lengths, memory=memory, storage="dense")
        K = kernel_matrix(kernel_named(self.kernel), rows.indptr, rows.indices, m, how, threads=threads)
        assert isinstance(K, DenseMatrix)
        self._prepare(K.values)

    def _prepare(self, K: NDArray[np.float32]) -> None:
        """K, centred, and its largest eigenvalue.

        The weights y_i α_i sum to zero, so K may be shifted by u1' + 1u' (docs/maths.md, "Adding a constant"): centring
        takes away the eigenvalue that belongs to popularity alone and makes the steps several times longer.
        """
        self._single = K
        means = K.mean(axis=0, dtype=np.float64)
        self._means = means
        self._K = K.astype(np.float64)
        self._K -= means[:, None]
        self._K -= means[None, :] - means.mean()
        x = np.random.default_rng(0).standard_normal(len(K))
        bound = 0.0
        for _ in range(100):  # power iteration; its estimate is from below, hence the margin
            x = self._K @ x
            bound, before = float(np.linalg.norm(x)), bound
            if bound == 0 or abs(bound - before) < 1e-4 * bound:
                break
            x /= bound
        self._largest = max(1.02 * bound, 1e-9)

    def _users_per_block(self) -> int:
        # Wide enough for efficient matrix products, narrow enough to share out evenly between threads.
        return int(np.clip((64 << 20) // (8 * len(self.catalogue.order)), 1, 256))

    def _solve(self, histories: Histories) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """β = yα (people × items) and duality gaps, by accelerated projected gradients with restarts.

        Gradients are computed in single precision while all gaps are wide, gaps always in double. People who are done
        leave the batch. A person who has everything has no negatives: their side of the problem is
        CF-KOMD's with q = 0, and they have nothing to be recommended; uniform weights stand in.
        """
        from komd._core.project import project_two_simplexes

        m = len(self.catalogue.order)
        lengths = histories.lengths
        beta = np.zeros((len(histories), m))
        gaps = np.zeros(len(histories))
        beta[lengths == m] = 1.0 / m
        active = np.flatnonzero((lengths > 0) & (lengths < m))
        if not len(active):
            return beta, gaps
        P = np.zeros((len(histories), m), np.uint8)
        P[np.repeat(np.arange(len(histories)), lengths), histories.indices] = 1
        P = P[active]
        some = lengths[active, None]
        A = np.where(P, 1.0 / some, 1.0 / (m - some))
        Z = A.copy()
        lam_p, lam_n = float(self.regularization), float(self.regularization_negatives)
        step = 1.0 / (2.0 * self._largest)
        shrink_p, shrink_n = 1.0 / (1.0 + 2.0 * step * lam_p), 1.0 / (1.0 + 2.0 * step * lam_n)
        thresholds = np.zeros((len(active), 2))
        momentum = np.ones((len(active), 1))
        rough = self._K.astype(np.float32)
        for iteration in range(int(self.max_iterations)):
            signed = np.where(P, Z, -Z)
            gradient = (signed.astype(np.float32) @ rough).astype(np.float64) if len(rough) else signed @ self._K
            np.negative(gradient, out=gradient, where=P == 0)
            V = Z - (2.0 * step) * gradient
            fresh = np.empty_like(A)
            project_two_simplexes(V, P, shrink_p, shrink_n, thresholds, fresh)
            restart = np.einsum("ij,ij->i", Z - fresh, fresh - A)[:, None] > 0
            longer = np.where(restart, 1.0, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)))
            Z = fresh + np.where(restart, 0.0, (momentum - 1.0) / longer) * (fresh - A)
            A, momentum = fresh, longer
            if iteration % _CHECK == _CHECK - 1 or iteration == int(self.max_iterations) - 1:
                found = self._gaps(A, P)
                gaps[active] = found
                if found.max() < _ROUGH:
                    rough = rough[:0]
                done = found <= self.tolerance
                if done.any():
                    beta[active[done]] = np.where(P[done], A[done], -A[done])
                    left = ~done
                    active, P, A, Z = active[left], P[left], A[left], Z[left]
                    thresholds, momentum = thresholds[left], momentum[left]
                    if not len(active):
                        return beta, gaps
        raise SolverError(
            f"{len(active)} of {len(histories)} problems were not solved in {self.max_iterations} iterations: the gap "
            f"is still {gaps[active].max():.3g}, asked for {self.tolerance:g}; raise max_iterations or tolerance"
        )

    def _gaps(self, A: NDArray[np.float64], P: NDArray[np.uint8]) -> NDArray[np.float64]:
        """α'∇ − min ∇ on both sides: never less than the distance of the objective from its minimum."""
        positive = P == 1
        gradient = np.where(positive, A, -A) @ self._K
        np.negative(gradient, out=gradient, where=~positive)
        gradient += np.where(positive, self.regularization, self.regularization_negatives) * A
        gradient *= 2.0
        lowest = np.where(positive, gradient, np.inf).min(axis=1) + np.where(positive, np.inf, gradient).min(axis=1)
        out: NDArray[np.float64] = np.einsum("ij,ij->i", A, gradient) - lowest
        return out

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        beta, _ = self._solve(histories)
        np.matmul(beta, self._K, out=scores)
        # Undo the centring: β'(K_c) = β'K − β'means, the same shift for every item of a person (β sums to zero);
        # for a person with every item β sums to one, and the column means come back as well.
        total = beta.sum(axis=1)
        whole = total > 0.5
        scores += (beta @ self._means)[:, None]
        scores[whole] += self._means - self._means.mean()

    def _explain(
        self, history: Histories, item: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.float64], float]:
        beta = self._solve(history)[0][0]
        column = self._single[:, item]
        weights = beta[history.indices]
        contributions = weights * column[history.indices]
        beta[history.indices] = 0.0
        return weights, column[history.indices], contributions, float(beta @ column)

    def _similarities(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self._single[item]
        return out

    def _arrays(self) -> Arrays:
        return {"matrix": self._single}

    def _restore(self, arrays: Arrays) -> None:
        self._prepare(arrays["matrix"])  # type: ignore[arg-type]

    def _solution(self, row: Histories) -> Solution:
        beta, gaps = self._solve(row)
        positive = np.zeros(len(beta[0]), bool)
        positive[row.indices] = True
        items = self.catalogue.item_ids(np.arange(len(positive), dtype=np.int32)).to_pylist()
        return Solution(items, np.abs(beta[0]), positive, float(gaps[0]))

    solve = CFKOMD.solve
