"""WRMF: weighted matrix factorisation by alternating least squares (Hu, Koren & Volinsky 2008), through implicit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.checks import at_least, one_of, whole
from komd.engine.catalogue import Catalogue
from komd.engine.factor_based import FactorModel, fit_rival, rival
from komd.engine.histories import Histories
from komd.engine.results import Contributions
from komd.engine.weighted_histories import WeightedHistories
from komd.kernels.interaction_weights import WEIGHTINGS, half_life_text
from komd.matrix.item_matrix import Arrays

__all__ = ["WRMF"]


class WRMF(WeightedHistories, FactorModel):
    """Weighted matrix factorisation by alternating least squares (Hu, Koren & Volinsky, 2008).

    The preference p_ui is 1 for chosen items and 0 for all others.

        minimise  Σ_ui c_ui (p_ui − x_u · y_i)² + λ (Σ_u ‖x_u‖² + Σ_i ‖y_i‖²),   c_ui = 1 + alpha h_ui if chosen, else 1

    h_ui is 1 unless the data has weights or a half-life is set.

    The item factors are computed by implicit. The factors of a user, known or new, are always solved for exactly from
    the history (fold-in): x_u = W_u Σ_{i ∈ I_u} (1 + alpha) y_i with W_u = (Y'Y + alpha Σ_{i ∈ I_u} y_i y_i' + λI)⁻¹.
    So a score is a sum over the history,

        score(u, j) = Σ_{i ∈ I_u} (1 + alpha) s_u(i, j),   s_u(i, j) = y_i' W_u y_j

    and `explain` shows its terms: the weight 1 + alpha and the similarity s_u(i, j).

    Needs the extra `rivals`. The same `rng` gives the same model, whatever the number of threads.

    Parameters
    ----------
    factors : int
        Length of the vectors.
    iterations : int
        Rounds of alternating least squares.
    regularization : float
        λ.
    alpha : float
        How much more a chosen item counts than one that was not chosen.
    weighting : {"log", "sqrt", "linear", "none"}
        How weights are transformed into h_ui, as in `CFKOMD`.
    half_life : str, optional
        As in `CFKOMD`.
    rng : int
        Seed of the initial factors.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.WRMF(factors=8).fit(data)
    >>> model
    WRMF(factors=8)
    >>> len(model.recommend(histories={"guest": ["Amber Compass (swing)", "Amber Rocket (reggae)"]}, n=3))
    3
    """

    def __init__(
        self,
        *,
        factors: int = 64,
        iterations: int = 15,
        regularization: float = 50.0,
        alpha: float = 10.0,
        weighting: str = "log",
        half_life: str | None = None,
        rng: int = 0,
    ) -> None:
        self.factors = whole("factors", factors, 1)
        self.iterations = whole("iterations", iterations, 1)
        self.regularization = at_least("regularization", regularization, 0, open_end=True)
        self.alpha = at_least("alpha", alpha, 0)
        self.weighting = one_of("weighting", weighting, WEIGHTINGS)
        self.half_life = half_life_text(half_life)
        self.rng = whole("rng", rng, 0, most=None)

    def learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        als = rival("implicit.cpu.als", "AlternatingLeastSquares", "WRMF")
        learned = fit_rival(
            lambda: als(
                factors=int(self.factors),
                iterations=int(self.iterations),
                regularization=float(self.regularization),
                alpha=1.0,  # implicit's alpha multiplies: c is passed as it is
                random_state=int(self.rng),
                num_threads=pool.count(threads),
            ),
            catalogue.histories,
            len(catalogue.order),
            1.0 + self._extra(catalogue.histories),
            "wrmf",
            memory,
        )
        self._Y = learned.item_factors.astype(np.float64)
        self._prepare()

    def _prepare(self) -> None:
        self._base = self._Y.T @ self._Y
        self._base.flat[:: len(self._base) + 1] += float(self.regularization)

    def _extra(self, histories: Histories) -> NDArray[np.float64]:
        """c − 1 = alpha h: one number for each item of the histories, or a single one for all."""
        h = self.interaction_weights(histories)
        return np.array([self.alpha], np.float64) if h is None else float(self.alpha) * h.astype(np.float64)

    def _systems(self, histories: Histories) -> NDArray[np.float64]:
        """W_u⁻¹ (users × factors × factors)."""
        systems = np.repeat(self._base[None], len(histories), axis=0)
        extra = self._extra(histories)
        for u in range(len(histories)):
            row = slice(histories.indptr[u], histories.indptr[u + 1])
            Y_u = self._Y[histories.indices[row]]
            systems[u] += extra * (Y_u.T @ Y_u) if len(extra) == 1 else (Y_u.T * extra[row]) @ Y_u
        return systems

    def _user_factors(self, histories: Histories) -> NDArray[np.float64]:
        wishes: NDArray[np.float64] = np.zeros((len(histories), self._Y.shape[1]))
        filled = np.flatnonzero(histories.lengths)
        if len(filled):
            c, Y = 1.0 + self._extra(histories), self._Y[histories.indices]
            Y = Y if len(c) == 1 else Y * c[:, None]
            sums = np.add.reduceat(Y, histories.indptr[filled], axis=0)
            wishes[filled] = c * sums if len(c) == 1 else sums
        return _solved(self._systems(histories), wishes[:, :, None])[:, :, 0]

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        seen = _solved(self._systems(history)[0], self._Y[items].T)
        similarities = self._Y[history.indices] @ seen
        weights = np.broadcast_to(1.0 + self._extra(history), len(similarities)).copy()
        parts = weights[:, None] * similarities
        return Contributions(weights, similarities.astype(np.float32), parts, np.zeros(len(items)), history.indices)

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._prepare()


def _solved(systems: NDArray[np.float64], sides: NDArray[np.float64]) -> NDArray[np.float64]:
    """numpy's solve, whose type is looser than its answer."""
    return np.asarray(np.linalg.solve(systems, sides), np.float64)
