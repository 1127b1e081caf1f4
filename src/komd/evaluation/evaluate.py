"""Evaluating a fitted model on held-out interactions, block by block: no users × items array is ever allocated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import notebook_html as html
from komd._core.groups import TieRule
from komd.checks import one_of
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue, OnUnknown
from komd.engine.histories import Histories
from komd.engine.ranking import RankingRequest
from komd.engine.recommender import Recommender
from komd.errors import InputError
from komd.evaluation.metrics import TIES, JudgedBlock, Measured, parse_metrics
from komd.rows import pointers

__all__ = ["APPEARANCE", "Evaluation", "evaluate", "evaluate_round"]

APPEARANCE = "appearance"
"""The word for the tie rule of `Interactions.items_by_appearance`, where the training data is at hand."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Metrics of one model on test data: `evaluation["auc"].mean`, `.std`, `.low`, `.high`, `.values`.

    Attributes
    ----------
    model : str
        The model, as text.
    metrics : dict
        A `Measured` for each metric: mean, standard deviation, 95 % bootstrap interval and the values of all users.
    users : pyarrow.Array
        Ids of the test users, in the order of the values.
    ties : str
        How equal scores count in AUC: "half", "strict", or "in order" (an order of items was given).
    skipped : int
        Test pairs left out: with unknown users or items (`on_unknown="skip"`), or already in the user's history.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=300, items=80, activity=12, rng=0)
    >>> train, test = next(komd.split.folds(data, rng=0))
    >>> result = komd.evaluate(komd.ECFOMD().fit(train), test, metrics="auc")
    >>> result["auc"].low < result["auc"].mean < result["auc"].high
    True
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

    def _repr_html_(self) -> str:
        rows = [
            [html.cell(name), f"{m.mean:.4f}", f"{m.std:.4f}", f"{m.low:.4f} – {m.high:.4f}"]
            for name, m in self.metrics.items()
        ]
        table = html.grid(("metric", "mean", "standard deviation", "95 % interval of the mean"), rows)
        remarks = f"{len(self.users):,} test users; ties in AUC: {self.ties}."
        left_out = f"{self.skipped:,} test pairs left out." if self.skipped else ""
        return html.fragment(f"Evaluation of {self.model}", table, html.note(remarks), html.note(left_out))


def evaluate(
    model: Recommender,
    test: Any,
    *,
    metrics: str | Iterable[str] = ("auc", "ndcg@100", "recall@20"),
    history: Any = None,
    ties: str | Sequence[Any] = "half",
    rng: int | np.random.Generator = 0,
    on_unknown: OnUnknown = "error",
    threads: int | None = None,
    memory: str | int | None = None,
) -> Evaluation:
    """Measure a fitted model on held-out pairs.

    Parameters
    ----------
    model : Recommender
        A fitted model.
    test : Interactions or anything that `komd.read` accepts
        Pairs to be found. Users are matched by id to the training data.
    metrics : str or iterable of str
        Names of metrics, as a list or as one text with commas; see docs/guide/metrics.md.
    history : Interactions, optional
        Histories of users that the model does not know, matched by user id to `test`.
    ties : str or sequence of ids
        How equal scores count in AUC. "half": one half. "strict": not at all, as in the paper's formula. Or item ids in
        order of preference: of two items with equal scores, the earlier one wins; items that are not listed come last
        and are equal to each other. Code that sorts by score alone also has such an order, most often
        `train.items_by_appearance`.
    rng : int or numpy.random.Generator
        Seed of the bootstrap intervals.
    on_unknown : {"error", "skip"}
        For test pairs with an unknown user or item: raise UnknownIdError, or skip them.
    threads : int, optional
        Number of threads; all cores by default.
    memory : str or int, optional
        Memory budget, as in `recommend`.

    Returns
    -------
    Evaluation
        Mean, standard deviation, interval and per-user values of each metric.

    Raises
    ------
    InputError
        If a metric is unknown, or no test user has a test item outside their history.
    UnknownIdError
        If a test user or item is unknown and `on_unknown` is "error".

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
    one_of("on_unknown", on_unknown, ("error", "skip"))
    model = model.view()  # not affected by updates during the run
    users, rows, targets, skipped = _matched(model, Interactions.of(test), history, on_unknown)
    if not len(users):
        raise InputError("nothing to measure: no test user has a test item that is not in their history")
    catalogue, rule = model.catalogue, _tie_rule(ties, model.catalogue)
    request = RankingRequest(
        max(metric.k for metric in wanted),
        catalogue.candidates(),
        targets=targets if any(metric.needs_areas for metric in wanted) else None,
        ties=rule,
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
    return Evaluation(model.text, measured, users, ties if isinstance(ties, str) else "in order", skipped)


def evaluate_round(
    model: Recommender, train: Interactions, test: Interactions, *, ties: str, **options: Any
) -> Evaluation:
    """`evaluate` after a fit to `train`, whose order of items is the tie rule where `ties` is "appearance"."""
    if ties != APPEARANCE:
        return evaluate(model, test, ties=ties, **options)
    return replace(evaluate(model, test, ties=train.items_by_appearance, **options), ties=ties)


def _tie_rule(ties: str | Sequence[Any], catalogue: Catalogue) -> TieRule:
    """The rule for equal scores, places by inside number."""
    if isinstance(ties, str):
        if ties not in TIES:
            known = ", ".join(map(repr, TIES))
            raise InputError(f"ties must be {known} or item ids in order of preference, got {ties!r}")
        return TieRule(TIES[ties], np.zeros(0, np.int32))
    if not hasattr(ties, "__len__"):
        raise InputError(f"ties must be a word or item ids in order of preference, got {ties!r}")
    numbers = catalogue.find_items(ties, "skip")
    unknown = np.flatnonzero(numbers < 0)
    if len(unknown):
        raise InputError(f"ties names {len(unknown):,} items that the model does not know, the first at {unknown[0]}")
    places = np.full(len(catalogue.order), len(numbers), np.int32)
    places[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    again = np.flatnonzero(places[numbers] < np.arange(len(numbers)))
    if len(again):
        twice = catalogue.item_ids(numbers[again[:1]])[0].as_py()
        raise InputError(f"ties names an item twice: {twice!r}")
    return TieRule(TIES["half"], places)


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
        model.check_histories(given)
        users, rows = given.users, catalogue.translated(given, on_unknown)[0]
    found = users.find(ids, on_unknown=on_unknown)
    known = found >= 0
    rows = rows.take(found[known])
    skipped += int(targets.lengths[tested[~known]].sum())
    targets = targets.take(tested[known].astype(np.int32))
    ids = ids.take(pa.array(np.flatnonzero(known)))
    # An item that the user already knows cannot be recommended, so it is not a target.
    m, known_items = len(catalogue.order), rows.known_items
    owner = np.repeat(np.arange(len(rows)), targets.lengths)
    known_pairs = np.repeat(np.arange(len(rows)), known_items.lengths) * m + known_items.indices
    fresh = ~np.isin(owner * m + targets.indices, known_pairs)
    indptr = pointers(np.bincount(owner[fresh], minlength=len(rows)))
    left = np.flatnonzero(np.diff(indptr)).astype(np.int32)
    skipped += int((~fresh).sum())
    targets = Histories(indptr, targets.indices[fresh]).take(left)
    return ids.take(pa.array(left)), rows.take(left), targets, skipped
