"""What an entry of K is: a kernel of counts, and how users and items count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.errors import InputError
from komd.kernels.functions import Kernel

__all__ = ["KernelEntries"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KernelEntries:
    """Entry (i, j) is `kernel.of_counts(|U_i ∩ U_j|, |U_i|, |U_j|)`, rounded to float32 once.

    With `user_weights` (one for each user, > 0) |U_i ∩ U_j| becomes Σ_{v ∈ U_i ∩ U_j} weight_v, and so do the sizes
    |U_i| for kernels with `weighted_sizes`, which keeps their meaning (the cosine becomes that of the weighted
    vectors). `degree` holds the sizes. With `scale` (one for each item, > 0) entry (i, j) is multiplied by
    scale_i · scale_j before it is rounded: items become longer or shorter vectors.
    """

    kernel: Kernel
    degree: Floats
    user_weights: Floats | None = None
    scale: Floats | None = None

    @staticmethod
    def of(
        kernel: Kernel, rows: Rows, items: int, *, user_weights: Floats | None = None, scale: Floats | None = None
    ) -> KernelEntries:
        """The entries for users' compressed rows of items."""
        _positive("user_weights", user_weights, len(rows.indptr) - 1, "user")
        _positive("scale", scale, items, "item")
        weights = None
        if user_weights is not None and kernel.weighted_sizes:
            weights = np.repeat(user_weights, np.diff(rows.indptr))
        degree = np.bincount(rows.indices, weights=weights, minlength=items).astype(np.float64, copy=False)
        return KernelEntries(kernel, degree, user_weights, scale)

    @cached_property
    def factors(self) -> tuple[Floats, Floats]:
        """(left, right): what counts are multiplied by while they are written down; ones where that does not help."""
        ones = np.ones(len(self.degree))
        return self.kernel.factors(self.degree) or (ones, ones)

    @cached_property
    def by_product(self) -> bool:
        """Whether an entry is a function of count · left · right alone."""
        return self.kernel.factors(self.degree) is not None

    @property
    def number(self) -> type[np.int32] | type[np.float64]:
        """What counters hold: whole numbers, or sums of weights."""
        return np.int32 if self.user_weights is None else np.float64

    def values(self, both: Floats, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        """K at these places, from what their users weigh together; `both` may be overwritten."""
        return self._finished(self.kernel.of_counts(both, self.degree[rows], self.degree[columns]), rows, columns)

    def from_products(
        self, products: Floats, rows: Callable[[], NDArray[np.int32]], columns: Callable[[], NDArray[np.int32]]
    ) -> NDArray[np.float32]:
        """The same from counts times `factors`, which may be overwritten; places are looked up only if needed."""
        if not self.by_product:
            return self.values(products, rows(), columns())
        values = self.kernel.of_product(products)
        return values.astype(np.float32) if self.scale is None else self._finished(values, rows(), columns())

    def _finished(self, values: Floats, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        """K at these places from the kernel's values there; `values` may be overwritten."""
        if self.scale is not None:
            # The two scales first: their product is the same for (i, j) and (j, i), so K stays symmetric to the bit.
            values *= self.scale[rows] * self.scale[columns]
        out = values.astype(np.float32)
        if self.kernel.unit_diagonal:
            own = (rows == columns) & (out > 0)  # not of items that nobody chose
            out[own] = 1.0 if self.scale is None else self.scale[rows[own]] ** 2
        return out

    @property
    def diagonal(self) -> NDArray[np.float32]:
        """K(i, i) of a kernel with a unit diagonal; zero for items nobody chose."""
        return ((self.degree > 0) * (1.0 if self.scale is None else self.scale**2)).astype(np.float32)


def _positive(name: str, values: Floats | None, size: int, noun: str) -> None:
    if values is not None and (values.shape != (size,) or not (np.isfinite(values) & (values > 0)).all()):
        raise InputError(f"{name} must be {size:,} finite numbers > 0, one for each {noun}")
