"""BPR: matrix factorisation by Bayesian personalised ranking (Rendle et al. 2009), through implicit."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from komd.checks import at_least, whole
from komd.engine.catalogue import Catalogue
from komd.engine.factor_based import FactorModel, factors_of, fit_rival, rival
from komd.engine.histories import Histories
from komd.errors import InputError, ModelFileError
from komd.matrix.item_matrix import Arrays

__all__ = ["BPR"]


class BPR(FactorModel):
    """Bayesian personalised ranking of matrix factors (Rendle et al., 2009): score(u, j) = x_u · y_j + b_j.

    The method learns a vector for each user of the training data and cannot derive one from a history. New users are
    refused with an InputError, and so is `explain`, because no part of a score belongs to an item of the history.

    The factors are computed by implicit, which differs from the paper in its sampling: negative items are drawn in
    proportion to their popularity instead of uniformly, which costs accuracy when all items are candidates (`BPRKNN`
    draws uniformly).

    Needs the extra `rivals`. The gradient steps run in one thread, whatever `fit(threads=)` says, because several
    threads would overwrite each other's results. The same `rng` gives the same model.

    Parameters
    ----------
    factors : int
        Length of the vectors, not counting the bias of an item.
    iterations : int
        Number of epochs; an epoch has as many gradient steps as there are pairs.
    learning_rate : float
        Length of a gradient step.
    regularization : float
        Penalty on all factors and biases.
    rng : int
        Seed of the initial factors and of the sampling.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.BPR(factors=8).fit(data)
    >>> model
    BPR(factors=8)
    >>> len(model.recommend("user-00042", n=3))
    3
    >>> model.recommend(histories={"guest": ["Amber Compass (swing)"]})
    Traceback (most recent call last):
    komd.errors.InputError: BPR serves only the users it was fitted to: ...
    """

    serves_strangers = False

    def __init__(
        self,
        *,
        factors: int = 64,
        iterations: int = 30,
        learning_rate: float = 0.01,
        regularization: float = 0.001,
        rng: int = 0,
    ) -> None:
        self.factors = whole("factors", factors, 1)
        self.iterations = whole("iterations", iterations, 1)
        self.learning_rate = at_least("learning_rate", learning_rate, 0, open_end=True)
        self.regularization = at_least("regularization", regularization, 0)
        self.rng = whole("rng", rng, 0, most=None)

    _X: NDArray[np.float64]

    def learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        bpr = rival("implicit.cpu.bpr", "BayesianPersonalizedRanking", "BPR")
        learned = fit_rival(
            lambda: bpr(
                factors=int(self.factors),
                iterations=int(self.iterations),
                learning_rate=float(self.learning_rate),
                regularization=float(self.regularization),
                random_state=int(self.rng),
                num_threads=1,
            ),
            catalogue.histories,
            len(catalogue.order),
            1.0,
            "bpr",
            memory,
        )
        # implicit's last column is 1 for users and the bias for items.
        self._X = learned.user_factors.astype(np.float64)
        self._Y = learned.item_factors.astype(np.float64)

    def _user_factors(self, histories: Histories) -> NDArray[np.float64]:
        if histories.users is not None:
            return self._X[histories.users]
        if histories.lengths.any():
            raise InputError(
                "BPR serves only the users it was fitted to: it cannot make factors from a history; for new users "
                "use BPRKNN, WRMF or an item-based model, or fit again with their pairs"
            )
        return np.zeros((len(histories), self._X.shape[1]))  # users without a history, whom popularity serves

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> NoReturn:
        raise InputError(
            "BPR cannot explain a score: it is a product of learned factors, and no part of it belongs to an item of "
            "the history; BPRKNN (the same criterion) and WRMF can"
        )

    def learned_arrays(self) -> Arrays:
        return {"user_factors": self._X, **super().learned_arrays()}

    def _layouts(self) -> list[set[str]]:
        return [{"user_factors", "item_factors"}]

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._X = factors_of(arrays["user_factors"], len(arrays["history_indptr"]) - 1)
        if self._X.shape[1] != self._Y.shape[1]:
            raise ModelFileError("the saved factors do not belong together; save the model again")
