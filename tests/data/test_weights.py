"""Weights: a column of any source, checked; and what becomes of repeated pairs."""

from __future__ import annotations

import re
import sqlite3
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.data.align import align
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.data.read import read
from komd.errors import InputError, UnusedColumnWarning
from tests.reference import merge_repeated

ROWS = [("ana", "x", 2.0), ("bo", "x", 1.0), ("ana", "y", 9.5), ("bo", "x", 3.0)]
WEIGHTS = {("ana", "x"): 2.0, ("ana", "y"): 9.5, ("bo", "x"): 4.0}


def weights(data):
    return {(row["user_id"], row["item_id"]): row["weight"] for row in data.to_arrow().to_pylist()}


def sources(rows, folder):
    """The same rows as everything that `read` takes, with the arguments that name the columns."""
    frame = pd.DataFrame(rows, columns=["user", "song", "plays"])
    frame.to_csv(folder / "plays.csv", index=False)
    (folder / "bare.tsv").write_text("".join(f"{u}\t{i}\t{'' if w is None else w}\n" for u, i, w in rows))
    pq.write_table(pa.Table.from_pandas(frame), folder / "plays.parquet")
    (folder / "plays.db").unlink(missing_ok=True)
    with sqlite3.connect(folder / "plays.db") as connection:
        connection.execute("CREATE TABLE plays (user, song, plays)")
        connection.executemany("INSERT INTO plays VALUES (?, ?, ?)", rows)
    connection.close()
    parquet = f"SELECT * FROM '{folder / 'plays.parquet'}'"
    return {
        "csv": (folder / "plays.csv", {"weight": "plays"}),
        "text without names": (folder / "bare.tsv", {"weight": 2, "header": False}),
        "parquet": (folder / "plays.parquet", {"weight": "plays"}),
        "pandas": (frame, {"weight": "plays"}),
        "pyarrow": (pa.Table.from_pandas(frame), {"weight": 2}),
        "polars": (
            pl.DataFrame(rows, schema=["user", "song", "plays"], orient="row", strict=False),
            {"weight": "plays"},
        ),
        "duckdb": (parquet, {"weight": "plays", "database": ":memory:"}),
        "sqlite": ("SELECT * FROM plays", {"weight": "plays", "database": folder / "plays.db"}),
        "tuples": (rows, {"weight": 2}),
        "tuples, all said": (rows, {"user": 0, "item": 1, "weight": 2}),
    }


def test_every_source(tmp_path):
    for name, (source, how) in sources(ROWS, tmp_path).items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data = read(source, **how)
        assert weights(data) == WEIGHTS, name
        assert data.weights.dtype == np.float32
    array = np.array([[1, 7, 3], [1, 8, 1], [2, 7, 5]])
    assert read(array, weight=2).weights.tolist() == [3, 1, 5]
    assert "weight=plays" in repr(read(tmp_path / "plays.csv", weight="plays"))


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        (
            0,
            r"the weight '?0(\.0)?'? in row 3 of '[^']+': weights must be .* > 0; leave such rows out \(as rating=",
        ),
        (
            -1,
            r"the weight '?-1(\.0)?'? in row 3 of '[^']+': weights must be .* > 0; leave such rows out, or choose",
        ),
        (float("inf"), r"the weight '?inf'? in row 3"),
        (1e39, r"the weight '?1e\+39'? in row 3 of '[^']+': .*single precision"),
        (1e-60, r"the weight '?1e-60'? in row 3 of '[^']+': .*single precision"),
        (None, "has no weight in row 3 of '[^']+': .* or read without weight="),
    ],
)
def test_what_is_no_weight(bad, shown, tmp_path):
    for name, (source, how) in sources([*ROWS[:2], ("ana", "y", bad), ROWS[3]], tmp_path).items():
        with pytest.raises(InputError) as error:
            read(source, **how)
        assert re.search(shown, str(error.value)), (name, str(error.value))
        assert "\n" not in str(error.value)


def test_text_and_nan_are_no_weights(tmp_path):
    file = tmp_path / "plays.csv"
    for word in ("many", "nan", "inf", "1,5", "0x3"):
        file.write_text(f'user,song,plays\na,x,2\nb,x,"{word}"\n')
        with pytest.raises(InputError, match=f"has the weight '{word}' in row 2 of 'plays': weights must be finite"):
            read(file, weight="plays")
    table = pa.table({"user": [1, 2], "song": [1, 1], "plays": [1.0, float("nan")]})
    with pytest.raises(InputError, match="has the weight nan in row 2 of 'plays'"):
        read(table, weight="plays")
    with pytest.raises(InputError, match="has the weight 'lots' in row 2"):
        read([("a", "x", "3"), ("b", "x", "lots")], weight=2)
    days = pa.table({"user": [1, 2], "song": [1, 1], "plays": pa.array([1, 2], pa.date32())})
    with pytest.raises(InputError, match=r"has the weight datetime.date\(1970, 1, 2\) in row 1"):
        read(days, weight="plays")


def test_rows_count_from_the_beginning_of_the_file(tmp_path):
    many = pa.table(
        {"u": np.arange(200_000), "i": np.arange(200_000), "w": np.where(np.arange(200_000) == 150_000, 0, 1)}
    )
    with pytest.raises(InputError, match="has the weight 0 in row 150,001 of 'w'"):
        read(many, user="u", item="i", weight="w")


def test_columns_that_are_not_there():
    frame = pd.DataFrame({"user": [1], "song": [2], "plays": [3]})
    with pytest.raises(InputError, match=r"column 'play' not found in .* it has: user, song, plays"):
        read(frame, weight="play")
    with pytest.raises(InputError, match="weight=True is for matrices: say which column with weight="):
        read(frame, weight=True)
    with pytest.raises(InputError, match="repeated must be 'sum' or 'max' or 'last' or 'count', got 'mean'"):
        read(frame, weight="plays", repeated="mean")
    with pytest.raises(InputError, match="has 4 columns, and pairs have two"):
        read([(1, 2, 3, 4)], weight=2)


def test_a_column_of_weights_is_not_checked_as_ratings():
    frame = pd.DataFrame({"user": [1, 1], "song": [2, 3], "plays": [3, 0]})
    with pytest.raises(InputError, match="has the weight 0"):
        read(frame, weight="plays")
    data = read(frame, weight="plays", rating="plays")  # asked to be both: rated 0 is not chosen
    assert data.weights.tolist() == [3] and data.reading.zeros == 1
    rated = frame.assign(stars=[5, 1])
    data = read(rated, weight="plays", rating="stars", liked=4)  # weights of what is not liked are not used
    assert data.weights.tolist() == [3] and data.history(1) == [2]


def test_matrices():
    matrix = sparse.csr_array(np.array([[2.5, 0, 1], [0, 4, 0]]))
    assert read(matrix).weights is None and Interactions.of(matrix).weights is None
    assert read(matrix, weight=False).weights is None
    assert read(matrix, weight=True).weights.tolist() == [2.5, 1, 4]
    twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert [read(twice, weight=True, repeated=how).weights.tolist() for how in ("sum", "max", "last", "count")] == [
        [3], [2], [2], [2],
    ]  # fmt: skip
    for bad, shown in ((0.0, "0.0"), (-1.0, "-1.0"), (np.inf, "inf"), (1e300, "1e\\+300"), (1e-300, "1e-300")):
        stored = sparse.coo_array((np.array([1.0, bad]), ([0, 1], [0, 2])), shape=(2, 3))
        with pytest.raises(InputError, match=f"the weight {shown} in row 1, column 2: weights must be finite and > 0"):
            read(stored, weight=True)
    with pytest.raises(InputError, match="1 NaN entries"):
        read(sparse.csr_array([[np.nan]]), weight=True)
    with pytest.raises(InputError, match="a matrix has no columns: weight=True takes its values, got 'plays'"):
        read(matrix, weight="plays")


ANY = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.floats(0.25, 64, width=16)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=200)
@given(ANY, st.booleans(), st.booleans(), st.sampled_from(["sum", "max", "last", "count"]))
def test_repeated_pairs_against_the_twin(rows, timed, weighted, how):
    frame = pd.DataFrame(rows, columns=["user", "item", "time", "w"])
    asked = ({"time": "time"} if timed else {}) | ({"weight": "w"} if weighted else {})
    data = read(frame, repeated=how, **asked)
    twin = merge_repeated(
        [row[:2] for row in rows],
        [row[2] for row in rows] if timed else None,
        [row[3] for row in rows] if weighted else None,
        how,
    )
    order = sorted(twin, key=lambda pair: pair[0])  # by user, then in the order of appearance
    table = data.to_arrow().to_pylist()
    assert [(row["user_id"], row["item_id"]) for row in table] == order
    assert [(row.get("time"), row.get("weight")) for row in table] == [twin[pair] for pair in order]
    assert (data.weights is not None) == (weighted or how == "count")


def test_without_weights_nothing_changes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.integers(0, 30, 500), "item": rng.integers(0, 20, 500)})
    plain = read(frame)
    for how in ("sum", "max", "last"):
        assert read(frame, repeated=how) == plain and plain.weights is None
    assert read(frame, repeated="count").with_weights(None) == plain
    assert read(frame, repeated="count").weights.sum() == 500


def test_sums_are_exact_in_double_precision_and_must_fit_single():
    ids = Ids.range(1)
    many = 20_000_001  # ones in single precision stop at 2^24
    zeros = np.zeros(many, np.int32)
    assert Interactions.from_numbers(ids, ids, zeros, zeros, repeated="count").weights.tolist() == [20_000_000]
    with pytest.raises(InputError, match=r"add up to 6e\+38, beyond single precision \(3.4e38\): scale the weights"):
        read([(1, 1, 3e38), (1, 1, 3e38)], weight=2)
    assert read([(1, 1, 3e38), (1, 1, 3e38)], weight=2, repeated="max").weights.tolist() == [np.float32(3e38)]


def test_tables_come_back():
    data = read([(1, 5, 2.5, 978300760), (1, 6, 1, 978300770), (2, 5, 4, 978300780)], weight=2, time=3)
    again = read(data.to_arrow(), weight="weight", time="time")
    assert again == data and again.time_unit == data.time_unit == "s"
    first, second = align(data, read([(3, 4)]))
    assert weights(first) == weights(data) and (first.times == data.times).all() and first.time_unit == "s"
    assert second.weights is None and align(data, data)[0] == data


# ---- columns that are not used ------------------------------------------------------------------------------------

PLAYS = pd.DataFrame({"user": [1, 1, 2], "song": [5, 6, 5], "plays": [2, 9, 1]})


def test_a_column_that_is_not_used_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PLAYS.to_csv("plays.csv", index=False)
    with pytest.warns(UnusedColumnWarning) as said:
        read("plays.csv", repeated="count")
    assert [str(each.message) for each in said] == [
        'plays.csv: the column \'plays\' is not used; weight="plays" makes it count, rating="plays" with liked= keeps '
        "what is rated high; weight=False silences this"
    ]
    assert said[0].filename == __file__ and komd.UnusedColumnWarning is UnusedColumnWarning
    PLAYS.to_csv("bare.csv", index=False, header=False)
    with pytest.warns(
        UnusedColumnWarning, match=r"^bare.csv: column 2 is not used; weight=2 makes it count, rating=2 "
    ):
        read("bare.csv")
    with pytest.warns(UnusedColumnWarning, match="^the query: the column 'plays'"):
        read("FROM 'plays.csv'", database=":memory:")
    with pytest.warns(UnusedColumnWarning, match="the column 'plays'") as said:
        read(["plays.csv", "plays.csv"])
    assert len(said) == 1


@pytest.mark.parametrize(
    ("frame", "asked"),
    [
        (PLAYS, {"weight": "plays"}),
        (PLAYS, {"weight": False}),
        (PLAYS, {"rating": "plays"}),
        (PLAYS, {"liked": 2}),
        (PLAYS, {"min_rating": 2}),
        (PLAYS, {"disliked": 1}),
        (PLAYS, {"time": "plays"}),
        (PLAYS.assign(plays=1), {}),  # says nothing
        (PLAYS.assign(plays="x"), {}),
        (PLAYS.rename(columns={"plays": "price"}), {}),
    ],
)
def test_nothing_to_say(frame, asked):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(frame, user="user", item="song", **asked).pairs


def test_times_and_text_without_names_are_no_ratings(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for third in (("978300760", "978300761"), ("3", "drama"), ("1", "1"), ("2020-01-01", "2020-01-02")):
            (tmp_path / "t.csv").write_text(f"1,2,{third[0]}\n1,3,{third[1]}\n")
            assert read(tmp_path / "t.csv").pairs == 2
