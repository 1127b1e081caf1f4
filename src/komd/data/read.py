"""From files, SQL, frames and matrices to `Interactions`."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sparse
from numpy.typing import NDArray

from komd.data.columns import Column, ColumnPositions, ColumnRequest, Reading
from komd.data.databases import duckdb_connection, is_connection, is_database, opened_query, single_table
from komd.data.encode import Encoder
from komd.data.ids import Ids
from komd.data.interactions import ACCEPTED, Interactions, from_matrix
from komd.data.keys import is_text, show
from komd.data.row_batches import row_batches
from komd.data.tables import (
    SourceTable,
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

__all__ = ["ReadRows", "read", "read_rows"]

_AHEAD = 16  # batches of ids that may wait to be numbered
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
        `userId`, `customer`; `item_id`, `movie`, `song`, …). Where no name tells, columns are
        taken in order if exactly as many are left as are needed, or if the source has no names.
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
        (`komd.data.text_layout` has the rules).
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
        and text otherwise. Ids of other sources keep their type. Its repr names the columns that were read and
        those that were not used.

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
    columns = ColumnRequest(user, item, rating, time, rated=min_rating is not None)
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
    return data.with_reading(rows.reading)


class ReadRows(NamedTuple):
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
    columns: ColumnRequest,
    min_rating: float | None,
    header: bool | None,
    separator: str | None,
    database: Any,
    allowed: int,
) -> ReadRows:
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
                stack.enter_context(single_table(path, memory=allowed))
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


def _collect(tables: list[SourceTable], columns: ColumnRequest, min_rating: float | None) -> ReadRows:
    """Number the ids of all tables, one thread for users and one for items."""
    users, items = Encoder("user"), Encoder("item")
    times: list[NDArray[np.int64]] = []
    marks: list[NDArray[np.bool_]] = []  # which rows are rated high enough
    chosen = [(table, columns.choose(table.columns, table.name, named=table.named)) for table in tables]
    readings = [Reading.of(table.columns, choice, rated=columns.uses_ratings) for table, choice in chosen]
    rows = zeros = 0
    with (
        ThreadPoolExecutor(1) as user_thread,
        ThreadPoolExecutor(1) as item_thread,
        progress("reading", sum(table.rows for table in tables)) as advance,
    ):
        waiting: deque[Future[None]] = deque()
        for table, choice in chosen:
            seen = 0
            user_uuids, item_uuids = choice.user in table.uuids, choice.item in table.uuids
            for batch in row_batches(table, choice, min_rating):
                seen += 1
                zeros += batch.zeros
                if len(batch.users) == 0:
                    continue
                rows += int(batch.chosen.sum())
                marks.append(batch.chosen)
                waiting.append(user_thread.submit(users.add, batch.users, text=table.text, uuids=user_uuids))
                waiting.append(item_thread.submit(items.add, batch.items, text=table.text, uuids=item_uuids))
                if batch.times is not None:
                    times.append(batch.times)
                while len(waiting) > 2 * _AHEAD:
                    waiting.popleft().result()
                advance(len(batch.users))
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
    found = ReadRows(user_ids, item_ids, user_numbers, item_numbers, moments, reading, text, kept)
    for table, choice in chosen:
        if table.text:
            _refuse_misread(found, table, choice)
    return found


def _refuse_misread(rows: ReadRows, table: SourceTable, choice: ColumnPositions) -> None:
    """Refuse ids which show that a text file was misread: it is not what its first lines suggest."""
    user, item = table.columns[choice.user], table.columns[choice.item]
    if table.named and user in rows.users and item in rows.items:
        again = (rows.user_numbers == rows.users.number(user)) & (rows.item_numbers == rows.items.number(item))
        if again.any():
            raise InputError(f"{table.name} has its header again further down, as a row: remove it")
    for ids in (rows.users, rows.items):
        if not is_text(ids.type):
            continue
        wrong, why = pc.match_substring(ids.values, "\0"), "it holds zero bytes"
        if not table.quote and not pc.any(wrong).as_py():
            wrong = pc.match_substring_regex(ids.values, _QUOTED_INSIDE)
            why = "its first lines have no quotes like these"
        if pc.any(wrong).as_py():
            value = ids.values.filter(wrong)[0].as_py()
            raise InputError(f"{table.name} has the {ids.noun} id {show(value)}: {why}")


def _none_left(min_rating: float) -> str:
    return f"no row has a rating of at least {min_rating:g} ({argument('min_rating')}): nothing is left"
