"""Results of models: ragged lists of items with scores, held in an Arrow table; and explanations of scores."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd import notebook_html as html
from komd.engine.catalogue import Catalogue
from komd.engine.ranking import RankedBlock
from komd.errors import InputError
from komd.plain_text import printable

__all__ = ["ArrowResult", "Contributions", "Explanation", "Recommendations", "Scores", "Solution", "lists_table"]

_SHOWN = 10


class ArrowResult:
    """An Arrow table that any dataframe library can read."""

    table: pa.Table

    def to_arrow(self) -> pa.Table:
        """Return the result as an Arrow table, without a copy.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> lists = model.recommend(["user-00007", "user-00042"], n=3)
        >>> lists.to_arrow().num_rows
        6
        """
        return self.table

    def to_pandas(self) -> Any:
        """Return the result as a pandas DataFrame; pandas must be installed.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InputError
            Without pandas.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> lists = model.recommend(["user-00007", "user-00042"], n=3)
        >>> list(lists.to_pandas().columns)
        ['user_id', 'item_id', 'score', 'rank']
        """
        _library("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """Return the result as a polars DataFrame; polars must be installed.

        Returns
        -------
        polars.DataFrame

        Raises
        ------
        InputError
            Without polars.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> lists = model.recommend(["user-00007", "user-00042"], n=3)
        >>> lists.to_polars().shape
        (6, 4)
        """
        return _library("polars").from_arrow(self.table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)


def _library(name: str) -> Any:
    """A dataframe library; InputError says what to install if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"to_{name}() needs {name}, which is not installed: pip install {name}") from None


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(ArrowResult):
    """Ranked lists of items: columns `user_id`, `item_id`, `score` and `rank` (from 1), best first.

    Lists are as long as there is something to recommend; they are never padded. For `similar_items` the first column is
    `similar_to`.

    Attributes
    ----------
    table : pyarrow.Table
        The lists.
    fallback : list
        Ids of users without a history, who were served by popularity.
    skipped : int
        Number of unknown ids that were skipped (`on_unknown="skip"`).

    Examples
    --------
    >>> import komd
    >>> model = komd.ECFOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9")])
    >>> lists = model.recommend(["ana", "bo"])
    >>> lists.items("ana")
    ['i9']
    >>> lists.to_pandas()["user_id"].tolist()
    ['ana', 'bo']
    """

    table: pa.Table
    fallback: list[Any] = field(default_factory=list)
    skipped: int = 0

    def items(self, of: Any) -> list[Any]:
        """Return the items recommended to one user (or similar to one item), best first.

        Parameters
        ----------
        of : id
            The user, or for `similar_items` the item.

        Returns
        -------
        list
            Item ids; empty if there is no list for `of`.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> lists = model.recommend(["user-00007", "user-00042"], n=3)
        >>> len(lists.items("user-00042")), lists.items("somebody else")
        (3, [])
        """
        key = self.table.column(0)
        value = pa.scalar(of, key.type) if not isinstance(of, pa.Scalar) else of
        return list(self.table.filter(pc.equal(key, value)).column("item_id").to_pylist())

    def __repr__(self) -> str:
        return _described(self)

    def _repr_html_(self) -> str:
        return _shown(self)


@dataclass(frozen=True, eq=False, repr=False)
class Scores(ArrowResult):
    """Scores of given pairs, in their order: columns `user_id`, `item_id` and `score`.

    Attributes
    ----------
    table : pyarrow.Table
        The scores.
    fallback : list
        Ids of users without a history; their scores are the popularity of the items.
    skipped : int
        Number of pairs, and of items of given histories, that were left out as unknown (`on_unknown="skip"`).

    Examples
    --------
    >>> import komd
    >>> model = komd.ECFOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9")])
    >>> len(model.score([("ana", "i9"), ("bo", "i42")]))
    2
    """

    table: pa.Table
    fallback: list[Any] = field(default_factory=list)
    skipped: int = 0

    def __repr__(self) -> str:
        return _described(self)

    def _repr_html_(self) -> str:
        return _shown(self)


class Contributions(NamedTuple):
    """What one history adds to the scores of some items: `parts.sum(axis=0) + global_terms` are the scores.

    `items` are those of the history, and dislikes that count, with `weights` below 0; `similarities` and `parts` are
    matrices with a row for each of them.
    """

    weights: NDArray[np.float64]
    similarities: NDArray[np.float32]
    parts: NDArray[np.float64]
    global_terms: NDArray[np.float64]
    items: NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ArrowResult):
    """Why an item got its score: columns `item_id`, `weight`, `similarity` and `contribution`, largest first.

    The contributions and `global_term` sum to `score`. A disliked item has a negative weight.

    Attributes
    ----------
    user, item : id
        The user (None for a given history) and the item.
    score : float
        The score.
    global_term : float
        The part of the score that does not belong to a single item of the history: the effect of all items that were
        not chosen.
    table : pyarrow.Table
        The contributions.
    fallback : bool
        Whether the user has no history, so that the score is the popularity of the item.

    Examples
    --------
    >>> import komd
    >>> model = komd.ECFOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9")])
    >>> model.explain("ana", "i9").to_arrow().column("item_id").to_pylist()
    ['i7', 'i42']
    """

    user: Any
    item: Any
    score: float
    global_term: float
    table: pa.Table
    fallback: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON if the ids are.

        Returns
        -------
        dict
            `user_id`, `item_id`, `score`, `global_term`, `fallback` and the list `contributions`.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> item = model.recommend("user-00042", n=1).items("user-00042")[0]
        >>> why = model.explain("user-00042", item)
        >>> sorted(why.to_dict())
        ['contributions', 'fallback', 'global_term', 'item_id', 'score', 'user_id']
        """
        return {
            "user_id": self.user,
            "item_id": self.item,
            "score": self.score,
            "global_term": self.global_term,
            "fallback": self.fallback,
            "contributions": self.table.to_pylist(),
        }

    def __repr__(self) -> str:
        lines = [f"Explanation(user={self.user!r}, item={self.item!r}, score={self.score:.6g})"]
        if self.fallback:
            lines.append("no history: the score is the item's popularity")
        lines += _as_text(self.table.slice(0, _SHOWN))
        if len(self) > _SHOWN:
            rest = pc.sum(self.table.column("contribution").slice(_SHOWN)).as_py()
            lines.append(f"... {len(self) - _SHOWN:,} more items, together {rest:.6g}")
        lines.append(f"global term {self.global_term:.6g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        values = self.table.column("contribution").to_pylist()
        largest = max(map(abs, values), default=0.0)
        shown = html.table_rows(self.table, ("item_id", "weight", "similarity", "contribution"), _SHOWN)
        rows = [[*cells, html.bar(value, largest)] for cells, value in zip(shown, values, strict=False)]
        further = [("the global term", self.global_term)]
        if len(self) > _SHOWN:
            further.insert(0, (f"{len(self) - _SHOWN:,} more items", sum(values[_SHOWN:])))
        rows += [[name, "", "", html.cell(value), ""] for name, value in further]
        rows.append(["<b>score</b>", "", "", f"<b>{html.cell(self.score)}</b>", ""])
        whom = "this history" if self.user is None else self.user
        title = f"Why {printable(self.item)} for {printable(whom)}"
        words = "No history: the score is the item's popularity." if self.fallback else ""
        table = html.grid(("item", "weight", "similarity", "contribution", ""), rows, left=(0, 4))
        return html.fragment(title, table, html.note(words))


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of one user's convex problem.

    Attributes
    ----------
    items : list
        Ids of the items that have a weight variable.
    alpha : numpy.ndarray
        Their weights: non-negative, with sum 1 (on each side, for CF-OMD).
    positive : numpy.ndarray of bool
        Which of the items are in the history.
    gap : float
        The KKT gap reached: no item with weight has a (half) gradient more than this above the least.
    """

    items: list[Any]
    alpha: NDArray[np.float64]
    positive: NDArray[np.bool_]
    gap: float


def lists_table(catalogue: Catalogue, users: pa.Array, parts: list[RankedBlock]) -> pa.Table:
    """The lists of these users, one row for each item: `user_id`, `item_id`, `score`, `rank`."""
    numbers = np.concatenate([np.zeros(0, np.int32), *(part.items[part.filled] for part in parts)])
    scores = np.concatenate([np.zeros(0), *(part.scores[part.filled] for part in parts)])
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    rank = np.arange(1, len(numbers) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    return pa.table(
        {
            "user_id": users.take(pa.array(np.repeat(np.arange(len(counts)), counts))),
            "item_id": catalogue.item_ids(numbers),
            "score": scores,
            "rank": rank.astype(np.int32),
        }
    )


def _described(found: Recommendations | Scores) -> str:
    lines = [f"{type(found).__name__}({len(found):,} rows)"]
    lines += _as_text(found.table.slice(0, _SHOWN))
    if len(found) > _SHOWN:
        lines.append(f"... {len(found) - _SHOWN:,} more")
    if found.fallback:
        lines.append(f"{len(found.fallback):,} without history, served by popularity")
    if found.skipped:
        lines.append(f"{found.skipped:,} unknown ids skipped")
    return "\n".join(lines)


def _shown(found: Recommendations | Scores) -> str:
    """As HTML. With one user, the id is in the title; otherwise it is shown at the beginning of each list."""
    table, key = found.table, found.table.column_names[0]
    ids = table.column(key).slice(0, html.ROWS).to_pylist()
    one = bool(ids) and pc.count_distinct(table.column(key)).as_py() == 1
    columns = [name for name in ("rank", "item_id", "score") if name in table.column_names]
    rows = html.table_rows(table, columns)
    largest = max([0.0, *(abs(value) for value in table.column("score").slice(0, html.ROWS).to_pylist())])
    for row, score in zip(rows, table.column("score").to_pylist(), strict=False):
        row.append(html.bar(score, largest))
    head = [*columns, ""]
    if not one:
        head.insert(0, key)
        for place, row in enumerate(rows):
            row.insert(0, html.cell(ids[place]) if place == 0 or ids[place] != ids[place - 1] else "")
    words = tuple(place for place, name in enumerate(head) if name not in ("rank", "score"))
    title = f"{type(found).__name__}{f' for {printable(ids[0])}' if one else ''}: {len(found):,} rows"
    remarks = [
        f"{len(found) - html.ROWS:,} more rows: to_pandas() has all" if len(found) > html.ROWS else "",
        f"{len(found.fallback):,} without history, served by popularity" if found.fallback else "",
        f"{found.skipped:,} unknown ids skipped" if found.skipped else "",
    ]
    return html.fragment(title, html.grid(head, rows, words), *map(html.note, remarks))


def _as_text(table: pa.Table) -> list[str]:
    """Rows of a small table in aligned columns."""
    cells = [
        [name] + [f"{v:.6g}" if isinstance(v, float) else str(v) for v in table.column(name).to_pylist()]
        for name in table.column_names
    ]
    widths = [max(len(cell) for cell in column) for column in cells]
    return [
        "  ".join(column[row].ljust(width) for column, width in zip(cells, widths, strict=True)).rstrip()
        for row in range(table.num_rows + 1)
    ]
