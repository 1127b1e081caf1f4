"""Kernels between items: functions of the cosine, reduced and normalised; and Jaccard.

A dot-product kernel is k(x, y) = f(x·y) with f(t) = Σ_s a_s t^s and every a_s >= 0 (PAPER section 4, Theorem 1).
Two things are done to each of them here. *Reduced*: the degree-0 term is dropped, which changes no solution
(docs/guide/maths.md, "Adding a constant") and leaves the non-zeros of the plain cosine. *Normalised*: divided by
f(1), so that K(i, i) = 1. What is left is a weighted mean of powers of the cosine.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from komd.checks import at_least, whole
from komd.errors import InputError, nearest

__all__ = ["RBF", "DotProduct", "Jaccard", "Kernel", "Linear", "Polynomial", "Tanimoto", "kernel_named"]

Floats = NDArray[np.float64]


class Kernel(ABC):
    """A similarity of two items, computed from the number of users of each and of both.

    Base class of all kernels. A subclass implements `of_counts`; see ARCHITECTURE.md.

    Examples
    --------
    >>> import komd
    >>> komd.kernels.kernel_named("tanimoto")
    Tanimoto()
    >>> isinstance(komd.kernels.RBF(gamma=2), komd.kernels.Kernel)
    True
    """

    symmetric: ClassVar[bool] = True
    """Whether K(i, j) = K(j, i)."""
    unit_diagonal: ClassVar[bool] = True
    """Whether K(i, i) = 1 for every item that somebody chose."""
    weighted_sizes: ClassVar[bool] = True
    """Whether |U_i| is the sum of the users' weights, where users are weighted; else it is their number."""

    @abstractmethod
    def of_counts(self, both: Floats, first: Floats, second: Floats) -> Floats:
        """Compute K from co-occurrence counts; the arrays broadcast.

        Parameters
        ----------
        both : numpy.ndarray
            |U_i ∩ U_j|. Where it is zero, K is zero.
        first, second : numpy.ndarray
            |U_i| and |U_j|. They may be zero (items that nobody chose); then `both` is zero too.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> Jaccard().of_counts(np.array([2.0]), np.array([4.0]), np.array([2.0]))
        array([0.5])
        """

    def factors(self, degree: Floats) -> tuple[Floats, Floats] | None:
        """Return (left, right), one number per item each, such that K(i, j) = f(|U_i ∩ U_j| · left_i · right_j).

        Kernels of this form are computed while counting, without another look-up per entry; others return None.

        Parameters
        ----------
        degree : numpy.ndarray
            |U_i| of each item.

        Returns
        -------
        tuple of numpy.ndarray, or None

        Examples
        --------
        >>> left, right = Linear().factors(np.array([4.0]))
        >>> left * right
        array([0.25])
        """
        return None

    def of_product(self, product: Floats) -> Floats:
        """Compute f of the product in `factors`.

        Parameters
        ----------
        product : numpy.ndarray
            |U_i ∩ U_j| · left_i · right_j; it may be overwritten.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> Linear().of_product(np.array([0.25]))
        array([0.25])
        """
        raise NotImplementedError(f"{self!r} is no function of one product")


class _OfCosine(Kernel):
    """A kernel that depends on the cosine alone."""

    @abstractmethod
    def of_cosine(self, cosine: Floats) -> Floats:
        """Compute f(cosine), scaled so that f(0) = 0 and f(1) = 1.

        Parameters
        ----------
        cosine : numpy.ndarray
            Values from 0 to 1.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> Tanimoto().of_cosine(np.array([0.0, 0.5, 1.0])).round(6)
        array([0.      , 0.333333, 1.      ])
        """

    def of_counts(self, both: Floats, first: Floats, second: Floats) -> Floats:
        # The two factors first: their product is the same for (i, j) and (j, i), so K is symmetric to the bit.
        return self.of_product(both * (_inverse_root(first) * _inverse_root(second)))

    def factors(self, degree: Floats) -> tuple[Floats, Floats]:
        root = _inverse_root(degree)
        return root, root

    def of_product(self, product: Floats) -> Floats:
        return self.of_cosine(np.minimum(product, 1.0, out=product))


def _inverse_root(degree: Floats) -> Floats:
    out: Floats = np.zeros_like(degree)
    np.divide(1.0, np.sqrt(degree), out=out, where=degree > 0)
    return out


@dataclass(frozen=True)
class Linear(_OfCosine):
    """The cosine itself: K = x·y. CF-KOMD with this kernel is ECF-OMD.

    Examples
    --------
    >>> Linear().of_cosine(np.array([0.0, 0.5, 1.0]))
    array([0. , 0.5, 1. ])
    """

    def of_cosine(self, cosine: Floats) -> Floats:
        return cosine


@dataclass(frozen=True, kw_only=True)
class Polynomial(_OfCosine):
    """Polynomial kernel (x·y + c)^degree without its constant term, scaled to K(i, i) = 1.

    Its coefficients are a_s ∝ C(degree, s) c^(degree−s) for s >= 1 (the paper's table has a misprint).

    Parameters
    ----------
    degree : int
        Degree, at least 1.
    c : float
        Constant, at least 0.

    Raises
    ------
    InputError
        If a parameter is outside of its range.

    Examples
    --------
    >>> Polynomial(degree=2, c=1).of_cosine(np.array([0.0, 0.5, 1.0]))  # (t² + 2t) / 3
    array([0.        , 0.41666667, 1.        ])
    """

    degree: int = 2
    c: float = 1.0

    def __post_init__(self) -> None:
        whole("degree", self.degree, 1, most=_MOST_TERMS)
        at_least("c", self.c, 0, most=sys.float_info.max)
        plain_numbers(self, "degree", "c")

    @property
    def coefficients(self) -> Floats:
        """a_0 = 0, a_1, ..., divided by their sum."""
        d, c = self.degree, float(self.c)
        if c == 0.0:
            return _normalised([0.0] * d + [1.0])
        # By logarithms, relative to the largest: neither a large degree nor a large c overflows.
        logs = [
            math.lgamma(d + 1) - math.lgamma(s + 1) - math.lgamma(d - s + 1) + (d - s) * math.log(c)
            for s in range(1, d + 1)
        ]
        return _normalised([0.0] + [math.exp(log - max(logs)) for log in logs])

    def of_cosine(self, cosine: Floats) -> Floats:
        return _horner(self.coefficients, cosine)


@dataclass(frozen=True, kw_only=True)
class RBF(_OfCosine):
    """Gaussian kernel exp(−gamma ‖x − y‖²) on unit vectors, without its constant term, scaled to K(i, i) = 1.

    Its coefficients are a_s ∝ (2 gamma)^s / s! for s >= 1; in closed form, (e^(2γt) − 1) / (e^(2γ) − 1).

    Parameters
    ----------
    gamma : float
        Width parameter, > 0. Larger values make the kernel more local.

    Raises
    ------
    InputError
        If a parameter is outside of its range.

    Examples
    --------
    >>> RBF(gamma=1).of_cosine(np.array([0.0, 0.5, 1.0])).round(6)
    array([0.      , 0.268941, 1.      ])
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        at_least("gamma", self.gamma, 0, open_end=True)
        plain_numbers(self, "gamma")

    def of_cosine(self, cosine: Floats) -> Floats:
        double = 2.0 * self.gamma
        out: Floats = np.exp(double * (cosine - 1.0)) * np.expm1(-double * cosine) / np.expm1(-double)
        return out


@dataclass(frozen=True)
class Tanimoto(_OfCosine):
    """Tanimoto kernel x·y / (2 − x·y) on unit vectors: a_s = 2^(−s) for s >= 1.

    On raw binary vectors the same formula is `Jaccard`.

    Examples
    --------
    >>> Tanimoto().of_cosine(np.array([0.0, 0.5, 1.0])).round(6)
    array([0.      , 0.333333, 1.      ])
    """

    def of_cosine(self, cosine: Floats) -> Floats:
        return cosine / (2.0 - cosine)


class DotProduct(_OfCosine):
    """Any dot-product kernel, given by its Maclaurin coefficients a_0, a_1, a_2, … (none negative).

    a_0 is dropped, which changes no solution, and the others are divided by their sum.

    Parameters
    ----------
    coefficients : sequence of float or callable
        A finite list, or a function s ↦ a_s. A function is evaluated at s = 0, 1, … until the rest of the series,
        judged by the decay of the last coefficients, is at most `tolerance` of the sum.
    tolerance : float
        Bound on the error of K(i, j) if `coefficients` is a function.

    Raises
    ------
    InputError
        If a coefficient is negative or not finite, if all but a_0 are zero, or if they do not fall off.

    Examples
    --------
    >>> DotProduct([5, 2, 1])
    DotProduct([0.0, 0.6666666666666666, 0.3333333333333333])
    >>> len(DotProduct(lambda s: 0.5**s, tolerance=1e-6).coefficients)
    21
    """

    def __init__(self, coefficients: Sequence[float] | Callable[[int], float], *, tolerance: float = 1e-8) -> None:
        if callable(coefficients):
            at_least("tolerance", tolerance, 0, open_end=True)
            coefficients = _truncated(coefficients, tolerance)
        self.coefficients = _normalised(coefficients)

    def __repr__(self) -> str:
        return f"DotProduct({self.coefficients.tolist()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DotProduct) and np.array_equal(self.coefficients, other.coefficients)

    def __hash__(self) -> int:
        return hash(self.coefficients.tobytes())

    def of_cosine(self, cosine: Floats) -> Floats:
        return _horner(self.coefficients, cosine)


@dataclass(frozen=True)
class Jaccard(Kernel):
    """Jaccard similarity |U_i ∩ U_j| / |U_i ∪ U_j|: Tanimoto on raw binary vectors.

    It is positive definite, but not a function of the cosine.

    Examples
    --------
    >>> Jaccard().of_counts(np.array([2.0]), np.array([3.0]), np.array([4.0]))
    array([0.4])
    """

    def of_counts(self, both: Floats, first: Floats, second: Floats) -> Floats:
        union = first + second - both
        out: Floats = np.zeros_like(union)
        np.divide(both, union, out=out, where=union > 0)
        return out


_KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "rbf": RBF,
    "tanimoto": Tanimoto,
    "jaccard": Jaccard,
}


def kernel_named(kernel: Kernel | str) -> Kernel:
    """Return the kernel with a given name, with default parameters; a kernel object is returned as it is.

    Parameters
    ----------
    kernel : str or Kernel
        "linear", "polynomial", "rbf", "tanimoto" or "jaccard", or a kernel.

    Returns
    -------
    Kernel
        The kernel.

    Raises
    ------
    InputError
        If the name is unknown, or the kernel is not symmetric.

    Examples
    --------
    >>> kernel_named("polynomial")
    Polynomial(degree=2, c=1.0)
    """
    if isinstance(kernel, Kernel):
        if not kernel.symmetric:
            raise InputError(f"kernel must be symmetric, as a margin between items asks, and {kernel!r} is not")
        return kernel
    if isinstance(kernel, str) and kernel.lower() in _KERNELS:
        return _KERNELS[kernel.lower()]()
    if isinstance(kernel, str):
        raise InputError(f"unknown kernel {kernel!r}; {nearest(kernel, _KERNELS)}")
    raise InputError(f"kernel must be a name or an object of komd.kernels, got {kernel!r}")


def plain_numbers(kernel: object, *names: str) -> None:
    """Numbers of numpy become numbers of Python, so that `repr` can be read again."""
    for name in names:
        value = getattr(kernel, name)
        object.__setattr__(kernel, name, value.item() if isinstance(value, np.generic) else value)


def _normalised(coefficients: Sequence[float]) -> Floats:
    """Drop the degree-0 term and divide by the sum of the others."""
    try:
        a: Floats = np.array(coefficients, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"coefficients must be numbers or a function, got {coefficients!r}") from None
    if a.ndim != 1 or a.size < 2 or not np.isfinite(a).all():
        raise InputError(f"coefficients must be finite numbers a_0, a_1, ... up to at least a_1, got {coefficients!r}")
    if (a < 0).any():
        s = int(np.argmax(a < 0))
        raise InputError(
            f"coefficient a_{s} = {a[s]:g} is negative: f would be no positive definite kernel on every data set "
            "(a dot-product kernel needs a Maclaurin expansion without negative coefficients)"
        )
    if a[0] == 0.0 and abs(a.sum() - 1.0) < 1e-12:
        return a  # normalised already: dividing again would change the last bits, and so the `repr`
    a[0] = 0.0
    if a.sum() <= 0:
        raise InputError("coefficients must have one above zero besides a_0: a constant kernel tells nothing apart")
    a /= a.sum()
    return a


_MOST_TERMS = 10_000
_BLOCK = 16  # coefficients summed together to judge the decay: gaps between non-zeros even out


def _truncated(term: Callable[[int], float], tolerance: float) -> list[float]:
    """The first coefficients of a series, up to where the rest no longer counts.

    The sums of the last three blocks of coefficients give two ratios; if both are below one, the rest is judged by
    the geometric series of the larger. Then as many of the last terms are dropped as the tolerance allows.
    """
    a: list[float] = []
    sums: list[float] = []
    while len(a) < _MOST_TERMS:
        start = len(a)
        for s in range(start, start + _BLOCK + (start == 0)):  # a_0 is not part of any block
            a.append(float(term(s)))
            if a[-1] < 0 or not math.isfinite(a[-1]):
                return a  # refused, with its place and the reason, by `_normalised`
        sums.append(sum(a[-_BLOCK:]))
        total = sum(sums)
        if len(sums) < 3 or total == 0.0:
            continue
        ratio = max(now / before if before > 0 else float(now > 0) for before, now in pairwise(sums[-3:]))
        rest = sums[-1] * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf
        if rest <= 0.5 * tolerance * total:
            while len(a) > 2 and rest + a[-1] <= tolerance * total:
                rest += a.pop()
            return a
    raise InputError(
        f"the coefficients do not fall off: after {_MOST_TERMS:,} terms what is left is still more than "
        f"{tolerance:g} of the sum; give a finite list, or a larger tolerance"
    )


def _horner(a: Floats, t: Floats) -> Floats:
    """Σ_{s>=1} a_s t^s."""
    out: Floats = np.full_like(t, a[-1])
    for coefficient in a[-2:0:-1]:
        out *= t
        out += coefficient
    out *= t
    return out
