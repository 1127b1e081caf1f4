"""An item-item matrix in compressed rows: only the entries that are not zero are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import StoredMatrix, WeightedUsers
from komd.kernels.fixed_point import scale_for
from komd.matrix.item_matrix import (
    NOTHING_STORED,
    Advance,
    Arrays,
    BlockSums,
    Correction,
    ItemMatrix,
    Vectors,
    largest_of,
    multiplied,
)
from komd.matrix.low_rank import LowRankMatrix
from komd.rows import places, pointers

if TYPE_CHECKING:
    from komd.matrix.renewal import Renewal

__all__ = ["SparseMatrix"]

_SCATTERED = 6  # time to add an entry of a sparse row at its column, in units of an entry of a dense row
_ENTRIES = 1 << 20  # entries multiplied by a thread at a time


@dataclass(frozen=True, eq=False)
class SparseMatrix(ItemMatrix):
    """Compressed rows, columns ascending within each."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    storage = "sparse"

    @property
    def items(self) -> int:
        return len(self.indptr) - 1

    @property
    def bytes(self) -> int:
        return self.indptr.nbytes + self.indices.nbytes + self.values.nbytes

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.values))

    @property
    def row_work(self) -> float:
        return _SCATTERED * self.nonzeros / self.items

    def row(self, item: int) -> NDArray[np.float32]:
        out = np.zeros(self.items, np.float32)
        inside = slice(self.indptr[item], self.indptr[item + 1])
        out[self.indices[inside]] = self.values[inside]
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        out = np.zeros((len(rows), len(columns)), np.float32)
        for place, row in enumerate(rows):
            inside = slice(self.indptr[row], self.indptr[row + 1])
            names = self.indices[inside]
            at = np.searchsorted(names, columns)
            found = np.flatnonzero(at < len(names))
            found = found[names[at[found]] == columns[found]]
            out[place, found] = self.values[inside][at[found]]
        return out

    def diagonal(self) -> NDArray[np.float32]:
        out = np.zeros(self.items, np.float32)
        for item in range(self.items):
            start, end = self.indptr[item], self.indptr[item + 1]
            at = start + np.searchsorted(self.indices[start:end], item)
            if at < end and self.indices[at] == item:
                out[item] = self.values[at]
        return out

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        return self.fixed_sums(scale_for(largest_of(self.values), self.items))

    def fixed_sums(self, scale: float) -> NDArray[np.float64]:
        """`sums` with entries rounded to multiples of 1 / scale."""
        from komd._core.exact_sums import sum_rows

        totals = np.empty(self.items, np.int64)
        sum_rows(self.indptr, self.values, scale, totals)
        return totals / scale

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        from komd._core.factor_products import multiply_rows

        def part(block: tuple[int, int], out: Vectors) -> None:
            multiply_rows(self.indptr[block[0] : block[1] + 1], self.indices, self.values, X, out)

        return multiplied(part, pool.even_blocks(np.diff(self.indptr) + 1, _ENTRIES), X, threads, advance)

    def score(self, users: WeightedUsers, S: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        from komd._core.scoring import score_sparse

        score_sparse(self.stored, S, users, scores)

    @cached_property
    def stored(self) -> StoredMatrix:
        return NOTHING_STORED._replace(indptr=self.indptr, indices=self.indices, values=self.values)

    def renewed(self, by: Renewal, threads: int | None = None, *, in_place: bool = False) -> SparseMatrix:
        from komd._core.renumbered import renew_sparse, renewed_lengths

        fresh, numbers = _by_row(by, threads).stored, by.numbers(self.items)
        items = by.fresh.items
        lengths = np.empty(items, np.int64)
        pieces = pool.even_blocks(np.where(by.kept >= 0, np.diff(self.indptr)[by.kept], 0) + 1, _ENTRIES)
        pool.for_each(
            lambda block: renewed_lengths(self.stored, by.kept, numbers, *block, lengths), pieces, threads=threads
        )
        indptr = pointers(lengths + np.diff(fresh.indptr))
        out = SparseMatrix(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
        pool.for_each(
            lambda block: renew_sparse(self.stored, by.kept, numbers, fresh, *block, out.stored),
            pieces,
            threads=threads,
        )
        return out

    def scaled(self, factors: NDArray[np.float64], threads: int | None = None) -> SparseMatrix:
        single = factors.astype(np.float32)
        rows = np.repeat(np.arange(self.items, dtype=np.int32), np.diff(self.indptr))
        return SparseMatrix(self.indptr, self.indices, self.values * (single[rows] * single[self.indices]))

    def corrected(self, by: Correction, *, in_place: bool = False, threads: int | None = None) -> LowRankMatrix:
        values = self.values if by.factor == 1.0 else self.values * np.float32(by.factor)
        return LowRankMatrix(SparseMatrix(self.indptr, self.indices, values), by)

    def arrays(self) -> Arrays:
        return {"matrix_indptr": self.indptr, "matrix_indices": self.indices, "matrix_values": self.values}


def _by_row(by: Renewal, threads: int | None) -> SparseMatrix:
    """The entries that were counted again: complete rows that changed, and the changed columns of all other rows."""
    (indptr, columns), values, mirrored = by.counted(threads)
    rows = np.repeat(by.rows, np.diff(indptr))
    others = ~by.changed[columns]
    rows, columns = np.concatenate([rows, columns[others]]), np.concatenate([columns, rows[others]])
    # A row contains entries of only one of these kinds, and both are ascending: sorting by rows is enough.
    ends = pointers(np.bincount(rows, minlength=by.fresh.items))
    order = places(rows, ends)
    return SparseMatrix(ends, columns[order], np.concatenate([values, mirrored[others]])[order])
