"""From files, SQL, frames and matrices to `Interactions`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sparse
from numpy.typing import NDArray

from komd.data.columns import Choice, Column, Columns, Reading
from komd.data.databases import duckdb_connection, is_connection, is_database, opened_query, whole_table
from komd.data.encode import Encoder, decoded
from komd.data.ids import Ids
from komd.data.interactions import ACCEPTED, Interactions, from_matrix
from komd.data.keys import show
from komd.data.tables import (
    Table,
    array_table,
    expand,
    file_table,
    frame_table,
    lazy_table,
    pairs_table,
    relation_table,
)
from komd.errors import InputError, argument
from komd.memory import budget
from komd.progress import progress

__all__ = ["Rows", "read", "read_rows"]

_AHEAD = 16  # batches that may wait to be encoded
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_QUOTED_INSIDE = r'^(".*"".*"|\'.*\'\'.*\')$'  # a field that was quoted because of a quote inside


def read(
    source: Any,
    *,
    user: Column = None,
    item: Column = None,
    rating: Column = None,
    time: Column = None,
    min_rating: float | None = None,
    header: bool | None = None,
    separator: str | None = None,
    database: Any = None,
    memory: str | int | None = None,
) -> Interactions:
    """Read who chose what; a pair that is repeated counts once.

    Parameters
    ----------
    source : path, pattern, list of paths, SQL, frame, pairs, or scipy sparse matrix
        Text files (separated by comma, tab, space, `::`, `;` or `|`, plain or gzipped, UTF-8), Parquet files
        and databases of one table are told apart by their content. With `database=`, SQL. A frame is anything
        with an Arrow stream (pandas, polars, pyarrow, duckdb) or a polars LazyFrame. Pairs are a list of tuples
        `(user, item)` or a numpy array of two columns.
    user, item : str or int, optional
        Columns by name or by position from 0. By default those with a recognised name (`user_id`,
        `userId`, `customer`; `item_id`, `movie`, `song`, …). Columns that no name tells are taken in order where
        just as many are left as are needed, or where the source has no names.
    rating : str or int, optional
        The column of ratings, play counts or the like: by default one with a recognised name, or else (with
        `min_rating`, or without names in a table of up to four columns) the third.
    time : str or int, optional
        The column of times. Whole numbers stay as they are; dates and timestamps become microseconds
        since 1970. Without it the order of rows is all that is known.
    min_rating : float, optional
        Keep only rows whose rating is at least this; a missing rating is not. The other pairs of the users and
        items that are left are kept apart (`Interactions.seen`): nothing is learned from them, and they are not
        recommended. Without it every row counts as chosen, except that a rating of 0 says "not chosen": such rows
        are left out, and a negative rating is refused. The same holds for the entries of a matrix.
    header : bool, optional
        Whether text files begin with the names of their columns. By default the first lines tell
        (`komd.data.text_layout` has the rule).
    separator : str, optional
        What stands between the columns of text files. By default the first lines tell. Blanks around a
        field do not belong to it.
    database : path or connection, optional
        Makes `source` SQL: a DuckDB or SQLite file, an open connection (duckdb, sqlite3 or another of DB-API,
        SQLAlchemy, or its engine), ":memory:" (for queries over files), or anything else that DuckDB can
        attach. Files are opened to read only.
    memory : str or int, optional
        What DuckDB may use, as "4GB"; by default 60 % of what is free.

    Returns
    -------
    Interactions
        Ids from text files are integers when every one of them is written like an int64 ("7", not "007"),
        and text otherwise. Ids of other sources keep their type. Its repr says which columns were taken, and
        which were not used.

    Examples
    --------
    >>> import pyarrow as pa
    >>> data = read(pa.table({"user_id": ["ana", "bo", "ana"], "song": ["i7", "i7", "i42"]}))
    >>> data
    Interactions(2 users × 2 items, 3 pairs, 75 % full; user=user_id, item=song)
    >>> data.history("ana")
    ['i7', 'i42']
    """
    if min_rating is not None and not np.isfinite(min_rating):
        raise InputError(f"min_rating must be a finite number, got {min_rating!r}")
    allowed = budget(memory)
    columns = Columns(user, item, rating, time, rated=min_rating is not None)
    if isinstance(source, Interactions):
        return source
    if sparse.issparse(source):
        data = from_matrix(source, min_rating)
        if data.pairs == 0:
            raise InputError("the matrix has no entry to read" if min_rating is None else _none_left(min_rating))
        return data
    rows = read_rows(source, columns, min_rating, header, separator, database, allowed)
    data = Interactions.from_numbers(
        rows.users, rows.items, rows.user_numbers, rows.item_numbers, rows.times, rows.chosen
    )
    return data.said_to_be(rows.reading)


class Rows(NamedTuple):
    """What was read, row by row in its order: row k is the pair (users[user_numbers[k]], items[item_numbers[k]])."""

    users: Ids
    items: Ids
    user_numbers: NDArray[np.int32]
    item_numbers: NDArray[np.int32]
    times: NDArray[np.int64] | None
    reading: Reading
    text: bool  # whether ids were read from text, where digits may stand for integers
    chosen: NDArray[np.bool_] | None  # which rows are rated high enough, with min_rating; ids are theirs, others are -1


def read_rows(
    source: Any,
    columns: Columns,
    min_rating: float | None,
    header: bool | None,
    separator: str | None,
    database: Any,
    allowed: int,
) -> Rows:
    """The rows of a source that is neither `Interactions` nor a matrix; for the parameters see `read`."""
    with ExitStack() as stack:
        if database is not None:
            if not isinstance(source, str):
                raise InputError(f"with {argument('database')} the source is SQL, got {source!r}")
            tables = [stack.enter_context(opened_query(source, database, memory=allowed))]
        elif isinstance(source, list | tuple) and source and _is_pair(source[0]):
            tables = [pairs_table(source, columns)]
        elif isinstance(source, str | os.PathLike | list | tuple):
            paths = expand(source)
            connection = stack.enter_context(duckdb_connection(memory=allowed))
            tables = [
                stack.enter_context(whole_table(path, memory=allowed))
                if is_database(path)
                else file_table(connection, path, columns, header, separator)
                for path in paths
            ]
        elif isinstance(source, np.ndarray):
            tables = [array_table(source, columns)]
        elif type(source).__name__ == "DuckDBPyRelation":
            tables = [relation_table(source, "the relation")]
        elif type(source).__name__ == "LazyFrame" and hasattr(source, "collect_schema"):
            tables = [lazy_table(source)]
        elif hasattr(source, "__arrow_c_stream__"):
            tables = [frame_table(source)]
        elif is_connection(source):
            raise InputError("a connection needs SQL: komd.read('SELECT user, item FROM …', database=connection)")
        else:
            kind = f"{type(source).__module__}.{type(source).__qualname__}"
            raise InputError(f"cannot read {kind}; give {ACCEPTED}")
        return _collect(tables, columns, min_rating)


def _is_pair(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _collect(tables: list[Table], columns: Columns, min_rating: float | None) -> Rows:
    """Number the ids of all tables, one thread for users and one for items."""
    users, items = Encoder("user"), Encoder("item")
    times: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    marks: list[np.ndarray[Any, np.dtype[np.bool_]]] = []  # which rows are rated high enough
    choices = [columns.choose(table.columns, table.name, named=table.named) for table in tables]
    readings = [
        Reading.of(table.columns, choice, rated=columns.uses_ratings)
        for table, choice in zip(tables, choices, strict=True)
    ]
    rows = zeros = 0
    with (
        ThreadPoolExecutor(1) as user_thread,
        ThreadPoolExecutor(1) as item_thread,
        progress("reading", sum(table.rows for table in tables)) as advance,
    ):
        waiting: deque[Future[None]] = deque()
        for table, choice in zip(tables, choices, strict=True):
            seen = 0
            for batch, chosen, left_out in _checked(table, choice, min_rating):
                seen += 1
                zeros += left_out
                if batch.num_rows == 0:
                    continue
                rows += int(chosen.sum())
                marks.append(chosen)
                text = table.text
                in_users, in_items = choice.user in table.uuids, choice.item in table.uuids
                waiting.append(user_thread.submit(users.add, batch.column(0), text=text, uuids=in_users))
                waiting.append(item_thread.submit(items.add, batch.column(1), text=text, uuids=in_items))
                if choice.time is not None:
                    times.append(batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False))
                while len(waiting) > 2 * _AHEAD:
                    waiting.popleft().result()
                advance(batch.num_rows)
            if seen == 0:
                raise InputError(f"{table.name} has {'a header but ' if table.text and table.named else ''}no rows")
        while waiting:
            waiting.popleft().result()
        if rows == 0:
            raise InputError(_none_left(min_rating) if min_rating is not None else "every row is rated 0: none is left")
        kept = np.concatenate(marks) if min_rating is not None else None
        last = item_thread.submit(items.finish, kept)
        user_ids, user_numbers = users.finish(kept)
        item_ids, item_numbers = last.result()
    moments = np.concatenate(times) if times else None
    reading, text = Reading.together(readings, zeros), any(table.text for table in tables)
    found = Rows(user_ids, item_ids, user_numbers, item_numbers, moments, reading, text, kept)
    for table, choice in zip(tables, choices, strict=True):
        if table.text:
            _sound(found, table, choice)
    return found


def _sound(rows: Rows, table: Table, choice: Choice) -> None:
    """Refuse ids that show that a text file was not what its first lines promised."""
    user, item = table.columns[choice.user], table.columns[choice.item]
    if table.named and user in rows.users and item in rows.items:
        again = (rows.user_numbers == rows.users.number(user)) & (rows.item_numbers == rows.items.number(item))
        if again.any():
            raise InputError(f"{table.name} has its header again further down, as a row: remove it")
    for ids in (rows.users, rows.items):
        if not pa.types.is_string(ids.type) and not pa.types.is_large_string(ids.type):
            continue
        wrong, why = pc.match_substring(ids.values, "\0"), "it holds zero bytes"
        if not table.quote and not pc.any(wrong).as_py():
            wrong = pc.match_substring_regex(ids.values, _QUOTED_INSIDE)
            why = "its first lines have no quotes like these"
        if pc.any(wrong).as_py():
            value = ids.values.filter(wrong)[0].as_py()
            raise InputError(f"{table.name} has the {ids.noun} id {show(value)}: {why}")


def _checked(
    table: Table, choice: Choice, min_rating: float | None
) -> Iterator[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.bool_]], int]]:
    """Batches of user, item (and time) without missing ids, which rows are chosen, and how many were rated 0.

    With `min_rating` the rows rated too low are in the batch; rows rated 0 otherwise are not.
    """
    positions = [choice.user, choice.item, *(p for p in (choice.rating, choice.time) if p is not None)]
    missing: dict[str, tuple[int, int]] = {}  # how many, and the first row
    row = 0
    numeric: bool | None = None  # whether times are numbers; all must agree
    for fetched in table.fetch(positions):
        if fetched.num_rows == 0:
            continue
        arrays = [decoded(column) for column in fetched.columns]
        if table.text:
            arrays = [_trimmed(column, table.quote, table.escape) for column in arrays]
        batch = pa.RecordBatch.from_arrays(arrays, fetched.schema.names)
        for noun, column in (("user", batch.column(0)), ("item", batch.column(1))):
            null = _missing(column)
            if null is not None:
                count, first = missing.get(noun, (0, row + 1 + int(np.argmax(null))))
                missing[noun] = (count + int(null.sum()), first)
        if missing:
            row += batch.num_rows
            continue  # only to count the rest
        arrays = [batch.column(0), batch.column(1)]
        if choice.time is not None:
            moments, as_numbers = _times(batch.column(batch.num_columns - 1), table.name, row)
            if numeric is not None and numeric != as_numbers:
                raise InputError(f"{table.name}: some times are numbers, others dates (around row {row + 1:,})")
            numeric = as_numbers
            arrays.append(moments)
        checked = pa.RecordBatch.from_arrays(arrays, names=["user", "item", "time"][: len(arrays)])
        chosen = np.ones(batch.num_rows, np.bool_)
        if min_rating is not None:
            ratings = _ratings(batch.column(2), table.name, row)
            chosen = pc.fill_null(pc.greater_equal(ratings, min_rating), False).to_numpy(zero_copy_only=False)
        elif choice.rating is not None:
            checked = checked.filter(_chosen(batch.column(2), table, choice.rating, row))
            chosen = chosen[: checked.num_rows]
        row += batch.num_rows
        yield checked, chosen, batch.num_rows - checked.num_rows
    for noun, (count, first) in missing.items():
        which = table.columns[choice.user if noun == "user" else choice.item]
        raise InputError(
            f"{table.name} has {count:,} missing {noun} ids in {which!r} (the first in row {first:,}); "
            f"remove those rows or choose another column with {argument(noun)}"
        )


def _missing(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Which ids are missing; None when none is."""
    blank = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if column.null_count == 0 and not blank and not pa.types.is_floating(column.type):
        return None
    null = pc.is_null(column, nan_is_null=True)
    if blank:
        null = pc.or_(null, pc.fill_null(pc.equal(pc.binary_length(column), 0), False))
    found: np.ndarray[Any, np.dtype[np.bool_]] = null.to_numpy(zero_copy_only=False)
    return found if found.any() else None


def _trimmed(column: pa.Array, quote: str, escape: str) -> pa.Array:
    """Text without the blanks around it, nor quotes that DuckDB left because of them."""
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


def _chosen(column: pa.Array, table: Table, position: int, row: int) -> pa.Array:
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
    """The values as float64; null where they are no numbers."""
    column = _stripped(column)
    try:
        return column.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
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
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.utf8_trim_whitespace(column)
    return column


def _first_bad(column: pa.Array, kind: pa.DataType) -> tuple[Any, int]:
    for k, value in enumerate(column):
        try:
            value.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return value.as_py(), k + 1
    return column[0].as_py(), 1


def _none_left(min_rating: float) -> str:
    return f"no row has a rating of at least {min_rating:g} ({argument('min_rating')}): nothing is left"
