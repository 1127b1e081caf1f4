"""The rows of a source, checked and cleaned batch by batch: ids that exist, ratings and times that are numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.columns import ColumnPositions
from komd.data.encode import decoded
from komd.data.keys import is_text
from komd.data.tables import SourceTable
from komd.errors import InputError, argument

__all__ = ["RowBatch", "row_batches"]

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class RowBatch(NamedTuple):
    """Some rows: their ids without nulls, and times if they were asked for."""

    users: pa.Array
    items: pa.Array
    times: NDArray[np.int64] | None
    chosen: NDArray[np.bool_]  # with `min_rating`, which rows are rated at least this; otherwise all
    zeros: int  # rows left out because they are rated 0; with `min_rating` none


def row_batches(table: SourceTable, choice: ColumnPositions, min_rating: float | None) -> Iterator[RowBatch]:
    """The rows of a table in their order; missing ids are counted to the end and then refused."""
    positions = [position for position in choice if position is not None]
    missing: dict[str, tuple[int, int]] = {}  # how many, and the first row
    row = 0
    numeric: bool | None = None  # whether times are numbers; all must agree
    for fetched in table.fetch(positions):
        if fetched.num_rows == 0:
            continue
        columns = [decoded(column) for column in fetched.columns]
        if table.text:
            columns = [_trimmed(column, table.quote, table.escape) for column in columns]
        users, items, first = columns[0], columns[1], row
        row += len(users)
        for noun, column in (("user", users), ("item", items)):
            null = _missing(column)
            if null is not None:
                count, where = missing.get(noun, (0, first + 1 + int(np.argmax(null))))
                missing[noun] = (count + int(null.sum()), where)
        if missing:
            continue  # only to count the rest
        times = None
        if choice.time is not None:
            times, as_numbers = _times(columns[-1], table.name, first)
            if numeric is not None and numeric != as_numbers:
                raise InputError(f"{table.name}: some times are numbers, others dates (around row {first + 1:,})")
            numeric = as_numbers
        chosen = np.ones(len(users), np.bool_)
        if min_rating is not None:
            ratings = _ratings(columns[2], table.name, first)
            chosen = pc.fill_null(pc.greater_equal(ratings, min_rating), False).to_numpy(zero_copy_only=False)
        elif choice.rating is not None:
            kept = _not_rated_zero(columns[2], table, choice.rating, first)
            users, items = users.filter(kept), items.filter(kept)
            times = None if times is None else times.filter(kept)
        moments = None if times is None else times.to_numpy(zero_copy_only=False)
        yield RowBatch(users, items, moments, chosen[: len(users)], len(chosen) - len(users))
    for noun, (count, where) in missing.items():
        which = table.columns[choice.user if noun == "user" else choice.item]
        raise InputError(
            f"{table.name} has {count:,} missing {noun} ids in {which!r} (the first in row {where:,}); "
            f"remove those rows or choose another column with {argument(noun)}"
        )


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


def _not_rated_zero(column: pa.Array, table: SourceTable, position: int, row: int) -> pa.Array:
    """Which rows count as chosen where ratings are not asked for: all but those rated 0; none may be negative."""
    ratings = _numbers(column)
    negative = pc.fill_null(pc.less(ratings, 0.0), False)
    if pc.any(negative).as_py():
        at = int(np.argmax(negative.to_numpy(zero_copy_only=False)))
        which = table.columns[position]
        raise InputError(
            f"{table.name} has the rating {ratings[at].as_py():g} in row {row + 1 + at:,} of {which!r}: "
            f"say with {argument('min_rating')} which ratings count as chosen, or choose another column with "
            f"{argument('rating')}"
        )
    return pc.fill_null(pc.not_equal(ratings, 0.0), True)


def _numbers(column: pa.Array) -> pa.Array:
    """The values as float64; null where they are not numbers."""
    column = _stripped(column)
    try:
        return column.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not is_text(column.type):
            return pa.nulls(len(column), pa.float64())
        written = pc.fill_null(pc.match_substring_regex(column, _NUMBER), False)
        return pc.if_else(written, column, pa.scalar(None, column.type)).cast(pa.float64())


def _ratings(column: pa.Array, name: str, row: int) -> pa.Array:
    try:
        return _stripped(column).cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        value, at = _first_bad(_stripped(column), pa.float64())
        raise InputError(
            f"{argument('min_rating')} needs numbers, but {name} has {value!r} in row {row + at:,} (choose with "
            f"{argument('rating')})"
        ) from None


def _times(column: pa.Array, name: str, row: int) -> tuple[pa.Array, bool]:
    """Times as int64, and whether they were numbers (or else dates, now microseconds)."""
    if column.null_count:
        at = int(np.argmax(pc.is_null(column).to_numpy(zero_copy_only=False)))
        raise InputError(
            f"{name} has no time in row {row + 1 + at:,}; remove such rows, or read without {argument('time')}"
        )
    column = _stripped(column)
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    kinds: Iterable[pa.DataType] = (pa.int64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    if pa.types.is_temporal(column.type):
        kinds = (pa.timestamp("us", tz=getattr(column.type, "tz", None)),)
    elif numeric:
        kinds = (pa.int64(),)
    for kind in kinds:
        try:
            moments = column.cast(kind, safe=kind == pa.int64())
            return moments.cast(pa.int64()), kind == pa.int64()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    value, at = _first_bad(column, pa.int64())
    raise InputError(
        f"times must be whole numbers, dates or timestamps, but {name} has {value!r} in row {row + at:,} "
        f"(choose with {argument('time')})"
    )


def _stripped(column: pa.Array) -> pa.Array:
    if is_text(column.type):
        return pc.utf8_trim_whitespace(column)
    return column


def _first_bad(column: pa.Array, kind: pa.DataType) -> tuple[Any, int]:
    for k, value in enumerate(column):
        try:
            value.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return value.as_py(), k + 1
    return column[0].as_py(), 1
