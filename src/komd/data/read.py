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
    """Read interactions of users with items, optionally with weights, times, ratings and dislikes.

    A pair of user and item that is repeated becomes one pair; `repeated` says what its weight is.

    Parameters
    ----------
    source : path, pattern, list of paths, SQL, frame, pairs, or scipy sparse matrix
        Files may be text (columns separated by comma, tab, space, `::`, `;` or `|`; plain or gzipped; UTF-8), Parquet,
        or a database of one table; the content decides which. With `database`, `source` is SQL. A frame is anything
        with an Arrow stream (pandas, polars, pyarrow, duckdb) or a polars LazyFrame. Pairs are a list of tuples
        `(user, item)` or a numpy array of two columns; if there are more columns, name them by position.
    user, item : str or int, optional
        Columns by name or by position from 0. By default those with a recognised name (`user_id`, `userId`,
        `customer`; `item_id`, `movie`, `song`, …). If no name is recognised, columns are taken in order, provided that
        exactly as many are left as are needed, or that the source has no column names.
    rating : str or int, optional
        Column of ratings, play counts or the like. By default one with a recognised name; otherwise the third column,
        if `liked` or `disliked` is given, or if the source has up to four columns without names.
    time : str or int, optional
        Column of times: numbers, dates or timestamps. Without it, only the order of rows is known.
    weight : str, int or bool, optional
        Column of weights, such as play counts: finite numbers > 0. A model transforms them as its `weighting` says.
        Without it, every pair counts 1, and an `UnusedColumnWarning` is issued if a column of ratings or counts is not
        used; `weight=False` says that this is intended. For a scipy matrix, `weight=True` makes its values weights.
    liked : float, optional
        Only rows rated at least this become part of the histories; rows without a rating do not. The other pairs of
        the users and items in the histories become `Interactions.seen`: nothing is learned from them, and they are not
        recommended. Without `liked` and `disliked`, all rows are part of the histories, except those with a rating of
        0 ("not chosen"), which are left out; a negative rating is an error. The same holds for the entries of a matrix.
    disliked : float, optional
        Rows rated at most this are dislikes (`Interactions.dislikes`), if their user and item are in the histories.
        With `liked`, it must be less than `liked`, and pairs rated in between count as seen. Without `liked`, all other
        rows are the histories, also those without a rating. If a pair is rated several times, liked takes precedence
        over disliked, and disliked over seen; with `repeated="last"`, its last rating counts.
    min_rating : float, optional
        The same as `liked`.
    repeated : {"sum", "max", "last", "count"}
        Weight of a repeated pair: the sum of its weights, the largest, that of the last row, or the number of rows
        ("count", which needs no column of weights). The last row is the one with the latest time (of equal times, the
        later row); without times, the last one read. The time of a repeated pair is its earliest time; with "last", its
        latest.
    time_unit : {"ns", "us", "ms", "s", "min", "h", "d"}, optional
        Unit of the numbers in `time`, counted from 1970. By default s, ms, us or ns, if all times then lie between 1990
        and 2100; if no unit fits, only the order of times is used. Integers are kept as they are; numbers with a
        fraction become microseconds. Dates and timestamps need no unit: they become microseconds, in UTC unless they
        have a time zone. Times in the future are kept, with a `TimeWarning`.
    header : bool, optional
        Whether text files begin with the names of their columns. By default this is detected from the first lines
        (`komd.data.text_layout` has the rules).
    separator : str, optional
        Separator of the columns of text files; by default detected from the first lines. Blanks around a field are
        removed.
    database : path or connection, optional
        The database that `source`, an SQL query, is run on: a DuckDB or SQLite file, an open connection (duckdb,
        sqlite3, any other DB-API connection, or a connection or engine of SQLAlchemy), ":memory:" (for queries over
        files), or anything else that DuckDB can attach. Files are opened read-only.
    memory : str or int, optional
        Memory that DuckDB may use, such as "4GB"; 60 % of the free memory by default.
    every_id : bool
        With `liked` or `disliked`: also keep users and items that no history contains. Needed for `model.update`, if
        such users and items are in the fitted model; not for `fit`.

    Returns
    -------
    Interactions
        Ids from text files are integers if all of them are written like an int64 ("7", not "007"), and text otherwise.
        Ids from other sources keep their type. The repr names the columns that were read and those that were not used.

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
