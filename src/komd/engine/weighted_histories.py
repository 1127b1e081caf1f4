"""Models in which the items of a history count differently: by their weights, and by their age."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd.data.interactions import Interactions
from komd.engine.histories import Histories
from komd.kernels.interaction_weights import halved, limited, microseconds_in, transformed

__all__ = ["WeightedHistories"]


class WeightedHistories:
    """Base of these models: the parameters `weighting` and `half_life`, and the weights that follow from them."""

    uses_weights = True
    weighting: str
    half_life: str | None

    def check_data(self, data: Interactions) -> None:
        """Refuse data without times, or with times of an unknown unit, if a half-life is set."""
        if self.half_life is not None:
            data.known_time_unit  # noqa: B018 (which says what is wrong)

    def check_histories(self, histories: object) -> None:
        """Refuse times of an unknown unit, if a half-life is set; given histories may have no times."""
        if self.half_life is not None and isinstance(histories, Interactions) and histories.times is not None:
            histories.known_time_unit  # noqa: B018 (which says what is wrong)

    def interaction_weights(self, histories: Histories) -> NDArray[np.float32] | None:
        """h > 0 for each item of these histories (docs/guide/maths.md, "Weights on interactions"); None: 1 for all."""
        h = None
        if histories.weights is not None and self.weighting != "none":
            h = transformed(histories.weights, self.weighting)
        if histories.times is not None and self.half_life is not None:
            decay = halved(histories.times, histories.indptr, microseconds_in(self.half_life), histories.at)
            h = decay if h is None else limited(h.astype(np.float64) * decay)
        return None if h is None or (h == 1).all() else h
