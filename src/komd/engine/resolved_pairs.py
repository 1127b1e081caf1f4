"""The state of a pair after several statements: added, removed, disliked, added again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd.data.weights import single_precision
from komd.engine.update_batch import CHOSEN, NO_TIME, REMOVED, STORED

__all__ = ["PairState", "ResolvedPairs", "state_after"]


class PairState(NamedTuple):
    """What is known of some pairs: one of CHOSEN, DISLIKED, SEEN and REMOVED; weights and times of chosen ones."""

    kinds: NDArray[np.int8]
    weights: NDArray[np.float32]
    times: NDArray[np.int64]


class ResolvedPairs(NamedTuple):
    """The pairs that change: user and item by number (new ones follow the old), and what they were and become."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    before: PairState
    after: PairState


def state_after(
    starts: NDArray[np.int64],
    kinds: NDArray[np.int8],
    weights: NDArray[np.float64],
    times: NDArray[np.int64],
    before: PairState,
    rule: str,
) -> PairState:
    """What each pair becomes. The statements of pair k begin at starts[k], in their order.

    A removal cancels everything before it. Of the remaining statements and the state before, the smallest kind counts:
    chosen takes precedence over disliked, and disliked over seen. `rule` combines the weights and times of choices.
    """
    size, place = len(kinds), np.arange(len(kinds))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, size)))
    removed = np.maximum.reduceat(np.where(kinds == REMOVED, place, -1), starts)
    counts = place > removed[group]
    kept = (removed < 0) & (before.kinds != REMOVED)
    old = np.where(kept, before.kinds, REMOVED).astype(np.int8)
    if rule in ("last", STORED):
        # The last statement decides: by time (one without a time counts as the latest), then by order.
        latest = np.iinfo(np.int64).max
        moment = np.where(times == NO_TIME, latest, times) if rule == "last" else place
        last = np.lexsort((place, moment, counts, group))[np.append(starts[1:], size) - 1]
        said = counts[last]
        if rule == "last":
            said &= ~((old == CHOSEN) & (before.times > moment[last]))
        after = np.where(said, kinds[last], old).astype(np.int8)
        given = weights[last]
        was = old == CHOSEN
        unsaid = np.where(was & (rule == STORED), before.weights, 1.0)
        weight = np.where(said, np.where(np.isnan(given), unsaid, given), before.weights)
        later = np.maximum(times[last], np.where(was, before.times, NO_TIME)) if rule == STORED else times[last]
        return PairState(after, single_precision(weight.astype(np.float64)), np.where(said, later, before.times))
    after = np.minimum(np.minimum.reduceat(np.where(counts, kinds, REMOVED), starts), old).astype(np.int8)
    chosen, was = counts & (kinds == CHOSEN), old == CHOSEN
    each = np.where(np.isnan(weights), 1.0, weights)
    if rule == "max":
        weight = np.maximum.reduceat(np.where(chosen, each, 0.0), starts)
        weight = np.maximum(weight, np.where(was, before.weights, 0.0))
    else:
        weight = np.where(was, before.weights, 0.0) + np.add.reduceat(np.where(chosen, each, 0.0), starts)
    latest = np.iinfo(np.int64).max
    moment = np.minimum.reduceat(np.where(chosen, times, latest), starts)
    moment = np.minimum(moment, np.where(was, before.times, latest))
    return PairState(after, single_precision(weight.astype(np.float64)), moment)
