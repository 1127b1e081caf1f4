"""What CF-KOMD's kernel is made of beside counts: how long items are, which filter, and what suits a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.interactions.interactions import Interactions
from komd.kernels.spectral import ridge_fits

__all__ = ["RANK", "common", "rule", "stretched"]

RANK = 256  # of a filter that is too large to be exact
_WELL_KNOWN = 30  # people an item, on average, from which a filter pays
_KNOWN, _LONG = 3, 30  # people an item, and items a person, from which one of low rank does
_FILTERED = 20_000  # items up to which it takes minutes at most


def rule(data: Interactions, memory: str | int | None) -> dict[str, Any]:
    """The parameters of `CFKOMD.recommended`, which says in words what is done here."""
    chosen, active = int(np.count_nonzero(data.popularity)), int(np.count_nonzero(data.activity))
    known, length = data.pairs / chosen, data.pairs / active
    damped = {"regularization": 1.0, "user_damping": 0.5}
    if chosen <= _FILTERED and known >= _WELL_KNOWN and ridge_fits(data.shape[1], chosen, memory):
        return damped | {"popularity": 0.3, "ridge": 10.0, "prior": 0.003, "negatives_weight": 0.5}
    if chosen <= _FILTERED and known >= _KNOWN and length >= _LONG:
        return damped | {"popularity": 0.2, "ridge": 40.0, "rank": 96, "negatives_weight": 0.25}
    return damped | {"regularization": 2.0, "popularity": min(0.8, round(2.0 / float(np.sqrt(length)), 1))}


def stretched(popularity: NDArray[np.int64], power: float) -> NDArray[np.float64]:
    """d_i^β, divided so that the squares of the items that somebody chose have a mean of 1."""
    chosen = popularity > 0
    # Relative to the most popular item: no power overflows.
    relative = np.maximum(popularity, 1) / max(int(popularity.max(initial=1)), 1)
    scale: NDArray[np.float64] = np.maximum(relative**power, 1e-100)
    mean = float((scale[chosen] ** 2).mean()) if chosen.any() else 1.0
    scale /= np.sqrt(mean)
    return scale


def common(popularity: NDArray[np.int64], share: float, power: float) -> NDArray[np.float32]:
    """√c d_i^δ, scaled alike: what all items have in common in K + c p p'. Nothing, for items that nobody chose."""
    out: NDArray[np.float32] = (np.sqrt(share) * stretched(popularity, power) * (popularity > 0)).astype(np.float32)
    return out
