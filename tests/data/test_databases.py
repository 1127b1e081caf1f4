"""SQL as a source: SQLite and DuckDB files, and connections that the caller has opened."""

from __future__ import annotations

import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlalchemy
import sqlalchemy.orm

import komd
from komd.data.read import read
from komd.errors import InputError

PAIRS = [("ana", "i1"), ("bo", "i2"), ("ana", "i2")]
QUERY = "SELECT user, item FROM plays"


def pairs_of(data):
    return [(row["user_id"], row["item_id"]) for row in data.to_arrow().to_pylist()]


def sqlite_file(path, rows=PAIRS):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE plays (user, item, plays)")
    connection.executemany("INSERT INTO plays VALUES (?, ?, 1)", rows)
    connection.commit()
    return connection


def test_sqlite_files_and_connections(tmp_path):
    path = tmp_path / "o'hara's plays?.sqlite"
    connection = sqlite_file(path)
    for database in (path, str(path), connection, f"sqlite:///{path}", f"sqlite:{path}"):
        assert pairs_of(read(QUERY, database=database)) == sorted(PAIRS)
    assert pairs_of(read(path)) == sorted(PAIRS)  # one table: no SQL is needed
    assert repr(read(str(path))).endswith("; user=user, item=item; not used: plays)")
    assert sorted(pairs_of(read([path, path]))) == sorted(PAIRS)
    for factory in (sqlite3.Row, lambda cursor, row: {c[0]: v for c, v in zip(cursor.description, row, strict=True)}):
        connection.row_factory = factory
        assert pairs_of(read(QUERY, database=connection)) == sorted(PAIRS)
    connection.execute("SELECT 1").fetchone()  # still open
    engine = sqlalchemy.create_engine("sqlite://", creator=lambda: sqlite3.connect(path))
    assert pairs_of(read(QUERY, database=engine)) == sorted(PAIRS)
    with engine.connect() as open_connection, sqlalchemy.orm.Session(engine) as session:
        assert pairs_of(read(QUERY, database=open_connection)) == sorted(PAIRS)
        assert pairs_of(read(QUERY, database=session)) == sorted(PAIRS)
        assert not open_connection.closed
    assert repr(komd.Popularity().fit(path)) == "Popularity()"


def test_many_rows_and_mixed_kinds_from_sqlite(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(f"u{u}", int(i)) for u, i in rng.integers(0, 2000, (150_000, 2))]
    connection = sqlite_file(tmp_path / "many.db", rows)
    assert read(QUERY, database=connection) == read(pd.DataFrame(rows, columns=["user", "item"]))
    connection.execute("INSERT INTO plays VALUES ('u1', 'x', 1)")
    assert read(QUERY, database=connection).items.word == "text"


def test_a_database_of_one_table_needs_no_sql(tmp_path):
    path = tmp_path / "plays.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE plays AS SELECT 'ana' AS user_name, 'i1' AS item")
    assert read(path, user="user_name").history("ana") == ["i1"]
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE names AS SELECT 1 AS a")
    with pytest.raises(
        InputError,
        match=r"a database with the tables names, plays: say what to read with SQL, as 'SELECT … FROM names' with d",
    ):
        read(path)


def test_databases_that_cannot_be_read(tmp_path):
    path = tmp_path / "plays.sqlite"
    connection = sqlite_file(path)
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    def fails(message, *arguments, **options):
        with pytest.raises(InputError, match=message) as error:
            read(*arguments, **options)
        assert "\n" not in str(error.value)

    for database in (path, connection, engine):
        fails("^the query failed: .*no such table: nowhere", "SELECT * FROM nowhere", database=database)
        fails('^the query failed: .*near "SELEKT": syntax error', "SELEKT 1", database=database)
        fails("the query has one column", "SELECT user FROM plays", database=database)
        fails("the query has no rows", f"{QUERY} WHERE false", database=database)
    fails("attempt to write a readonly database", "INSERT INTO plays VALUES (1, 2, 3)", database=path)
    fails("the query gives no rows to read; it must be a SELECT", "CREATE TABLE b (x)", database=connection)
    fails("a connection needs SQL: ", connection)
    fails("a connection needs SQL: ", engine)
    fails("a connection needs SQL: ", duckdb.connect())
    fails("no such database: .*nowhere.db", QUERY, database="sqlite:nowhere.db")
    path.write_bytes(path.read_bytes()[:5000] + bytes(2000))
    fails("the query failed: |cannot open", QUERY, database=path)
    empty = tmp_path / "empty.db"
    sqlite3.connect(empty).execute("CREATE TABLE t (x)").connection.execute("DROP TABLE t").connection.commit()
    fails("is a database with no tables", empty)
