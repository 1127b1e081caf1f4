"""Measuring a fitted model on held-out interactions, block by block: no users × items array ever exists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.data.interactions import Interactions
from komd.engine.catalogue import OnUnknown
from komd.engine.histories import Histories
from komd.engine.parameters import one_of
from komd.engine.ranking import TIES, RankedBlock, RankingRequest
from komd.engine.recommender import Recommender
from komd.errors import InputError
from komd.evaluation.metrics import BY_LIST, Metric, Values, parse_metrics

__all__ = ["Evaluation", "Measured", "evaluate"]

_RESAMPLES = 1000


@dataclass(frozen=True)
class Measured:
    """One measure over the test users.

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
    values: NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured: `evaluation["auc"].mean`, `.std`, `.low`, `.high`, `.values`.

    Attributes
    ----------
    model
        The text of the model.
    users
        Ids of the test users, in the order of the values.
    ties
        How equal scores counted in AUC.
    skipped
        Test pairs left out: with unknown items or users (`on_unknown="skip"`), or already known to the user.
    """

    model: str
    metrics: dict[str, Measured]
    users: pa.Array
    ties: str
    skipped: int

    def __getitem__(self, metric: str) -> Measured:
        if metric not in self.metrics:
            raise InputError(f"{metric!r} was not measured; there are {', '.join(self.metrics)}")
        return self.metrics[metric]

    def __repr__(self) -> str:
        lines = [f"Evaluation of {self.model} on {len(self.users):,} users (ties: {self.ties})"]
        width = max(len(name) for name in self.metrics)
        for name, m in self.metrics.items():
            lines.append(f"{name.ljust(width)}  {m.mean:.4f}  ± {m.std:.4f}  [{m.low:.4f}, {m.high:.4f}]")
        if self.skipped:
            lines.append(f"{self.skipped:,} test pairs left out")
        return "\n".join(lines)


def evaluate(
    model: Recommender,
    test: Any,
    *,
    metrics: str | Iterable[str] = ("auc", "ndcg@100", "recall@20"),
    history: Any = None,
    ties: str = "half",
    rng: int | np.random.Generator = 0,
    on_unknown: OnUnknown = "error",
    threads: int | None = None,
    memory: str | int | None = None,
) -> Evaluation:
    """Measure a fitted model on held-out pairs.

    Parameters
    ----------
    model
        A fitted model.
    test
        `Interactions` (or what makes one) with the pairs to be found. Users are matched by id to the training data.
    metrics
        Names, as a list or one text with commas: see docs/guide/metrics.md.
    history
        For people the model has never seen: `Interactions` with what is known of them, matched by user id to `test`.
    ties
        "half": equal scores count one half in AUC; "strict": as wrong, the paper's printed formula.
    rng
        For the bootstrap interval only.
    on_unknown
        "error", or "skip" test pairs whose user or item the model does not know.
    threads, memory
        As in `recommend`.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=300, items=80, activity=12, rng=0)
    >>> train, test = next(komd.split.folds(data, rng=0))
    >>> result = komd.evaluate(komd.ECFOMD().fit(train), test, metrics=["auc", "recall@20"])
    >>> result["auc"].mean > 0.5
    True
    """
    wanted = parse_metrics(metrics)
    one_of("ties", ties, tuple(TIES))
    one_of("on_unknown", on_unknown, ("error", "skip"))
    users, rows, targets, skipped = _matched(model, Interactions.of(test), history, on_unknown)
    if not len(users):
        raise InputError("nothing to measure: no test user has a test item that is not in their history")
    depths = [m.k for m in wanted if m.k is not None]
    deepest = max(depths, default=0)
    items = len(model.catalogue.order)
    trained = max(int(np.count_nonzero(model.catalogue.histories.lengths)), 1)
    surprise = -np.log2(np.maximum(model.catalogue.popularity, 1.0) / trained)

    placed = targets if any(m.k is None for m in wanted) else None
    asked = RankingRequest(deepest, model.catalogue.candidates(), targets=placed, tie=TIES[ties])

    def measure(ranked: RankedBlock, tested: Histories) -> tuple[dict[Metric, Values], dict[Metric, NDArray[np.int32]]]:
        from komd._core.auc import mark_hits

        best, counts = ranked.items, ranked.counts
        values: dict[Metric, Values] = {}
        shown: dict[Metric, NDArray[np.int32]] = {}
        if deepest:
            hits = np.zeros(best.shape, np.bool_)
            mark_hits(best, counts, tested.indptr, tested.indices, mark, hits)
        for metric in wanted:
            if metric.k is None:
                assert ranked.areas is not None
                values[metric] = ranked.areas
            elif metric.name in BY_LIST:
                values[metric] = BY_LIST[metric.name](hits[:, : metric.k], tested.lengths, metric.k)
            else:
                listed = np.arange(best.shape[1]) < np.minimum(counts, metric.k)[:, None]
                if metric.name == "coverage":
                    shown[metric] = np.unique(best[listed])
                else:
                    surprises = np.where(listed, surprise[np.where(listed, best, 0)], 0.0)
                    with np.errstate(invalid="ignore"):
                        values[metric] = surprises.sum(axis=1) / listed.sum(axis=1)
        return values, shown

    mark = np.zeros(items, np.uint8)
    parts = []
    done = 0
    for ranked in model.ranked_blocks(rows, asked, threads=threads, memory=memory, label="evaluate"):
        parts.append(measure(ranked, targets.block(done, done + len(ranked.counts))))
        done += len(ranked.counts)
    generator = np.random.default_rng(rng)
    measured: dict[str, Measured] = {}
    for metric in wanted:
        if metric.name == "coverage":
            covered = len(np.unique(np.concatenate([shown[metric] for _, shown in parts]))) / items
            measured[str(metric)] = Measured(covered, 0.0, covered, covered, np.zeros(0))
        else:
            per_user = np.concatenate([values[metric] for values, _ in parts])
            measured[str(metric)] = _summary(per_user, generator)
    return Evaluation(model.text, measured, users, ties, skipped)


def _matched(
    model: Recommender, test: Interactions, history: Any, on_unknown: OnUnknown
) -> tuple[pa.Array, Histories, Histories, int]:
    """Test users with their histories and their test items, in the model's numbers."""
    catalogue = model.catalogue
    targets, skipped = catalogue.translated(test, on_unknown)
    tested = np.flatnonzero(targets.lengths)
    ids = test.users.take(tested)
    if history is None:
        found = catalogue.find_users(ids, on_unknown)
        known = found >= 0
        rows = catalogue.histories.take(found[known])
    else:
        given = Interactions.of(history)
        all_rows, _ = catalogue.translated(given, on_unknown)
        found = given.users.find(ids, on_unknown=on_unknown)
        known = found >= 0
        rows = all_rows.take(found[known])
    skipped += int(targets.lengths[tested[~known]].sum())
    targets = targets.take(tested[known].astype(np.int32))
    ids = ids.take(pa.array(np.flatnonzero(known)))
    # An item that the user knows already cannot be recommended: it is no target.
    m, known_items = len(catalogue.order), rows.known_items
    owner = np.repeat(np.arange(len(rows)), targets.lengths)
    taken = np.repeat(np.arange(len(rows)), known_items.lengths) * m + known_items.indices
    fresh = ~np.isin(owner * m + targets.indices, taken)
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(owner[fresh], minlength=len(rows)), out=indptr[1:])
    left = np.flatnonzero(np.diff(indptr)).astype(np.int32)
    skipped += int((~fresh).sum())
    targets = Histories(indptr, targets.indices[fresh]).take(left)
    return ids.take(pa.array(left)), rows.take(left), targets, skipped


def _summary(values: NDArray[np.float64], generator: np.random.Generator) -> Measured:
    """Mean, deviation and a percentile bootstrap over users."""
    good = values[~np.isnan(values)]
    if not len(good):
        nan = float("nan")
        return Measured(nan, nan, nan, nan, values)
    # A resample of n users is a multinomial draw of how often each is taken; drawn some at a time to bound memory.
    means = []
    some = max(1, 4_000_000 // len(good))
    for start in range(0, _RESAMPLES, some):
        size = (min(some, _RESAMPLES - start), len(good))
        means.append(good[generator.integers(0, len(good), size=size)].mean(axis=1))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return Measured(float(good.mean()), float(good.std()), float(low), float(high), values)
