"""What K will cost on this machine, held dense, held sparse or streamed: bytes and seconds, before any of it is built.

Bytes follow from the number of items and the density. Seconds are a linear model of the processor time of
`matrix_from_counts`, with coefficients per count, per entry and per pair. The coefficients below are properties of the
code; the speed of this machine relative to them is measured by building two small kernels, once per process.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass

import numpy as np

from komd import threads as pool
from komd.matrix.storage import storage_bytes
from komd.memory import budget, readable

__all__ = ["Cost", "costs", "machine_speed", "seconds"]

# Nanoseconds on the machine where they were fitted, on eleven data sets; python -m experiments.sparsity_costs checks.
_COUNT = {"dense": 0.3, "sparse": 0.65, "streamed": 0.65}  # a visit to an item of a user; dense leaves out half
_ENTRY = {"dense": 8.2, "sparse": 69.0, "streamed": 45.0}  # per entry: of all m² if dense, else of the non-zeros
_PAIR = {"dense": 105.0, "sparse": 85.0, "streamed": 85.0}  # transposing R, and fetching a user's row from memory
_FAR = 60_000  # items whose counters fill the inner cache: with more items, counting waits for memory
_SLOWER = 4.0  # counts more for every doubling of the items beyond
_SLOWEST = 14.0  # counts, if no counter is in the inner cache
_COLD = {"dense": 1.25, "sparse": 1.4}  # a kernel built once has more cache misses than a small one built repeatedly
_TRIES = (3, 0.5, 12)  # to measure the machine: builds at least, seconds, builds at most
_PASSES = 2  # over all strips: one for the users' weights, one for their scores


@dataclass(frozen=True)
class Cost:
    """One way to hold K: its bytes, how long it takes to build, and whether the budget allows it."""

    storage: str
    bytes: int
    seconds: float
    fits: bool

    def __str__(self) -> str:
        return (
            f"{self.storage}: {readable(self.bytes)}, {seconds(self.seconds)}{'' if self.fits else ' (does not fit)'}"
        )


def costs(
    users: int,
    items: int,
    pairs: int,
    work: int,
    density: float,
    *,
    memory: str | int | None = None,
    threads: int | None = None,
) -> tuple[Cost, Cost, Cost]:
    """Dense, sparse and streamed, for data of this size with Σ_v a_v² = `work`, at this density of K.

    A streamed K is never held as a whole: its seconds are those of computing every strip of columns twice, which
    fitting and then recommending need.
    """
    room = budget(memory)
    workers = pool.count(threads)
    nonzeros = density * items**2
    weights = storage_bytes(items, users, pairs, density)
    entries = {"dense": float(items**2), "sparse": nonzeros, "streamed": _PASSES * nonzeros}
    away = min(_SLOWEST, 1 + _SLOWER * max(0.0, math.log2(max(1, items) / _FAR)))
    made = []
    for storage in ("dense", "sparse", "streamed"):
        times = _PASSES if storage == "streamed" else 1
        spent = times * (_COUNT[storage] * work * away + _PAIR[storage] * pairs) + _ENTRY[storage] * entries[storage]
        speed = machine_speed("dense" if storage == "dense" else "sparse", workers)
        made.append(Cost(storage, weights[storage], 1e-9 * spent * speed, weights[storage] <= room))
    return made[0], made[1], made[2]


def seconds(value: float) -> str:
    """Seconds in readable units.

    >>> seconds(0.004), seconds(3.21), seconds(95), seconds(7300)
    ('under 0.1 s', '3.2 s', '1.6 min', '2.0 h')
    """
    if value < 0.1:
        return "under 0.1 s"
    if value < 90:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.1f} min" if value < 5400 else f"{value / 3600:.1f} h"


@functools.cache
def machine_speed(storage: str, workers: int) -> float:
    """Elapsed seconds on this machine for one second of modelled processor time, with so many threads."""
    from komd._core.groups import Rows
    from komd.kernels.entries import KernelEntries
    from komd.kernels.functions import Tanimoto
    from komd.matrix.from_counts import matrix_from_counts

    items, users, activity = 1500, 1200, 120
    random = np.random.default_rng(0)
    rows = np.sort(random.random((users, items)).argpartition(activity, axis=1)[:, :activity], axis=1)
    indptr = np.arange(0, users * activity + 1, activity, dtype=np.int64)
    indices = rows.astype(np.int32).ravel()
    spent: list[float] = []
    while len(spent) < _TRIES[0] or (sum(spent[1:]) < _TRIES[1] and len(spent) < _TRIES[2]):
        start = time.perf_counter()
        pairs = Rows(indptr, indices)
        made = matrix_from_counts(KernelEntries.of(Tanimoto(), pairs, items), pairs, storage, workers)
        spent.append(time.perf_counter() - start)
    best = min(spent)  # the first may compile, and others may be slowed down by other processes
    entries = items**2 if storage == "dense" else made.nonzeros
    table = _COUNT[storage] * users * activity**2 + _PAIR[storage] * len(indices) + _ENTRY[storage] * entries
    return float(_COLD[storage] * best / (1e-9 * table))
