"""K from its stages: the one place where it is built, for `fit`, for the tuner with its cache, and for Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.errors import InputError, SolverError, argument
from komd.kernels.entries import KernelEntries
from komd.kernels.functions import Linear
from komd.kernels.stages import Stages
from komd.matrix.dense import DenseMatrix
from komd.matrix.density import sampled_density
from komd.matrix.eigenvectors import VECTORS, Operator, Spectrum, leading
from komd.matrix.from_counts import dense_from_counts, matrix_from_counts
from komd.matrix.item_matrix import Correction, ItemMatrix
from komd.matrix.low_rank_filter import filter_truncated
from komd.matrix.matrix_cache import MatrixCache
from komd.matrix.pair_products import PairProducts
from komd.matrix.renewal import Renewal
from komd.matrix.ridge_filter import filter_ridge, ridge_precision
from komd.matrix.storage import Plan, plan, small
from komd.matrix.streamed import StreamedMatrix
from komd.memory import budget, readable

__all__ = ["DEFAULT_RANK", "BeforeUpdate", "build"]

DEFAULT_RANK = 256  # of the filter if the exact one is too large
_MOST_RENEWED = 0.25  # of all counts: beyond that, it is faster to count all of K (half of it, by symmetry)

Precision = type[np.float32] | type[np.float64]


def build(
    stages: Stages,
    rows: Rows,
    items: int,
    *,
    storage: str | None = None,
    threads: int | None = None,
    memory: str | int | None = None,
    cache: MatrixCache | None = None,
    values: NDArray[np.float32] | None = None,
    before: BeforeUpdate | None = None,
    popularity: NDArray[np.int64] | None = None,
) -> ItemMatrix:
    """K between items, numbered by falling popularity, from users' sorted rows.

    `storage` is "dense", "sparse", "streamed", or None for what is fastest within the `memory` budget. The exact filter
    is dense; for other storages, and with a head, it is of low rank. With a `cache`, the matrix of each stage is kept
    for later builds with the same first stages; exact filters are then computed in single precision if that is accurate
    enough, and items are scaled in single precision. `values` are those of pairs, h_vi, aligned with the rows, as
    `stages.weighting` defines them; without it they are ignored. With `before`, an update, unchanged entries are copied
    from the matrix before, if K is held in the same way: the result is the same K, to the last bit. `popularity` is the
    number of users of each item, if it is known.
    """
    popularity = np.bincount(rows.indices, minlength=items) if popularity is None else popularity
    return _Build(rows, items, values, popularity, storage, threads, memory, cache, before).matrix(stages)


class BeforeUpdate(NamedTuple):
    """The matrix before an update, built of the same stages without a filter, and what the update changed.

    `source` and `changed` are as in `Renewal`. `by_item` derives the users of each item after the update from those
    before.
    """

    matrix: ItemMatrix
    source: NDArray[np.int32]
    changed: NDArray[np.bool_]
    by_item: Callable[[Rows | None], Rows]
    in_place: bool = False
    """Whether nothing else refers to the matrix before."""

    def renewed(self, entries: KernelEntries, rows: Rows, threads: int | None) -> ItemMatrix:
        """The counted matrix after the update."""
        held = self.matrix.uncorrected
        fresh = StreamedMatrix(entries, rows, self.by_item(held.pairs_by_item))
        by = Renewal(fresh, self.source, self.changed)
        if not held.recomputed and by.share > _MOST_RENEWED:
            return matrix_from_counts(entries, rows, held.storage, threads)
        return held.renewed(by, threads, in_place=self.in_place)


@dataclass(frozen=True, eq=False)
class _Build:
    """One call of `build`."""

    rows: Rows
    items: int
    values: NDArray[np.float32] | None
    popularity: NDArray[np.int64]
    storage: str | None
    threads: int | None
    memory: str | int | None
    cache: MatrixCache | None
    before: BeforeUpdate | None

    def matrix(self, stages: Stages) -> ItemMatrix:
        """All stages."""
        stages = stages.before_target()
        K = self._filtered(stages.before_prior())
        if not stages.prior:
            return K
        prior = Correction(stages.prior_factor(self.popularity)[:, None], added=1)
        return self._kept(stages, self.storage, lambda: self._corrected(K, prior))

    def _filtered(self, stages: Stages) -> ItemMatrix:
        if not stages.filtered:
            return self._scaled(stages, self.storage, self.memory)
        precision = self._exact_precision(stages)
        if precision is not None:
            return self._kept(stages, "dense", lambda: self._exactly_filtered(stages, precision))
        return self._kept(stages, self.storage, lambda: self._approximately_filtered(stages))

    def _exact_precision(self, stages: Stages) -> Precision | None:
        """The precision of the exact filter, or None for a low-rank filter."""
        if stages.low_rank or self.storage not in (None, "dense"):
            return None
        try:
            return ridge_precision(self.items, self._chosen, self.memory)
        except InputError:
            if self.storage == "dense":
                raise
            return None

    def _exactly_filtered(self, stages: Stages, precision: Precision) -> DenseMatrix:
        single_first = self.cache is not None  # twice as fast, and almost always accurate enough
        for trial in (np.float32, precision) if single_first else (precision,):
            K = self._fresh_dense(stages.before_filter())
            try:
                filter_ridge(K, float(stages.ridge or 0), precision=trial, threads=self.threads)
                break
            except SolverError:
                if trial is precision:
                    raise
        return K

    def _fresh_dense(self, stages: Stages) -> DenseMatrix:
        """The dense matrix before the filter, which may be changed in place."""
        if self.cache is None:
            self._planned("dense", self.memory)  # raises InputError if it does not fit
            return dense_from_counts(self._entries(stages), self.rows, self.threads)
        K = self._counted(stages.before_scaling(), "dense", self.memory).scaled(
            stages.item_scale(self.popularity), self.threads
        )
        assert isinstance(K, DenseMatrix)
        return K

    def _approximately_filtered(self, stages: Stages) -> ItemMatrix:
        rank = min(int(stages.rank or DEFAULT_RANK), self._chosen)
        vectors, room = int(VECTORS * 4 * rank * self.items), budget(self.memory)
        if vectors >= room:
            raise InputError(
                f"a filter of rank {rank} needs {readable(vectors)} for {self.items:,} items, and the budget "
                f"is {readable(room)}; raise {argument('memory')}, or use a smaller rank="
            )
        K = self._scaled(stages.before_filter(), self.storage, room - vectors)

        def eigenvectors() -> Spectrum:
            return leading(self._operator(stages.before_filter(), K), rank, self._chosen, threads=self.threads)

        if self.cache is None:
            spectrum = eigenvectors()
        else:
            key = (repr(stages.before_filter()), self.storage, rank)
            spectrum = self.cache.recall(key, eigenvectors, lambda found: found.vectors.nbytes)
        return self._corrected(K, filter_truncated(spectrum, stages.ridge, self._chosen, head=stages.head))

    def _operator(self, stages: Stages, K: ItemMatrix) -> Operator:
        """K for products with vectors: computed from the pairs, if there are fewer pairs than entries."""
        if not isinstance(stages.kernel, Linear) or isinstance(K, DenseMatrix):
            return K
        if not K.recomputed and 2 * len(self.rows.indices) >= K.nonzeros:
            return K
        return PairProducts(self._entries(stages), self.rows)

    def _scaled(self, stages: Stages, storage: str | None, memory: str | int | None) -> ItemMatrix:
        """K up to the scaling of items by popularity."""
        if self.cache is None or not stages.popularity:
            return self._counted(stages, storage, memory)
        plain = self._counted(stages.before_scaling(), storage, memory)
        return self._kept(stages, storage, lambda: plain.scaled(stages.item_scale(self.popularity), self.threads))

    def _counted(self, stages: Stages, storage: str | None, memory: str | int | None) -> ItemMatrix:
        """The kernel of the counts, held as planned."""

        def make() -> ItemMatrix:
            entries = self._entries(stages)
            held = "dense"
            if storage is not None or not small(self.items, memory):
                held = self._planned(storage, memory, weighted=entries.pair_values is not None).storage
            if self.before is not None and self.before.matrix.storage == held:
                return self.before.renewed(entries, self.rows, self.threads)
            return matrix_from_counts(entries, self.rows, held, self.threads)

        return self._kept(stages, storage, make)

    def _entries(self, stages: Stages) -> KernelEntries:
        return stages.entries(self.rows, self.items, self.values, self.popularity)

    def _planned(self, storage: str | None, memory: str | int | None, *, weighted: bool = False) -> Plan:
        def measure() -> float:
            return sampled_density(*self.rows, self.items, threads=self.threads).value

        activity = np.diff(self.rows.indptr)
        return plan(
            self.popularity,
            activity,
            memory=memory,
            storage=storage,
            measure=measure,
            streams=True,
            weighted=weighted,
        )

    def _corrected(self, K: ItemMatrix, by: Correction) -> ItemMatrix:
        return K.corrected(by, in_place=self.cache is None, threads=self.threads)

    def _kept(self, stages: Stages, storage: str | None, make: Callable[[], ItemMatrix]) -> ItemMatrix:
        if self.cache is None:
            return make()
        return self.cache.recall((repr(stages), storage), make, lambda matrix: matrix.bytes)

    @property
    def _chosen(self) -> int:
        return int(np.count_nonzero(self.popularity))
