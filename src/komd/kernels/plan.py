"""What an item-item matrix will weigh, and so how to hold it: decided before any work is done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.errors import InputError
from komd.memory import budget, readable

__all__ = ["Plan", "estimate_density", "plan"]

_SMALL = 4096  # items up to which dense is always right: 67 MB, and rows of it are read straight through
_FULL = 0.2  # above this share of non-zeros dense rows are faster to add than sparse ones, though they weigh more
_MARGIN = 2.5  # the density estimate may be that many times too low (docs/maths.md, "How full K will be")
_BINS = 512


@dataclass(frozen=True)
class Plan:
    """How to hold K, and why."""

    storage: str
    items: int
    density: float
    bytes: int

    def __str__(self) -> str:
        share = f"about {100 * self.density:.2g} % full"
        return f"K: {self.items:,} items, {share} → {self.storage}, {readable(self.bytes)}"


def plan(
    popularity: NDArray[np.int64],
    activity: NDArray[np.int64],
    *,
    memory: str | int | None = None,
    dense: bool = False,
) -> Plan:
    """Choose how to hold K for items and users of these degrees under a memory budget.

    `dense=True` asks for the dense form whatever K looks like (CF-OMD needs it). Raises InputError, with the
    numbers, when the choice cannot fit.
    """
    m = len(popularity)
    density = estimate_density(popularity, activity)
    room = budget(memory)
    dense_bytes = 4 * m * m
    sparse_bytes = int(8 * density * m * m) + 8 * (m + 1)
    if dense or ((m <= _SMALL or density >= _FULL) and dense_bytes <= room):
        chosen = Plan("dense", m, density, dense_bytes)
    else:
        chosen = Plan("sparse", m, density, sparse_bytes)
    if chosen.bytes > room:
        raise InputError(
            f"the kernel between {m:,} items does not fit: {readable(dense_bytes)} dense, about "
            f"{readable(sparse_bytes)} sparse (estimated {100 * density:.3g} % full), the budget is {readable(room)}"
            "; raise memory=, or leave out the rarest items"
        )
    return chosen


def estimate_density(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> float:
    """The share of non-zeros to expect in K, from the two tails alone (docs/maths.md, "How full K will be").

    Items of degrees d_i and d_j share d_i d_j Σ_v a_v(a_v − 1) / N² users on average, so they share one at least
    with probability 1 − exp(−that). Degrees are binned, which costs less than 1 % of the estimate.

    >>> round(estimate_density(np.array([2, 2, 1]), np.array([2, 2, 1])), 3)
    0.56
    """
    d = popularity[popularity > 0].astype(np.float64)
    a = activity.astype(np.float64)
    m = len(popularity)
    if m == 0 or d.size == 0:
        return 0.0
    rate = float((a * (a - 1)).sum()) / float(a.sum()) ** 2
    values, sizes = _binned(d)
    meet = -np.expm1(-rate * values[:, None] * values[None, :])
    pairs = sizes @ meet @ sizes - sizes @ np.diag(meet)  # i ≠ j
    return float((pairs + d.size) / m**2)


def _binned(d: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distinct degrees with their numbers, at most `_BINS` of them (log-spaced, each at its mean)."""
    values, sizes = np.unique(d, return_counts=True)
    if len(values) <= _BINS:
        return values, sizes.astype(np.float64)
    edges = np.geomspace(values[0], values[-1], _BINS + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _BINS - 1)
    totals = np.bincount(place, weights=sizes, minlength=_BINS)
    means = np.bincount(place, weights=sizes * values, minlength=_BINS)
    kept = totals > 0
    return means[kept] / totals[kept], totals[kept].astype(np.float64)
