"""Filters of low rank: s K − W W', K held sparse or streamed (docs/guide/maths.md, "The filter of low rank").

The ridge filter takes each eigenvalue λ of K to λ / (λ + μ). Above a value t they are taken there one by one; up to t
the line through 0 and t / (t + μ) approximates the curve, which is a multiple of K itself. A head adds a · t / (t + μ)
to those above t ("The head").
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from komd.errors import FilterWarning
from komd.matrix.eigenvectors import Spectrum
from komd.matrix.item_matrix import Correction, Truncation

__all__ = ["filter_truncated", "truncation"]

_SOUND = 0.5  # of μ: for larger eigenvalues left out, the approximation by a line is poor


def filter_truncated(spectrum: Spectrum, mu: float | None, chosen: int, head: float = 0.0) -> Correction:
    """K (K + μI)⁻¹, scaled to a mean diagonal of 1, from the leading eigenvectors of K (whose mean diagonal is 1).

    It is s K − W W', a correction of K. Warns if the eigenvalues left out are too large beside μ for a
    line to approximate the filter there. With a `head` the filter is another one; μ may then be None, for no ridge.
    """
    if head:
        return _with_head(spectrum, mu, chosen, head)
    assert mu is not None
    found, scale, weights = truncation(spectrum, mu, chosen)
    left_out = max(found.last, spectrum.beyond_found)
    if left_out > _SOUND * mu:
        warnings.warn(
            f"ridge={mu:g} is not well above the eigenvalues that were left out (up to {left_out:.3g}): the filter "
            f"of rank {found.rank} is only approximate there, entries are within {found.error:.2g}; use a larger rank= "
            "or ridge=, or more memory for the exact filter",
            FilterWarning,
            stacklevel=2,
        )
    return Correction(spectrum.vectors * np.sqrt(weights).astype(np.float32), 0, scale, found)


def _with_head(spectrum: Spectrum, mu: float | None, chosen: int, head: float) -> Correction:
    """The filter that also adds a · t to each of the leading eigenvalues, t being the least of them."""
    values = spectrum.values
    last = float(values[-1]) if len(values) else 0.0
    # Everything is multiplied by μ + t, so that it also works without a ridge: the line is λ itself.
    curve = values if mu is None else (mu + last) * values / (values + mu)
    weights = values - curve - head * last
    mean = 1.0 - float(weights.sum()) / max(chosen, 1)
    order = np.argsort(weights < 0, kind="stable")  # added factors come last
    W = spectrum.vectors * np.sqrt(np.abs(weights) / mean).astype(np.float32)
    added = int(np.count_nonzero(weights < 0))
    return Correction(W[:, order], added, 1.0 / mean, Truncation(len(values), last, None, added))


def truncation(spectrum: Spectrum, mu: float, chosen: int) -> tuple[Truncation, float, NDArray[np.float64]]:
    """The accuracy of the filter, the factor of K, and the weights of the vectors in the subtracted product."""
    values, last = spectrum.values, spectrum.last
    slope, curve = 1.0 / (mu + last), values / (values + mu)
    weights = np.maximum(slope * values - curve, 0.0)
    mean = slope - float(weights.sum()) / max(chosen, 1)
    return Truncation(len(values), last, _error(spectrum, mu, chosen, mean)), slope / mean, weights / mean


def _error(spectrum: Spectrum, mu: float, chosen: int, mean: float) -> float:
    """By how much an entry may differ from the exact filter's, both at a mean diagonal of 1 (docs/guide/maths.md)."""
    values, residuals, last, beyond = spectrum.values, spectrum.residuals, spectrum.last, spectrum.beyond
    if not len(values):
        return 0.0
    slope = 1.0 / (mu + last)

    def above_chord(x: float) -> float:
        return x / (x + mu) - slope * x

    peak = min(math.sqrt(mu * (mu + last)) - mu, beyond)
    norm = max(above_chord(peak), -above_chord(beyond))
    # Vectors that are not exact: beside the others, among themselves, and in second order.
    mixed = np.maximum(abs(1 / (values + mu) - slope), abs(slope - mu / ((values + mu) * (beyond + mu))))
    among = max(slope, mu / (float(values[-1]) + mu) ** 2)
    norm += float(np.linalg.norm(mixed * residuals)) + among * spectrum.inside + (4 / 3) * (spectrum.spread / mu) ** 2

    # The mean diagonal of the exact filter: what was left out has a known trace, and x / (x + μ) is concave.
    others = max(chosen - len(values), 1)
    left = max(spectrum.trace - float(values.sum()) - spectrum.inside_trace, 0.0)
    inexact = among * spectrum.inside_trace + 2 * float((residuals**2).sum()) / mu**2
    inexact += float(np.maximum(values / (values + mu) - slope * values, 0.0).sum())  # if no weight was subtracted
    higher = (others * above_chord(left / others) + inexact) / chosen
    lower = (left * (slope - 1 / (mu + beyond)) + inexact) / chosen
    largest = max(float(values[0]), beyond) + 2 * spectrum.spread
    least_mean = max(mean - lower, spectrum.trace / chosen / (mu + largest))
    entry = spectrum.largest_diagonal / (spectrum.largest_diagonal + mu)  # no entry of the filter exceeds it
    return (norm + entry * max(higher, lower, 0.0) / least_mean) / mean
