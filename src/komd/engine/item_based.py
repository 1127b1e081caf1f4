"""The scorer that all item-based methods share.

Whatever the method, a person is a short list of weights w on the items of their own history, plus one scalar b on one
global vector S of the items:

    score(u, j) = Σ_{i ∈ I_u} w_i M(i, j) − b S_j

A method says what M and S are when it learns, and what w and b are for a history. Everything else is here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories, well_formed
from komd.engine.recommender import Arrays, Recommender
from komd.engine.results import Contributions
from komd.errors import ModelFileError
from komd.matrix.item_matrix import DenseMatrix, ItemMatrix, SparseMatrix
from komd.matrix.low_rank import UpdatedMatrix

__all__ = ["ItemBased", "Neighbourhood", "RowSums"]

RowSums: TypeAlias = Callable[[ItemMatrix], NDArray[np.float64]]


class ItemBased(Recommender):
    """A model whose scores are weighted sums of rows of an item-item matrix."""

    _matrix: ItemMatrix
    _S: NDArray[np.float64]

    @abstractmethod
    def _build(
        self, catalogue: Catalogue, threads: int | None, memory: str | int | None, row_sums: RowSums
    ) -> tuple[ItemMatrix, NDArray[np.float64]]:
        """M and S. A method whose S is made of the sums of M's rows asks `row_sums` for them."""

    @abstractmethod
    def _weigh(self, histories: Histories) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """w, aligned with the items of the histories, and b, one for each person."""

    def _learn(
        self, catalogue: Catalogue, threads: int | None, memory: str | int | None, row_sums: RowSums | None = None
    ) -> None:
        """Build M and S: here, or, with `row_sums`, with the sums of M's rows made elsewhere (by Spark's tasks)."""
        summed = row_sums or (lambda matrix: matrix.sums(threads))
        self._matrix, self._S = self._build(catalogue, threads, memory, summed)

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        from komd._core.scoring import score_dense, score_sparse

        weights, offsets = self._weigh(histories)
        updated = self._matrix if isinstance(self._matrix, UpdatedMatrix) else None
        dense, indptr, indices, values = (updated.base if updated else self._matrix).compiled_form()
        people = (histories.indptr, histories.indices, weights, offsets, scores)
        if self._matrix.storage == "dense":
            score_dense(dense, self._S, *people)
        else:
            score_sparse(indptr, indices, values, self._S, *people)
        if updated:
            standing = updated.projected(histories.indptr, histories.indices, weights)
            updated.take_scores(standing, scores)

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        weights, offsets = self._weigh(history)
        similarities = self._matrix.entries(history.indices, items)
        parts = weights[:, None] * similarities
        if isinstance(self._matrix, UpdatedMatrix):
            # A score's sum over the factors is in single precision: what that rounds off goes to the largest part.
            scores = weights @ self._matrix.base.entries(history.indices, items)
            projected = self._matrix.projected(history.indptr, history.indices, weights)
            self._matrix.take_targets(projected, np.array([0, len(items)]), items, scores)
            parts[np.abs(parts).argmax(axis=0), np.arange(len(items))] += scores - parts.sum(axis=0)
        return Contributions(weights, similarities, parts, -offsets[0] * self._S[items])

    def similarities_to(self, item: int) -> NDArray[np.float32]:
        return self._matrix.row(item)

    def learned_arrays(self) -> Arrays:
        return {"S": self._S, **self._matrix.arrays()}

    def _layouts(self) -> list[set[str]]:
        return [{"S"} | kind.names for kind in (DenseMatrix, SparseMatrix)]

    def _restore(self, arrays: Arrays) -> None:
        self._S = self._saved_sums(arrays)
        self._matrix = matrix = ItemMatrix.from_arrays(arrays)
        m = len(self._S)
        if matrix.items != m or (
            isinstance(matrix, SparseMatrix) and not well_formed(matrix.indptr, matrix.indices, m, m)
        ):
            raise ModelFileError("the saved matrix is not one of these items; save the model again")

    def _saved_sums(self, arrays: Arrays) -> NDArray[np.float64]:
        S = arrays["S"]
        if S.dtype != np.float64 or S.shape != arrays["order"].shape:
            raise ModelFileError("the saved sums are not those of these items; save the model again")
        return S  # type: ignore[return-value]


class Neighbourhood(ItemBased):
    """An item-based model in which every item of a history has the same say: w = 1, S = 0."""

    @abstractmethod
    def _neighbours(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        """M."""

    def _build(
        self, catalogue: Catalogue, threads: int | None, memory: str | int | None, row_sums: RowSums
    ) -> tuple[ItemMatrix, NDArray[np.float64]]:
        return self._neighbours(catalogue, threads, memory), np.zeros(len(catalogue.order))

    def _weigh(self, histories: Histories) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # b stands before S = 0. Negative zero, so that −b S is +0 and nobody is shown a score of −0.
        return np.ones(len(histories.indices)), np.full(len(histories), -0.0)
