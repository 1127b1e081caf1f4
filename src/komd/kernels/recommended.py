"""The rule behind `CFKOMD.recommended`: parameters that suit a data set, from its statistics alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from komd.data.interactions import Interactions

__all__ = ["RECOMMENDED_RANK", "recommended_parameters"]

RECOMMENDED_RANK = 512  # of the filter of a large catalogue

_WELL_KNOWN = 30  # mean users per item from which an exact filter improves the lists
_KNOWN, _LONG = 3, 30  # mean users per item, and mean items per user, from which a low-rank filter does
_FILTERED = 20_000  # items up to which an exact filter takes minutes at most
_LARGE, _SHORT = 100_000, 15  # up to so many items, and from so many items per user, a head was measured on large data


def recommended_parameters(data: Interactions, *, exact_filter_fits: bool, large_filter_fits: bool) -> dict[str, Any]:
    """The parameters of `CFKOMD.recommended`, which says in words what is done here.

    Two facts come from the memory budget: whether an exact filter fits, and whether one of rank 512 does.
    """
    even = {} if data.weights is None else {"weighting": "none"}
    return _by_shape(data, exact_filter_fits, large_filter_fits) | even


def _by_shape(data: Interactions, exact_filter_fits: bool, large_filter_fits: bool) -> dict[str, Any]:
    """The parameters that depend on the mean users per item and items per user."""
    chosen, active = int(np.count_nonzero(data.popularity)), int(np.count_nonzero(data.activity))
    known, length = data.pairs / chosen, data.pairs / active
    damped = {"regularization": 1.0, "user_damping": 0.5}
    if chosen <= _FILTERED and known >= _WELL_KNOWN and exact_filter_fits:
        return damped | {"popularity": 0.3, "ridge": 10.0, "prior": 0.003, "negatives_weight": 0.5}
    if chosen <= _FILTERED and known >= _KNOWN and length >= _LONG:
        return damped | {"popularity": 0.2, "ridge": 40.0, "rank": 96, "head": 0.5, "negatives_weight": 0.25}
    if _FILTERED < chosen <= _LARGE and known >= _KNOWN and length >= _SHORT and large_filter_fits:
        parameters = {"kernel": "linear", "user_damping": 0.75, "popularity": 0.15, "negatives_weight": 0.0}
        return damped | parameters | {"ridge": 30.0, "rank": RECOMMENDED_RANK, "head": 2.0}
    return damped | {"regularization": 2.0, "popularity": min(0.8, round(2.0 / float(np.sqrt(length)), 1))}
