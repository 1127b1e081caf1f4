"""Rows of users and items, with weights, times and ratings, made into distinct pairs.

The result does not depend on the order of rows: a Spark frame has none. Sums are made in double precision of sorted
weights, and rounded to single precision once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd.checks import one_of
from komd.data.ratings import RatingRule
from komd.errors import InputError
from komd.rows import pointers

__all__ = ["EVERY_ROW", "MergedPairs", "RowRule", "compressed", "merged"]

_SEEN, _DISLIKED, _CHOSEN = 0, 1, 2  # what a row is by its rating; the larger decides where a pair is several


@dataclass(frozen=True)
class RowRule:
    """What ratings mean, and how the rows of a repeated pair become one; as in `komd.read`."""

    liked: float | None = None
    disliked: float | None = None
    repeated: str = "sum"

    def __post_init__(self) -> None:
        for name, value in (("liked", self.liked), ("disliked", self.disliked)):
            if value is not None and not np.isfinite(value):
                raise InputError(f"{name} must be a finite number, got {value!r}")
        if self.liked is not None and self.disliked is not None and self.disliked >= self.liked:
            raise InputError(f"disliked must be less than liked, got {self.disliked:g} and {self.liked:g}")
        one_of("repeated", self.repeated, ("sum", "max", "last", "count"))

    @property
    def rated(self) -> bool:
        """Whether ratings decide what a row is."""
        return self.liked is not None or self.disliked is not None

    def kinds(self, ratings: NDArray[np.float64]) -> NDArray[np.int8]:
        """What each row is by its rating; NaN is a missing one."""
        out = np.full(len(ratings), _SEEN if self.rated else _CHOSEN, np.int8)
        if self.rated:
            chosen, disliked = RatingRule(self.liked, self.disliked).masks(ratings)
            if disliked is not None:
                out[disliked] = _DISLIKED
            out[chosen] = _CHOSEN
        return out


EVERY_ROW = RowRule()
"""Every row counts as chosen."""


class MergedPairs(NamedTuple):
    """Distinct pairs as ascending keys, row · 2³² + item: the histories, with weights and times; dislikes; seen."""

    keys: NDArray[np.int64]
    weights: NDArray[np.float32] | None
    times: NDArray[np.int64] | None
    dislikes: NDArray[np.int64]
    seen: NDArray[np.int64]


def merged(
    keys: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    times: NDArray[np.int64] | None,
    ratings: NDArray[np.float64] | None,
    rule: RowRule,
) -> MergedPairs:
    """The distinct pairs of these rows, all of the same length. Twin: tests/spark/test_merged_rows.py.

    The weight of a repeated pair is the sum, the largest, the number of its rows, or that of the latest row (of equal
    times the one with the larger weight); its time is the earliest, with "last" the latest. A pair is chosen before
    disliked before seen, with "last" what its latest row is.
    """
    kinds = None if ratings is None or not rule.rated else rule.kinds(ratings)
    if rule.repeated == "last":
        order = np.lexsort([column for column in (weights, kinds, times, keys) if column is not None])
        rows = order[np.append(np.diff(keys[order]) != 0, True)[: len(order)]]
        keys, weights, times, kinds = (_those(column, rows) for column in (keys, weights, times, kinds))
    disliked = seen = np.zeros(0, np.int64)
    if kinds is not None:
        disliked, seen = keys[kinds == _DISLIKED], keys[kinds == _SEEN]
        keys, weights, times = (_those(column, kinds == _CHOSEN) for column in (keys, weights, times))
    order = np.argsort(keys, kind="stable") if weights is None else np.lexsort((weights, keys))
    keys, weights, times = (_those(column, order) for column in (keys, weights, times))
    starts = np.flatnonzero(np.append(True, np.diff(keys) != 0)[: len(keys)])
    if rule.repeated == "count":
        weights = np.diff(starts, append=len(keys)).astype(np.float64)
    elif weights is not None:
        weights = (np.maximum if rule.repeated == "max" else np.add).reduceat(weights, starts)
    if times is not None:
        times = np.minimum.reduceat(times, starts)
    keys = keys[starts]
    disliked = np.setdiff1d(disliked, keys)
    with np.errstate(over="ignore"):  # the driver refuses what is infinite
        single = None if weights is None else weights.astype(np.float32)
    return MergedPairs(keys, single, times, disliked, np.setdiff1d(np.setdiff1d(seen, keys), disliked))


def compressed(keys: NDArray[np.int64], rows: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(indptr, indices) of ascending keys."""
    return pointers(np.bincount(keys >> 32, minlength=rows)), (keys & 0xFFFFFFFF).astype(np.int32)


def _those(column: Any, rows: Any) -> Any:
    return None if column is None else column[rows]
