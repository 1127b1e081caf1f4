"""What CF-KOMD's kernel is made of beside counts: how long items are, and the prior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["RANK", "common", "stretched"]

RANK = 256  # of a filter that is too large to be exact


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
