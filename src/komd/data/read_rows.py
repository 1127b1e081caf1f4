"""The rows of any source, with their ids numbered: what `read` and `read_pairs` make their results of."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.columns import ColumnPositions, ColumnRequest, Reading
from komd.data.databases import duckdb_connection, is_connection, is_database, opened_query, single_table
from komd.data.encode import Encoder
from komd.data.ids import Ids
from komd.data.interactions import ACCEPTED
from komd.data.keys import is_text, show
from komd.data.ratings import RatingRule, UnusedRatings
from komd.data.repeated_pairs import decided_by_last
from komd.data.row_batches import RowBatch, RowChecks, row_batches
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
from komd.data.times import TimeReader
from komd.errors import InputError, WordedWarning, argument
from komd.progress import progress

__all__ = ["ReadRows", "RowRequest", "read_rows"]

_AHEAD = 16  # batches of ids that may wait to be numbered
_QUOTED_INSIDE = r'^(".*"".*"|\'.*\'\'.*\')$'  # a field that was quoted because of a quote inside


class RowRequest(NamedTuple):
    """What is wanted of a source: its columns, and what their values mean."""

    columns: ColumnRequest
    ratings: RatingRule = RatingRule()
    time_unit: str | None = None
    last_decides: bool = False  # whether a repeated pair is what the last of its rows is rated
    note_unused: bool = False  # whether to tell of ratings that are not used
    every_id: bool = False  # whether ids of rows that are not part of a history count too


class ReadRows(NamedTuple):
    """What was read, row by row in its order: row k is the pair (users[user_numbers[k]], items[item_numbers[k]])."""

    users: Ids
    items: Ids
    user_numbers: NDArray[np.int32]
    item_numbers: NDArray[np.int32]
    times: NDArray[np.int64] | None
    time_unit: str | None
    weights: NDArray[np.float64] | None
    reading: Reading
    text: bool  # whether ids were read from text, where digits may stand for integers
    chosen: (
        NDArray[np.bool_] | None
    )  # which rows are part of a history, by their ratings; ids are theirs, others are -1
    disliked: NDArray[np.bool_] | None  # which rows are dislikes
    remarks: tuple[WordedWarning, ...]  # what the caller should know


def read_rows(
    source: Any,
    request: RowRequest,
    header: bool | None,
    separator: str | None,
    database: Any,
    allowed: int,
) -> ReadRows:
    """The rows of a source that is neither `Interactions` nor a matrix; for the parameters see `read`."""
    columns = request.columns
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
        return _collect(tables, request)


def _is_pair(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


class _Numbered:
    """Gathers batches: ids are numbered by one thread for users and one for items; the rest is kept as it comes."""

    def __init__(self, user_thread: ThreadPoolExecutor, item_thread: ThreadPoolExecutor) -> None:
        self.users, self.items = Encoder("user"), Encoder("item")
        self._threads = user_thread, item_thread
        self._waiting: deque[Future[None]] = deque()
        self._columns: dict[str, list[NDArray[Any]]] = {name: [] for name in ("times", "weights", "chosen", "disliked")}
        self.chosen = 0  # rows that are part of a history

    def add(self, batch: RowBatch, table: SourceTable, choice: ColumnPositions) -> None:
        """Take the rows of a batch."""
        self.chosen += int(batch.chosen.sum())
        for encoder, thread, ids, position in zip(
            (self.users, self.items), self._threads, batch[:2], (choice.user, choice.item), strict=True
        ):
            self._waiting.append(thread.submit(encoder.add, ids, text=table.text, uuids=position in table.uuids))
        for name, parts in self._columns.items():
            if getattr(batch, name) is not None:
                parts.append(getattr(batch, name))
        self.wait(2 * _AHEAD)

    def wait(self, most: int = 0) -> None:
        """Wait until at most so many batches are still to be numbered."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    def parts(self, name: str) -> list[NDArray[Any]]:
        """What was read of a column, batch by batch; they are forgotten here."""
        return self._columns.pop(name)

    def whole(self, name: str) -> NDArray[Any] | None:
        """What was read of a column; None if it was not."""
        parts = self.parts(name)
        return np.concatenate(parts) if parts else None

    def finish(self, among: NDArray[np.bool_] | None) -> tuple[Ids, NDArray[np.int32], Ids, NDArray[np.int32]]:
        """Ids and numbers, of users and of items."""
        last = self._threads[1].submit(self.items.finish, among)
        return *self.users.finish(among), *last.result()


def _collect(tables: list[SourceTable], request: RowRequest) -> ReadRows:
    """Number the ids of all tables."""
    columns, rule = request.columns, request.ratings
    checks = RowChecks(rule, TimeReader(request.time_unit), UnusedRatings() if request.note_unused else None)
    choices = [(table, columns.choose(table.columns, table.name, named=table.named)) for table in tables]
    readings = [Reading.of(table.columns, choice, rated=columns.uses_ratings) for table, choice in choices]
    name = tables[0].name + (f" and {len(tables) - 1:,} more" if len(tables) > 1 else "")
    zeros = 0
    with (
        ThreadPoolExecutor(1) as user_thread,
        ThreadPoolExecutor(1) as item_thread,
        progress("reading", sum(table.rows for table in tables)) as advance,
    ):
        numbered = _Numbered(user_thread, item_thread)
        for table, choice in choices:
            seen = 0
            for batch in row_batches(table, choice, checks):
                seen += 1
                zeros += batch.zeros
                if len(batch.users):
                    numbered.add(batch, table, choice)
                    advance(len(batch.users))
            if seen == 0:
                raise InputError(f"{table.name} has {'a header but ' if table.text and table.named else ''}no rows")
        numbered.wait()
        if numbered.chosen == 0 and not request.every_id:
            raise InputError(rule.none_left)
        remarks: list[WordedWarning | None] = [None if checks.unused is None else checks.unused.remark()]
        times, unit = None, None
        if columns.time is not None:
            times, unit, remark = checks.times.finish(numbered.parts("times"), name)
            remarks.append(remark)
        chosen = numbered.whole("chosen") if rule.name else None
        disliked = numbered.whole("disliked")
        if chosen is not None and request.last_decides:
            codes = numbered.users.codes, numbered.items.codes
            both = (chosen,) if disliked is None else (chosen, disliked)
            chosen, *rest = decided_by_last(*codes, times, *both)
            disliked = rest[0] if rest else None
            if not chosen.any() and not request.every_id:
                raise InputError(rule.none_left)
        user_ids, user_numbers, item_ids, item_numbers = numbered.finish(None if request.every_id else chosen)
    found = ReadRows(
        users=user_ids,
        items=item_ids,
        user_numbers=user_numbers,
        item_numbers=item_numbers,
        times=times,
        time_unit=unit,
        weights=numbered.whole("weights"),
        reading=Reading.together(readings, zeros),
        text=any(table.text for table in tables),
        chosen=chosen,
        disliked=disliked,
        remarks=tuple(remark for remark in remarks if remark is not None),
    )
    for table, choice in choices:
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
