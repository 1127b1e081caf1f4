"""Asymmetric similarities: how much item i of a history counts for item j as a candidate.

The first item of a pair (the row of the matrix) is the one in the history, the second (the column) the candidate. The
two may count differently, above all by their popularity. These are not kernels that a margin can be defined with; they
are for sums over a history.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from komd.checks import at_least
from komd.kernels.functions import Floats, Kernel, plain_numbers

__all__ = ["AsymmetricCosine", "CoOccurrence"]


@dataclass(frozen=True, kw_only=True)
class AsymmetricCosine(Kernel):
    """|U_i ∩ U_j| / (|U_j|^alpha |U_i|^(1−alpha)) to the power `locality`: i in the history, j the candidate.

    alpha = 0 is P(j | i), the share of i's users who chose j as well; alpha = 1 is P(i | j); alpha = ½ is the cosine.
    (PAPER calls the candidate i and the history item j.)

    >>> AsymmetricCosine(alpha=0).of_counts(np.array([2.0]), np.array([4.0]), np.array([10.0]))
    array([0.5])
    >>> AsymmetricCosine(alpha=1).of_counts(np.array([2.0]), np.array([4.0]), np.array([10.0]))
    array([0.2])
    """

    symmetric = False

    alpha: float = 0.5
    locality: float = 1.0

    def __post_init__(self) -> None:
        at_least("alpha", self.alpha, 0, most=1)
        at_least("locality", self.locality, 0, open_end=True)
        plain_numbers(self, "alpha", "locality")

    def of_counts(self, both: Floats, first: Floats, second: Floats) -> Floats:
        return self.of_product(_scaled(both, first, 1.0 - self.alpha, second, self.alpha))

    def factors(self, degree: Floats) -> tuple[Floats, Floats]:
        return _inverse_power(degree, 1.0 - self.alpha), _inverse_power(degree, self.alpha)

    def of_product(self, product: Floats) -> Floats:
        if self.locality in (2, 3):  # many times faster than a power, and these are the ones in use
            square = product * product
            return square if self.locality == 2 else np.multiply(square, product, out=square)
        if self.locality != 1:
            np.power(product, self.locality, out=product)
        return product


@dataclass(frozen=True, kw_only=True)
class CoOccurrence(Kernel):
    """|U_i ∩ U_j| / (|U_i|^history |U_j|^candidate): co-occurrence, divided by powers of both popularities.

    >>> CoOccurrence().of_counts(np.array([2.0]), np.array([4.0]), np.array([16.0]))
    array([2.])
    >>> CoOccurrence(history=1, candidate=0.5).of_counts(np.array([2.0]), np.array([4.0]), np.array([16.0]))
    array([0.125])
    """

    symmetric = False
    unit_diagonal = False
    weighted_sizes = False

    history: float = 0.0
    candidate: float = 0.0

    def __post_init__(self) -> None:
        at_least("history", self.history, 0)
        at_least("candidate", self.candidate, 0)

    def of_counts(self, both: Floats, first: Floats, second: Floats) -> Floats:
        return _scaled(both, first, self.history, second, self.candidate)

    def factors(self, degree: Floats) -> tuple[Floats, Floats]:
        return _inverse_power(degree, self.history), _inverse_power(degree, self.candidate)

    def of_product(self, product: Floats) -> Floats:
        return product


def _scaled(both: Floats, first: Floats, p: float, second: Floats, q: float) -> Floats:
    """both / (first^p second^q), and zero where a degree is zero."""
    return both * (_inverse_power(first, p) * _inverse_power(second, q))


def _inverse_power(degree: Floats, power: float) -> Floats:
    out: Floats = np.zeros_like(degree)
    np.power(degree, -power, out=out, where=degree > 0)
    return out
