"""The result of a comparison: one row for each model, and the ways to show it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from komd.errors import InputError, nearest
from komd.evaluation.significance import LEVEL, compared_with_best
from komd.evaluation.work_folder import ComparisonProtocol, FoldResult
from komd.html import write_report
from komd.plain_text import json_text

__all__ = ["Comparison", "MetricSummary", "Row", "rows_of"]


@dataclass(frozen=True)
class MetricSummary:
    """One metric of one model.

    Attributes
    ----------
    mean, std : float
        Mean and standard deviation over the folds; the deviation divides by their number.
    values : tuple of float
        The mean over the test users of each fold.
    mark : str
        "best" for the highest mean, "tied" if the paired test finds no difference from the best, else "".
    p : float
        p-value of the difference from the best: paired t-test over users with Holm's correction. 1 for the best itself.
    """

    mean: float
    std: float
    values: tuple[float, ...]
    mark: str
    p: float


@dataclass(frozen=True)
class Row:
    """One model of a comparison.

    Attributes
    ----------
    model : str
        The model, as text.
    scores : dict
        A `MetricSummary` for each metric; empty if the model failed.
    fit, rank : tuple of float
        Seconds for each fold: to fit, and to rank and evaluate the test users.
    peak_memory : int
        Peak memory of its process in bytes.
    failed : str or None
        Why there are no results.
    """

    model: str
    scores: dict[str, MetricSummary]
    fit: tuple[float, ...] = ()
    rank: tuple[float, ...] = ()
    peak_memory: int = 0
    failed: str | None = None

    def __getitem__(self, metric: str) -> MetricSummary:
        if metric not in self.scores:
            raise InputError(f"{self.model}: {self.failed or f'{metric!r} was not measured'}")
        return self.scores[metric]

    @property
    def fit_seconds(self) -> float:
        """The median over folds: the first also loads compiled code."""
        return statistics.median(self.fit) if self.fit else float("nan")

    @property
    def rank_seconds(self) -> float:
        """The median over folds."""
        return statistics.median(self.rank) if self.rank else float("nan")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several models under one protocol: `comparison["ECFOMD()"]["auc"].mean`, `.rows`, `.table`, `.report(folder)`.

    Attributes
    ----------
    rows : tuple of Row
        One row per model, in the order asked for.
    protocol : ComparisonProtocol
        Folds, half, min_activity, rng, metrics and ties.
    data : str
        The data, as text.
    users, items, interactions : int
        Size of the data.
    test_users : int
        Number of test users over all folds.
    versions : dict
        Versions of komd and of the libraries it uses.
    threads : int
        Number of threads used.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=10, rng=0)
    >>> found = komd.compare(data, "Popularity", metrics="auc", folds=2)
    >>> found.table.column("model").to_pylist()
    ['Popularity()']
    """

    rows: tuple[Row, ...]
    protocol: ComparisonProtocol
    data: str
    users: int
    items: int
    interactions: int
    test_users: int
    versions: dict[str, str]
    threads: int

    def __getitem__(self, model: str) -> Row:
        for row in self.rows:
            if row.model == model:
                return row
        raise InputError(f"{model!r} was not compared; {nearest(model, [row.model for row in self.rows])}")

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        from komd.evaluation.comparison_report import text

        return text(self)

    def _repr_html_(self) -> str:
        from komd.evaluation.comparison_page import in_notebook

        return in_notebook(self)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, in the order asked for."""
        return self.protocol.metrics

    @property
    def table(self) -> pa.Table:
        """An Arrow table, one row per model: metrics (mean, `_std`, `_mark`), seconds, memory, why it failed."""
        columns: dict[str, Any] = {"model": pa.array([row.model for row in self.rows], pa.string())}
        for name in self.metrics:
            scores = [row.scores.get(name) for row in self.rows]
            columns[name] = pa.array([s and s.mean for s in scores], pa.float64())
            columns[f"{name}_std"] = pa.array([s and s.std for s in scores], pa.float64())
            columns[f"{name}_mark"] = pa.array([s and s.mark for s in scores], pa.string())
        for name in ("fit_seconds", "rank_seconds"):
            values = [None if row.failed else getattr(row, name) for row in self.rows]
            columns[name] = pa.array(values, pa.float64())
        peaks = [None if row.failed else row.peak_memory / 1e6 for row in self.rows]
        columns["peak_memory_mb"] = pa.array(peaks, pa.float64())
        columns["failed"] = pa.array([row.failed for row in self.rows], pa.string())
        return pa.table(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dictionaries, texts and numbers.

        Returns
        -------
        dict

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.compare(data, "Popularity, MSDW", metrics="ndcg@10", folds=2)
        >>> [model["model"] for model in found.to_dict()["models"]]
        ['Popularity()', 'MSDW()']
        """
        sizes = {"users": self.users, "items": self.items, "interactions": self.interactions}
        return {
            "data": {"text": self.data} | sizes,
            **(vars(self.protocol) | {"metrics": list(self.metrics)}),
            "test_users": self.test_users,
            "test": {"name": "paired t over users", "correction": "Holm", "level": LEVEL},
            "versions": self.versions,
            "threads": self.threads,
            "models": [_row_dict(row) for row in self.rows],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text; NaN becomes null.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.compare(data, "Popularity, MSDW", metrics="ndcg@10", folds=2)
        >>> import json
        >>> json.loads(found.to_json()) == found.to_dict()
        True
        """
        return json_text(self.to_dict(), indent=2)

    def to_markdown(self) -> str:
        """Return the table in Markdown.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.compare(data, "Popularity, MSDW", metrics="ndcg@10", folds=2)
        >>> print(found.to_markdown().splitlines()[0])
        Interactions(60 users × 30 items, ...); 2 folds, half random, rng 0, ties half; ... test users.
        """
        from komd.evaluation.comparison_report import markdown

        return markdown(self)

    def report(self, folder: str | Path) -> Path:
        """Write results.json, results.md and index.html (one self-contained page) to a folder.

        Plots need matplotlib (the extra `plots`); without it, the page says so.

        Parameters
        ----------
        folder : str or Path
            The folder; it is created if it does not exist.

        Returns
        -------
        Path
            The path of the page.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.compare(data, "Popularity, MSDW", metrics="ndcg@10", folds=2)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = found.report(folder + "/report")
        ...     print(page.name, sorted(each.name for each in page.parent.iterdir()))
        index.html ['index.html', 'results.json', 'results.md']
        """
        from komd.evaluation.comparison_page import page

        return write_report(folder, self.to_json(), self.to_markdown(), page(self))


def _row_dict(row: Row) -> dict[str, Any]:
    if row.failed is not None:
        return {"model": row.model, "failed": row.failed}
    seconds = {"fit": row.fit_seconds, "rank": row.rank_seconds}
    return {
        "model": row.model,
        "failed": None,
        "metrics": {name: vars(score) | {"values": list(score.values)} for name, score in row.scores.items()},
        "seconds": seconds | {"fit_folds": list(row.fit), "rank_folds": list(row.rank)},
        "peak_memory_mb": round(row.peak_memory / 1e6, 1),
    }


def rows_of(models: list[str], results: list[list[FoldResult] | str], metrics: tuple[str, ...]) -> tuple[Row, ...]:
    """Rows from the results of every fold, or the reason why there are none."""
    measured = {k: folds for k, folds in enumerate(results) if not isinstance(folds, str)}
    scores: list[dict[str, MetricSummary]] = [{} for _ in models]
    for name in metrics:
        values = [[fold.means[name] for fold in folds] for folds in measured.values()]
        means = [statistics.fmean(each) for each in values]
        users = [np.concatenate([fold.values[name] for fold in folds]) for folds in measured.values()]
        best, p = compared_with_best(means, users)
        for place, k in enumerate(measured):
            mark = "best" if place == best else "tied" if p[place] > LEVEL else ""
            spread = statistics.pstdev(values[place]) if means[place] == means[place] else float("nan")
            scores[k][name] = MetricSummary(means[place], spread, tuple(values[place]), mark, p[place])
    rows = []
    for model, folds, score in zip(models, results, scores, strict=True):
        if isinstance(folds, str):
            rows.append(Row(model, {}, failed=folds))
        else:
            fit, rank = tuple(fold.fit for fold in folds), tuple(fold.rank for fold in folds)
            rows.append(Row(model, score, fit, rank, max(fold.peak for fold in folds)))
    return tuple(rows)
