"""What is known of one user, in a model's inside numbers, and how the rows of several users become `Histories`.

The model's row of a user is joined by what was posted since: `joined`. A row that came with a request is made by
`posted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.engine.histories import Histories

__all__ = ["NO_TIME", "UserRow", "histories_of"]

NO_TIME = int(np.iinfo(np.int64).min)
"""The time of an item whose time is not known: it has age 0, as if it had happened at the moment of the request."""

_LEAST_WEIGHT = 1e-30  # as small as a weight gets in a model: it stays above 0 in single precision


def _none() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class UserRow:
    """The items of a user with weights (None: all 1) and times in microseconds (None: not known).

    An item may be there twice: the first counts. Rows of a model are ascending, and each item is there once.
    """

    items: NDArray[np.int32] = field(default_factory=_none)
    weights: NDArray[np.float32] | None = None
    times: NDArray[np.int64] | None = None
    dislikes: NDArray[np.int32] = field(default_factory=_none)
    seen: NDArray[np.int32] = field(default_factory=_none)
    """Items known to the user besides, such as those rated low."""

    @staticmethod
    def of_histories(histories: Histories, row: int) -> UserRow:
        """One row of histories."""
        one = histories.block(row, row + 1)
        dislikes, seen = (_none() if part is None else part.indices for part in (one.dislikes, one.seen))
        return UserRow(one.indices, one.weights, one.times, dislikes, seen)

    @staticmethod
    def posted(
        numbers: NDArray[np.int32],
        dislikes: NDArray[np.int32],
        weights: Sequence[float | None] | None = None,
        times: Sequence[int | None] | None = None,
    ) -> UserRow:
        """The row of a request: weights and times (milliseconds) are of `numbers`, where -1 is an unknown item."""
        known = numbers >= 0
        return UserRow(
            numbers[known],
            None if weights is None else _weights(weights)[known],
            None if times is None else _times(times)[known],
            dislikes,
        )

    def joined(
        self,
        chosen: NDArray[np.int32],
        weights: Sequence[float | None],
        times: Sequence[int],
        disliked: NDArray[np.int32],
        withdrawn: NDArray[np.int32],
        least: Sequence[float | None],
    ) -> UserRow:
        """This row of a model with what was posted since, each item once.

        That are choices with weights and times (milliseconds), dislikes, and items that are withdrawn; and what each
        choice weighs at least.

        The weight of an item that was chosen before stays if no other is given, and is raised to its `least`; its time
        is the later one. A new item weighs its `least` if no weight is given, or 1.
        """
        gone, again = np.concatenate([disliked, withdrawn]), np.concatenate([chosen, withdrawn])
        kept = _outside(self.items, gone)
        items = np.union1d(self.items[kept], chosen).astype(np.int32)
        before, since = np.searchsorted(items, self.items[kept]), np.searchsorted(items, chosen)
        all_weights, all_times = None, None
        if self.weights is not None or any(weight is not None for weight in (*weights, *least)):
            all_weights = np.ones(len(items), np.float32)
            raised = np.array([weight is not None for weight in least], bool)
            all_weights[since[raised]] = 0  # unless it was chosen before
            all_weights[before] = 1 if self.weights is None else self.weights[kept]
            all_weights[since[raised]] = np.maximum(all_weights[since[raised]], _weights(least)[raised])
            given = np.array([weight is not None for weight in weights], bool)
            all_weights[since[given]] = _weights(weights)[given]
        if self.times is not None or len(chosen):
            all_times = np.full(len(items), NO_TIME)
            if self.times is not None:
                all_times[before] = self.times[kept]
            all_times[since] = np.maximum(all_times[since], _times(times))
        dislikes, seen = self.dislikes[_outside(self.dislikes, again)], self.seen[_outside(self.seen, withdrawn)]
        if len(disliked):
            dislikes = np.union1d(dislikes, disliked).astype(np.int32)
        return UserRow(items, all_weights, all_times, dislikes, seen)


def _outside(items: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of the items are not among the others."""
    return np.isin(items, others, invert=True) if len(items) and len(others) else np.ones(len(items), bool)


def _weights(weights: Sequence[float | None]) -> NDArray[np.float32]:
    return np.array([1.0 if weight is None else max(weight, _LEAST_WEIGHT) for weight in weights], np.float32)


def _times(milliseconds: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([NO_TIME if time is None else 1000 * time for time in milliseconds], np.int64)


def histories_of(rows: Sequence[UserRow], at: int) -> Histories:
    """The histories of these users; ages are measured from `at` (microseconds since 1970)."""
    weights, times = None, None
    if any(row.weights is not None for row in rows):
        weights = [np.ones(len(row.items), np.float32) if row.weights is None else row.weights for row in rows]
    if any(row.times is not None for row in rows):
        times = [_filled(row, at) for row in rows]
    others: dict[str, Any] = {
        name: Histories.of_rows([getattr(row, name) for row in rows])
        for name in ("seen", "dislikes")
        if any(len(getattr(row, name)) for row in rows)
    }
    made = Histories.of_rows([row.items for row in rows], weights, times)
    return Histories(made.indptr, made.indices, weights=made.weights, times=made.times, at=at, **others)


def _filled(row: UserRow, at: int) -> NDArray[np.int64]:
    """The times of a row, `at` where they are not known."""
    if row.times is None:
        return np.full(len(row.items), at)
    return np.where(row.times == NO_TIME, at, row.times)
