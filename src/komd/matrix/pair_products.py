"""Products of the linear kernel with vectors, through the pairs of users and items: no entry of K is needed.

The linear kernel is K = B'B, where row v of B holds √w_v f_i (or x_i(v) f_i) for each item i that user v
chose. So K X = B'(B X) takes two multiply-adds per pair and vector. K itself has an
entry for every two items that share a user.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import Rows
from komd.kernels.entries import KernelEntries
from komd.matrix.item_matrix import Advance, Vectors
from komd.rows import places, transpose

__all__ = ["PairProducts"]

_COLUMNS = 64  # vectors multiplied together: B X holds so many numbers for each user
_PAIRS = 1 << 16  # multiplied by a thread at a time


class PairProducts:
    """K of these entries, whose kernel is `Linear`: only its diagonal and its products with vectors."""

    def __init__(self, of: KernelEntries, rows: Rows) -> None:
        self.items = len(of.degree)
        self._of, self._users = of, rows
        self._by_item = Rows(*transpose(*rows, self.items))
        factors = of.factors[0] if of.scale is None else of.factors[0] * of.scale
        values = factors[rows.indices]
        if of.user_weights is not None:
            values *= np.sqrt(np.repeat(of.weights_of(of.user_weights), np.diff(rows.indptr)))
        if of.pair_values is not None:
            values *= of.pair_values
        self._values = values.astype(np.float32)
        self._values_by_item = self._values[places(rows.indices, self._by_item.indptr)]

    def diagonal(self) -> NDArray[np.float32]:
        """K(i, i)."""
        return self._of.diagonal

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        """K X; `advance` is told of the rows that are done."""
        out = np.empty_like(X)
        for first, last in pool.blocks(X.shape[1], _COLUMNS):
            of_users = _product(self._users, self._values, np.ascontiguousarray(X[:, first:last]), threads)
            out[:, first:last] = _product(self._by_item, self._values_by_item, of_users, threads)
            if advance:
                advance(self.items * (last - first) / X.shape[1])
        return out


def _product(rows: Rows, values: NDArray[np.float32], X: Vectors, threads: int | None) -> Vectors:
    """These compressed rows, with these values, times X."""
    from komd._core.factor_products import multiply_rows

    out = np.empty((len(rows.indptr) - 1, X.shape[1]), np.float32)

    def part(block: tuple[int, int]) -> None:
        a, b = block
        multiply_rows(rows.indptr[a : b + 1], rows.indices, values, X, out[a:b])

    pool.for_each(part, pool.even_blocks(np.diff(rows.indptr) + 1, _PAIRS), threads=threads)
    return out
