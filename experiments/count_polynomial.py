"""The polynomial kernel of counts, which fits the printed CF-K rows where the polynomial of cosines does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd.kernels import Kernel

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CountPolynomial(Kernel):
    """((n_ij + c)^degree − c^degree), n_ij = |U_i ∩ U_j|, divided by the roots of its values at (i, i) and (j, j).

    The items are the binary columns of R themselves, not of length 1 as section 3 of the paper has them, and the
    normalisation comes last.

    >>> CountPolynomial(c=1).of_counts(np.array([0.0, 2.0]), np.array([2.0, 2.0]), np.array([3.0, 2.0]))
    array([0., 1.])
    """

    degree: int = 2
    c: float = 1.0

    def of_counts(self, both: Floats, first: Floats, second: Floats) -> Floats:
        length = np.sqrt(self._reduced(first) * self._reduced(second))
        return np.divide(self._reduced(both), length, out=np.zeros(np.broadcast(both, length).shape), where=length > 0)

    def _reduced(self, counts: Floats) -> Floats:
        return np.asarray((counts + self.c) ** self.degree - self.c**self.degree)
