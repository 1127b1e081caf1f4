"""Sources besides files: lists and arrays of pairs, frames that are lazy or repeat a name."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import komd
from komd.data.interactions import Interactions
from komd.data.read import read
from komd.errors import InputError

PAIRS = [("ana", "i1"), ("bo", "i2"), ("ana", "i2")]


def pairs_of(data):
    return [(row["user_id"], row["item_id"]) for row in data.to_arrow().to_pylist()]


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
