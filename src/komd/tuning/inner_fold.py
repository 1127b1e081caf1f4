"""Where settings are tried: one round of inner folds, and what its trials have in common.

Most of a trial's time goes into the item-item matrix. CF-KOMD's is made in stages, so each stage is kept while there is
room: the kernel of the weighted counts for each kernel and γ, the stretched matrix for each β (and its eigenvectors,
where filters are of low rank), the filtered one for each μ, and the one with a prior. A change of λ or θ alone then
costs a ranking of the test users and no more.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.engine.recommender import Recommender
from komd.errors import FilterWarning, SolverError
from komd.evaluation.evaluate import evaluate
from komd.kernels.stages import RANK, stretched
from komd.matrix.eigenvectors import Spectrum, leading
from komd.matrix.item_matrix import DenseMatrix, ItemMatrix, SparseMatrix
from komd.matrix.low_rank import with_prior
from komd.matrix.low_rank_filter import filter_truncated
from komd.matrix.ridge_filter import filter_ridge
from komd.models.cfkomd import CFKOMD

__all__ = ["Workshop"]

_ROWS = 256

Kept = TypeVar("Kept")
Made = tuple[ItemMatrix, NDArray[np.float64]]


class Workshop:
    """One round: what trains, what tests, and matrices that were made from what trains.

    `reuse=False` fits every model from the data alone, which is what `reuse=True` must equal.
    """

    def __init__(
        self,
        train: Interactions,
        test: Interactions,
        metric: str,
        *,
        room: int,
        reuse: bool = True,
        threads: int | None = None,
        memory: str | int | None = None,
    ) -> None:
        self.train, self.test, self.metric = train, test, metric
        self._catalogue = Catalogue.of(train)
        self._room, self._reuse, self._threads, self._memory = room, reuse, threads, memory
        self._kept: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()  # each with its bytes

    def measure(self, model: Recommender) -> float:
        """The metric of an unfitted model on this round."""
        fitted = self.fitted(model)
        found = evaluate(fitted, self.test, metrics=[self.metric], threads=self._threads, memory=self._memory)
        return found[self.metric].mean

    def fitted(self, model: Recommender) -> Recommender:
        """This model, fitted to what trains."""
        model = model.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FilterWarning)  # a search judges rough filters by what they do
            if self._reuse and isinstance(model, CFKOMD):
                matrix, S = self._staged(model)
                if matrix.storage != "streamed":
                    model._matrix, model._S, model._catalogue = matrix, S, self._catalogue
                    return model
            return model.fit(self.train, threads=self._threads, memory=self._memory)

    def _staged(self, model: CFKOMD) -> Made:
        """K and its sums, as far as they can be had from what is kept."""
        matrix, S = self._without_prior(model)
        if not model.prior or matrix.storage == "streamed":
            return matrix, S

        def made() -> Made:
            K = DenseMatrix(matrix.values.copy(), matrix.truncation) if isinstance(matrix, DenseMatrix) else matrix
            return self._with_sums(with_prior(K, model._common(self._catalogue), threads=self._threads))

        filtered = (model.popularity, model.ridge, model.rank, model.storage)
        key = (type(model), repr(model._kernel()), model.user_damping, *filtered, model.prior, model.prior_power)
        return self._recall(key, made)

    def _without_prior(self, model: CFKOMD) -> Made:
        exact = None
        if model.ridge is not None:
            exact = model._exact_filter(self._catalogue.popularity.size, self._chosen, self._memory)
        storage = model.storage if exact is None else "dense"
        kernel = (type(model), repr(model._kernel()), float(model.user_damping), storage)

        def plain() -> Made:
            return self._recall((*kernel, 0.0), lambda: self._made(model, storage))

        def stretched() -> Made:
            if not model.popularity or plain()[0].storage == "streamed":
                return plain()
            return self._recall((*kernel, power), lambda: self._with_sums(self._stretched(plain()[0], power)))

        power = float(model.popularity)
        if model.ridge is None:
            return stretched()
        if exact is not None:
            return self._recall((*kernel, power, model.ridge), lambda: self._filtered(model, plain()[0], exact))
        matrix, _ = stretched()
        if matrix.storage == "streamed":
            return matrix, np.zeros(0)
        rank = int(model.rank or RANK)

        def filtered() -> Made:
            spectrum = self._recall(
                (*kernel, power, "eigenvectors", rank),
                lambda: leading(matrix, rank, self._chosen, threads=self._threads),
            )
            K = DenseMatrix(matrix.values.copy()) if isinstance(matrix, DenseMatrix) else matrix
            assert model.ridge is not None
            return self._with_sums(
                filter_truncated(K, spectrum, float(model.ridge), self._chosen, threads=self._threads)
            )

        return self._recall((*kernel, power, model.ridge, rank), filtered)

    def _made(self, model: CFKOMD, storage: str | None) -> Made:
        """The kernel of the weighted counts, neither stretched nor filtered."""
        plain = model.clone()
        # Set past the constructor, which a subclass may have with fewer parameters.
        plain.popularity, plain.ridge, plain.prior, plain.storage = 0.0, None, 0.0, storage
        plain._learn(self._catalogue, self._threads, self._memory)
        return plain._matrix, plain._S

    def _filtered(self, model: CFKOMD, plain: ItemMatrix, double: type[np.float32] | type[np.float64]) -> Made:
        """The same stretched, then filtered exactly."""
        assert model.ridge is not None
        for precision in (np.float32, double):  # single is twice as fast, and nearly always does
            K = self._stretched(plain, float(model.popularity))
            assert isinstance(K, DenseMatrix)
            try:
                filter_ridge(K, float(model.ridge), precision=precision, threads=self._threads)
            except SolverError:
                if precision is double:
                    raise
                continue
            break
        return self._with_sums(K)

    def _with_sums(self, K: ItemMatrix) -> Made:
        return K, K.sums()

    def _stretched(self, plain: ItemMatrix, power: float) -> ItemMatrix:
        scale = stretched(self._catalogue.popularity.astype(np.int64), power).astype(np.float32)
        if isinstance(plain, SparseMatrix):
            rows = np.repeat(np.arange(plain.items, dtype=np.int32), np.diff(plain.indptr))
            values = plain.values * (scale[rows] * scale[plain.indices])
            return SparseMatrix(plain.indptr, plain.indices, values)
        assert isinstance(plain, DenseMatrix)
        out = np.empty_like(plain.values)

        def part(block: tuple[int, int]) -> None:
            a, b = block
            np.multiply(plain.values[a:b], scale[a:b, None] * scale[None, :], out=out[a:b])

        pool.for_each(part, pool.blocks(plain.items, _ROWS), threads=self._threads)
        return DenseMatrix(out)

    def _recall(self, key: tuple[Any, ...], make: Callable[[], Kept]) -> Kept:
        """What is kept under this key, made now if it is not; what was used longest ago makes room."""
        if key not in self._kept:
            made = make()
            self._kept[key] = (made, made.vectors.nbytes if isinstance(made, Spectrum) else made[0].bytes)  # type: ignore[index]
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > self._room:
            self._kept.popitem(last=False)
        kept: Kept = self._kept[key][0]
        return kept

    @property
    def _chosen(self) -> int:
        return int(np.count_nonzero(self._catalogue.popularity))
