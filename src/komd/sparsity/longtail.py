"""Long tails: power laws fitted to counts, by least squares as in the paper and by maximum likelihood.

Counts are whole numbers, so the likelihoods are those of whole numbers from x_min on: Hurwitz' zeta function for the
power law, the geometric distribution for the exponential, a rounded normal of the logarithm for the log-normal.
Everything works on distinct values with their frequencies, so the cost depends on the number of distinct values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Line", "PowerLaw", "Rival", "Tail", "fit_power_law", "least_squares", "tail"]

_CANDIDATES = 150  # values of x_min that are tried, spread over the distinct values
_FEWEST = 10  # counts from x_min on: with fewer no tail is fitted
_STEEPEST = 10.0  # a larger exponent is not called a power law
_FARTHEST = 0.2  # nor is a fit with a larger Kolmogorov-Smirnov distance
_LEVEL = 0.1  # two-sided p below which the test decides between two distributions, as is usual for it


@dataclass(frozen=True)
class Line:
    """count ≈ factor · rank^slope by least squares of the logarithms, and its R²."""

    slope: float
    factor: float
    r2: float


@dataclass(frozen=True)
class Rival:
    """Vuong's likelihood-ratio test of the power law against another distribution on the same counts.

    `ratio` is log-likelihood of the power law minus that of the rival, divided by its standard deviation: > 0 where
    the power law fits better. `p` is the probability of a ratio this far from 0 if both are equally good; `better` is
    the name of the better one, or "undecided".
    """

    name: str
    ratio: float
    p: float
    better: str


@dataclass(frozen=True)
class PowerLaw:
    """P(x) ∝ x^−exponent for x ≥ x_min, by maximum likelihood.

    `x_min` is where the Kolmogorov-Smirnov distance `ks` is least; `size` counts reach it. `error` is the standard
    error of the exponent.
    """

    exponent: float
    error: float
    x_min: int
    ks: float
    size: int
    rivals: tuple[Rival, ...]

    def expected_above(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """How many counts of at least x (≥ x_min) the fit expects among its `size`."""
        from scipy.special import zeta

        out: NDArray[np.float64] = self.size * zeta(self.exponent, x) / zeta(self.exponent, self.x_min)
        return out


@dataclass(frozen=True)
class Tail:
    """The counts of one side (users of each item, or items of each user), those of 0 left out.

    `fit` and `line` are None if there are too few different counts; `why` then says so. `curve` is (rank, count) at
    some ranks, for plots.
    """

    noun: str
    size: int
    least: int
    median: float
    most: int
    mean: float
    gini: float
    top1: float
    top10: float
    line: Line | None
    fit: PowerLaw | None
    why: str
    curve: tuple[tuple[int, int], ...]


def tail(noun: str, counts: NDArray[np.int64]) -> Tail:
    """The tail of one side. `noun` is "item" or "user"."""
    ranked = np.sort(counts[counts > 0])[::-1]
    n = len(ranked)
    if n == 0:
        return Tail(noun, 0, 0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, None, None, f"no {noun} has a pair", ())
    total = float(ranked.sum())
    gini = float(((n + 1 - 2 * np.arange(1, n + 1)) * ranked).sum() / (n * total))  # 0: equal; near 1: one has most
    fit = fit_power_law(ranked)
    shown = np.unique(np.geomspace(1, n, 240).astype(np.int64))
    return Tail(
        noun,
        n,
        int(ranked[-1]),
        float(np.median(ranked)),
        int(ranked[0]),
        total / n,
        gini,
        float(ranked[: math.ceil(n / 100)].sum() / total),
        float(ranked[: math.ceil(n / 10)].sum() / total),
        least_squares(ranked),
        fit,
        "" if fit is not None else _why_not(noun, ranked),
        tuple((int(r), int(ranked[r - 1])) for r in shown),
    )


def least_squares(counts: NDArray[np.int64]) -> Line | None:
    """The straight line through log(count) by log(rank), as the paper's figures have it; None where all are equal.

    >>> least_squares(np.round(1e6 / np.arange(1, 50)).astype(np.int64)).slope.__round__(3)
    -1.0
    """
    ranked = np.sort(counts[counts > 0])[::-1]
    if len(ranked) < 2 or ranked[0] == ranked[-1]:
        return None
    x, y = np.log(np.arange(1, len(ranked) + 1)), np.log(ranked)
    across, up = x - x.mean(), y - y.mean()
    slope = float((across @ up) / (across @ across))
    left = up - slope * across
    return Line(slope, float(np.exp(y.mean() - slope * x.mean())), float(1 - (left @ left) / (up @ up)))


def fit_power_law(counts: NDArray[np.int64], *, x_min: int | None = None) -> PowerLaw | None:
    """The discrete power law of maximum likelihood, from the `x_min` with the least Kolmogorov-Smirnov distance on.

    None if fewer than ten counts, or fewer than three different ones, are left, and if the best fit is poor (an
    exponent of ten, a distance of 0.2).
    """
    values, sizes = np.unique(counts[counts > 0], return_counts=True)
    starts = _starts(values, sizes) if x_min is None else [int(np.searchsorted(values, x_min))]
    best: tuple[float, float, int] | None = None
    for k in starts:
        x, f = values[k:], sizes[k:]
        if len(x) < 3 or f.sum() < _FEWEST:
            continue
        low = int(x[0]) if x_min is None else x_min
        exponent = _exponent(x, f, low)
        distance = _distance(x, f, low, exponent)
        if exponent < 0.999 * _STEEPEST and distance < _FARTHEST and (best is None or distance < best[0]):
            best = (distance, exponent, low)
    if best is None:
        return None
    distance, exponent, low = best
    kept = values >= low
    n = int(sizes[kept].sum())
    error = 1 / math.sqrt(n * _curvature(exponent, low))
    rivals = _rivals(values[kept].astype(np.float64), sizes[kept].astype(np.float64), low, exponent)
    return PowerLaw(exponent, error, low, distance, n, rivals)


def _why_not(noun: str, ranked: NDArray[np.int64]) -> str:
    if ranked[0] == ranked[-1]:
        return f"every {noun} has the same count ({ranked[0]:,}): there is no tail"
    different = len(np.unique(ranked))
    if len(ranked) < _FEWEST:
        return f"{len(ranked)} {noun}s are too few for a power law"
    if different < 3:
        return f"{different} different counts are too few for a power law"
    return "no range of counts falls like a power law"


def _starts(values: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[int]:
    """Positions in `values` to try as x_min: all possible ones, or an even selection of them."""
    above = np.cumsum(sizes[::-1])[::-1]
    possible = np.flatnonzero(above >= _FEWEST)
    possible = possible[possible <= len(values) - 3]
    if len(possible) > _CANDIDATES:
        possible = possible[np.unique(np.geomspace(1, len(possible), _CANDIDATES).astype(int)) - 1]
    return [int(k) for k in possible]


def _exponent(x: NDArray[np.int64], f: NDArray[np.int64], low: int) -> float:
    """The exponent of maximum likelihood: where −n log ζ(α, x_min) − α Σ log x is largest."""
    from scipy.optimize import minimize_scalar
    from scipy.special import zeta

    mean = float(f @ np.log(x)) / float(f.sum())
    scale = math.log(low)

    def loss(a: float) -> float:
        # ζ(α, q) underflows where α log q is large; there it is q^−α (1 + q / (α − 1)) to within a thousandth.
        log_zeta = math.log(zeta(a, low)) if a * scale < 600 else math.log1p(low / (a - 1)) - a * scale
        return log_zeta + a * mean

    found = minimize_scalar(loss, bounds=(1.0001, _STEEPEST), method="bounded", options={"xatol": 1e-7})
    return float(found.x)


def _distance(x: NDArray[np.int64], f: NDArray[np.int64], low: int, exponent: float) -> float:
    """The Kolmogorov-Smirnov distance: the largest difference of the distribution functions at whole x."""
    from scipy.special import zeta

    seen = np.cumsum(f) / f.sum()
    norm = zeta(exponent, low)
    at = 1 - zeta(exponent, x + 1.0) / norm
    before = 1 - zeta(exponent, x.astype(np.float64)) / norm  # just below x, before the empirical function jumps
    return float(max(np.abs(seen - at).max(), np.abs(np.r_[0.0, seen[:-1]] - before).max()))


def _curvature(exponent: float, low: int) -> float:
    """Second derivative of log ζ(α, x_min): Fisher's information of one count."""
    from scipy.special import zeta

    h = 1e-3 * min(1.0, exponent - 1)
    logs = [math.log(zeta(exponent + step * h, low)) for step in (-1, 0, 1)]
    return max(1e-12, (logs[0] - 2 * logs[1] + logs[2]) / h**2)


def _rivals(x: NDArray[np.float64], f: NDArray[np.float64], low: int, exponent: float) -> tuple[Rival, ...]:
    from scipy.special import zeta

    law = -exponent * np.log(x) - math.log(zeta(exponent, low))
    others = {"log-normal": _lognormal(x, f, low), "exponential": _exponential(x, f, low)}
    return tuple(_vuong(name, law - other, f) for name, other in others.items())


def _vuong(name: str, apart: NDArray[np.float64], f: NDArray[np.float64]) -> Rival:
    n = float(f.sum())
    mean = float(f @ apart) / n
    spread = math.sqrt(max(0.0, float(f @ (apart - mean) ** 2) / n))
    if spread < 1e-12:
        return Rival(name, 0.0, 1.0, "undecided")
    ratio = mean * math.sqrt(n) / spread
    p = math.erfc(abs(ratio) / math.sqrt(2))
    return Rival(name, ratio, p, "undecided" if p >= _LEVEL else "power law" if ratio > 0 else name)


def _exponential(x: NDArray[np.float64], f: NDArray[np.float64], low: int) -> NDArray[np.float64]:
    """Log-likelihoods of the geometric distribution from x_min on."""
    excess = float(f @ (x - low)) / float(f.sum())
    rate = math.log1p(1 / excess)
    return math.log(-math.expm1(-rate)) - rate * (x - low)


def _lognormal(x: NDArray[np.float64], f: NDArray[np.float64], low: int) -> NDArray[np.float64]:
    """Log-likelihoods of the rounded log-normal, truncated below x_min, of maximum likelihood."""
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    lower, upper, start = np.log(x - 0.5), np.log(x + 0.5), math.log(low - 0.5)
    log_x = np.log(x)
    mean = float(f @ log_x) / float(f.sum())
    spread = max(0.05, math.sqrt(float(f @ (log_x - mean) ** 2) / float(f.sum())))

    def logs(at: NDArray[np.float64]) -> NDArray[np.float64]:
        mu, sigma = float(at[0]), math.exp(float(at[1]))
        a, b = log_ndtr(-(lower - mu) / sigma), log_ndtr(-(upper - mu) / sigma)  # of exceeding either edge
        inside = a + np.log(-np.expm1(np.minimum(b - a, -1e-300)))
        out: NDArray[np.float64] = np.maximum(inside - float(log_ndtr(-(start - mu) / sigma)), -1e4)
        return out

    # A log-normal with its mode far below x_min is the power law itself: the bounds keep the search from there.
    bounds = [(mean - 15 * spread - 10, mean + 5 * spread), (math.log(0.02), math.log(15.0))]
    best = min(
        (
            minimize(
                lambda at: -float(f @ logs(at)) / float(f.sum()),
                start_at,
                method="Nelder-Mead",
                bounds=bounds,
                options={"xatol": 1e-5, "fatol": 1e-10, "maxiter": 2000},
            )
            for start_at in ([mean, math.log(spread)], [mean - 2 * spread, math.log(2 * spread)])
        ),
        key=lambda found: float(found.fun),
    )
    return logs(best.x)
