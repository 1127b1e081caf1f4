"""An item-item matrix with every entry in memory."""

from __future__ import annotations

import sys
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
    Truncation,
    Vectors,
    largest_of,
    multiplied,
)
from komd.matrix.low_rank import subtract_signed

if TYPE_CHECKING:
    from komd.matrix.renewal import Renewal

__all__ = ["DenseMatrix"]

_ROWS = 1024  # rows of a product with vectors, by one thread at a time
_CHANGED = 256  # rows scaled or corrected together
_MOST_USERS, _SCORES = 256, 8 << 20  # users who share rows of K in the cache, at most, and bytes of their scores


@dataclass(frozen=True, eq=False)
class DenseMatrix(ItemMatrix):
    """Every entry."""

    values: NDArray[np.float32]
    truncation: Truncation | None = None
    storage = "dense"

    @property
    def items(self) -> int:
        return int(self.values.shape[0])

    @property
    def users_together(self) -> int:  # type: ignore[override]
        return min(_MOST_USERS, max(1, _SCORES // (8 * max(self.items, 1))))

    @property
    def bytes(self) -> int:
        return self.values.nbytes

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.values))

    def row(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.values[item]
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.values[np.ix_(rows, columns)]
        return out

    def diagonal(self) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.values.diagonal()
        return out

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        from komd._core.exact_sums import sum_dense_rows

        scale = scale_for(largest_of(self.values), self.items)
        totals = np.empty(self.items, np.int64)

        def part(block: tuple[int, int]) -> None:
            sum_dense_rows(self.values[slice(*block)], scale, totals[slice(*block)])

        pool.for_each(part, pool.blocks(self.items, _ROWS), threads=threads)
        return totals / scale

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        def part(block: tuple[int, int], out: Vectors) -> None:
            np.matmul(self.values[slice(*block)], X, out=out)

        return multiplied(part, pool.blocks(self.items, _ROWS), X, threads, advance)

    def score(self, users: WeightedUsers, S: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        from komd._core.scoring import score_dense

        score_dense(self.values, S, users, scores)

    @cached_property
    def stored(self) -> StoredMatrix:
        return NOTHING_STORED._replace(dense=self.values)

    @property
    def held_alone(self) -> bool:
        held = _ALONE + ("stored" in self.__dict__)  # by this object, and by the structure for compiled code
        return self.values.flags.writeable and _holders(self) == held

    def renewed(self, by: Renewal, threads: int | None = None, *, in_place: bool = False) -> DenseMatrix:
        from komd._core.renumbered import CountedAgain, renew_dense, renew_dense_in_place

        items = by.fresh.items
        (indptr, columns), values, mirrored = by.counted(threads)
        place = np.repeat(np.arange(len(by.rows)), np.diff(indptr)), columns
        found = np.zeros((len(by.rows), items), np.float32)
        found[place] = values
        other = found
        if mirrored is not values:
            other = np.zeros_like(found)
            other[place] = mirrored
        counted = CountedAgain(by.rows, found, other)
        if in_place and items == self.items:
            renew_dense_in_place(self.values, by.kept, counted)
            return DenseMatrix(self.values)
        out = np.empty((items, items), np.float32)

        def part(block: tuple[int, int]) -> None:
            renew_dense(self.values, by.kept, counted, *block, out)

        pool.for_each(part, pool.blocks(items, _CHANGED), threads=threads)
        return DenseMatrix(out)

    def scaled(self, factors: NDArray[np.float64], threads: int | None = None) -> DenseMatrix:
        out, single = np.empty_like(self.values), factors.astype(np.float32)

        def part(block: tuple[int, int]) -> None:
            a, b = block
            np.multiply(self.values[a:b], single[a:b, None] * single[None, :], out=out[a:b])

        pool.for_each(part, pool.blocks(self.items, _CHANGED), threads=threads)
        return DenseMatrix(out)

    def corrected(self, by: Correction, *, in_place: bool = False, threads: int | None = None) -> DenseMatrix:
        values, W = self.values if in_place else self.values.copy(), np.ascontiguousarray(by.W)

        def part(block: tuple[int, int]) -> None:
            a, b = block
            if by.factor != 1.0:
                values[a:b] *= np.float32(by.factor)
            subtract_signed(W[a:b], W, by.added, values[a:b])

        pool.for_each(part, pool.blocks(self.items, _CHANGED), threads=threads)
        return DenseMatrix(values, by.truncation or self.truncation)

    def arrays(self) -> Arrays:
        return {"matrix": self.values} | (self.truncation.arrays() if self.truncation else {})


def _holders(matrix: DenseMatrix) -> int:
    """The reference count of the array of a matrix."""
    return sys.getrefcount(matrix.values)


_ALONE = _holders(DenseMatrix(np.zeros((1, 1), np.float32)))  # of an unshared matrix; depends on Python
