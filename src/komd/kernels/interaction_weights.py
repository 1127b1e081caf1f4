"""How much each item of a history counts, h > 0: a transform of its weight, halved with every half-life of its age.

A pair of weight 1 and age 0 counts 1 with any transform: so it is with data without weights and times.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.checks import one_of
from komd.errors import InputError

__all__ = ["WEIGHTINGS", "half_life_text", "halved", "limited", "microseconds_in", "transformed"]

WEIGHTINGS = ("none", "log", "sqrt", "linear")
"""Transforms of a weight w: 1, log₂(1 + w), √w, w."""

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_LEAST, _MOST = 1e-30, 1e30  # of h: in single precision its square still is a number > 0 in double
_MOST_RECENT = 30.0  # half-lives since the last event that count: beyond, weights are proportional to h anyway
_OLDEST = 60.0  # half-lives from the first to the last event that count: older events have no effect


def transformed(weights: NDArray[np.float32], weighting: str) -> NDArray[np.float32]:
    """The weights after a transform; 1 stays 1.

    >>> transformed(np.array([1, 3, 15], np.float32), "log")
    array([1., 2., 4.], dtype=float32)
    """
    one_of("weighting", weighting, WEIGHTINGS)
    exact = weights.astype(np.float64)
    if weighting == "none":
        exact = np.ones(len(weights))
    elif weighting == "log":
        exact = np.log1p(exact) / np.log(2.0)
    elif weighting == "sqrt":
        exact = np.sqrt(exact)
    return limited(exact)


def limited(h: NDArray[np.float64]) -> NDArray[np.float32]:
    """h in single precision and in bounds. Rounded only here, so that results agree between processors.

    >>> limited(np.array([1e-50, 0.5]))
    array([1.e-30, 5.e-01], dtype=float32)
    """
    return np.clip(h, _LEAST, _MOST).astype(np.float32)


def halved(
    times: NDArray[np.int64], indptr: NDArray[np.int64], half_life: int, at: int | None = None
) -> NDArray[np.float32]:
    """2^(−age / half-life) of each pair, all in microseconds; row u is `times[indptr[u]:indptr[u + 1]]`.

    The age is measured from `at`, or from the last event of the row; what is later than `at` has age 0. Ages beyond 30
    half-lives before the last event do not add up further: the weights of a user who was away for long keep their
    proportions.

    >>> day = 86_400_000_000
    >>> halved(np.array([0, 30, 60]) * day, np.array([0, 3]), 30 * day)
    array([0.25, 0.5 , 1.  ], dtype=float32)
    """
    lengths = np.diff(indptr)
    full = np.flatnonzero(lengths)
    if not len(full):
        return np.ones(len(times), np.float32)
    last = np.maximum.reduceat(times, indptr[:-1][full])
    if at is not None:
        last = np.minimum(last, at)
    since = np.zeros(len(full)) if at is None else np.minimum((at - last) / half_life, _MOST_RECENT)
    before = np.maximum(np.repeat(last, lengths[full]) - times, 0) / half_life
    out: NDArray[np.float32] = np.exp2(-(np.repeat(since, lengths[full]) + np.minimum(before, _OLDEST))).astype(
        np.float32
    )
    return out


def half_life_text(half_life: Any) -> str | None:
    """A half-life as a model keeps it: text such as "30d"; None for none. Takes a `timedelta` as well.

    >>> half_life_text(datetime.timedelta(hours=36))
    '1.5d'
    """
    if half_life is None:
        return None
    if isinstance(half_life, datetime.timedelta):
        half_life = f"{half_life / datetime.timedelta(days=1):g}d"
    microseconds_in(half_life)
    return str(half_life)


def microseconds_in(duration: str) -> int:
    """The length of a time such as "30d", "12h", "90min", "45s" or "2w".

    >>> microseconds_in("1.5h")
    5400000000
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+)\s*", duration) if isinstance(duration, str) else None
    if found is None or found[2] not in _UNITS:
        units = ", ".join(_UNITS)
        raise InputError(f'half_life must be a time such as "30d" (units: {units}), got {duration!r}')
    length = float(found[1]) * _UNITS[found[2]] * 1e6
    if not 1 <= length < 2**62:
        raise InputError(f"half_life must be from a microsecond to some 100,000 years, got {duration!r}")
    return int(length)
