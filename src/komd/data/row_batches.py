"""The rows of a source, checked and cleaned batch by batch: ids that exist; ratings, weights, times that are such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.columns import ColumnPositions
from komd.data.encode import decoded
from komd.data.keys import is_text
from komd.data.ratings import RatingRule, UnusedRatings, not_rated_zero
from komd.data.tables import SourceTable
from komd.data.times import TimeReader
from komd.data.weights import weights_of
from komd.errors import InputError, argument

__all__ = ["RowBatch", "RowChecks", "row_batches"]


class RowBatch(NamedTuple):
    """Some rows: their ids without nulls, and times and weights if they were asked for."""

    users: pa.Array
    items: pa.Array
    times: NDArray[Any] | None  # as `TimeReader.parse` gives them
    weights: NDArray[np.float64] | None  # usable where `chosen`
    chosen: NDArray[np.bool_]  # which rows are part of a history: all, where ratings are not asked for
    disliked: NDArray[np.bool_] | None  # which rows are dislikes
    zeros: int  # rows left out because they are rated 0, where ratings are not asked for


class RowChecks(NamedTuple):
    """What is asked of the rows of all tables, and what was seen of them so far."""

    ratings: RatingRule
    times: TimeReader
    unused: UnusedRatings | None  # None: nothing is to be said about ratings that are not used


def row_batches(table: SourceTable, choice: ColumnPositions, checks: RowChecks) -> Iterator[RowBatch]:
    """The rows of a table in their order; missing ids are counted to the end and then refused."""
    chosen_columns = {what: position for what, position in choice._asdict().items() if position is not None}
    missing: dict[str, tuple[int, int]] = {}  # how many, and the first row
    row = 0
    for fetched in table.fetch(list(chosen_columns.values())):
        if fetched.num_rows == 0:
            continue
        arrays = [decoded(column) for column in fetched.columns]
        if table.text:
            arrays = [_trimmed(column, table.quote, table.escape) for column in arrays]
        columns = dict(zip(chosen_columns, arrays, strict=True))
        first = row
        row += fetched.num_rows
        for noun in ("user", "item"):
            null = _missing(columns[noun])
            if null is not None:
                count, where = missing.get(noun, (0, first + 1 + int(np.argmax(null))))
                missing[noun] = (count + int(null.sum()), where)
        if not missing:  # otherwise only the rest is counted
            yield _checked(columns, table, choice, checks, first)
    for noun, (count, where) in missing.items():
        which = table.columns[choice.user if noun == "user" else choice.item]
        raise InputError(
            f"{table.name} has {count:,} missing {noun} ids in {which!r} (the first in row {where:,}); "
            f"remove those rows or choose another column with {argument(noun)}"
        )


def _checked(
    columns: dict[str, pa.Array], table: SourceTable, choice: ColumnPositions, checks: RowChecks, first: int
) -> RowBatch:
    """The columns of a batch, by what they hold, as rows that count; `first` are the rows before."""
    users, items = columns["user"], columns["item"]
    times = checks.times.parse(columns["time"], table.name, first) if "time" in columns else None
    chosen, disliked = np.ones(len(users), np.bool_), None
    if checks.ratings.name:
        chosen, disliked = checks.ratings.read(columns["rating"], table.name, first)
    elif "rating" in columns:
        kept = not_rated_zero(columns["rating"], table, choice, first, checks.unused)
        chosen = kept.to_numpy(zero_copy_only=False)
    weights = None
    if choice.weight is not None:
        weights = weights_of(columns["weight"], chosen, table, choice.weight, first)
    if checks.ratings.name or chosen.all():
        return RowBatch(users, items, times, weights, chosen, disliked, 0)
    times, weights = (None if values is None else values[chosen] for values in (times, weights))
    ones = np.ones(int(chosen.sum()), np.bool_)
    return RowBatch(users.filter(kept), items.filter(kept), times, weights, ones, None, len(chosen) - len(ones))


def _missing(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Which ids are missing; None when none is."""
    blank = is_text(column.type)
    if column.null_count == 0 and not blank and not pa.types.is_floating(column.type):
        return None
    null = pc.is_null(column, nan_is_null=True)
    if blank:
        null = pc.or_(null, pc.fill_null(pc.equal(pc.binary_length(column), 0), False))
    found: np.ndarray[Any, np.dtype[np.bool_]] = null.to_numpy(zero_copy_only=False)
    return found if found.any() else None


def _trimmed(column: pa.Array, quote: str, escape: str) -> pa.Array:
    """Text without surrounding blanks, and without the quotes that DuckDB keeps because of them."""
    data = column.buffers()[2]
    if data is None or not any(blank in data.to_pybytes() for blank in (b" ", b"\t")):
        return column
    trimmed = pc.utf8_trim(column, " \t")
    if not quote:
        return trimmed
    held = pc.and_(pc.starts_with(trimmed, quote), pc.ends_with(trimmed, quote))
    held = pc.and_(pc.and_(held, pc.greater(pc.binary_length(trimmed), 1)), pc.not_equal(trimmed, column))
    if not pc.any(held).as_py():
        return trimmed
    bare = pc.replace_substring(pc.utf8_slice_codeunits(trimmed, 1, -1), escape + quote, quote)
    return pc.if_else(held, bare, trimmed)
