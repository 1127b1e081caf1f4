"""Popularity: the same list for every user. The baseline that any method must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import OwnEntries
from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.engine.renewed_catalogue import CatalogueChange
from komd.engine.updates import Updatable
from komd.matrix.item_matrix import BlockSums, ItemMatrix
from komd.matrix.sparse import SparseMatrix

__all__ = ["Popularity"]


class Popularity(Updatable):
    """Score every item by the number of its users: the same order for everyone.

    It is the baseline of every comparison, and what users without a history get from any model. In the terms of
    ARCHITECTURE.md: M = 0, S = popularity, b = −1.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=50, items=20, activity=5, rng=0)
    >>> len(komd.Popularity().fit(data).recommend("user-00007", n=3))
    3
    """

    def __init__(self) -> None:
        pass

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        items = len(catalogue.order)
        return SparseMatrix(np.zeros(items + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

    def _build_sums(
        self, matrix: ItemMatrix, catalogue: Catalogue, threads: int | None, block_sums: BlockSums | None
    ) -> NDArray[np.float64]:
        return catalogue.popularity

    def _renewed(
        self, change: CatalogueChange, threads: int | None, memory: str | int | None, in_place: bool
    ) -> tuple[dict[str, Any], int, str | None]:
        matrix = self._build_matrix(change.new, threads, memory)
        return {"matrix": matrix, "S": self._build_sums(matrix, change.new, threads, None)}, 0, None

    def weigh(
        self, rows: Histories, own: OwnEntries, threads: int | None = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros(len(rows.indices)), np.full(len(rows), -1.0)
