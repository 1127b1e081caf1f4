"""Where settings are tried: one round of inner folds, and what its trials have in common.

Most of a trial's time goes into the item-item matrix. CF-KOMD's is made in stages, so each stage is kept while there is
room: the kernel of the weighted counts for each kernel and γ, and the stretched and filtered matrix for each β and μ.
A change of λ or θ alone then costs a ranking of the test users and no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.errors import SolverError
from komd.evaluation.evaluate import evaluate
from komd.interactions.interactions import Interactions
from komd.kernels.matrix import DenseMatrix, ItemMatrix, SparseMatrix
from komd.kernels.spectral import filter_ridge, ridge_precision
from komd.models.catalogue import Catalogue
from komd.models.cfkomd import CFKOMD, stretched
from komd.models.recommender import Recommender

__all__ = ["Workshop"]

_ROWS = 256


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
        self._kept: OrderedDict[tuple[Any, ...], tuple[ItemMatrix, NDArray[np.float64]]] = OrderedDict()

    def measure(self, model: Recommender) -> float:
        """The metric of an unfitted model on this round."""
        fitted = self.fitted(model)
        found = evaluate(fitted, self.test, metrics=[self.metric], threads=self._threads, memory=self._memory)
        return found[self.metric].mean

    def fitted(self, model: Recommender) -> Recommender:
        """This model, fitted to what trains."""
        model = model.clone()
        if self._reuse and isinstance(model, CFKOMD):
            matrix, S = self._staged(model)
            if matrix.storage != "streamed":
                model._matrix, model._S, model._catalogue = matrix, S, self._catalogue
                return model
        return model.fit(self.train, threads=self._threads, memory=self._memory)

    def _staged(self, model: CFKOMD) -> tuple[ItemMatrix, NDArray[np.float64]]:
        """K and its sums, as far as they can be had from what is kept."""
        storage = model.storage if model.ridge is None else "dense"
        kernel = (type(model), repr(model._kernel()), float(model.user_damping), storage)
        stages = (*kernel, float(model.popularity), model.ridge)
        if stages in self._kept:
            return self._recall(stages, lambda: self._kept[stages])
        if not model.popularity and model.ridge is None:
            return self._recall(stages, lambda: self._made(model, storage))
        plain, _ = self._recall((*kernel, 0.0, None), lambda: self._made(model, storage))
        if plain.storage == "streamed":
            return plain, np.zeros(0)
        return self._recall(stages, lambda: self._changed(model, plain))

    def _made(self, model: CFKOMD, storage: str | None) -> tuple[ItemMatrix, NDArray[np.float64]]:
        """The kernel of the weighted counts, neither stretched nor filtered."""
        if model.ridge is not None:
            ridge_precision(self._catalogue.popularity.size, self._chosen, self._memory)  # refuses before any work
        plain = model.clone()
        # Set past the constructor, which a subclass may have with fewer parameters.
        plain.popularity, plain.ridge, plain.storage = 0.0, None, storage
        plain._learn(self._catalogue, self._threads, self._memory)
        return plain._matrix, plain._S

    def _changed(self, model: CFKOMD, plain: ItemMatrix) -> tuple[ItemMatrix, NDArray[np.float64]]:
        """The same stretched, then filtered."""
        if model.ridge is None:
            K = self._stretched(plain, float(model.popularity))
            return K, K.sums()
        double = ridge_precision(plain.items, self._chosen, self._memory)
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

        for _ in pool.run(part, pool.blocks(plain.items, _ROWS), threads=self._threads):
            pass
        return DenseMatrix(out)

    def _recall(
        self, key: tuple[Any, ...], make: Callable[[], tuple[ItemMatrix, NDArray[np.float64]]]
    ) -> tuple[ItemMatrix, NDArray[np.float64]]:
        """What is kept under this key, made now if it is not; what was used longest ago makes room."""
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(matrix.bytes for matrix, _ in self._kept.values()) > self._room:
            self._kept.popitem(last=False)
        return self._kept[key]

    @property
    def _chosen(self) -> int:
        return int(np.count_nonzero(self._catalogue.popularity))
