"""What an entry of K is: a kernel of counts, and how users and items count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.errors import InputError
from komd.kernels.fixed_point import fixed, scale_for
from komd.kernels.functions import Kernel

__all__ = ["KernelEntries"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KernelEntries:
    """Entry (i, j) is `kernel.of_counts(|U_i ∩ U_j|, |U_i|, |U_j|)`, rounded to float32 once.

    With `user_weights` (one for each user, in units of `unit`, a power of two) |U_i ∩ U_j| becomes
    Σ_{v ∈ U_i ∩ U_j} weight_v, and so do the sizes |U_i| for kernels with `weighted_sizes`, which keeps their meaning
    (the cosine becomes that of the weighted vectors). They are integers: sums of them are the same in any order.
    With `pair_values` (x_i(v) > 0, aligned with the users' rows) item i is the vector x_i instead of one of
    ones and zeros: |U_i ∩ U_j| becomes Σ_v x_i(v) x_j(v), and |U_i| becomes Σ_v x_i(v)². There are no `user_weights`
    then: they are part of the values. `degree` holds the sizes. With `scale` (one for each item, > 0) entry (i, j) is
    multiplied by scale_i · scale_j before it is rounded: items become longer or shorter vectors.
    """

    kernel: Kernel
    degree: Floats
    user_weights: NDArray[np.int64] | None = None
    scale: Floats | None = None
    pair_values: NDArray[np.float32] | None = None
    unit: float = 1.0

    @staticmethod
    def of(
        kernel: Kernel,
        rows: Rows,
        popularity: int | NDArray[np.int64],
        *,
        user_weights: Floats | None = None,
        scale: Floats | None = None,
        values: NDArray[np.float32] | None = None,
    ) -> KernelEntries:
        """The entries for users' compressed rows of items.

        `popularity` is how many users each item has, or how many items there are. `values`: h_vi > 0 of each pair,
        aligned with the rows.
        """
        if isinstance(popularity, int):
            popularity = np.bincount(rows.indices, minlength=popularity)
        items = len(popularity)
        _positive("user_weights", user_weights, len(rows.indptr) - 1, "user")
        _positive("scale", scale, items, "item")
        if values is not None:
            return _of_values(kernel, rows, user_weights, scale, values, items)
        if user_weights is None:
            return KernelEntries(kernel, popularity.astype(np.float64), None, scale)
        fine = scale_for(float(user_weights.max(initial=1.0)), len(user_weights))
        weights = fixed(user_weights, fine)
        if kernel.weighted_sizes:
            from komd._core.exact_sums import sum_weights

            sizes = np.zeros(items, np.int64)
            sum_weights(*rows, weights, sizes)
            degree = sizes / fine
        else:
            degree = popularity.astype(np.float64)
        return KernelEntries(kernel, degree, weights, scale, unit=1.0 / fine)

    @cached_property
    def factors(self) -> tuple[Floats, Floats]:
        """(left, right): the factors of counts, applied while these are stored; ones if the kernel has no such form."""
        ones = np.ones(len(self.degree))
        return self.kernel.factors(self.degree) or (ones, ones)

    @cached_property
    def count_factors(self) -> tuple[Floats, Floats]:
        """The same for counts as they are stored, in units of `unit`."""
        left, right = self.factors
        return left * self.unit, right

    def weights_of(self, counts: NDArray[Any]) -> Floats:
        """Counts in units of 1 from counts as they are stored: the total weight of users."""
        both: Floats = counts.astype(np.float64)
        if self.unit != 1.0:
            both *= self.unit
        return both

    @cached_property
    def by_product(self) -> bool:
        """Whether an entry is a function of count · left · right alone."""
        return self.kernel.factors(self.degree) is not None

    @property
    def number(self) -> type[np.int32] | type[np.int64] | type[np.float64]:
        """What counters hold: numbers of users, sums of their weights, or sums of products."""
        if self.pair_values is not None:
            return np.float64
        return np.int32 if self.user_weights is None else np.int64

    def values(self, both: Floats, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        """K at these places, from the total weight of the users that two items share; `both` may be overwritten."""
        if self.by_product:
            left, right = self.factors
            return self._finished(self.kernel.of_product(both * (left[rows] * right[columns])), rows, columns)
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


def _of_values(
    kernel: Kernel,
    rows: Rows,
    user_weights: Floats | None,
    scale: Floats | None,
    values: NDArray[np.float32],
    items: int,
) -> KernelEntries:
    """Item vectors x_i(v) = √weight_v · h_vi, rounded to float32 once: products of two are exact in float64."""
    _positive("values", values, len(rows.indices), "pair of user and item")
    if not (kernel.symmetric and kernel.weighted_sizes):
        raise InputError(
            f"{kernel!r} is a similarity of counts, not of vectors: it takes no weights of pairs; "
            'use weighting="none", or a kernel of komd.kernels'
        )
    x = values if user_weights is None else np.repeat(np.sqrt(user_weights), np.diff(rows.indptr)) * values
    # Not below the least normal number: counting would miss zeros, and subnormals have fewer bits.
    pair_values = np.maximum(x, np.finfo(np.float32).tiny).astype(np.float32, copy=False)
    # In the order in which users are counted: the diagonal of the counts is the sizes, to the last bit.
    degree = np.bincount(rows.indices, weights=pair_values.astype(np.float64) ** 2, minlength=items)
    return KernelEntries(kernel, degree.astype(np.float64, copy=False), None, scale, pair_values)


def _positive(name: str, values: NDArray[np.floating] | None, size: int, noun: str) -> None:
    if values is not None and (values.shape != (size,) or not (np.isfinite(values) & (values > 0)).all()):
        raise InputError(f"{name} must be {size:,} finite numbers > 0, one for each {noun}")
