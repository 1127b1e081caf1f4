"""Arguments that several functions take: a source of chance, a whole number."""

from __future__ import annotations

import numpy as np

from komd.errors import InputError

__all__ = ["generator", "is_count"]


def generator(rng: int | np.random.Generator) -> np.random.Generator:
    """The source of chance that a seed, or a Generator itself, stands for."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InputError(f"rng must be a seed (a whole number of at least 0) or a numpy Generator, got {rng!r}")
    return np.random.default_rng(int(rng))


def is_count(value: object, least: int) -> bool:
    """Whether `value` is a whole number of at least `least`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)
