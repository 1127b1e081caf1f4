"""Bootstrap intervals over users: of a mean, and of a difference between two models on the same users."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bootstrap_interval", "paired_interval"]

_RESAMPLES = 1000
_TOGETHER = 4_000_000  # numbers drawn at a time: bounds the memory

Values = NDArray[np.float64]


def bootstrap_interval(values: Values, rng: np.random.Generator, resamples: int = _RESAMPLES) -> tuple[float, float]:
    """The 95 % percentile interval of the mean, users resampled; not a number without users.

    >>> bootstrap_interval(np.array([0.5, 0.5]), np.random.default_rng(0))
    (0.5, 0.5)
    """
    users = len(values)
    if not users:
        return float("nan"), float("nan")
    means = []
    batch = max(1, _TOGETHER // users)
    for start in range(0, resamples, batch):
        size = (min(batch, resamples - start), users)
        means.append(values[rng.integers(0, users, size=size)].mean(axis=1))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)


def paired_interval(
    first: Values, second: Values, rng: np.random.Generator, resamples: int = _RESAMPLES
) -> tuple[float, float, float]:
    """The mean of first − second over users and its 95 % interval; users with a NaN in either are left out.

    >>> paired_interval(np.array([0.5, 0.7, np.nan]), np.array([0.4, 0.6, 0.1]), np.random.default_rng(0))[0]
    0.1
    """
    difference = first - second
    difference = difference[~np.isnan(difference)]
    mean = float(difference.mean()) if len(difference) else float("nan")
    return (round(mean, 15), *bootstrap_interval(difference, rng, resamples))
