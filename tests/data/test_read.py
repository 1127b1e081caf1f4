"""Reading: every source, every kind of id, against pandas."""

from __future__ import annotations

import datetime
import gzip
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.ids import Ids
from komd.data.read import read

SEPARATORS = [",", "\t", "::", ";", "|", " "]

KINDS = {
    "integers": [3, 1, 2, 10],
    "negative": [-5, 7, 0, -(2**63)],
    "large": [10**18, 10**18 + 1, 2**63 - 1, 5],
    "zeros first": ["007", "7", "07", "1"],
    "too long for integers": ["9" * 20, "1", "2", "123456789012345678901234567890"],
    "unicode": ["Ünï", "日本語", "🎉🎊", "e\u0301"],
    "long": ["x" * 300, "y" * 300, "x" * 299, "z"],
    "awkward": ["a'b", 'say ""hi"', "50%", "null"],
    "hexadecimal": [
        "b80344d063b5ccb3212f76538f3d9e43d87dca9e",
        "00007a02388c208ea7176479f6ae06f8224355b3",
        "a",
        "b",
    ],
}
UUIDS = [uuid.UUID(int=5), uuid.UUID(int=2**127 + 1), uuid.UUID(int=17), uuid.UUID(int=2**64)]


def check(data, values):
    """Users are `values`, each with the next value as its item."""
    assert data.users.values.to_pylist() == sorted(values)
    for user, item in zip(values, values[1:] + values[:1], strict=True):
        assert data.history(user) == [item]


def as_table(values, kind=None):
    return pa.table({"user_id": pa.array(values, kind), "item_id": pa.array(values[1:] + values[:1], kind)})


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_ids_survive_csv(values, tmp_path):
    path = tmp_path / "plays.csv"
    as_table(values).to_pandas().to_csv(path, index=False)
    check(read(path), values)


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_ids_survive_parquet_frames_and_sql(values, tmp_path):
    table = as_table(values)
    path = tmp_path / "plays.parquet"
    pq.write_table(table, path)
    check(read(str(path)), values)
    for frame in (table, table.to_pandas(), pl.DataFrame(table), table.to_reader()):
        check(read(frame), values)
    check(read(f"SELECT * FROM '{path}'", database=":memory:"), values)
    check(read(duckdb.from_arrow(table)), values)
    with duckdb.connect(str(tmp_path / "plays.duckdb")) as connection:
        connection.register("frame", table)
        connection.execute("CREATE TABLE plays AS FROM frame")
        check(read("SELECT user_id, item_id FROM plays", database=connection), values)
        connection.execute("SELECT 1")  # still open
    check(read("FROM plays", database=tmp_path / "plays.duckdb"), values)


def test_uuids_survive(tmp_path):
    table = as_table([u.bytes for u in UUIDS], pa.uuid())
    path = tmp_path / "plays.parquet"
    pq.write_table(table, path)
    for source in (table, path):
        data = read(source)
        assert data.users.type == pa.uuid()
        check(data, UUIDS)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE plays (u UUID, i UUID)")
    pairs = list(zip(UUIDS, UUIDS[1:] + UUIDS[:1], strict=True))
    connection.executemany("INSERT INTO plays VALUES (?, ?)", [[str(u), str(i)] for u, i in pairs])
    data = read("FROM plays", database=connection)
    check(data, UUIDS)
    assert data.history(str(UUIDS[0])) == [UUIDS[1]]
    check(read(connection.sql("FROM plays")), UUIDS)


def test_dates_and_wide_integers_survive():
    days = [datetime.date(2020, 1, 1), datetime.date(1960, 1, 1)]
    check(read(as_table(days)), days)
    moments = [datetime.datetime(2020, 1, 1, 5, 6), datetime.datetime(1960, 1, 1)]
    check(read(as_table(moments)), moments)
    check(read("SELECT * FROM (VALUES (1::HUGEINT, 2::HUGEINT), (2, 1))", database=":memory:"), [1, 2])
    check(read(as_table([2**64 - 1, 3], pa.uint64())), [2**64 - 1, 3])
    check(read(pd.DataFrame({"user": [1.0, 2.0], "item": [2.0, 1.0]})), [1, 2])
    check(read(as_table(["b", "a"]).to_pandas().astype("category")), ["b", "a"])
    check(read(pl.DataFrame(as_table(["b", "a"])).cast(pl.Categorical)), ["b", "a"])


def twin(rows):
    """What read ought to give, in pandas: users sorted, their items in the order of the file, once each."""
    frame = pd.DataFrame(rows, columns=["user", "item"]).drop_duplicates()
    return {user: part["item"].tolist() for user, part in frame.groupby("user", sort=True)}


names = st.text("ab€z", min_size=1, max_size=3).map(lambda text: "n" + text)
numbers = st.integers(-5, 12)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.one_of(
        st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30),
        st.lists(st.tuples(names, numbers), min_size=1, max_size=30),
        st.lists(st.tuples(names, names), min_size=1, max_size=30),
    ),
    separator=st.sampled_from(SEPARATORS),
    gzipped=st.booleans(),
    header=st.booleans(),
    newline=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
)
def test_text_against_pandas(tmp_path_factory, rows, separator, gzipped, header, newline, last, bom):
    path = tmp_path_factory.mktemp("text") / ("t.txt.gz" if gzipped else "t.txt")
    lines = (["user_id", "item_id"], *rows) if header else rows
    text = newline.join(separator.join(map(str, row)) for row in lines) + (newline if last else "")
    content = ("\ufeff" if bom else "").encode() + text.encode()
    path.write_bytes(gzip.compress(content) if gzipped else content)
    data = read(path, header=header)
    expected = twin(rows)
    assert list(data.users) == list(expected)
    assert [data.history(user) for user in data.users] == list(expected.values())
    if header:
        assert read(path) == data
    assert read(path, header=header, separator=separator) == data


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(names, numbers, st.floats(0, 5)), min_size=1, max_size=40), st.floats(0, 5))
def test_min_rating_against_pandas(rows, least):
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    kept = frame[frame["rating"] >= least]
    if len(kept):
        expected = twin(list(zip(kept["user"], kept["item"], strict=True)))
        data = read(frame, min_rating=least)
        assert {user: data.history(user) for user in data.users} == expected


def test_min_rating_leaves_out_missing_ones_and_chooses_its_column(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("1,10,comedy,4.5\n1,11,drama,2\n2,10,drama,\n")
    assert read(path, rating=3, min_rating=4).to_arrow().to_pylist() == [{"user_id": 1, "item_id": 10}]
    path.write_text("user,item,genre,stars\n1,10,x, 5\n1,11,y,2\n")
    assert read(path, min_rating=4).pairs == 1
    assert read(sparse.csr_array([[1, 5], [4, 0]]), min_rating=4).to_csr().toarray().tolist() == [
        [0, 1],
        [1, 0],
    ]


def test_columns_by_name_and_position(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("when,sid,uid\n5,song,ana\n6,tune,bo\n")
    assert read(path, user="uid", item="sid").history("ana") == ["song"]
    assert read(path, user=2, item=1, header=True).history("bo") == ["tune"]
    assert read(path, user="UID ", item="sid").pairs == 2
    timed = read(path, user="uid", item="sid", time="when")
    assert timed.times.tolist() == [5, 6]
    frame = pd.DataFrame({"rating": [3], "movieId": ["m"], "userId": ["u"]})
    assert read(frame).history("u") == ["m"]
    assert read(pd.DataFrame({"x": ["u"], "y": ["m"]})).history("u") == ["m"]
    assert read(pd.DataFrame({"timestamp": [1], "x": ["u"], "y": ["m"]})).history("u") == ["m"]
    assert read(pd.DataFrame({"thing": ["m"], "customer": ["u"]})).history("u") == ["m"]
    assert read(frame, user="movieId", item="userId").history("m") == ["u"]


def test_a_filtered_pandas_frame_keeps_its_columns():
    frame = pd.DataFrame({"a": ["u", "v", "w"], "b": ["x", "y", "z"]})[lambda f: f["a"] != "v"]
    assert read(frame).shape == (2, 2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["30", "10"], [30, 10]),
        (["2000-07-12", "1970-01-02"], [963360000000000, 86400000000]),
        (["1970-01-01 00:00:01", "1970-01-01T00:00:02"], [1_000_000, 2_000_000]),
        (["1970-01-01T00:00:01Z", "1970-01-01T01:00:02+01:00"], [1_000_000, 2_000_000]),
    ],
)
def test_times_in_text(values, expected, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"1,1,{values[0]}\n1,2,{values[1]}\n")
    assert read(path, time=2).times.tolist() == expected


def test_times_in_frames():
    frame = pd.DataFrame({"u": [1, 1], "i": [1, 2], "t": pd.to_datetime(["1970-01-02", "1970-01-01"])})
    assert read(frame, time="t").times.tolist() == [86400000000, 0]
    assert read(frame.assign(t=[2.0, 1.0]), time="t").times.tolist() == [2, 1]
    assert read(frame.assign(t=[datetime.date(1970, 1, 2)] * 2), time="t").times.tolist() == [86400000000] * 2


def test_repeated_pairs_become_one_at_the_earliest_time():
    table = pa.table({"u": [1, 1, 1, 2], "i": [5, 6, 5, 5], "t": [9, 1, 3, 4]})
    data = read(table, time="t")
    assert data.history(1) == [5, 6]
    assert data.times.tolist() == [3, 1, 4]


def test_globs_lists_and_mixed_files(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\n1,10\n")
    (tmp_path / "b.tsv").write_text("item\tuser\n11\t1\n")
    pq.write_table(pa.table({"user": [1, 2], "item": [12, 10]}), tmp_path / "c.parquet")
    (tmp_path / "d [1]*.csv").write_text("user,item\n1,13\n")
    assert read(str(tmp_path / "[ab].*")).history(1) == [10, 11]
    assert read([tmp_path / "c.parquet", str(tmp_path / "a.csv")]).history(1) == [12, 10]
    assert read([tmp_path / "a.csv", tmp_path / "c.parquet"]).users == Ids.from_arrow([1, 2])
    assert read(tmp_path / "d [1]*.csv").history(1) == [13]
    assert read(str(tmp_path / "*")).history(1) == [10, 11, 12, 13]


def test_quotes_in_paths_and_names(tmp_path):
    path = tmp_path / 'o\'hara "x".parquet'
    pq.write_table(pa.table({'us"er': ["a"], "it'em; DROP": ["b"]}), path)
    assert read(path, user='us"er', item="it'em; DROP").history("a") == ["b"]
    with duckdb.connect(str(tmp_path / "o'hara.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS u, 2 AS i")
    assert read("FROM t", database=tmp_path / "o'hara.duckdb").history(1) == [2]


def test_quoted_fields(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text('user,item\n"Doe, Jane","say ""hi"""\nx,"two\nlines"\n')
    data = read(path)
    assert data.history("Doe, Jane") == ['say "hi"']
    assert data.history("x") == ["two\nlines"]
    path.write_text('user\titem\nx\t"open\ny\tclose"\n')
    assert read(path).history("x") == ['"open']


def test_a_column_may_serve_twice():
    assert read(
        pa.table({"u": [1, 2], "i": [5, 6], "r": [1, 2]}), rating="r", time="r", min_rating=2
    ).times.tolist() == [2]


def test_order_does_not_change_the_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.integers(0, 50, 500), "item": rng.integers(0, 50, 500)}).drop_duplicates()
    one, two = read(frame), read(frame.sample(frac=1, random_state=1))
    assert one.users == two.users
    assert one.items == two.items
    assert (one.to_csr() != two.to_csr()).nnz == 0


def test_many_batches(tmp_path):
    rng = np.random.default_rng(1)
    users, items = rng.integers(0, 9_000, 300_000), rng.integers(0, 700, 300_000)
    table = pa.table({"user": [f"u{n}" for n in users.tolist()], "item": items, "t": np.arange(300_000)})
    path = tmp_path / "many.parquet"
    pq.write_table(table, path, row_group_size=50_000)
    data = read(path, time="t", memory="1GB")
    first = pd.DataFrame({"user": table["user"].to_pylist(), "item": items}).drop_duplicates()
    assert data.pairs == len(first)
    assert read(table, time="t") == data
    assert (data.times[: data.indptr[1]] == np.sort(data.times[: data.indptr[1]])).all()
    assert data.history("u17") == first[first["user"] == "u17"]["item"].tolist()


def test_the_callers_data_stay_as_they_were():
    frame = pd.DataFrame({"user": [2, 1], "item": [1, 2]})
    before = frame.copy()
    read(frame)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("module", ["pandas", "polars", "duckdb", "numba"])
def test_importing_loads_no_heavy_module(module):
    import subprocess
    import sys

    code = f"import sys, komd.data.read, komd.data.split; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
