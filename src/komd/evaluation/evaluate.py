"""Evaluating a fitted model on held-out interactions, block by block: no users × items array is ever allocated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.checks import one_of
from komd.data.interactions import Interactions
from komd.engine.catalogue import OnUnknown
from komd.engine.histories import Histories
from komd.engine.ranking import RankingRequest
from komd.engine.recommender import Recommender
from komd.errors import InputError
from komd.evaluation.metrics import TIES, JudgedBlock, Measured, parse_metrics
from komd.rows import pointers

__all__ = ["Evaluation", "evaluate"]


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
        For users the model has never seen: `Interactions` with their histories, matched by user id to `test`.
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
    from komd._core.auc import mark_hits

    wanted = parse_metrics(metrics)
    one_of("ties", ties, tuple(TIES))
    one_of("on_unknown", on_unknown, ("error", "skip"))
    users, rows, targets, skipped = _matched(model, Interactions.of(test), history, on_unknown)
    if not len(users):
        raise InputError("nothing to measure: no test user has a test item that is not in their history")
    catalogue = model.catalogue
    request = RankingRequest(
        max(metric.k for metric in wanted),
        catalogue.candidates(),
        targets=targets if any(metric.needs_areas for metric in wanted) else None,
        tie=TIES[ties],
    )
    trained = max(int(np.count_nonzero(catalogue.histories.lengths)), 1)
    information = -np.log2(np.maximum(catalogue.popularity, 1.0) / trained)
    items = len(catalogue.order)
    mark = np.zeros(items, np.uint8)
    parts: list[list[NDArray[Any]]] = [[] for _ in wanted]
    done = 0
    for ranked in model.ranked_blocks(rows, request, threads=threads, memory=memory, label="evaluate"):
        tested = targets.block(done, done + len(ranked.counts))
        done += len(tested)
        hits = np.zeros(ranked.items.shape, np.bool_)
        mark_hits(ranked.items, ranked.counts, tested.indptr, tested.indices, mark, hits)
        block = JudgedBlock(ranked, hits, tested.lengths, information)
        for metric, part in zip(wanted, parts, strict=True):
            part.append(metric.of_block(block))
    generator = np.random.default_rng(rng)
    measured = {str(metric): metric.summary(part, items, generator) for metric, part in zip(wanted, parts, strict=True)}
    return Evaluation(model.text, measured, users, ties, skipped)


def _matched(
    model: Recommender, test: Interactions, history: Any, on_unknown: OnUnknown
) -> tuple[pa.Array, Histories, Histories, int]:
    """Test users with their histories and their test items, in the model's numbers."""
    catalogue = model.catalogue
    targets, skipped = catalogue.translated(test, on_unknown)
    tested = np.flatnonzero(targets.lengths)
    ids = test.users.take(tested)
    users, rows = catalogue.users, catalogue.histories
    if history is not None:
        given = Interactions.of(history)
        users, rows = given.users, catalogue.translated(given, on_unknown)[0]
    found = users.find(ids, on_unknown=on_unknown)
    known = found >= 0
    rows = rows.take(found[known])
    skipped += int(targets.lengths[tested[~known]].sum())
    targets = targets.take(tested[known].astype(np.int32))
    ids = ids.take(pa.array(np.flatnonzero(known)))
    # An item that the user knows already cannot be recommended, so it is not a target.
    m, known_items = len(catalogue.order), rows.known_items
    owner = np.repeat(np.arange(len(rows)), targets.lengths)
    known_pairs = np.repeat(np.arange(len(rows)), known_items.lengths) * m + known_items.indices
    fresh = ~np.isin(owner * m + targets.indices, known_pairs)
    indptr = pointers(np.bincount(owner[fresh], minlength=len(rows)))
    left = np.flatnonzero(np.diff(indptr)).astype(np.int32)
    skipped += int((~fresh).sum())
    targets = Histories(indptr, targets.indices[fresh]).take(left)
    return ids.take(pa.array(left)), rows.take(left), targets, skipped
