"""Sums that do not depend on their order: numbers rounded once to multiples of a power of two, added as integers.

Sums of floating-point numbers depend on the order of the additions, sums of 64-bit integers do not. What is summed over
users or items (weights of users, entries of K) is therefore multiplied by a power of two, its `scale`, and rounded to
an integer. The scale is so large that what is rounded away is far below the single precision of K, and so small that no
sum overflows (docs/guide/maths.md, "Exact sums").
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["fixed", "scale_for"]

_FINEST = 40  # binary digits after the point of numbers up to 1
_LEAST = 900  # numbers are at least 2 to the power of minus this, or 0
_SUM = 62  # binary digits of a sum, the sign apart


def scale_for(largest: float, terms: int) -> float:
    """The power of two to multiply numbers of at most this absolute value by, so many of which are summed.

    >>> scale_for(1.0, 6040) == 2.0**40, scale_for(1.0, 2**30) == 2.0**31, scale_for(3.0, 100) == 2.0**38
    (True, True, True)
    """
    above = max(math.ceil(math.log2(largest)), -_LEAST) if largest > 0 else 0
    return 2.0 ** (min(_FINEST, _SUM - int(terms).bit_length()) - above)


def fixed(values: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """Positive numbers times `scale` as integers, at least 1."""
    return np.maximum(np.rint(values * scale), 1.0).astype(np.int64)
