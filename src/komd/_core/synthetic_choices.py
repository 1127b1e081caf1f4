"""Synthetic users who choose items: each user has a random stream of their own, so blocks of users may run anywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.splitmix import GAMMA, mixed, next_word

__all__ = ["ChoiceRows", "Tastes", "choose"]

_LIKED = 5  # tastes of a user, at most
_BORED = 16  # repeated draws in a row after which a user may choose outside their tastes
_STUCK = 32  # ... and after which any item is drawn uniformly


class Tastes(NamedTuple):
    """What users choose from: items ordered by taste, and by popularity within each."""

    line: NDArray[np.float64]
    """Cumulative popularity of the items in this order, up to 1; shape (items,)."""
    bounds: NDArray[np.int64]
    """Taste t owns the items bounds[t] .. bounds[t + 1]."""
    strength: float
    """The probability that a choice follows the user's tastes, and not popularity alone."""
    numbers: NDArray[np.int32]
    """Item i of this order is written as numbers[i]."""


class ChoiceRows(NamedTuple):
    """The rows to be filled, and what is given to each user without being drawn."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    given_indptr: NDArray[np.int64]
    given: NDArray[np.int32]


@inner
def _uniform(state: NDArray[np.uint64]) -> float:
    """A number in [0, 1): the upper 53 bits of the next word."""
    return float(next_word(state) >> uint64(11)) * 2.0**-53


@inner
def _search(line: NDArray[np.float64], low: int, high: int, x: float) -> int:
    """The first k from `low` with line[k] > x, or `high` - 1 when rounding leaves none."""
    last = high - 1
    while low < high:
        middle = (low + high) >> 1
        if line[middle] > x:
            high = middle
        else:
            low = middle + 1
    return min(low, last)


@compiled
def choose(seed: int, start: int, stop: int, tastes: Tastes, rows: ChoiceRows, seen: NDArray[np.int32]) -> None:
    """Fill the rows `start` .. `stop`, each with distinct items in the order of choosing.

    Users have one to five tastes, drawn by the popularity of all their items, with exponential weights. The items
    given to a user come last in the row, without being drawn. `seen` (items,) is scratch: no entry is a user of these
    rows plus 1. Twin: tests/reference.py::choices.
    """
    line, bounds, numbers = tastes.line, tastes.bounds, tastes.numbers
    indptr, indices, given_indptr, given = rows.indptr, rows.indices, rows.given_indptr, rows.given
    state = np.empty(1, np.uint64)
    liked = np.empty(_LIKED, np.int64)
    weight = np.empty(_LIKED, np.float64)
    items = line.size
    ends = np.empty(bounds.size - 1, np.float64)
    for t in range(ends.size):
        ends[t] = line[bounds[t + 1] - 1]
    for u in range(start, stop):
        state[0] = mixed(uint64(seed) ^ mixed(uint64(u + 1) * GAMMA))
        mark = np.int32(u + 1)
        place = indptr[u]
        last = indptr[u + 1]
        for k in range(given_indptr[u], given_indptr[u + 1]):
            last -= 1
            indices[last] = numbers[given[k]]
            seen[given[k]] = mark
        likes = 1 + int(_uniform(state) * _LIKED)
        total = 0.0
        for k in range(likes):
            liked[k] = _search(ends, 0, ends.size, _uniform(state))
            total -= np.log(1.0 - _uniform(state))
            weight[k] = total
        repeats = 0
        while place < last:
            if repeats >= _STUCK:
                i = int(_uniform(state) * items)
            elif repeats >= _BORED or _uniform(state) >= tastes.strength:
                i = _search(line, 0, items, _uniform(state))
            else:
                t = liked[_search(weight, 0, likes, _uniform(state) * total)]
                low = bounds[t]
                below = line[low - 1] if low > 0 else 0.0
                i = _search(line, low, bounds[t + 1], below + _uniform(state) * (ends[t] - below))
            if seen[i] == mark:
                repeats += 1
            else:
                repeats = 0
                seen[i] = mark
                indices[place] = numbers[i]
                place += 1
