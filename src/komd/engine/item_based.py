"""What all item-based methods share.

In all of them, a user is represented by weights w on the items of their own history, and by one scalar b, the factor of
a global vector S over all items:

    score(u, j) = t_j Σ_{i ∈ I_u} w_i M(i, j) − b S_j

A method defines M, S and t (1 by default) when it is fitted, and w and b for a history. M and S may be stored divided
by one `factor`, which is then part of t. Everything else is shared.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd._core.groups import OwnEntries, WeightedUsers
from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.engine.ranking import RankedBlock, RankingRequest, rank_blocks
from komd.engine.recommender import Recommender
from komd.engine.results import Contributions
from komd.engine.streamed_ranking import rank_streamed, room_for, score_streamed
from komd.engine.weight_cache import WeightCache, Weights
from komd.errors import ModelFileError
from komd.matrix.item_matrix import Arrays, BlockSums, ItemMatrix
from komd.matrix.saved import layouts, restored

__all__ = ["ItemBased", "Neighbourhood", "SumsElsewhere"]

SumsElsewhere: TypeAlias = Callable[[ItemMatrix, list[tuple[int, int]]], Iterable[NDArray[np.float64]]]
"""The sums of blocks of rows of a matrix, as `BlockSums`."""

Number = TypeVar("Number", np.float32, np.float64)

_ROWS_SHARE = 0.3  # of the memory: rows of a streamed matrix that may be held at once for a short request


class ItemBased(Recommender):
    """A model whose scores are weighted sums of rows of an item-item matrix.

    Attributes
    ----------
    matrix
        M, after `fit`, divided by `factor`.
    S
        The global vector, after `fit`, divided by `factor`.
    factor
        What `matrix` and `S` are to be multiplied by; None for 1.
    target_factors
        t times `factor`, after `fit`; None for ones.
    """

    matrix: ItemMatrix
    S: NDArray[np.float64]
    factor: float | None = None
    target_factors: NDArray[np.float64] | None = None
    needs_own_entries: ClassVar[bool] = False
    """Whether the weights of a user take M between the user's own items."""
    _kept: tuple[ItemMatrix, WeightCache] | None = None  # the cache of weights, and the M that it belongs to

    @abstractmethod
    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        """M."""

    def _build_sums(
        self, matrix: ItemMatrix, catalogue: Catalogue, threads: int | None, block_sums: BlockSums | None
    ) -> NDArray[np.float64]:
        """S for this M: zeros. `block_sums` is as in `ItemMatrix.sums`."""
        return np.zeros(len(catalogue.order))

    def _build_factor(self, catalogue: Catalogue) -> float | None:
        """What M and S for this catalogue are divided by: 1."""
        return None

    def _build_target_factors(self, catalogue: Catalogue) -> NDArray[np.float64] | None:
        """t for this catalogue: ones."""
        return None

    def _scored_factors(self, catalogue: Catalogue, factor: float | None) -> NDArray[np.float64] | None:
        """t times the factor."""
        t = self._build_target_factors(catalogue)
        if factor is None:
            return t
        return np.full(len(catalogue.order), factor) if t is None else factor * t

    def scored_rows(self, histories: Histories) -> Histories:
        """The rows that `weigh` and scoring take: the histories, and other items that affect the scores (dislikes).

        Their `weights` are how much each item counts for this method, or None.
        """
        return histories

    @abstractmethod
    def weigh(self, rows: Histories, own: OwnEntries, threads: int | None = 1) -> Weights:
        """w, aligned with the items of `scored_rows`, and b, one for each user; `own` is M between their own items."""

    def learn(
        self,
        catalogue: Catalogue,
        threads: int | None,
        memory: str | int | None,
        sums_elsewhere: SumsElsewhere | None = None,
    ) -> None:
        """Build M and S. `sums_elsewhere`, if given, computes sums that need all of a streamed M (Spark uses it)."""
        matrix = self._build_matrix(catalogue, threads, memory)
        block_sums = None if sums_elsewhere is None else partial(sums_elsewhere, matrix)
        # Assigned together: an interrupted fit leaves what was learned before.
        S, factor = self._build_sums(matrix, catalogue, threads, block_sums), self._build_factor(catalogue)
        factors = self._scored_factors(catalogue, factor)
        self.matrix, self.S, self.factor, self.target_factors = matrix, S, factor, factors

    def learned(self, catalogue: Catalogue, matrix: ItemMatrix, S: NDArray[np.float64]) -> Self:
        """This model, with M and S that were computed elsewhere."""
        self.matrix, self.S, self._catalogue, self._changes = matrix, S, catalogue, None
        self.factor = self._build_factor(catalogue)
        self.target_factors = self._scored_factors(catalogue, self.factor)
        return self

    def loaded(self, arrays: Arrays, ids: dict[str, pa.Array]) -> Self:
        super().loaded(arrays, ids)
        self.target_factors = self._scored_factors(self.catalogue, self.factor)
        return self

    @property
    def scored_S(self) -> NDArray[np.float64]:
        """S_j / t_j: with it M gives Σ_i w_i M(i, j) − b S_j / t_j, which times t_j is the score."""
        S = self.S  # read first: this applies pending updates
        return S if self.target_factors is None else self._multiplied(S) / self.target_factors

    def _multiplied(self, held: NDArray[Number]) -> NDArray[Number]:
        """Entries of M or S from the stored ones, which are divided by `factor`; in the same precision."""
        return held if self.factor is None else held * held.dtype.type(self.factor)

    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        scored = self.scored_rows(histories)
        self._score_by(self._ready(scored), scored, scores)

    def _ready(self, scored: Histories) -> ItemMatrix:
        """The matrix with the rows that these `scored_rows` need in memory."""
        ready = self.matrix.in_memory(scored.indices)
        assert ready is not None
        return ready

    def _score_by(self, matrix: ItemMatrix, scored: Histories, scores: NDArray[np.float64]) -> None:
        weights = self._weights(matrix, scored)
        matrix.score(WeightedUsers(*scored.rows, *weights), self.scored_S, scores)
        if self.target_factors is not None:
            scores *= self.target_factors

    def _weights(self, matrix: ItemMatrix, scored: Histories) -> Weights:
        """w and b of `scored_rows`, from the cache if there is one. `matrix` has the rows that they need."""

        def solve(rows: Histories) -> Weights:
            return self.weigh(rows, matrix.own_entries(rows.rows))

        if self._kept is None or self._kept[0] is not self.matrix:
            return solve(scored)
        return self._kept[1].weights(scored, solve)

    def keeping_weights(self, cache: WeightCache) -> Self:
        made = copy.copy(self.view())
        if self.needs_own_entries:  # otherwise weights take no time
            made._kept = made.matrix, cache
        return made

    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        scored = self.scored_rows(history)
        ready = self._ready(scored)
        weights, offsets = self._weights(ready, scored)
        similarities, parts = ready.contributions(scored.rows, weights, items)
        if self.target_factors is not None:
            parts *= self.target_factors[items]
        global_term = -offsets[0] * self._multiplied(self.S[items])
        return Contributions(weights, self._multiplied(similarities), parts, global_term, scored.indices)

    def similarities_to(self, item: int) -> NDArray[np.float32]:
        return self._multiplied(self.matrix.row(item))

    @property
    def row_work(self) -> float:
        return self.matrix.row_work

    def _users_per_block(self) -> int:
        return max(self.matrix.users_together, super()._users_per_block())

    def ranked_blocks(
        self,
        rows: Histories,
        request: RankingRequest,
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        label: str = "",
    ) -> Iterator[RankedBlock]:
        items = self.scored_rows(rows).indices
        ready = self.matrix.in_memory(items, lambda: int(_ROWS_SHARE * room_for(memory)), threads)
        if ready is None:
            return rank_streamed(self, rows, request, threads=threads, memory=memory, label=label)

        def score(histories: Histories) -> NDArray[np.float64]:
            return self._filled(histories, lambda scores: self._score_by(ready, self.scored_rows(histories), scores))

        block = self._users_per_block()
        return rank_blocks(score, rows, request, self.catalogue.chosen, block, threads=threads, label=label)

    def _target_scores(
        self, rows: Histories, targets: Histories, *, threads: int | None, memory: str | int | None, label: str
    ) -> NDArray[np.float64]:
        if self.matrix.in_memory(rows.indices, lambda: 0) is None:
            return score_streamed(self, rows, targets, threads=threads, memory=memory, label=label)
        return super()._target_scores(rows, targets, threads=threads, memory=memory, label=label)

    def learned_arrays(self) -> Arrays:
        learned = {"S": self.S, **self.matrix.arrays()}
        return learned if self.factor is None else learned | {"factor": np.array([self.factor])}

    def _layouts(self) -> list[set[str]]:
        return [{"S"} | names for names in layouts("dense", "sparse")]

    def _restore(self, arrays: Arrays) -> None:
        S = arrays["S"]
        if S.dtype != np.float64 or S.shape != arrays["order"].shape:
            raise ModelFileError("the saved sums are not those of these items; save the model again")
        self.S = S  # type: ignore[assignment]
        self.factor = _restored_factor(arrays)
        self.matrix = self._restored_matrix(arrays)

    def _restored_matrix(self, arrays: Arrays) -> ItemMatrix:
        """M from what was saved."""
        return restored(arrays, len(arrays["order"]))


def _restored_factor(arrays: Arrays) -> float | None:
    """The factor that was saved; None if entries were saved undivided."""
    if "factor" not in arrays:
        return None
    found: Any = arrays["factor"]
    if found.dtype != np.float64 or found.shape != (1,) or not (np.isfinite(found[0]) and found[0] > 0):
        raise ModelFileError("the saved factor of the matrix is not one finite number > 0; save the model again")
    return float(found[0])


class Neighbourhood(ItemBased):
    """An item-based model in which all items of a history count equally: w = 1, S = 0."""

    def weigh(
        self, rows: Histories, own: OwnEntries, threads: int | None = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # b is multiplied by S = 0. It is −0, so that −b S is +0 and no score is shown as −0.
        return np.ones(len(rows.indices)), np.full(len(rows), -0.0)
