"""The metrics, each a class with its definition. docs/guide/metrics.md says the same in words, with the tie rules.

Definitions are for one user with test items T (|T| = t) and the ranked list π of the items not in the training history.
In lists equal scores are ordered by falling popularity, then by id. A new metric is a class here and a name in
`METRICS`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd.engine.ranking import RankedBlock
from komd.errors import InputError, nearest
from komd.evaluation.bootstrap import bootstrap_interval

__all__ = ["METRICS", "TIES", "JudgedBlock", "Measured", "Metric", "parse_metrics"]

Hits: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]

TIES = {"half": 0.5, "strict": 0.0}
"""What a pair of equal scores counts in AUC; "strict" is the paper's printed formula."""


@dataclass(frozen=True)
class Measured:
    """One metric over the test users.

    Attributes
    ----------
    mean, std
        Over the users for whom it is defined.
    low, high
        A 95 % bootstrap interval of the mean (resampled users); equal to the mean where there is nothing to resample.
    values
        One value a test user, aligned with `Evaluation.users`; not a number where undefined.
        Empty for coverage, which is one number for all users.
    """

    mean: float
    std: float
    low: float
    high: float
    values: Values


@dataclass(frozen=True, eq=False)
class JudgedBlock:
    """All that metrics need to know of a block of test users.

    Attributes
    ----------
    ranked
        Their lists, and their areas where a metric needs them.
    hits
        Which listed items are test items (users × length of the lists).
    test_sizes
        How many test items each user has, at least 1.
    information
        −log2 of the share of training users who have the item, for every item.
    """

    ranked: RankedBlock
    hits: Hits
    test_sizes: Counts
    information: Values


@dataclass(frozen=True)
class Metric(ABC):
    """A metric of lists cut at `k`, or of whole rankings (k = 0); `str` gives the name it was asked for by."""

    k: int = 0

    name: ClassVar[str]
    needs_depth: ClassVar[bool] = True
    needs_areas: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.needs_depth else self.name

    @abstractmethod
    def of_block(self, block: JudgedBlock) -> NDArray[Any]:
        """What is kept of a block: one value a user, unless `summary` takes something else."""

    def summary(self, parts: list[NDArray[Any]], items: int, rng: np.random.Generator) -> Measured:
        """The metric over all blocks, of a catalogue of so many items: mean, deviation, bootstrap over users."""
        return _mean_over_users(np.concatenate(parts), rng)


class AUC(Metric):
    """The share of pairs (test item, other item) in the right order; equal scores count as `TIES` says."""

    name = "auc"
    needs_depth = False
    needs_areas = True

    def of_block(self, block: JudgedBlock) -> Values:
        """The areas, which the ranking engine measures."""
        assert block.ranked.areas is not None
        return block.ranked.areas


class HitMetric(Metric):
    """A metric of the ranks at which test items are in the list."""

    def of_block(self, block: JudgedBlock) -> Values:
        """One value a user."""
        return self.of_hits(block.hits[:, : self.k], block.test_sizes)

    @abstractmethod
    def of_hits(self, hits: Hits, t: Counts) -> Values:
        """One value a user, from which of the first k (at most) listed items are test items, and t."""


class Precision(HitMetric):
    """|π_1..k ∩ T| / k."""

    name = "precision"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        return _share(hits, self.k)


class Recall(HitMetric):
    """|π_1..k ∩ T| / t."""

    name = "recall"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        return _share(hits, t)


class RecallCapped(HitMetric):
    """|π_1..k ∩ T| / min(k, t)."""

    name = "recall_capped"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        return _share(hits, np.minimum(t, self.k))


class Hit(HitMetric):
    """1 if π_1..k ∩ T is not empty, else 0."""

    name = "hit"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        return np.asarray(hits.any(axis=1), np.float64)


class ReciprocalRank(HitMetric):
    """1 / rank of the first test item in π_1..k, or 0."""

    name = "mrr"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        return np.asarray(hits.any(axis=1) / (hits.argmax(axis=1) + 1))


class AveragePrecision(HitMetric):
    """Σ_{r ≤ k, π_r ∈ T} precision@r / min(k, t)."""

    name = "map"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
        return _share(precision * hits, np.minimum(t, self.k))


class NDCG(HitMetric):
    """Σ_{r ≤ k, π_r ∈ T} 1/log2(r + 1)  /  Σ_{r ≤ min(k, t)} 1/log2(r + 1)."""

    name = "ndcg"

    def of_hits(self, hits: Hits, t: Counts) -> Values:
        gain = 1.0 / np.log2(np.arange(2, self.k + 2))
        ideal = np.cumsum(gain)[np.minimum(t, self.k) - 1]
        out: Values = (hits @ gain[: hits.shape[1]]) / ideal
        return out


class Novelty(Metric):
    """The mean over π_1..k of −log2(share of training users who have the item)."""

    name = "novelty"

    def of_block(self, block: JudgedBlock) -> Values:
        """One value a user; not a number for an empty list."""
        return _mean_over_list(block, block.information, self.k)


class ListedPopularity(Metric):
    """The mean over π_1..k of the share of training users who have the item."""

    name = "popularity"

    def of_block(self, block: JudgedBlock) -> Values:
        """One value a user; not a number for an empty list."""
        return _mean_over_list(block, np.exp2(-block.information), self.k)


class Coverage(Metric):
    """The share of all items that are in at least one user's π_1..k: one number for all users."""

    name = "coverage"

    def of_block(self, block: JudgedBlock) -> NDArray[np.int32]:
        """The items listed."""
        first = np.s_[:, : self.k]
        return np.unique(block.ranked.items[first][block.ranked.filled[first]])

    def summary(self, parts: list[NDArray[Any]], items: int, rng: np.random.Generator) -> Measured:
        """One number: there are no users to resample."""
        covered = len(np.unique(np.concatenate(parts))) / items
        return Measured(covered, 0.0, covered, covered, np.zeros(0))


_ALL = (
    AUC,
    Precision,
    Recall,
    RecallCapped,
    Hit,
    ReciprocalRank,
    AveragePrecision,
    NDCG,
    Novelty,
    ListedPopularity,
    Coverage,
)
METRICS: dict[str, type[Metric]] = {metric.name: metric for metric in _ALL}
"""Every metric by name."""


def parse_metrics(names: str | Iterable[str]) -> list[Metric]:
    """Metrics from their names, each once.

    >>> [str(m) for m in parse_metrics("auc, ndcg@100")]
    ['auc', 'ndcg@100']
    >>> parse_metrics(["ndgc@10"])
    Traceback (most recent call last):
    komd.errors.InputError: unknown metric 'ndgc@10'; did you mean 'ndcg@k'? (known: auc, coverage@k, ...
    """
    if isinstance(names, str):
        names = names.split(",")
    known = [f"{name}@k" if metric.needs_depth else name for name, metric in METRICS.items()]
    found: dict[Metric, None] = {}
    for name in names:
        match = re.fullmatch(r"([a-z_]+)(?:@([0-9]+))?", str(name).strip().lower())
        metric, depth = (METRICS.get(match.group(1)), match.group(2)) if match else (None, None)
        if metric is None or (depth is not None and not metric.needs_depth):
            raise InputError(f"unknown metric {str(name)!r}; {nearest(str(name), known)}")
        if metric.needs_depth and int(depth or 0) < 1:
            raise InputError(f"metric {name!r} needs a depth of at least 1, such as '{metric.name}@10'")
        found[metric(int(depth or 0))] = None
    if not found:
        raise InputError(f"no metric asked for; known: {', '.join(known)}")
    return list(found)


def _share(rows: NDArray[np.generic], of: Counts | int) -> Values:
    return np.asarray(np.sum(rows, axis=1, dtype=np.float64) / of)


def _mean_over_list(block: JudgedBlock, of_item: Values, k: int) -> Values:
    """The mean of a number that every item has over the first k of each list."""
    items = block.ranked.items
    listed = block.ranked.filled & (np.arange(items.shape[1]) < k)
    numbers = np.where(listed, of_item[np.where(listed, items, 0)], 0.0)
    with np.errstate(invalid="ignore"):
        out: Values = numbers.sum(axis=1) / listed.sum(axis=1)
    return out


def _mean_over_users(values: Values, rng: np.random.Generator) -> Measured:
    """Mean, deviation and a percentile bootstrap over users."""
    good = values[~np.isnan(values)]
    if not len(good):
        nan = float("nan")
        return Measured(nan, nan, nan, nan, values)
    low, high = bootstrap_interval(good, rng)
    return Measured(float(good.mean()), float(good.std()), float(low), float(high), values)
