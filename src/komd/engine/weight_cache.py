"""A cache of the weights of histories, so that the same problem is not solved twice.

The weights of a user depend only on the model, on the items of the user's row, and on how much each item counts. So the
key is a hash of the row: a history that has changed in any way has another key, and an entry is never out of date. A
cache belongs to one state of one model (`Recommender.keeping_weights`). It holds neither ids nor items, only hashes and
weights.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd.engine.histories import Histories

__all__ = ["WeightCache", "WeightCounts", "Weights"]

Weights: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
"""w of the items of rows, and b, one for each row."""

_DIGEST = 16  # bytes of a hash
_ENTRY = 400  # approximate bytes of an entry besides its weights


class WeightCounts:
    """How many rows were found in a cache and how many had to be solved. Changed under the lock of the cache."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0


class WeightCache:
    """A least-recently-used cache of at most `most_bytes`. Several threads may use it at once."""

    def __init__(self, most_bytes: int, counts: WeightCounts | None = None) -> None:
        self.counts = WeightCounts() if counts is None else counts
        """Hits and misses; the cache of the next model may continue these counts."""
        self.bytes = 0
        """The approximate size of the cache in bytes."""
        self._most = most_bytes
        self._held: OrderedDict[bytes, tuple[NDArray[np.float64], float]] = OrderedDict()
        self._lock = threading.Lock()
        self._clearings = 0

    def __len__(self) -> int:
        return len(self._held)

    def weights(self, rows: Histories, solve: Callable[[Histories], Weights]) -> Weights:
        """w and b of all rows: from the cache, or from `solve` for the rows that it lacks."""
        keys = [_key(rows, row) for row in range(len(rows))]
        with self._lock:
            clearings = self._clearings
            found = [self._held.get(key) for key in keys]
            for key, one in zip(keys, found, strict=True):
                if one is not None:
                    self._held.move_to_end(key)
            missing = [row for row, one in enumerate(found) if one is None]
            self.counts.hits += len(found) - len(missing)
            self.counts.misses += len(missing)
        if missing:
            some = rows if len(missing) == len(rows) else rows.take(np.array(missing, np.int32))
            w, b = solve(some)
            for place, row in enumerate(missing):
                found[row] = w[some.indptr[place] : some.indptr[place + 1]].copy(), float(b[place])
            self._keep({keys[row]: found[row] for row in missing}, clearings)
            if some is rows:
                return w, b
        held = [one for one in found if one is not None]
        return np.concatenate([np.zeros(0), *(w for w, _ in held)]), np.array([b for _, b in held])

    def _keep(self, solved: dict[bytes, tuple[NDArray[np.float64], float] | None], clearings: int) -> None:
        with self._lock:
            if clearings != self._clearings:  # do not store what was solved before the cache was cleared
                return
            for key, one in solved.items():
                if one is not None and key not in self._held:  # another thread may have solved the same row
                    self._held[key] = one
                    self.bytes += _size(one)
            while self.bytes > self._most:
                _, oldest = self._held.popitem(last=False)
                self.bytes -= _size(oldest)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._held.clear()
            self.bytes = 0
            self._clearings += 1


def _size(one: tuple[NDArray[np.float64], float]) -> int:
    return one[0].nbytes + _ENTRY


def _key(rows: Histories, row: int) -> bytes:
    """A hash of items and weights of a row; the number of items comes first, so that it is unambiguous."""
    first, last = int(rows.indptr[row]), int(rows.indptr[row + 1])
    said = hashlib.blake2b((last - first).to_bytes(8), digest_size=_DIGEST)
    said.update(rows.indices[first:last].tobytes())
    if rows.weights is not None:
        said.update(rows.weights[first:last].tobytes())
    return said.digest()
