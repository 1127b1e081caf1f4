"""How full K should be, from the numbers of users, items and pairs, or from the two long tails: nothing is counted.

docs/guide/sparsity.md derives each of these and says where it fails.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["estimate_density", "expected_nonzeros", "expected_sums", "paper_density", "saturating_density"]

_BINS = 160  # distinct degrees kept on either side: more change the estimate by less than 0.5 %
_FINE_BINS = 512  # for the degree-aware estimate, where a bin costs less
_ROUNDS = 400
_LARGEST = 1e9  # bound of the fitted numbers x and y: for a user who has every item, y would be infinite
_CLOSE = 1e-6  # relative change of the fitted numbers at which iterations end


def paper_density(users: int, items: int, pairs: int) -> float:
    """The paper's d(K): every cell of R is filled with the same probability, so users are equally active.

    >>> round(paper_density(1508, 2071, 35494), 5)
    0.17739
    """
    if not (users and items and pairs):
        return 0.0
    chance = -np.expm1(users * np.log1p(-min((pairs / (users * items)) ** 2, 1 - 1e-15)))
    return float((1 + (items - 1) * chance) / items)


def estimate_density(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> float:
    """The share of non-zeros to expect in K, from the two tails alone (docs/guide/maths.md, "How full K will be").

    Items of degrees d_i and d_j share d_i d_j Σ_v a_v(a_v − 1) / N² users on average, so they share one at least
    with probability 1 − exp(−that). Degrees are binned, which costs less than 1 % of the estimate.

    >>> round(estimate_density(np.array([2, 2, 1]), np.array([2, 2, 1])), 3)
    0.56
    """
    d = popularity[popularity > 0].astype(np.float64)
    a = activity.astype(np.float64)
    m = len(popularity)
    if m == 0 or d.size == 0:
        return 0.0
    rate = float((a * (a - 1)).sum()) / float(a.sum()) ** 2
    values, sizes = _binned(popularity, _FINE_BINS)
    meet = -np.expm1(-rate * values[:, None] * values[None, :])
    pairs = sizes @ meet @ sizes - sizes @ np.diag(meet)  # i ≠ j
    return float((pairs + d.size) / m**2)


def expected_nonzeros(
    rows: NDArray[np.int64], columns: NDArray[np.int64], activity: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Expected non-zeros in each column, over rows of items with these degrees (the same estimate)."""
    meet = expected_sums(rows, columns, activity, lambda chance: chance)
    out: NDArray[np.float64] = np.minimum(meet + 1.0, float(len(rows)))
    return out


def expected_sums(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    activity: NDArray[np.int64],
    of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """For each column, the sum over the rows of `of(probability that the two items share a user)`."""
    a = activity.astype(np.float64)
    rate = float((a * (a - 1)).sum()) / max(float(a.sum()), 1.0) ** 2
    values, sizes = _binned(rows, _FINE_BINS)
    degrees, place = np.unique(columns, return_inverse=True)
    out: NDArray[np.float64] = (of(-np.expm1(-rate * np.outer(degrees.astype(np.float64), values))) @ sizes)[place]
    return out


def saturating_density(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> float:
    """The share of non-zeros to expect in K when R is as random as its two tails allow.

    User v has item i with probability p_iv = x_i y_v / (1 + x_i y_v), the numbers x and y being such that every
    expected degree is the true one. Unlike the d_i a_v / N of the degree-aware estimate, this never exceeds one: very
    active users cannot have a very popular item several times, and have other items instead. Items i and j then share

        λ_ij = Σ_v c_v p_iv p_jv,    c_v = (1 − 1/a_v) / (1 − 1/m)

    users on average (c_v, since v has a_v items, not a_v on average), and, the rarer of the two having d = min(d_i,
    d_j) users, none of them with probability (1 − λ_ij / d)^d.

    Degrees are binned, so that the cost does not grow with the data.

    >>> round(saturating_density(np.array([2, 2, 1]), np.array([2, 2, 1])), 3)
    0.717
    """
    m = len(popularity)
    d, items = _binned(popularity, _BINS)
    a, users = _binned(activity, _BINS)
    if not len(d) or not len(a):
        return 0.0
    p = _chance(*_fitted(d, items, a, users))
    together = np.minimum(1.0, (1 - 1 / a) / (1 - 1 / m)) if m > 1 else np.zeros(len(a))
    shared = (p * (users * together)) @ p.T
    rarer = np.minimum.outer(d, d)
    meet = -np.expm1(rarer * np.log1p(-np.minimum(shared / rarer, 1 - 1e-12)))
    pairs = items @ meet @ items - items @ np.diag(meet)  # i ≠ j
    return float((max(0.0, pairs) + items.sum()) / m**2)


def _fitted(
    d: NDArray[np.float64], items: NDArray[np.float64], a: NDArray[np.float64], users: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit x and y alternately, until the expected degrees are d and a."""
    root = np.sqrt(d @ items)
    x, y = d / root, a / root
    for _ in range(_ROUNDS):
        newer = np.minimum(d / ((y / (1 + np.outer(x, y))) @ users), _LARGEST)
        moved = float(np.abs(newer / x - 1).max())
        x = newer
        y = np.minimum(a / (items @ (x[:, None] / (1 + np.outer(x, y)))), _LARGEST)
        if moved < _CLOSE:
            break
    return x, y


def _chance(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    both = np.outer(x, y)
    out: NDArray[np.float64] = both / (1 + both)
    return out


def _binned(degrees: NDArray[np.int64], bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distinct degrees above zero with their numbers, at most `bins` of them (log-spaced, each at its mean)."""
    values, sizes = np.unique(degrees[degrees > 0], return_counts=True)
    if len(values) <= bins:
        return values.astype(np.float64), sizes.astype(np.float64)
    edges = np.geomspace(values[0], values[-1], bins + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    totals = np.bincount(place, weights=sizes, minlength=bins)
    means = np.bincount(place, weights=sizes * values, minlength=bins)
    kept = totals > 0
    return means[kept] / totals[kept], totals[kept].astype(np.float64)
