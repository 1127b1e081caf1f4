"""The definition of K as one value: the stages of methods on counts (docs/guide/maths.md, "Kernels in stages")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.kernels.entries import KernelEntries
from komd.kernels.fixed_point import scale_for
from komd.kernels.functions import Kernel

__all__ = ["Stages"]

_LEAST = 1e-100  # least power of popularity: less has no effect beside the others
_MOST_POWER = 1e12  # beyond it only the most popular items count anyway


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
    normalised
        Whether the lengths of items have a mean square of 1 in the entries of K themselves. A filter takes them so.
        Without one, entries are held divided by a `factor` that is kept apart: an entry then depends on two items.
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
    normalised: bool = False

    @property
    def apart(self) -> bool:
        """Whether K is held divided by a `factor`."""
        return bool(self.popularity) and not (self.filtered or self.normalised)

    @property
    def filtered(self) -> bool:
        """Whether there is a filter."""
        return self.ridge is not None or self.head > 0

    @property
    def low_rank(self) -> bool:
        """Whether the filter is one of low rank by itself, whatever the storage and the memory."""
        return self.rank is not None or self.head > 0

    def shared_by_all(self, *, written_out: bool) -> str | None:
        """The reason why every entry of K depends on all pairs; None if an entry depends on two items only.

        `written_out` says whether low-rank corrections are part of the entries.
        """
        if self.filtered:
            return "the filter is made of all of K"
        if self.popularity and not self.apart:
            return "it was saved by an earlier version, with lengths of items relative to those of all others"
        return "the prior, written into K, is relative to all items" if self.prior and written_out else None

    def counted_otherwise(self, old: Rows, new: Rows) -> str | None:
        """Why the counts of users' rows cannot be compared with those of others before; None if they can."""
        units = [scale_for(1.0, len(rows.indptr) - 1) for rows in (old, new)]
        return (
            "users' weights have another unit, there being so many"
            if self.user_damping and units[0] != units[1]
            else None
        )

    def scaled_otherwise(self, old: NDArray[np.int64], new: NDArray[np.int64]) -> str | None:
        """Why the lengths of items cannot be compared with those before, by popularities; None if they can."""
        if not self.apart or _unit(old, self.popularity) == _unit(new, self.popularity):
            return None
        return "lengths of items have another unit, items being so popular"

    def before_target(self) -> Stages:
        """The same up to the prior: all of K."""
        return replace(self, target=0.0)

    def before_prior(self) -> Stages:
        """The same up to the filter."""
        return replace(self.before_target(), prior=0.0, prior_power=0.5)

    def before_filter(self) -> Stages:
        """The same up to the scaling of items."""
        normalised = bool(self.popularity) and not self.apart
        return replace(self.before_prior(), ridge=None, rank=None, head=0.0, normalised=normalised)

    def before_scaling(self) -> Stages:
        """The same up to the kernel of the counts."""
        return replace(self.before_filter(), popularity=0.0, normalised=False)

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
        values = values if self.counts_values(values) else None
        popularity = np.bincount(rows.indices, minlength=items) if popularity is None else popularity
        weights = scale = None
        if self.user_damping:
            weights = np.maximum(np.diff(rows.indptr), 1) ** -float(self.user_damping)
        if self.popularity:
            scale = self.item_scale(popularity)
        return KernelEntries.of(self.kernel, rows, popularity, user_weights=weights, scale=scale, values=values)

    def counts_values(self, values: NDArray[np.float32] | None) -> bool:
        """Whether these values of pairs enter K: not where there is no `weighting`, nor where all of them are 1."""
        return self.weighting is not None and values is not None and not bool((values == 1).all())

    def item_scale(self, popularity: NDArray[np.int64]) -> NDArray[np.float64]:
        """d_i^β, of mean square 1; where that is kept `apart`, divided by a power of two that makes it about 1."""
        beta = float(self.popularity)
        return _in_unit(popularity, beta, _unit(popularity, beta)) if self.apart else _power(popularity, beta)

    def factor(self, popularity: NDArray[np.int64]) -> float | None:
        """The factor of the stored entries of K, between ½ and 2; None for 1."""
        return 1.0 / _mean_square(self.item_scale(popularity), popularity) if self.apart else None

    def target_factors(self, popularity: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """d_j^τ, of mean square 1; None for τ = 0."""
        return _power(popularity, float(self.target)) if self.target else None

    def prior_factor(self, popularity: NDArray[np.int64]) -> NDArray[np.float32]:
        """√c p: the prior is its product with itself. Zero for items that nobody chose.

        The same `factor` is kept apart from it as from the rest of K.
        """
        p = _power(popularity, float(self.prior_power)) * (popularity > 0)
        prior = float(self.prior) / (self.factor(popularity) or 1.0)
        out: NDArray[np.float32] = (np.sqrt(prior) * p).astype(np.float32)
        return out


def _power(popularity: NDArray[np.int64], power: float) -> NDArray[np.float64]:
    """d_i^power, divided so that the squares of the items that somebody chose have a mean of 1."""
    # Relative to the most popular item: no power overflows.
    scale = _relative(popularity, max(int(popularity.max(initial=1)), 1), power)
    scale /= np.sqrt(_mean_square(scale, popularity))
    return scale


def _mean_square(scale: NDArray[np.float64], popularity: NDArray[np.int64]) -> float:
    """Over the items that somebody chose; 1 if there are none."""
    chosen = popularity > 0
    return float((scale[chosen] ** 2).mean()) if chosen.any() else 1.0


def _unit(popularity: NDArray[np.int64], power: float) -> int:
    """The power of two nearest to the root mean square of d_i^power: its exponent."""
    most, power = max(int(popularity.max(initial=1)), 1), min(power, _MOST_POWER)
    relative = _relative(popularity, most, power)
    return round(power * math.log2(most) + 0.5 * math.log2(_mean_square(relative, popularity)))


def _in_unit(popularity: NDArray[np.int64], power: float, unit: int) -> NDArray[np.float64]:
    """d_i^power / 2^unit: it depends on d_i and on the unit alone."""
    power = min(power, _MOST_POWER)
    return _relative(popularity, 2.0 ** (unit / power), power)  # not d_i^power itself, which may overflow


def _relative(popularity: NDArray[np.int64], to: float, power: float) -> NDArray[np.float64]:
    """(d_i / to)^power; items that nobody chose count as chosen once."""
    out: NDArray[np.float64] = np.maximum((np.maximum(popularity, 1) / to) ** power, _LEAST)
    return out
