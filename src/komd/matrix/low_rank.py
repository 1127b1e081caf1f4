"""A matrix with a low-rank update that is never written out: base − W W', the base held sparse or streamed.

What a filter of low rank subtracts and what a prior adds (docs/guide/maths.md) are sums over a few factors, beside what
the base says; the code that scores, gathers and strips the base knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.matrix.item_matrix import BlockSums, DenseMatrix, ItemMatrix, SparseMatrix, Truncation
from komd.matrix.streamed import StreamedMatrix
from komd.matrix.strip_builder import Strip

__all__ = ["UpdatedMatrix", "products", "with_prior"]

_TOGETHER = 64  # people whose entries are corrected by a thread in one go
_TILE = 64  # items whose factors are turned over at a time
_ROWS = 512

Number = TypeVar("Number", np.float32, np.float64)


class UpdatedMatrix(ItemMatrix):
    """base − W W', neither of them written out; the last `added` columns of W are added instead of taken away.

    `scale` is what a filter multiplied K by to make the base of it, `truncation` how good that filter is.
    """

    def __init__(
        self,
        base: SparseMatrix | StreamedMatrix,
        W: NDArray[np.float32],
        *,
        added: int = 0,
        truncation: Truncation | None = None,
        scale: float = 1.0,
    ) -> None:
        self.base, self.W, self.added = base, W, added
        self.truncation, self.scale = truncation, scale
        self.storage = base.storage

    @property
    def items(self) -> int:
        return self.base.items

    @property
    def bytes(self) -> int:
        return self.base.bytes + self.W.nbytes

    @property
    def nonzeros(self) -> int:
        """Of the base: W W' is never written out."""
        return self.base.nonzeros

    def row(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.base.row(item) - products(self._signed(self.W[item : item + 1]), self.W)[0]
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        low_rank = products(self._signed(self.W[columns]), self.W[rows]).T
        out: NDArray[np.float32] = self.base.entries(rows, columns) - low_rank
        return out

    def diagonal(self) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.base.diagonal() - (self._signed(self.W) * self.W).sum(axis=1)
        return out

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        """As `ItemMatrix.sums`; `block_sums` sums the base."""
        low_rank = self.W @ self._signed(self.W.sum(axis=0, dtype=np.float64))
        out: NDArray[np.float64] = self.base.sums(threads, block_sums) - low_rank
        return out

    def _signed(self, factors: NDArray[Number]) -> NDArray[Number]:
        """Factors (in the last axis) with those turned over that are added."""
        if not self.added:
            return factors
        out = factors.copy()
        out[..., -self.added :] *= -1
        return out

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        out = self.base.arrays()
        taken = self.W.shape[1] - self.added
        if self.truncation:
            out |= self.truncation.arrays() | {"filter": self.W[:, :taken], "filter_scale": np.array([self.scale])}
        return out | ({"prior": self.W[:, taken]} if self.added else {})

    def compiled_form(self) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        raise TypeError("a matrix with an update is in two pieces; ask for squares() and taken()")

    def squares(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The matrix between each person's own items: blocks one after another, and where each begins."""
        from komd._core.solve import gather_squares

        starts = np.zeros(len(indptr), np.int64)
        np.cumsum(np.diff(indptr) ** 2, out=starts[1:])
        blocks = np.empty(starts[-1], np.float32)
        gather_squares(*self.base.compiled_form(), indptr, indices, starts, blocks)
        self._take_squares(indptr, indices, starts, blocks)
        return blocks, starts

    def _take_squares(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        starts: NDArray[np.int64],
        blocks: NDArray[np.float32],
    ) -> None:
        from komd._core.factor_products import take_squares

        line = np.empty(_TILE, np.float32)
        take_squares(self.W, self.added, indptr, indices, starts, _tile(self.W), line, blocks)

    def projected(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int32], weights: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Where people with these weights stand among the factors: W'w, a row each, negated for those to add."""
        from komd._core.factor_products import project

        out = np.empty((len(indptr) - 1, self.W.shape[1]), np.float32)
        project(self.W, indptr, indices, weights, np.empty(self.W.shape[1]), out)
        return self._signed(out)

    def taken(self, projected: NDArray[np.float32], first: int, last: int) -> NDArray[np.float32]:
        """What W W' takes from the scores of items first..last, for people who stand there."""
        return products(projected, self.W[first:last])

    def take_scores(self, projected: NDArray[np.float32], scores: NDArray[np.float64]) -> None:
        """Take it from the scores of all items."""
        if self.W.shape[1] == 1:  # no need to write the products out
            for standing, line in zip(projected[:, 0], scores, strict=True):
                line -= standing * self.W[:, 0]
        else:
            scores -= self.taken(projected, 0, self.items)

    def take_targets(
        self,
        projected: NDArray[np.float32],
        indptr: NDArray[np.int64],
        targets: NDArray[np.int32],
        scores: NDArray[np.float64],
    ) -> None:
        """Take it from the scores of each person's targets."""
        from komd._core.factor_products import take_targets

        take_targets(self.W, projected, indptr, targets, _tile(self.W), np.empty(_TILE, np.float32), scores)

    # ---- as a streamed matrix, where the base is one -------------------------------------------------------------

    @property
    def _streamed(self) -> StreamedMatrix:
        assert isinstance(self.base, StreamedMatrix)
        return self.base

    def prepare(self) -> None:
        """As `StreamedMatrix.prepare`."""
        self._streamed.prepare()

    def row_bounds(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """As `StreamedMatrix.row_bounds`."""
        return self._streamed.row_bounds(rows)

    def sums_of(self, block: tuple[int, int]) -> NDArray[np.float64]:
        """As `StreamedMatrix.sums_of`, of the base."""
        return self._streamed.sums_of(block)

    def rows(self, rows: NDArray[np.int32], threads: int | None = None) -> UpdatedMatrix:
        """These rows of the base in memory, and no others."""
        base = self._streamed.rows(rows, threads)
        return UpdatedMatrix(base, self.W, added=self.added, truncation=self.truncation, scale=self.scale)

    def gather(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        wanted_indptr: NDArray[np.int64],
        wanted: NDArray[np.int32],
        threads: int | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """As `StreamedMatrix.gather`, of the base; where the wanted items are a person's own, W W' is taken away."""
        blocks, starts = self._streamed.gather(indptr, indices, wanted_indptr, wanted, threads=threads)

        def part(piece: tuple[int, int]) -> None:
            a, b = piece
            self._take_squares(indptr[a : b + 1], indices, starts[a : b + 1], blocks)

        pool.for_each(part, pool.blocks(len(indptr) - 1, _TOGETHER), threads=threads)
        return blocks, starts

    def strips(self, rows: NDArray[np.int32], *, room: int = 1 << 29, threads: int | None = None) -> Iterator[Strip]:
        """Strips of the base (as `StreamedMatrix.strips`); what `taken` says is still to be taken away."""
        return self._streamed.strips(rows, room=room, threads=threads)


def with_prior(K: ItemMatrix, prior: NDArray[np.float32], *, threads: int | None = None) -> ItemMatrix:
    """K + p p'. A dense K is changed in its place; others stay as sparse as they are."""
    if isinstance(K, DenseMatrix):

        def part(block: tuple[int, int]) -> None:
            a, b = block
            K.values[a:b] += prior[a:b, None] * prior

        pool.for_each(part, pool.blocks(K.items, _ROWS), threads=threads)
        return K
    if isinstance(K, UpdatedMatrix):
        W = np.hstack([K.W, prior[:, None]])
        return UpdatedMatrix(K.base, W, added=K.added + 1, truncation=K.truncation, scale=K.scale)
    assert isinstance(K, (SparseMatrix, StreamedMatrix))
    return UpdatedMatrix(K, prior[:, None], added=1)


def products(A: NDArray[np.float32], B: NDArray[np.float32]) -> NDArray[np.float32]:
    """A B', each entry summed in the same order: not so with BLAS, where it depends on the shapes."""
    from komd._core.factor_products import taken_scores

    if A.shape[1] == 1:
        return A * B[:, 0]
    out = np.empty((len(A), len(B)), np.float32)
    taken_scores(B, A, _tile(B), out)
    return out


def _tile(W: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.empty((W.shape[1], _TILE), np.float32)
