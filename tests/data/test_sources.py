"""Sources besides files and frames: lists and arrays of pairs, lazy frames, databases that others opened."""

from __future__ import annotations

import datetime
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy
import sqlalchemy.orm

import komd
from komd.data.interactions import Interactions
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


@pytest.mark.parametrize(
    "source",
    [
        PAIRS,
        tuple(PAIRS),
        [list(pair) for pair in PAIRS],
        np.array(PAIRS),
        np.array(PAIRS, dtype=object),
        list(np.array(PAIRS)),
        np.array(PAIRS, dtype=[("user", "U9"), ("item", "U9")]),
        pl.LazyFrame(PAIRS, schema=["user", "item"], orient="row").with_columns(plays=pl.lit(3)),
    ],
    ids=lambda source: type(source).__name__,
)
def test_pairs_in_memory(source):
    assert sorted(pairs_of(read(source))) == sorted(PAIRS)
    assert Interactions.of(source) == read(source)


def test_numbers_in_pairs_stay_numbers():
    assert read(np.array([[3, 5], [1, 5]])).history(3) == [5]
    assert read(np.array([[3.0, 5.0]])).history(3) == [5]
    assert read([(3, "x")]).history(3) == ["x"]
    assert read([(3, "x"), ("4", "x")]).users.word == "text"
    assert read([("ana", "x", 7), ("ana", "y", 3)], user=0, item=1, time=2).times.tolist() == [7, 3]
    assert read([("ana", "x", 2), ("ana", "y", 3)], user=0, item=1, rating=2, min_rating=3).pairs == 1
    day = datetime.date(2020, 1, 1)
    assert read([("ana", day)]).history("ana") == [day]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([("ana", "i1"), ("bo",)], r"the same length: the first is \('ana', 'i1'\), row 2 is \('bo',\)"),
        ([("ana", "i1"), "bo"], "row 2 is 'bo'"),
        ([("ana", "i1", 5)], "the list of pairs has 3 columns, and pairs have two: choose with user=0, item=1"),
        ([("ana",)], "the list of pairs has 1 columns"),
        ([()], "the list of pairs has 0 columns"),
        ([("ana", None)], "1 missing item ids"),
        ([("ana", 1), ("bo", b"x")], "a column of bytes and int: one kind of ids is needed"),
        ([("ana", {"i1": 1})], "item ids cannot be of type struct"),
        ([("ana", object())], "the list of pairs"),
        (("ana", "i1"), r"no such files: ana, i1 \(for one pair, give \[\('ana', 'i1'\)\]\)"),
        (np.eye(4), "the numpy array has 4 columns, and pairs have two: .*csr_array"),
        (np.zeros((0, 2)), "the numpy array has no rows"),
        (np.arange(4), r"two dimensions, got shape \(4,\)"),
        (np.array([[1 + 2j, 3]]), "the numpy array cannot be read"),
        (np.array([[True, False]]), "user ids cannot be of type bool"),
        (np.array([[1, np.nan]]), "1 missing item ids"),
        (pl.scan_csv("nowhere.csv"), "the polars LazyFrame cannot be computed: .*nowhere.csv"),
        (pl.LazyFrame({"a": [1], "b": [2]}).select(pl.col("c")), "the polars LazyFrame cannot be computed"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_pairs_that_cannot_be_read(source, message):
    with pytest.raises(InputError, match=message) as error:
        read(source)
    assert "\n" not in str(error.value)


def test_lazy_frames_compute_only_what_is_read():
    frame = pl.LazyFrame({"user": ["ana"], "item": ["i1"], "x": ["no number"]})
    assert pairs_of(read(frame.with_columns(pl.col("x").cast(pl.Int64)))) == [("ana", "i1")]


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


def test_columns_of_one_name():
    frame = pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])
    with pytest.raises(InputError, match=r"^the pandas DataFrame has several columns named 'item'; rename or drop"):
        read(frame)
    table = pa.table([[1], [2], [3]], names=["user", "item", "item"])
    with pytest.raises(InputError, match=r"the pyarrow Table has several columns of item ids: item, item \(choose"):
        read(table)
    with pytest.raises(InputError, match="has 2 columns named 'item'; choose one by position, as item=1"):
        read(table, item="item")
    assert read(table, item=2).history(1) == [3]


def test_runs_of_arrow():
    users = pa.RunEndEncodedArray.from_arrays([2, 3], ["ana", "bo"])
    items = pa.RunEndEncodedArray.from_arrays([1, 3], pa.array(["i1", "i2"]).dictionary_encode())
    table = pa.table({"user": users, "item": items})
    assert pairs_of(read(table)) == [("ana", "i1"), ("ana", "i2"), ("bo", "i2")]
    assert pairs_of(read(table.slice(1))) == [("ana", "i2"), ("bo", "i2")]


def test_models_take_what_read_takes(tmp_path):
    path = tmp_path / "plays.csv"
    path.write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in PAIRS))
    for source in (path, str(path), [path], PAIRS, np.array(PAIRS)):
        assert komd.Popularity().fit(source).recommend(["bo"]).to_arrow()["item_id"].to_pylist() == ["i1"]
    with pytest.raises(InputError, match="no such file: nowhere"):
        komd.Popularity().fit("nowhere.csv")


@pytest.mark.parametrize("histories", [{"x": {"i1": 5}}, [{"i1": 5}]])
def test_values_in_histories_are_refused(histories):
    model = komd.Popularity().fit(PAIRS)
    with pytest.raises(InputError, match=r"a history is a list of item ids, got dict {'i1': 5}: values .* not used"):
        model.recommend(histories=histories)
