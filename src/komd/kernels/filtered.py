"""A filtered matrix that is not dense: s K − W W', K held sparse or streamed (docs/maths.md, "The filter of low rank").

The ridge filter takes each eigenvalue λ of K to λ / (λ + μ). Above a value t they are taken there one by one; up to t
the line through 0 and t / (t + μ) stands in for the curve, which is a multiple of K itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.errors import FilterWarning
from komd.kernels.eigen import Spectrum
from komd.kernels.matrix import DenseMatrix, ItemMatrix, SparseMatrix, Truncation
from komd.kernels.streamed import StreamedMatrix
from komd.kernels.strips import Strip

__all__ = ["FilteredMatrix", "filter_truncated", "truncation"]

_SOUND = 0.5  # of μ: eigenvalues left out above this share of it are too much for a line
_TOGETHER = 64  # people whose entries are corrected by a thread in one go
_TILE = 64  # items whose factors are turned over at a time
_ROWS = 512


class FilteredMatrix(ItemMatrix):
    """base − W W', neither of them written out. `scale` is what K was multiplied by to become the base."""

    truncation: Truncation

    def __init__(
        self,
        base: SparseMatrix | StreamedMatrix,
        W: NDArray[np.float32],
        truncation: Truncation,
        scale: float,
    ) -> None:
        self.base, self.W, self.truncation, self.scale = base, W, truncation, scale
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
        out: NDArray[np.float32] = self.base.row(item) - _products(self.W[item : item + 1], self.W)[0]
        return out

    def entries(self, rows: NDArray[np.int32], column: int) -> NDArray[np.float32]:
        taken = _products(self.W[column : column + 1], self.W[rows])[0]
        out: NDArray[np.float32] = self.base.entries(rows, column) - taken
        return out

    def sums(self) -> NDArray[np.float64]:
        out: NDArray[np.float64] = self.base.sums() - self.W @ self.W.sum(axis=0, dtype=np.float64)
        return out

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return (
            self.base.arrays() | self.truncation.arrays() | {"filter": self.W, "filter_scale": np.array([self.scale])}
        )

    def compiled_form(self) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        raise TypeError("a filtered matrix is in two pieces; ask for squares() and taken()")

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
        from komd._core.lowrank import take_squares

        take_squares(self.W, indptr, indices, starts, _tile(self.W), np.empty(_TILE, np.float32), blocks)

    def projected(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int32], weights: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Where people with these weights stand among the factors: W'w, a row each."""
        from komd._core.lowrank import project

        out = np.empty((len(indptr) - 1, self.W.shape[1]), np.float32)
        project(self.W, indptr, indices, weights, np.empty(self.W.shape[1]), out)
        return out

    def taken(self, projected: NDArray[np.float32], first: int, last: int) -> NDArray[np.float32]:
        """What W W' takes from the scores of items first..last, for people who stand there."""
        return _products(projected, self.W[first:last])

    def take_targets(
        self,
        projected: NDArray[np.float32],
        indptr: NDArray[np.int64],
        targets: NDArray[np.int32],
        scores: NDArray[np.float64],
    ) -> None:
        """Take it from the scores of each person's targets."""
        from komd._core.lowrank import take_targets

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

    def rows(self, rows: NDArray[np.int32], threads: int | None = None) -> FilteredMatrix:
        """These rows of the base in memory, and no others."""
        return FilteredMatrix(self._streamed.rows(rows, threads), self.W, self.truncation, self.scale)

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

        for _ in pool.run(part, pool.blocks(len(indptr) - 1, _TOGETHER), threads=threads):
            pass
        return blocks, starts

    def strips(self, rows: NDArray[np.int32], *, room: int = 1 << 29, threads: int | None = None) -> Iterator[Strip]:
        """Strips of the base (as `StreamedMatrix.strips`); what `taken` says is still to be taken away."""
        return self._streamed.strips(rows, room=room, threads=threads)


def filter_truncated(
    K: ItemMatrix, spectrum: Spectrum, mu: float, chosen: int, *, threads: int | None = None
) -> ItemMatrix:
    """K (K + μI)⁻¹, scaled to a mean diagonal of 1, from the leading eigenvectors of K (whose mean diagonal is 1).

    A dense K is filtered in its place; others stay as sparse as they are. Warns where the eigenvalues left out are too
    large beside μ for a line to stand in for the filter.
    """
    found, scale, weights = truncation(spectrum, mu, chosen)
    if found.last > _SOUND * mu:
        warnings.warn(
            f"ridge={mu:g} is not well above the eigenvalues that were left out (up to {found.last:.3g}): the filter "
            f"of rank {found.rank} is only a rough one there, entries are within {found.error:.2g}; use a larger rank= "
            "or ridge=, or more memory for the exact filter",
            FilterWarning,
            stacklevel=2,
        )
    W = spectrum.vectors * np.sqrt(weights).astype(np.float32)
    if isinstance(K, DenseMatrix):

        def part(block: tuple[int, int]) -> None:
            a, b = block
            K.values[a:b] = K.values[a:b] * np.float32(scale) - _products(W[a:b], W)

        for _ in pool.run(part, pool.blocks(K.items, _ROWS), threads=threads):
            pass
        return DenseMatrix(K.values, found)
    if isinstance(K, SparseMatrix):
        scaled = SparseMatrix(K.indptr, K.indices, K.values * np.float32(scale))
        return FilteredMatrix(scaled, W, found, scale)
    assert isinstance(K, StreamedMatrix)
    return FilteredMatrix(K.scaled(scale), W, found, scale)


def truncation(spectrum: Spectrum, mu: float, chosen: int) -> tuple[Truncation, float, NDArray[np.float64]]:
    """How good the filter will be; what K is multiplied by; and the weights of the vectors in what is taken away."""
    values, last = spectrum.values, spectrum.last
    slope, curve = 1.0 / (mu + last), values / (values + mu)
    weights = np.maximum(slope * values - curve, 0.0)
    mean = slope - float(weights.sum()) / max(chosen, 1)
    # The curve is above its chord by (1 − √(μ / (μ + t)))² at most; vectors that are not exact add the rest.
    error = (1.0 - math.sqrt(mu / (mu + last))) ** 2
    error += slope * float(np.linalg.norm(curve * spectrum.residuals)) + slope * spectrum.inside
    error += (4.0 / 3.0) * (spectrum.spread / mu) ** 2
    return Truncation(len(values), last, error / mean), slope / mean, weights / mean


def _products(A: NDArray[np.float32], B: NDArray[np.float32]) -> NDArray[np.float32]:
    """A B', each entry summed in the same order: not so with BLAS, where it depends on the shapes."""
    from komd._core.lowrank import taken_scores

    out = np.empty((len(A), len(B)), np.float32)
    taken_scores(B, A, _tile(B), out)
    return out


def _tile(W: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.empty((W.shape[1], _TILE), np.float32)
