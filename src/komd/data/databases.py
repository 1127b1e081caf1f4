"""SQL as a source of rows: DuckDB, SQLite files, and connections that the caller has opened.

DuckDB runs queries over files and over its own databases, and attaches what it can. SQLite files are read by
Python's own sqlite3, so that DuckDB need not fetch an extension. Other connections are used as they are, through
DB-API or SQLAlchemy.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from komd.data.tables import BATCH, SourceTable, arrow_array, batch_of, explained, identifier, quoted, relation_table
from komd.errors import InputError, argument

__all__ = ["duckdb_connection", "is_connection", "is_database", "opened_query", "single_table"]

_NO_ROWS = "the query gives no rows to read; it must be a SELECT"


def is_database(path: Path) -> bool:
    """Whether a file is a database of DuckDB or SQLite."""
    return _is_sqlite(path) or _is_duckdb(path)


def is_connection(source: Any) -> bool:
    """Whether this is an open connection of any kind, or a SQLAlchemy engine."""
    return _is_sqlalchemy(source) or callable(getattr(source, "cursor", None))


@contextmanager
def opened_query(query: str, database: Any, *, memory: int | None = None) -> Iterator[SourceTable]:
    """The result of a SELECT. What was opened for it is closed afterwards; the caller's connections stay open."""
    with ExitStack() as stack:
        if _is_sqlalchemy(database):
            yield _sqlalchemy_table(query, database, stack)
        elif (path := _sqlite_path(database)) is not None:
            if not path.exists():
                raise InputError(f"no such database: {path}")
            with explained(f"cannot open database {path}", sqlite3.Error):
                connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
            stack.callback(connection.close)
            yield _cursor_table(query, connection, stack)
        elif callable(getattr(database, "cursor", None)) and type(database).__name__ != "DuckDBPyConnection":
            yield _cursor_table(query, database, stack)
        else:
            connection = duckdb_connection(database, memory=memory)
            if connection is not database:
                stack.callback(connection.close)
            with explained("the query failed"):
                relation = connection.sql(query)
            if relation is None:
                raise InputError(f"{_NO_ROWS}: {query!r}")
            yield relation_table(relation, "the query")


@contextmanager
def single_table(path: Path, *, memory: int | None = None) -> Iterator[SourceTable]:
    """The one table of a database file; where there are several, SQL must say what to read."""
    catalogue = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
        if _is_sqlite(path)
        else "SELECT table_name FROM information_schema.tables WHERE table_catalog = current_database() ORDER BY 1"
    )
    with opened_query(catalogue, path, memory=memory) as names:
        found = [name for batch in names.fetch([0]) for name in batch.column(0).to_pylist()]
    if len(found) != 1:
        holds = f"the tables {', '.join(found)}" if found else "no tables"
        example = f"'SELECT … FROM {found[0] if found else '…'}' with {argument('database', str(path))}"
        raise InputError(f"{path} is a database with {holds}: say what to read with SQL, as {example}")
    with opened_query(f"SELECT * FROM {identifier(found[0])}", path, memory=memory) as table:
        table.name = f"table {found[0]} of {path}"
        yield table


def duckdb_connection(database: Any = None, *, memory: int | None = None) -> Any:
    """A DuckDB connection: the caller's own, or one to a file or other source, opened to read only."""
    import duckdb

    if isinstance(database, duckdb.DuckDBPyConnection):
        return database
    if database is not None and not isinstance(database, str | os.PathLike):
        raise InputError(
            f"database must be a DuckDB or SQLite file, an open connection, a SQLAlchemy engine or ':memory:', "
            f"got {database!r}"
        )
    name = None if database is None or os.fspath(database) == ":memory:" else os.fspath(database)
    if name is not None and not Path(name).exists() and not re.match(r"[A-Za-z]\w+:", name):
        raise InputError(f"no such database: {name}")
    with explained(f"cannot open database {name}"):
        direct = name is not None and _is_duckdb(Path(name))
        connection = duckdb.connect(name, read_only=True) if direct else duckdb.connect()
        with suppress(duckdb.InvalidInputException):  # in Jupyter without ipywidgets it is off and cannot be set
            connection.execute("SET enable_progress_bar = false")
        # SQL must not see our Python variables as tables
        connection.execute("SET python_enable_replacements = false")
        if memory is not None:
            connection.execute(f"SET memory_limit = '{memory}B'")
        if name is not None and not direct:
            connection.execute(f"ATTACH {quoted(name)} AS komd_source (READ_ONLY)")
            connection.execute("USE komd_source")
        return connection


def _cursor_table(query: str, connection: Any, stack: ExitStack) -> SourceTable:
    """The rows that a DB-API connection returns."""
    with explained("the query failed", Exception):  # each driver has errors of its own
        cursor = connection.cursor()
        stack.callback(cursor.close)
        if isinstance(cursor, sqlite3.Cursor):
            cursor.row_factory = None  # the connection may make dictionaries, which lose columns of one name
        cursor.execute(query)
        columns = [str(column[0]) for column in cursor.description or ()]
    return _rows_table(query, columns, cursor)


def _sqlalchemy_table(query: str, source: Any, stack: ExitStack) -> SourceTable:
    """The rows that a SQLAlchemy engine, connection or session returns."""
    with explained("the query failed", Exception):
        if hasattr(source, "exec_driver_sql"):
            connection = source
        else:  # a session has a connection, an engine makes one
            connection = source.connection() if hasattr(source, "connection") else stack.enter_context(source.connect())
        result = connection.exec_driver_sql(query)
        stack.callback(result.close)
        columns = list(map(str, result.keys())) if result.returns_rows else []
    return _rows_table(query, columns, result)


def _rows_table(query: str, columns: list[str], cursor: Any) -> SourceTable:
    if not columns:
        raise InputError(f"{_NO_ROWS}: {query!r}")

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        while True:
            with explained("the query failed", Exception):
                rows = cursor.fetchmany(BATCH)
            if not rows:
                return
            values = [tuple(row.values()) if isinstance(row, Mapping) else row for row in rows]
            yield batch_of([arrow_array([row[p] for row in values], "the query") for p in positions])

    return SourceTable("the query", columns, fetch)


def _sqlite_path(database: Any) -> Path | None:
    """The SQLite file that is meant: one that begins as such, or "sqlite:plays.db", or a URL "sqlite:///plays.db"."""
    if not isinstance(database, str | os.PathLike):
        return None
    name = os.fspath(database)
    if isinstance(name, str) and name.startswith("sqlite:"):
        return Path(re.sub(r"^sqlite:(///)?", "", name))
    return Path(name) if _is_sqlite(Path(name)) else None


def _is_sqlalchemy(source: Any) -> bool:
    return any(kind.__module__.startswith("sqlalchemy.") for kind in type(source).__mro__)


def _is_sqlite(path: Path) -> bool:
    return _start(path) == b"SQLite format 3\0"


def _is_duckdb(path: Path) -> bool:
    return _start(path)[8:12] == b"DUCK"


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except (OSError, ValueError):
        return b""
