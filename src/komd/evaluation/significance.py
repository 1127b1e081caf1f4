"""Which models are tied: a paired test over users, corrected for the number of models.

**The test** is Student's paired t on the per-user differences between a model and the best one. What a table shows and
marks is a *mean* over users, and the t-test is the one whose null hypothesis is about that mean. Wilcoxon's signed
rank test asks instead whether differences are symmetric about zero, and ignores users without a difference. With
metrics like recall@k most users have no difference and the others a skewed one; it may then call a difference of means
significant that points the other way. Normality of the *differences* is not needed: with hundreds of users, as in any
real test, their mean is nearly normal. On retrieval data the t-test keeps its level, and the signed rank test does not
(Smucker, Allan & Carterette 2007; Urbano, Lima & Hanjalic 2019).

**The correction** is Holm's step-down over the comparisons of one metric (all other models against the best): it bounds
the probability of calling any tied model worse by the level, whatever the dependence between the tests, and is never
weaker than Bonferroni's. The best is chosen on the same users, so a tie means: "on these users, as good as the best".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVEL", "compared_with_best", "holm", "paired_t"]

LEVEL = 0.05
"""Models whose corrected p is above this are tied with the best."""

Values = NDArray[np.float64]


def paired_t(first: Values, second: Values) -> float:
    """The two-sided p of Student's paired t-test; users with a NaN in either are left out.

    1 if the values are identical or fewer than two users are left: no difference is shown.

    >>> paired_t(np.array([0.5, 0.7, 0.9, np.nan]), np.array([0.5, 0.7, 0.9, 0.1]))
    1.0
    >>> round(paired_t(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 1.0, 2.5, 3.0])), 6)
    0.013847
    """
    from scipy.special import stdtr

    difference = first - second
    difference = difference[~np.isnan(difference)]
    users = len(difference)
    if users < 2 or not difference.any():
        return 1.0
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    if spread == 0.0:
        return 0.0
    return float(2.0 * stdtr(users - 1, -abs(mean) / (spread / math.sqrt(users))))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's corrected p-values, in the order given: compare each with the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p)
    running = 0.0
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        running = max(running, min(1.0, (len(p) - place) * p[index]))
        corrected[index] = running
    return corrected


def compared_with_best(means: Sequence[float], values: Sequence[Values]) -> tuple[int | None, list[float]]:
    """The index of the best mean, and for each model the corrected p of its difference from it (1 for the best).

    Parameters
    ----------
    means
        One for each model; NaN where undefined.
    values
        One array for each model over the same users in the same order. Empty for a metric that is one
        number for all users: then only equal means are tied.
    """
    defined = [k for k, mean in enumerate(means) if not math.isnan(mean)]
    p = [math.nan] * len(means)
    if not defined:
        return None, p
    best = max(defined, key=means.__getitem__)  # the first of equals
    others = [k for k in defined if k != best]
    if len(values[best]):
        found = holm([paired_t(values[best], values[k]) for k in others])
    else:
        found = [float(means[k] == means[best]) for k in others]
    for k, each in zip(others, found, strict=True):
        p[k] = each
    p[best] = 1.0
    return best, p
