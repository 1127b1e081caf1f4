"""What K is, as one value: the stages of every method made of counts (docs/guide/maths.md, "Kernels in stages")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.kernels.entries import KernelEntries
from komd.kernels.fixed_point import scale_for
from komd.kernels.functions import Kernel

__all__ = ["Stages"]


@dataclass(frozen=True)
class Stages:
    """Users weighted, a kernel of the counts, items scaled, a filter, a prior, and targets scaled: in this order.

    The last one is not part of K, which is symmetric: it multiplies what K says for an item that is asked for.

    Attributes
    ----------
    kernel
        The function of the (weighted) counts.
    user_damping
        γ: a user of a_v items counts a_v^−γ.
    popularity
        β: items are vectors of length d_i^β.
    ridge
        μ: K becomes K (K + μI)⁻¹; None for no filter.
    rank
        How many eigenvectors the filter is made of; None for the exact filter where it fits the memory.
    head
        a: each of these eigenvectors counts a · t more, t being the least of their eigenvalues.
    prior, prior_power
        c and δ: K becomes K + c p p', p_i = d_i^δ.
    target
        τ: what a history says for item j is multiplied by d_j^τ.
    weighting
        What the values of pairs, h_vi, are made of: the name of a function of the interactions' weights. User v is the
        component √(a_v^−γ) h_vi of item i. None: h_vi = 1. The name is part of this value so that K with other values
        is another K, in a cache for one; the values themselves are given beside the rows.
    """

    kernel: Kernel
    user_damping: float = 0.0
    popularity: float = 0.0
    ridge: float | None = None
    rank: int | None = None
    head: float = 0.0
    prior: float = 0.0
    prior_power: float = 0.5
    target: float = 0.0
    weighting: str | None = None

    @property
    def filtered(self) -> bool:
        """Whether there is a filter."""
        return self.ridge is not None or self.head > 0

    @property
    def low_rank(self) -> bool:
        """Whether the filter is one of low rank by itself, whatever the storage and the memory."""
        return self.rank is not None or self.head > 0

    def shared_by_all(self, *, written_out: bool) -> str | None:
        """What makes every entry of K depend on all pairs, in words; None if an entry depends on two items alone.

        `written_out` says whether low-rank corrections are part of the entries.
        """
        if self.filtered:
            return "the filter is made of all of K"
        if self.popularity:
            return "lengths of items are relative to those of all others"
        return "the prior, written into K, is relative to all items" if self.prior and written_out else None

    def counted_otherwise(self, old: Rows, new: Rows) -> str | None:
        """Why the counts of users' rows cannot be compared with those of others before; None if they can."""
        units = [scale_for(1.0, len(rows.indptr) - 1) for rows in (old, new)]
        return (
            "users' weights have another unit, there being so many"
            if self.user_damping and units[0] != units[1]
            else None
        )

    def before_target(self) -> Stages:
        """The same up to the prior: all of K."""
        return replace(self, target=0.0)

    def before_prior(self) -> Stages:
        """The same up to the filter."""
        return replace(self.before_target(), prior=0.0, prior_power=0.5)

    def before_filter(self) -> Stages:
        """The same up to the scaling of items."""
        return replace(self.before_prior(), ridge=None, rank=None, head=0.0)

    def before_scaling(self) -> Stages:
        """The same up to the kernel of the counts."""
        return replace(self.before_filter(), popularity=0.0)

    def entries(
        self,
        rows: Rows,
        items: int,
        values: NDArray[np.float32] | None = None,
        popularity: NDArray[np.int64] | None = None,
    ) -> KernelEntries:
        """What an entry is before the filter, for users' rows of items and the values of these pairs.

        `values` are ignored where there is no `weighting`. Where all of them are 1, users are counted as without.
        """
        if self.weighting is None or (values is not None and (values == 1).all()):
            values = None
        popularity = np.bincount(rows.indices, minlength=items) if popularity is None else popularity
        weights = scale = None
        if self.user_damping:
            weights = np.maximum(np.diff(rows.indptr), 1) ** -float(self.user_damping)
        if self.popularity:
            scale = self.item_scale(popularity)
        return KernelEntries.of(self.kernel, rows, popularity, user_weights=weights, scale=scale, values=values)

    def item_scale(self, popularity: NDArray[np.int64]) -> NDArray[np.float64]:
        """d_i^β, of mean square 1."""
        return _power(popularity, float(self.popularity))

    def target_factors(self, popularity: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """d_j^τ, of mean square 1; None for τ = 0."""
        return _power(popularity, float(self.target)) if self.target else None

    def prior_factor(self, popularity: NDArray[np.int64]) -> NDArray[np.float32]:
        """√c p: the prior is its product with itself. Zero for items that nobody chose."""
        p = _power(popularity, float(self.prior_power)) * (popularity > 0)
        out: NDArray[np.float32] = (np.sqrt(float(self.prior)) * p).astype(np.float32)
        return out


def _power(popularity: NDArray[np.int64], power: float) -> NDArray[np.float64]:
    """d_i^power, divided so that the squares of the items that somebody chose have a mean of 1."""
    chosen = popularity > 0
    # Relative to the most popular item: no power overflows.
    relative = np.maximum(popularity, 1) / max(int(popularity.max(initial=1)), 1)
    scale: NDArray[np.float64] = np.maximum(relative**power, 1e-100)
    mean = float((scale[chosen] ** 2).mean()) if chosen.any() else 1.0
    scale /= np.sqrt(mean)
    return scale
