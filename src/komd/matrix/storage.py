"""What an item-item matrix will weigh, and so how to hold it: decided before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.checks import one_of
from komd.errors import InputError
from komd.matrix.density import percent
from komd.matrix.expected_density import saturating_density
from komd.memory import budget, readable

__all__ = ["STORAGES", "Plan", "estimate_density", "expected_nonzeros", "known_storage", "plan", "storage_bytes"]

STORAGES = ("dense", "sparse", "streamed")
_SMALL = 4096  # items up to which dense is always right: 67 MB, and rows of it are read straight through
_FULL = 0.2  # above this share of non-zeros dense rows are faster to add than sparse ones, though they weigh more
_MARGIN = 1.5  # the density estimate may be that many times too low (docs/guide/sparsity.md)
_SHARE = 0.5  # of the budget that a sparse K may take where the alternative is to stream it
_STRIP = 64 << 20  # bytes of a strip of K with which streaming still works well
_BINS = 512


def known_storage(storage: str | None) -> None:
    """Refuse the name of a storage that there is not."""
    if storage is not None:
        one_of("storage", storage, STORAGES)


@dataclass(frozen=True)
class Plan:
    """How to hold K, and why. `exact`: the density was counted, not estimated."""

    storage: str
    items: int
    density: float
    bytes: int
    exact: bool = False

    def __str__(self) -> str:
        share = f"{'' if self.exact else 'about '}{percent(self.density, 2)} full"
        return f"K: {self.items:,} items, {share} → {self.storage}, {readable(self.bytes)}"


def plan(
    popularity: NDArray[np.int64],
    activity: NDArray[np.int64],
    *,
    memory: str | int | None = None,
    storage: str | None = None,
    measure: Callable[[], float] | None = None,
    streams: bool = False,
) -> Plan:
    """Choose how to hold K for items and users of these degrees under a memory budget.

    `storage` asks for one form whatever K looks like; `streams` says that the caller can do without K in memory.
    `measure` finds the density of K better than `saturating_density` can, at some cost: it is called where the
    estimate leaves open whether K fits. Raises InputError, with the numbers, when the choice cannot
    fit.
    """
    m = len(popularity)
    users, pairs = len(activity), int(activity.sum())
    density = saturating_density(popularity, activity)
    room = budget(memory)
    at_most = storage_bytes(m, users, pairs, _MARGIN * density)["sparse"]
    if measure and storage != "streamed" and at_most > _SHARE * room:
        density = measure()
    sizes = storage_bytes(m, users, pairs, density)
    if storage is None:
        if (m <= _SMALL or density >= _FULL) and sizes["dense"] <= room:
            storage = "dense"
        elif sizes["sparse"] <= _SHARE * room or not streams:
            storage = "sparse"
        else:
            storage = "streamed"
    if sizes[storage] > room:
        raise InputError(
            f"the kernel between {m:,} items does not fit {storage}: {readable(sizes['dense'])} dense, about "
            f"{readable(sizes['sparse'])} sparse (estimated {percent(density, 3)} full), "
            f"{readable(sizes['streamed'])} streamed, the budget is {readable(room)}; raise memory=, "
            "or leave out the rarest items"
        )
    return Plan(storage, m, density, sizes[storage])


def storage_bytes(items: int, users: int, pairs: int, density: float) -> dict[str, int]:
    """What K weighs in each form: every entry; each non-zero with its column; or the pairs by item and a strip."""
    return {
        "dense": 4 * items * items,
        "sparse": int(8 * density * items * items) + 8 * (items + 1),
        "streamed": 4 * pairs + 8 * (items + 2 * users) + min(_STRIP, 6 * items * items),
    }


def estimate_density(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> float:
    """The share of non-zeros to expect in K, from the two tails alone (docs/guide/maths.md, "How full K will be").

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


def expected_nonzeros(
    rows: NDArray[np.int64], columns: NDArray[np.int64], activity: NDArray[np.int64]
) -> NDArray[np.float64]:
    """How many of the rows, items of these degrees, should meet each of the columns (the same estimate)."""
    a = activity.astype(np.float64)
    rate = float((a * (a - 1)).sum()) / max(float(a.sum()), 1.0) ** 2
    values, sizes = _binned(rows[rows > 0].astype(np.float64))
    degrees, place = np.unique(columns, return_inverse=True)
    meet = -np.expm1(-rate * np.outer(degrees.astype(np.float64), values)) @ sizes
    out: NDArray[np.float64] = np.minimum(meet + 1.0, float(len(rows)))[place]
    return out


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
