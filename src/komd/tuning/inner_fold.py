"""One inner fold on which settings are tried, and the matrices that its trials share.

Most of a trial's time goes into the item-item matrix. A `MatrixCache` keeps the matrix of each stage, so that if
only λ or θ changes, a trial costs no more than ranking the test users.
"""

from __future__ import annotations

import warnings

from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.engine.recommender import Recommender
from komd.errors import FilterWarning
from komd.evaluation.evaluate import evaluate
from komd.matrix.build import build
from komd.matrix.matrix_cache import MatrixCache
from komd.models.cfkomd import CFKOMD

__all__ = ["InnerFold"]


class InnerFold:
    """Training data, test data, and a cache of the matrices of the training data.

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
        self._cache = MatrixCache(room) if reuse else None
        self._threads, self._memory = threads, memory

    def measure(self, model: Recommender) -> float:
        """The metric of an unfitted model on this fold."""
        fitted = self.fitted(model)
        found = evaluate(fitted, self.test, metrics=[self.metric], threads=self._threads, memory=self._memory)
        return found[self.metric].mean

    def fitted(self, model: Recommender) -> Recommender:
        """This model, fitted to the training data."""
        model = model.clone()
        model.check_data(self.train)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FilterWarning)  # a search judges approximate filters by their results
            if self._cache is None or not isinstance(model, CFKOMD):
                return model.fit(self.train, threads=self._threads, memory=self._memory)
            stages, histories, items = model.stages(), self._catalogue.histories, len(self._catalogue.order)
            options = {"storage": model.storage, "threads": self._threads, "memory": self._memory}
            values = model.kernel_values(histories)
            matrix = build(stages, histories.rows, items, values=values, cache=self._cache, **options)  # type: ignore[arg-type]
        key = (repr(stages.before_target()), model.storage, "sums")
        S = self._cache.recall(key, lambda: matrix.sums(self._threads), lambda sums: sums.nbytes)
        return model.learned(self._catalogue, matrix, S)
