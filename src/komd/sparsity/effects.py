"""What each tail does to the density of K: the same expectation with that tail, and with it flattened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.matrix.expected_density import saturating_density

__all__ = ["Effects", "effects"]


@dataclass(frozen=True)
class Effects:
    """Expected densities of K with tails as they are, or flattened: everybody with the mean, the pairs staying as many.

    `items` and `users` are factors: the density with both tails, divided by what it would be with that one flat.
    """

    both: float
    flat_items: float
    flat_users: float
    flat: float

    @property
    def items(self) -> float:
        """What the item tail multiplies the density by; below 1 where it keeps K sparse."""
        return self.both / self.flat_items if self.flat_items else 1.0

    @property
    def users(self) -> float:
        """What the user tail multiplies the density by; above 1 where it fills K."""
        return self.both / self.flat_users if self.flat_users else 1.0


def effects(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> Effects:
    """The four expectations."""
    level_items, level_users = _level(popularity), _level(activity)
    return Effects(
        saturating_density(popularity, activity),
        saturating_density(level_items, activity),
        saturating_density(popularity, level_users),
        saturating_density(level_items, level_users),
    )


def _level(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same sum, spread as evenly as whole numbers allow.

    >>> _level(np.array([5, 1, 1]))
    array([3, 2, 2])
    """
    if not len(degrees):
        return degrees
    mean, rest = divmod(int(degrees.sum()), len(degrees))
    return mean + (np.arange(len(degrees)) < rest).astype(np.int64)
