"""The effect of each tail on the density of K: the expected density with that tail, and with it flattened."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.matrix.expected_density import saturating_density

__all__ = ["Effects", "effects"]


@dataclass(frozen=True)
class Effects:
    """Expected densities of K with tails as they are, or flattened: all counts equal to the mean, as many pairs.

    `items` is the factor by which the item tail changes the density (below 1 if it keeps K sparse): the density with
    both tails, divided by that with the item tail flattened. `users` is that of the user tail (above 1 if it fills K).
    """

    both: float
    flat_items: float
    flat_users: float
    flat: float
    items: float
    users: float


def effects(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> Effects:
    """The four expected densities, and the factors."""
    sides = (popularity, _flattened(popularity)), (activity, _flattened(activity))
    both, flat_users, flat_items, flat = (saturating_density(p, a) for p, a in itertools.product(*sides))
    ratios = (both / each if each else 1.0 for each in (flat_items, flat_users))
    return Effects(both, flat_items, flat_users, flat, *ratios)


def _flattened(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts with the same sum, as equal as whole numbers allow.

    >>> _flattened(np.array([5, 1, 1]))
    array([3, 2, 2])
    """
    if not len(degrees):
        return degrees
    mean, rest = divmod(int(degrees.sum()), len(degrees))
    return mean + (np.arange(len(degrees)) < rest).astype(np.int64)
