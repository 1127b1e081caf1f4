"""Item-based models whose matrix is made of counts: it may be held dense or sparse, or streamed."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories, well_formed
from komd.engine.item_based import ItemBased, Neighbourhood
from komd.engine.parameters import one_of
from komd.engine.ranking import RankedBlock, RankingRequest
from komd.engine.recommender import Arrays
from komd.engine.results import Contributions
from komd.engine.streamed_ranking import is_streamed, rank_streamed, room_for, score_streamed
from komd.errors import ModelFileError
from komd.kernels.entries import Recipe
from komd.kernels.functions import Kernel
from komd.matrix.build import kernel_matrix
from komd.matrix.density import sampled_density
from komd.matrix.item_matrix import DenseMatrix, ItemMatrix, SparseMatrix, Truncation
from komd.matrix.low_rank import UpdatedMatrix, with_prior
from komd.matrix.storage import STORAGES, Plan, plan
from komd.matrix.streamed import StreamedMatrix

__all__ = ["CountedNeighbourhood", "FromCounts", "storage_word"]

_SHARED = 16  # people scored together at least, to whom the low-rank part of a filter is read once
_AT_HAND = 0.3  # of the room: rows of a streamed matrix that may be held at once for a short request


def storage_word(storage: str | None) -> None:
    """Refuse a storage that there is not."""
    if storage is not None:
        one_of("storage", storage, STORAGES)


class FromCounts(ItemBased):
    """An item-based model that needs of its data only how often items were chosen together."""

    storage: str | None
    _held: Plan | None = None
    _needs_squares = False
    """Whether weights take the matrix between a person's own items."""

    @abstractmethod
    def _counting(self, rows: Histories, items: int) -> tuple[Kernel, dict[str, Any]]:
        """The kernel of the counts, and how users and items count (keywords of `kernel_matrix`)."""

    def _weigh_gathered(
        self, people: Histories, blocks: NDArray[np.float32], starts: NDArray[np.int64], threads: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`_weigh` where the matrix between everybody's own items has been gathered."""
        raise NotImplementedError

    def _planned(
        self, catalogue: Catalogue, threads: int | None, memory: str | int | None, storage: str | None = None
    ) -> Plan:
        """How to hold the matrix: as `storage` says, or else as the model does."""
        rows, m = catalogue.histories, len(catalogue.order)

        def measure() -> float:
            return sampled_density(rows.indptr, rows.indices, m, threads=threads).value

        popularity, asked = catalogue.popularity.astype(np.int64), storage or self.storage
        return plan(popularity, rows.lengths, memory=memory, storage=asked, measure=measure, streams=True)

    def _counted(
        self, catalogue: Catalogue, threads: int | None, memory: str | int | None, storage: str | None = None
    ) -> ItemMatrix:
        """The matrix, held as planned."""
        rows, m = catalogue.histories, len(catalogue.order)
        how = self._planned(catalogue, threads, memory, storage)
        kernel, options = self._counting(rows, m)
        matrix = kernel_matrix(kernel, rows.indptr, rows.indices, m, how, threads=threads, **options)
        self._held = how if how.storage == "streamed" else None
        return matrix

    @property
    def held(self) -> Plan:
        """How the matrix is held: its storage, how full it is, and what it weighs."""
        catalogue = self.catalogue
        if self._held is None:
            matrix = self._matrix
            if matrix.storage == "streamed":
                popularity = catalogue.popularity.astype(np.int64)
                self._held = plan(popularity, catalogue.histories.lengths, storage="streamed")
            else:
                share = matrix.nonzeros / matrix.items**2
                self._held = Plan(matrix.storage, matrix.items, share, matrix.bytes, exact=True)
        return self._held

    def __repr__(self) -> str:
        if self._catalogue is None:
            return self.text
        rough = f"; {self._matrix.truncation}" if self._matrix.truncation else ""
        return f"{self.text}  # {self.held}{rough}"

    def _users_per_block(self) -> int:
        usual = super()._users_per_block()
        return max(_SHARED, usual) if isinstance(self._matrix, UpdatedMatrix) else usual

    def _at_hand(self, histories: Histories) -> Self:
        """This model with the rows that these people need in memory."""
        if not is_streamed(self._matrix):
            return self
        near = copy.copy(self)
        near._matrix = self._matrix.rows(np.unique(histories.indices))
        return near

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        near = self._at_hand(histories)
        super(FromCounts, near)._score(histories, scores)

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        near = self._at_hand(history)
        return super(FromCounts, near)._explain(history, items)

    def _scored(
        self, rows: Histories, targets: Histories, *, threads: int | None, memory: str | int | None, label: str
    ) -> NDArray[np.float64]:
        matrix = self._matrix
        if not is_streamed(matrix):
            return super()._scored(rows, targets, threads=threads, memory=memory, label=label)
        return score_streamed(self, matrix, rows, targets, threads=threads, memory=memory, label=label)

    def ranked_blocks(
        self,
        rows: Histories,
        question: RankingRequest,
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        label: str = "",
    ) -> Iterator[RankedBlock]:
        matrix = self._matrix
        if not is_streamed(matrix):
            return super().ranked_blocks(rows, question, threads=threads, memory=memory, label=label)
        needed = int(matrix.row_bounds(np.unique(rows.indices)).sum())
        if 8 * needed <= _AT_HAND * room_for(memory):
            return super(FromCounts, self._at_hand(rows)).ranked_blocks(
                rows, question, threads=threads, memory=memory, label=label
            )
        return rank_streamed(self, matrix, rows, question, threads=threads, memory=memory, label=label)

    def _layouts(self) -> list[set[str]]:
        kinds = (DenseMatrix, SparseMatrix, StreamedMatrix)
        return [{"S"} | kind.names for kind in kinds if self.storage in (None, kind.storage)]

    def _restore(self, arrays: Arrays) -> None:
        self._held = None
        if any(name.startswith("matrix") for name in arrays):
            super()._restore(arrays)
        else:
            rows = Histories(arrays["history_indptr"], arrays["history_indices"])  # type: ignore[arg-type]
            m = len(arrays["order"])
            kernel, options = self._counting(rows, m)
            recipe = Recipe.of(kernel, rows.indptr, rows.indices, m, **options)
            self._matrix = StreamedMatrix(recipe, rows.indptr, rows.indices, _turned_over(arrays))
            self._S = self._saved_sums(arrays)
        if "filter" in arrays:
            self._matrix = _with_filter(self._matrix, arrays)
        if "prior" in arrays:
            prior: Any = arrays["prior"]
            dense = self._matrix.storage == "dense"  # which holds it already
            if dense or prior.dtype != np.float32 or prior.shape != (self._matrix.items,):
                raise ModelFileError("the saved prior is not one of these items; save the model again")
            self._matrix = with_prior(self._matrix, prior)


def _with_filter(base: ItemMatrix, arrays: Arrays) -> UpdatedMatrix:
    """The matrix with the low-rank part that was saved."""
    W: Any = arrays["filter"]
    scale: Any = arrays["filter_scale"]
    truncation = Truncation.from_arrays(arrays)
    fits = W.dtype == np.float32 and W.ndim == 2 and len(W) == base.items and scale.shape == (1,) and scale[0] > 0
    if not fits or truncation is None or not isinstance(base, (SparseMatrix, StreamedMatrix)):
        raise ModelFileError("the saved filter is not one of these items; save the model again")
    if isinstance(base, StreamedMatrix):  # counted from the recipe of K; a sparse one was saved as it is
        base = base.scaled(float(scale[0]))
    return UpdatedMatrix(base, W, truncation=truncation, scale=float(scale[0]))


def _turned_over(arrays: Arrays) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """The pairs by item, where they were saved; compiled code trusts them, so they must fit the rest."""
    if "item_users" not in arrays:
        return None
    indptr: Any = arrays["item_indptr"]
    users: Any = arrays["item_users"]
    people, pairs = len(arrays["history_indptr"]) - 1, len(arrays["history_indices"])
    if len(users) != pairs or not well_formed(indptr, users, len(arrays["order"]), people):
        raise ModelFileError("the saved arrays do not belong together; save the model again")
    return indptr, users


class CountedNeighbourhood(FromCounts, Neighbourhood):
    """One in which every item of a history has the same say."""

    def _neighbours(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        return self._counted(catalogue, threads, memory)
