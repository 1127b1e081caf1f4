"""What a model answers: ragged lists of items with scores, an Arrow table underneath; and why an item was scored so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.engine.catalogue import Catalogue
from komd.engine.ranking import RankedBlock

__all__ = ["ArrowResult", "Contributions", "Explanation", "Recommendations", "Scores", "Solution", "lists_table"]

_SHOWN = 10


class ArrowResult:
    """An Arrow table that hands itself to any dataframe library."""

    table: pa.Table

    def to_arrow(self) -> pa.Table:
        """The table itself."""
        return self.table

    def to_pandas(self) -> Any:
        """A pandas DataFrame (pandas must be installed)."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame (polars must be installed)."""
        import polars

        return polars.from_arrow(self.table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(ArrowResult):
    """Lists of items, best first: columns `user_id`, `item_id`, `score`, `rank` (from 1).

    Lists are as long as there was something to recommend: never padded. For `similar_items` the first column is
    `similar_to`.

    Attributes
    ----------
    fallback
        Ids of the users who have no history and were served by popularity.
    skipped
        How many unknown ids were passed over (`on_unknown="skip"`).
    """

    table: pa.Table
    fallback: list[Any] = field(default_factory=list)
    skipped: int = 0

    def items(self, of: Any) -> list[Any]:
        """The ids recommended to one user (or similar to one item), best first."""
        key = self.table.column(0)
        value = pa.scalar(of, key.type) if not isinstance(of, pa.Scalar) else of
        return list(self.table.filter(pc.equal(key, value)).column("item_id").to_pylist())

    def __repr__(self) -> str:
        return _described(self)


@dataclass(frozen=True, eq=False, repr=False)
class Scores(ArrowResult):
    """The scores of given pairs, in their order: columns `user_id`, `item_id`, `score`.

    Attributes
    ----------
    fallback
        Ids of the users who have no history: their scores are the items' popularity.
    skipped
        How many pairs, and items of given histories, were left out as unknown (`on_unknown="skip"`).
    """

    table: pa.Table
    fallback: list[Any] = field(default_factory=list)
    skipped: int = 0

    def __repr__(self) -> str:
        return _described(self)


class Contributions(NamedTuple):
    """What one history adds to the scores of some items: `parts.sum(axis=0) + global_terms` are the scores.

    `items` are those of the history, and the dislikes that have a say, with `weights` below 0; `similarities` and
    `parts` are matrices with a row for each of them.
    """

    weights: NDArray[np.float64]
    similarities: NDArray[np.float32]
    parts: NDArray[np.float64]
    global_terms: NDArray[np.float64]
    items: NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ArrowResult):
    """Why an item got its score: columns `item_id`, `weight`, `similarity`, `contribution`, the largest first.

    The contributions and `global_term` sum to `score`. An item that the user dislikes has a weight below 0: its
    contribution is what the dislike takes away. `global_term` is what does not come from a single item of the
    history: the pull of everything that was not chosen.
    """

    user: Any
    item: Any
    score: float
    global_term: float
    table: pa.Table
    fallback: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON but for the ids, which are what they are."""
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


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to one user's convex problem.

    Attributes
    ----------
    items
        Ids of the items that carry weight variables.
    alpha
        Their weights: non-negative, summing to one (on each side, for CF-OMD).
    positive
        Which of them are in the history.
    gap
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
