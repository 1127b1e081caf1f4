"""From files, SQL, frames and matrices to `Interactions`."""

from __future__ import annotations

import warnings
from typing import Any

import scipy.sparse as sparse

from komd.checks import one_of
from komd.data.columns import Column, ColumnRequest
from komd.data.interactions import Interactions
from komd.data.ratings import RatingRule
from komd.data.read_rows import RowRequest, read_rows
from komd.data.repeated_pairs import REPEATED
from komd.data.scipy_matrix import from_matrix
from komd.errors import InputError, argument
from komd.memory import budget

__all__ = ["read"]


def read(
    source: Any,
    *,
    user: Column = None,
    item: Column = None,
    rating: Column = None,
    time: Column = None,
    weight: Column | bool = None,
    liked: float | None = None,
    disliked: float | None = None,
    min_rating: float | None = None,
    repeated: str = "sum",
    time_unit: str | None = None,
    header: bool | None = None,
    separator: str | None = None,
    database: Any = None,
    memory: str | int | None = None,
    every_id: bool = False,
) -> Interactions:
    """Read who chose what, and where asked for, how much, when, and what was disliked; a repeated pair is one.

    Parameters
    ----------
    source : path, pattern, list of paths, SQL, frame, pairs, or scipy sparse matrix
        Text files (separated by comma, tab, space, `::`, `;` or `|`, plain or gzipped, UTF-8), Parquet files
        and databases of one table are told apart by their content. With `database=`, SQL. A frame is anything
        with an Arrow stream (pandas, polars, pyarrow, duckdb) or a polars LazyFrame. Pairs are a list of tuples
        `(user, item)` or a numpy array of two columns; with more columns, say what those are.
    user, item : str or int, optional
        Columns by name or by position from 0. By default those with a recognised name (`user_id`,
        `userId`, `customer`; `item_id`, `movie`, `song`, …). Where no name tells, columns are
        taken in order if exactly as many are left as are needed, or if the source has no names.
    rating : str or int, optional
        The column of ratings, play counts or the like: by default one with a recognised name, or else (with
        `liked` or `disliked`, or without names in a table of up to four columns) the third.
    time : str or int, optional
        The column of times: numbers, dates or timestamps. Without it the order of rows is all that is known.
    weight : str, int or bool, optional
        The column of weights: how much each row counts (plays, say); finite numbers > 0. A model's `weighting`
        says what it makes of them. Without it every pair counts 1, and where a column of ratings or counts is not used,
        an `UnusedColumnWarning` says so; `weight=False` says that this is meant. The values of a matrix are
        weights with `weight=True`.
    liked : float, optional
        Keep only rows whose rating is at least this; a missing rating is not. The other pairs of the users and
        items that are left are kept apart (`Interactions.seen`): nothing is learned from them, and they are not
        recommended. Without `liked` and `disliked` every row counts as chosen, except that a rating of 0 says
        "not chosen": such rows are left out, and a negative rating is refused. The same holds for the entries of
        a matrix.
    disliked : float, optional
        Rows whose rating is at most this are dislikes (`Interactions.dislikes`), if their user and item are among
        those of the histories. With `liked` it must be less, and ratings in between are only seen; without, all other
        rows are the histories, also those without a rating. A pair that is rated several times is liked before
        disliked before seen, except with `repeated="last"`: then the last of its ratings counts.
    min_rating : float, optional
        The same as `liked`.
    repeated : {"sum", "max", "last", "count"}
        The weight of a pair that is repeated: the sum of its weights, the largest, that of the last row, or the
        number of rows ("count", which needs no column of weights). The last row is the latest (of equal times the
        later row), or without times the last read. The time of a repeated pair is the earliest, with "last" the last.
    time_unit : {"ns", "us", "ms", "s", "min", "h", "d"}, optional
        What the numbers of `time` count since 1970. By default the unit is s, ms, us or ns if every time is a
        moment from 1990 to 2100 in it; if there is no such unit, times have an order and no more. Whole numbers
        stay as they are; numbers with a fraction become microseconds. Dates and timestamps need no unit: they become
        microseconds, and are UTC unless they say otherwise. Times in the future are kept, with a `TimeWarning`.
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
    every_id : bool
        With `liked` or `disliked`: keep users and items also if no row of theirs is part of a history. For
        `model.update`, which knows the histories of before; a model is not fitted to such users and items.

    Returns
    -------
    Interactions
        Ids from text files are integers when every one of them is written like an int64 ("7", not "007"),
        and text otherwise. Ids of other sources keep their type. Its repr names the columns that were read and
        those that were not used.

    Raises
    ------
    InputError
        If the source cannot be read, its columns cannot be told apart, ids are missing, or weights, ratings or times
        cannot be used. The message names the file, the column and the first row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> users, songs = ["ana", "bo", "ana", "bo"], ["i7", "i7", "i42", "i7"]
    >>> data = read(pa.table({"user_id": users, "song": songs, "plays": [2, 1, 9, 3]}), weight="plays")
    >>> data
    Interactions(2 users × 2 items, 3 pairs, 75 % full, with weights; user=user_id, item=song, weight=plays)
    >>> data.history("ana"), data.weights
    (['i7', 'i42'], array([2., 9., 4.], dtype=float32))
    """
    rule = RatingRule.of(liked, disliked, min_rating)
    one_of("repeated", repeated, REPEATED)
    allowed = budget(memory)
    if isinstance(source, Interactions):
        return source
    if sparse.issparse(source):
        if isinstance(weight, str) or (weight is not None and not isinstance(weight, bool)):
            raise InputError(f"a matrix has no columns: {argument('weight', True)} takes its values, got {weight!r}")
        data = from_matrix(source, rule, weighted=weight is True, repeated=repeated)
        if data.pairs == 0:
            raise InputError(rule.none_left if rule.name else "the matrix has no entry to read")
        return data
    if weight is True:
        raise InputError(f"{argument('weight', True)} is for matrices: say which column with {argument('weight')}")
    if time_unit is not None and time is None:
        raise InputError(f"{argument('time_unit')} needs {argument('time')}, the column of times")
    column = None if weight is False else weight
    columns = ColumnRequest(user, item, rating, time, rated=rule.name, weight=column)
    note = weight is None and not columns.uses_ratings
    request = RowRequest(columns, rule, time_unit, last_decides=repeated == "last", note_unused=note, every_id=every_id)
    rows = read_rows(source, request, header, separator, database, allowed)
    for remark in rows.remarks:
        warnings.warn(remark, stacklevel=2)
    data = Interactions.from_numbers(
        rows.users,
        rows.items,
        rows.user_numbers,
        rows.item_numbers,
        rows.times,
        rows.chosen,
        weights=rows.weights,
        repeated=repeated,
        time_unit=rows.time_unit,
        disliked=rows.disliked,
    )
    return data.with_reading(rows.reading)
