"""Checks of arguments: numbers and their bounds, one of several words, a seed or generator of random numbers."""

from __future__ import annotations

import math
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from komd.errors import InputError

if TYPE_CHECKING:
    import numpy as np

Number = TypeVar("Number")
Word = TypeVar("Word")

__all__ = ["at_least", "generator", "one_of", "true_or_false", "whole"]

# Beyond these no parameter means anything, and arithmetic in single precision or 32-bit integers would overflow.
_LARGEST = 1e15
_LARGEST_COUNT = 2**31 - 1


def generator(rng: int | np.random.Generator) -> np.random.Generator:
    """The generator of random numbers that a seed, or a Generator itself, stands for."""
    import numpy as np

    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InputError(f"rng must be a seed (a whole number >= 0) or a numpy Generator, got {rng!r}")
    return np.random.default_rng(int(rng))


def at_least(name: str, value: Number, least: float, *, open_end: bool = False, most: float = _LARGEST) -> Number:
    """The parameter; refuses what is not a finite number from `least` (above it, with `open_end`) up to `most`.

    >>> at_least("regularization", -1.0, 0)
    Traceback (most recent call last):
    komd.errors.InputError: regularization must be >= 0, got -1.0
    >>> at_least("regularization", 1e300, 0)
    Traceback (most recent call last):
    komd.errors.InputError: regularization must be <= 1e+15, got 1e+300
    """
    words = f"{'>' if open_end else '>='} {least:g}"
    number: Any = value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value  # of numpy
    if isinstance(number, bool) or not isinstance(number, int | float) or number - number:  # inf and nan alike
        raise InputError(f"{name} must be a number {words}, got {value!r}")
    if number < least or (open_end and number == least):
        raise InputError(f"{name} must be {words}, got {value!r}")
    if number > most:
        raise InputError(f"{name} must be <= {most:g}, got {_short(number)}")
    return value


def true_or_false(name: str, value: object) -> bool:
    """The switch; refuses what is not a boolean.

    >>> true_or_false("weighted_kernel", "yes")
    Traceback (most recent call last):
    komd.errors.InputError: weighted_kernel must be True or False, got 'yes'
    """
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return value


def whole(name: str, value: object, least: int, *, most: int | None = _LARGEST_COUNT) -> int:
    """The parameter as an int; refuses what is not a whole number from `least` up to `most` (None: no upper bound).

    >>> whole("factors", 2.5, 1)
    Traceback (most recent call last):
    komd.errors.InputError: factors must be a whole number >= 1, got 2.5
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < least:
        raise InputError(f"{name} must be a whole number >= {least}, got {value!r}")
    if most is not None and number > most:
        raise InputError(f"{name} must be <= {most:,}, got {_short(number)}")
    return number


def one_of(name: str, value: Word, choices: tuple[str, ...]) -> Word:
    """The word; refuses one that is not among the choices."""
    if value not in choices:
        raise InputError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def _short(value: float) -> str:
    """A number as it is shown in a message: a huge integer has too many digits to read, or for Python to write."""
    return f"10^{math.log10(value):.0f}" if isinstance(value, int) and value > 10**30 else repr(value)
