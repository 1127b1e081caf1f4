"""Random numbers: splitmix64 (Steele, Lea & Flood 2014), whose complete state is one uint64, `state[0]`."""

from __future__ import annotations

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from komd._core.compile import compiled

__all__ = ["GAMMA", "mixed", "next_word"]

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@compiled
def mixed(z: np.uint64) -> np.uint64:
    """The output function: a one-to-one mix of 64 bits. Twin: tests/reference.py::mixed."""
    z = (z ^ (z >> uint64(30))) * _FIRST
    z = (z ^ (z >> uint64(27))) * _SECOND
    z ^= z >> uint64(31)
    return z


@compiled
def next_word(state: NDArray[np.uint64]) -> np.uint64:
    """The next 64 random bits. Twin: tests/reference.py::splitmix64."""
    state[0] += GAMMA
    return mixed(state[0])
