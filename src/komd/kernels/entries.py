"""What an item-item matrix is made of: a kernel of counts, and how users and items count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from komd.errors import InputError
from komd.kernels.functions import Kernel

__all__ = ["Recipe"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Recipe:
    """Entry (i, j) is `kernel.of_counts(|U_i ∩ U_j|, |U_i|, |U_j|)`, rounded to float32 once.

    With `user_weights` (one a user, > 0) the size of a set of users is what they weigh together: |U_i ∩ U_j| becomes
    Σ_{v ∈ U_i ∩ U_j} weight_v, and |U_i| likewise, which keeps the meaning of every kernel (the cosine becomes that of
    the weighted vectors). `degree` holds the sizes |U_i|, or what stands in for them. With `scale` (one an item, > 0)
    entry (i, j) is multiplied by scale_i · scale_j before it is rounded: items become longer or shorter vectors.
    """

    kernel: Kernel
    degree: Floats
    user_weights: Floats | None = None
    scale: Floats | None = None

    @staticmethod
    def of(
        kernel: Kernel,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        items: int,
        *,
        user_weights: Floats | None = None,
        degrees: Floats | None = None,
        scale: Floats | None = None,
    ) -> Recipe:
        """The recipe for users' compressed rows; sizes are taken from them unless `degrees` are given."""
        if user_weights is not None:
            user_weights = np.ascontiguousarray(user_weights, np.float64)
            if user_weights.shape != (len(indptr) - 1,) or not (np.isfinite(user_weights) & (user_weights > 0)).all():
                raise InputError(f"user_weights must be {len(indptr) - 1:,} finite numbers > 0, one for each user")
        if degrees is not None:
            degree = np.asarray(degrees, np.float64)
        elif user_weights is not None:
            every = np.repeat(user_weights, np.diff(indptr))
            degree = np.bincount(indices, weights=every, minlength=items).astype(np.float64, copy=False)
        else:
            degree = np.bincount(indices, minlength=items).astype(np.float64)
        if scale is not None:
            scale = np.ascontiguousarray(scale, np.float64)
            if scale.shape != (items,) or not (np.isfinite(scale) & (scale > 0)).all():
                raise InputError(f"scale must be {items:,} finite numbers > 0, one for each item")
        return Recipe(kernel, degree, user_weights, scale)

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
        return self.finished(self.kernel.of_counts(both, self.degree[rows], self.degree[columns]), rows, columns)

    def from_products(
        self, products: Floats, rows: NDArray[np.int32], columns: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """The same from what was written down while counting: counts times `factors`; it may be overwritten."""
        if not self.by_product:
            return self.values(products, rows, columns)
        return self.finished(self.kernel.of_product(products), rows, columns)

    def finished(self, values: Floats, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        """K at these places from the kernel's values there; `values` may be overwritten."""
        if self.scale is not None:
            # The two scales first: their product is the same for (i, j) and (j, i), so K stays symmetric to the bit.
            values *= self.scale[rows] * self.scale[columns]
        out = values.astype(np.float32)
        if self.kernel.unit_diagonal:
            own = rows == columns
            out[own] = 1.0 if self.scale is None else self.scale[rows[own]] ** 2
        return out

    @property
    def diagonal(self) -> NDArray[np.float32]:
        """K(i, i) of a kernel with a unit diagonal; zero for items nobody chose."""
        return ((self.degree > 0) * (1.0 if self.scale is None else self.scale**2)).astype(np.float32)
