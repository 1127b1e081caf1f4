"""How to hold an item-item matrix, by the memory that it will take: decided before it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.checks import one_of
from komd.errors import InputError, argument
from komd.matrix.density import percent
from komd.matrix.expected_density import saturating_density
from komd.memory import budget, readable

__all__ = ["STORAGES", "Plan", "known_storage", "plan", "small", "storage_bytes"]

STORAGES = ("dense", "sparse", "streamed")
_SMALL = 4096  # items up to which dense is always best: at most 67 MB, and rows are read sequentially
_FULL = 0.2  # share of non-zeros above which dense rows are faster than sparse ones, though they take more memory
_MARGIN = 1.5  # the density estimate may be that many times too low (docs/guide/sparsity.md)
_SHARE = 0.5  # of the budget that a sparse K may take if it can be streamed instead
_STRIP = 64 << 20  # bytes of a strip of K with which streaming still works well


def known_storage(storage: str | None) -> str | None:
    """The name of a storage, or None for any; InputError for an unknown name."""
    return None if storage is None else one_of("storage", storage, STORAGES)


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
    weighted: bool = False,
) -> Plan:
    """Choose how to hold K for items and users of these degrees under a memory budget.

    `storage` selects one form whatever the density of K; `streams` says that the caller does not need K in memory,
    `weighted` that pairs have values, which a streamed K keeps.
    `measure` gives a better estimate of the density of K than `saturating_density`, at some cost: it is called only if
    the first estimate does not decide whether K fits. Raises InputError, with the numbers, if the choice cannot fit.
    """
    m = len(popularity)
    users, pairs = len(activity), int(activity.sum())
    density = saturating_density(popularity, activity)
    room = budget(memory)
    at_most = storage_bytes(m, users, pairs, _MARGIN * density)["sparse"]
    if measure and storage != "streamed" and at_most > _SHARE * room:
        density = measure()
    sizes = storage_bytes(m, users, pairs, density, weighted=weighted)
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
            f"{readable(sizes['streamed'])} streamed, the budget is {readable(room)}; raise {argument('memory')}, "
            "or leave out the rarest items"
        )
    return Plan(storage, m, density, sizes[storage])


def small(items: int, memory: str | int | None = None) -> bool:
    """Whether K is held dense whatever its density, because there are few items."""
    return items <= _SMALL and 4 * items * items <= budget(memory)


def storage_bytes(items: int, users: int, pairs: int, density: float, *, weighted: bool = False) -> dict[str, int]:
    """The bytes of K in each form: every entry; each non-zero with its column; or the pairs by item and a strip.

    The last one also has the values of `weighted` pairs, by user and by item.
    """
    return {
        "dense": 4 * items * items,
        "sparse": int(8 * density * items * items) + 8 * (items + 1),
        "streamed": (12 if weighted else 4) * pairs + 8 * (items + 2 * users) + min(_STRIP, 6 * items * items),
    }
