"""Histories: rows of item numbers, the form in which models receive users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.rows import pointers

__all__ = ["Histories"]


@dataclass(frozen=True, eq=False)
class Histories:
    """Compressed rows of item numbers, ascending and distinct within each row: one row for each user.

    `users` are the numbers of these users in the training data, or None for users outside it; only methods that learn
    something about each user beyond the history need them. `seen` are other items that each user knows, such as those
    rated low: they are left out of lists together with the history, and have no other use. `dislikes` are items that
    each user dislikes: they are left out of every list.

    `weights` and `times` (microseconds since 1970) are aligned with `indices`; None if the data has none. `at` is
    the moment, in microseconds, from which ages are measured; None: each user's last event.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    users: NDArray[np.int32] | None = None
    seen: Histories | None = None
    weights: NDArray[np.float32] | None = None
    times: NDArray[np.int64] | None = None
    dislikes: Histories | None = None
    at: int | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each user has."""
        return self.indptr[1:] - self.indptr[:-1]  # np.diff is several times slower for a single user

    @property
    def rows(self) -> Rows:
        """The rows alone, in the form that matrices and compiled code take."""
        return Rows(self.indptr, self.indices)

    def row(self, number: int) -> NDArray[np.int32]:
        """The items of one user."""
        return self.indices[self.indptr[number] : self.indptr[number + 1]]

    @staticmethod
    def of_rows(
        rows: Sequence[NDArray[np.int32]],
        weights: Sequence[NDArray[np.float32]] | None = None,
        times: Sequence[NDArray[np.int64]] | None = None,
    ) -> Histories:
        """One history for each array of numbers, sorted, each number once: the first, with its weight and time."""
        found = [np.unique(row, return_index=True) for row in rows]
        indptr = pointers([len(row) for row, _ in found])

        def joined(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
            return np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)

        def aligned(arrays: Sequence[NDArray[Any]] | None, kind: Any) -> NDArray[Any] | None:
            if arrays is None:
                return None
            return joined([array[first] for array, (_, first) in zip(arrays, found, strict=True)], kind)

        indices = joined([row for row, _ in found], np.int32)
        return Histories(indptr, indices, weights=aligned(weights, np.float32), times=aligned(times, np.int64))

    def block(self, first: int, last: int) -> Histories:
        """Rows first..last."""
        if first == 0 and last == len(self):
            return self
        indptr = self.indptr[first : last + 1]
        return self._part(
            indptr - indptr[0], slice(indptr[0], indptr[-1]), slice(first, last), lambda of: of.block(first, last)
        )

    def take(self, rows: NDArray[np.int32]) -> Histories:
        """These rows, in this order."""
        lengths = self.lengths[rows]
        indptr = pointers(lengths)
        # Entry p of the result is entry p - indptr[row] of its row.
        source = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        return self._part(indptr, source, rows, lambda of: of.take(rows))

    def _part(
        self, indptr: NDArray[np.int64], pairs: Any, rows: Any, same: Callable[[Histories], Histories]
    ) -> Histories:
        """Some rows: `pairs` selects their pairs, `rows` the rows; `same` selects the same of other histories."""
        return Histories(
            indptr,
            self.indices[pairs],
            None if self.users is None else self.users[rows],
            None if self.seen is None else same(self.seen),
            None if self.weights is None else self.weights[pairs],
            None if self.times is None else self.times[pairs],
            None if self.dislikes is None else same(self.dislikes),
            self.at,
        )

    @property
    def known_items(self) -> Histories:
        """The items that each user knows: the history, what else was seen, and what they dislike."""
        parts = [part for part in (self, self.seen, self.dislikes) if part is not None]
        if len(parts) == 1:
            return self
        return Histories(*_rows_of(np.unique(np.concatenate([part.keys for part in parts])), len(self)))

    def with_dislikes(self) -> Histories:
        """Rows of the history and the dislikes together, of users who have a history; weights of -1 mark dislikes."""
        if self.dislikes is None:
            return self
        with_history = np.repeat(self.lengths > 0, self.dislikes.lengths)
        keys, weights = self.keys, np.ones(len(self.indices), np.float32) if self.weights is None else self.weights
        disliked = np.setdiff1d(self.dislikes.keys[with_history], keys)
        joined = np.concatenate([keys, disliked])
        order = np.argsort(joined, kind="stable")
        weights = np.concatenate([weights, np.full(len(disliked), -1, np.float32)])[order]
        return Histories(*_rows_of(joined[order], len(self)), self.users, weights=weights, at=self.at)

    @property
    def keys(self) -> NDArray[np.int64]:
        """Row and item of each pair in one number: row · 2³² + item."""
        owners = np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)
        return owners << 32 | self.indices

    def known(self) -> Histories:
        """The same rows, marked as all users of the training data in their order."""
        return replace(self, users=np.arange(len(self), dtype=np.int32))


def _rows_of(keys: NDArray[np.int64], rows: int) -> Rows:
    """Keys in ascending order, as compressed rows."""
    return Rows(pointers(np.bincount(keys >> 32, minlength=rows)), (keys & 0xFFFFFFFF).astype(np.int32))
