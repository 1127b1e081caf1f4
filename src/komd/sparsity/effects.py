"""The effect of each tail on the density of K: the expected density with that tail, and with it flattened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.matrix.expected_density import saturating_density

__all__ = ["Effects", "effects"]


@dataclass(frozen=True)
class Effects:
    """Expected densities of K with tails as they are, or flattened: all counts equal to the mean, as many pairs.

    `items` and `users` are factors: the density with both tails, divided by the density with that tail flattened.
    """

    both: float
    flat_items: float
    flat_users: float
    flat: float

    @property
    def items(self) -> float:
        """The factor by which the item tail changes the density; below 1 if it keeps K sparse."""
        return self.both / self.flat_items if self.flat_items else 1.0

    @property
    def users(self) -> float:
        """The factor by which the user tail changes the density; above 1 if it fills K."""
        return self.both / self.flat_users if self.flat_users else 1.0


def effects(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> Effects:
    """The four expectations."""
    even_items, even_users = _flattened(popularity), _flattened(activity)
    return Effects(
        saturating_density(popularity, activity),
        saturating_density(even_items, activity),
        saturating_density(popularity, even_users),
        saturating_density(even_items, even_users),
    )


def _flattened(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts with the same sum, as equal as whole numbers allow.

    >>> _flattened(np.array([5, 1, 1]))
    array([3, 2, 2])
    """
    if not len(degrees):
        return degrees
    mean, rest = divmod(int(degrees.sum()), len(degrees))
    return mean + (np.arange(len(degrees)) < rest).astype(np.int64)
