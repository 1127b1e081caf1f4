"""The scorer that all factor models share.

A user is a vector x of factors, an item a vector y of factors:

    score(u, j) = x_u · y_j

A method defines Y when it is fitted, and x for a history. A block of users is scored by one matrix product. The factors
are learned by the library implicit, which is an extra: `rival` imports it, or says what to install.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.engine.histories import Histories
from komd.engine.recommender import Recommender
from komd.errors import InputError, ModelFileError, SolverError, argument, install
from komd.matrix.item_matrix import Arrays
from komd.memory import budget, readable
from komd.progress import progress

__all__ = ["FactorModel", "factors_of", "fit_rival", "rival"]


class FactorModel(Recommender):
    """A model whose scores are products of a user's factors and an item's."""

    _Y: NDArray[np.float64]

    @abstractmethod
    def _user_factors(self, histories: Histories) -> NDArray[np.float64]:
        """X (users × factors)."""

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        np.matmul(self._user_factors(histories), self._Y.T, out=scores)

    def similarities_to(self, item: int) -> NDArray[np.float32]:
        """The cosine between factors; zero for an item without any."""
        lengths = np.linalg.norm(self._Y, axis=1)
        lengths[lengths == 0] = 1.0
        cosines: NDArray[np.float64] = self._Y @ self._Y[item] / (lengths * lengths[item])
        return cosines.astype(np.float32)

    def learned_arrays(self) -> Arrays:
        return {"item_factors": self._Y}

    def _layouts(self) -> list[set[str]]:
        return [{"item_factors"}]

    def _restore(self, arrays: Arrays) -> None:
        self._Y = factors_of(arrays["item_factors"], len(arrays["order"]))


def factors_of(array: NDArray[np.generic], rows: int) -> NDArray[np.float64]:
    """Saved factors of so many users or items; refuses what cannot be."""
    if array.dtype != np.float64 or array.ndim != 2 or len(array) != rows:
        raise ModelFileError("the saved factors are not those of these users and items; save the model again")
    return array  # type: ignore[return-value]


def rival(module: str, name: str, model: str) -> Callable[..., Any]:
    """The class `name` of implicit's `module`; InputError says what to install where implicit is missing."""
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise InputError(
            f"{model} is learned by the library implicit, which is not installed: {install('rivals')}"
        ) from error
    return found


def fit_rival(
    build: Callable[[], Any],
    histories: Histories,
    items: int,
    values: float | NDArray[np.float64],
    label: str,
    memory: str | int | None,
) -> Any:
    """A model of implicit, fitted to these histories; `values` are those of the pairs, or one value for all.

    BLAS is limited to one thread meanwhile: implicit has its own threads, and warns if BLAS uses more.
    """
    from implicit.recommender_base import ModelFitError
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    data = np.empty(len(histories.indices), np.float32)
    data[:] = values
    # implicit's BPR needs both index arrays in one type, and only int32 fits its compiled signatures on all systems.
    rows = csr_matrix((data, histories.indices, histories.indptr.astype(np.int32)), shape=(len(histories), items))
    with threadpool_limits(1, user_api="blas"):
        model = build()
        # Factors in single precision, their copy in double precision, and the square matrix of a user's problem.
        needed, room = 12 * (len(histories) + items) * model.factors + 8 * model.factors**2, budget(memory)
        if needed > room:
            raise InputError(
                f"{model.factors:,} factors of {len(histories):,} users and {items:,} items need {readable(needed)}, "
                f"and the budget is {readable(room)}; use fewer factors, or raise {argument('memory')}"
            )
        with progress(label, model.iterations) as advance:

            def learn(check: Callable[[], None]) -> None:
                def iterated(*_: object) -> None:
                    check()
                    advance(1)

                model.fit(rows, show_progress=False, callback=iterated)

            try:
                pool.apart(learn)
            except ModelFitError as error:
                raise _diverged(label) from error
    if not (np.isfinite(model.item_factors).all() and np.isfinite(model.user_factors).all()):
        raise _diverged(label)
    return model


def _diverged(label: str) -> SolverError:
    return SolverError(
        f"{label.upper()} diverged: its factors are no longer finite numbers; use a smaller learning_rate, alpha or "
        "regularization"
    )
