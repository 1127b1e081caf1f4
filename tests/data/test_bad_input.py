"""Everything that can be wrong with what is read is said in one line."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sparse

from komd.data.read import read
from komd.errors import InputError


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(content, name="plays.csv"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


def fails(message, source, **options):
    with pytest.raises(InputError) as error:
        read(source, **options)
    assert re.search(message, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there(file, tmp_path):
    fails("^no such file: nowhere.csv$", "nowhere.csv")
    fails(r"^no file matches 'no\*.csv'$", "no*.csv")
    fails("is a directory; give a file or a pattern such as", tmp_path)
    fails("empty list of paths", [])
    fails("a list to read must hold paths or pairs, got 5", [5])
    fails("no such file: .*database=", "select user, item from plays")


def test_files_with_nothing_in_them(file):
    fails("^plays.csv is empty$", file(""))
    fails("^plays.csv is empty$", file("\n \n"))
    fails("plays.csv has a header but no rows", file("user,item\n"))
    fails("plays.csv has a header but no rows", file("a,b\n"), header=True)
    fails("plays.csv has one column; users and items need two", file("1\n2\n"))
    fails("has one column when separated by ';'", file("1,2\n"), separator=";")
    fails(
        "the pyarrow Table has no rows",
        pa.table({"u": pa.array([], pa.string()), "i": pa.array([], pa.string())}),
    )
    fails("one column", pa.table({"u": [1]}))
    pq.write_table(pa.table({"u": pa.array([], pa.int64()), "i": pa.array([], pa.int64())}), "none.parquet")
    fails("none.parquet has no rows", "none.parquet")
    fails("the matrix has no entry", sparse.csr_array((3, 3)))


def test_columns_that_are_not_there(file):
    path = file("uid,sid,plays\n1,2,3\n")
    with pytest.raises(InputError) as error:
        read(path, user="user_id")
    assert str(error.value) == "column 'user_id' not found in plays.csv; it has: uid, sid, plays (choose with user=)"
    fails("item=7 is not a column of plays.csv; it has columns 0 to 2", path, item=7)
    fails("user=-1 is not a column", path, user=-1)
    fails("user must be a column's name or position, got True", path, user=True)
    fails("read without header; choose with user=0", path, user="uid", header=False)
    fails("^user and item are the same column of plays.csv: 'uid'$", path, user="uid", item="uid")
    fails(
        "column 'x' not found in the pandas DataFrame; it has: a, b",
        pd.DataFrame({"a": [1], "b": [2]}),
        user="x",
    )
    fails("no rating column", file("1,2\n"), min_rating=3)


@pytest.mark.parametrize("text", ["user,item\n1,2\n,3\n4,5\n,6\n", 'user,item\n1,2\n"",3\n,6\n4,5\n'])
def test_missing_ids(file, text):
    fails(r"^plays.csv has 2 missing user ids in 'user' \(the first in row 2\); remove those rows", file(text))


def test_missing_ids_in_frames(file):
    fails("1 missing item ids in 'i'", pa.table({"u": [1, 2], "i": ["x", None]}))
    fails("1 missing item ids in 'i'", pa.table({"u": [1, 2], "i": ["x", ""]}))
    fails("1 missing user ids", pd.DataFrame({"u": [1.0, np.nan], "i": [1, 2]}))
    fails("2 missing item ids", pa.table({"u": [1, 2], "i": pa.nulls(2)}))
    big = pa.table({"u": np.arange(200_000), "i": pa.array([None if k == 150_000 else k for k in range(200_000)])})
    fails(r"1 missing item ids in 'i' \(the first in row 150,001\)", big)


def test_ids_that_cannot_be(file):
    fails(
        "user ids must be whole numbers or text, got numbers with a fraction",
        pa.table({"u": [1.5], "i": [2]}),
    )
    fails("item ids cannot be of type bool", pa.table({"u": [1], "i": [True]}))


def test_ratings(file):
    fails(
        "min_rating= needs numbers, but plays.csv has 'good' in row 2",
        file("1,2,3\n1,3,good\n"),
        min_rating=1,
    )
    fails("^min_rating must be a finite number, got nan$", file("1,2,3\n"), min_rating=float("nan"))
    fails("^no row has a rating of at least 9", file("1,2,3\n1,3,4\n"), min_rating=9)
    fails("^no row has a rating of at least 9", sparse.csr_array([[1.0]]), min_rating=9)


def test_times(file):
    fails(
        "times must be whole numbers, dates or timestamps, but plays.csv has 'noon'",
        file("1,2,noon\n"),
        time=2,
    )
    fails("times must be whole numbers", pa.table({"u": [1], "i": [1], "t": [0.5]}), time="t")
    fails("plays.csv has no time in row 2", file("1,2,3\n1,4,\n"), time=2)


def test_rows_that_do_not_parse(file):
    fails("^plays.csv, line 3: expected 3 columns, found 2$", file("u,i,r\n1,2,3\n4,5\n6,7,8\n"))
    fails("^plays.csv, line 3: expected 3 columns, found 4$", file("1,2,3\n1,2,3\n1,2,3,4\n1,2,3\n"))
    far = "1,2,3\n" * 300_000
    fails("^plays.csv, line 300001: expected 3 columns, found 1$", file(far + "oops\n" + far))
    fails("^plays.csv, line 300001: a quote that is opened is not closed$", file(far + '1,"oops,3\n' + far))


def test_text_that_is_not_utf8(file):
    fails("^plays.csv, line 2: not UTF-8 text; convert it", file(b"1,2\n3,\xff\xfe\n"))
    far = b"1,2\n" * 200_000
    fails("^plays.csv, line 200001: not UTF-8 text", file(far + b"3,\xff\n" + far))
    fails("not text", file("user,item\n1,2\n".encode("utf-16")[2:]))


def test_damaged_files(file):
    rows = "".join(f"{k},{k * 7919 % 100_003}\n" for k in range(200_000))
    packed = gzip.compress(rows.encode())
    fails("plays.csv.gz", file(packed[: len(packed) // 2], "plays.csv.gz"))
    fails("plays.csv.gz", file(packed[:30], "plays.csv.gz"))
    fails("plays.csv.gz is not a complete gzip file", file(b"\x1f\x8b" + b"x" * 50, "plays.csv.gz"))
    damaged = bytearray(packed)
    damaged[len(packed) // 2 : len(packed) // 2 + 300] = bytes(300)
    fails("plays.csv.gz", file(bytes(damaged), "plays.csv.gz"))
    fails("not a Parquet file that can be read", file(b"PAR1" + b"x" * 40 + b"PAR1", "plays.parquet"))
    fails("not a Parquet file that can be read", file("user,item\n1,2\n", "plays.parquet"))
    pq.write_table(pa.table({"u": np.arange(50_000), "i": np.random.default_rng(0).permutation(50_000)}), "ok.parquet")
    content = Path("ok.parquet").read_bytes()
    fails("cut.parquet", file(content[: len(content) // 2], "cut.parquet"))
    fails("a zip archive: unpack it", file(b"PK\x03\x04 and so on", "plays.zip"))


def test_databases(file, tmp_path):
    fails("^no such database: nowhere.duckdb$", "FROM t", database="nowhere.duckdb")
    fails("^cannot open database plays.csv: ", "FROM t", database=file("user,item\n1,2\n"))
    fails("^the query failed: .*nothing does not exist", "SELECT * FROM nothing", database=":memory:")
    fails("^the query failed: .*syntax error", "SELEKT 1", database=":memory:")
    fails("one column", "SELECT 1 AS u", database=":memory:")
    fails("the query has no rows", "SELECT 1 AS u, 2 AS i WHERE false", database=":memory:")
    fails("database must be a DuckDB or SQLite file", "SELECT 1", database=5)
    fails("with database= the source is SQL, got", ["SELECT 1"], database=":memory:")
    fails(
        "column 'u' not found in the query; it has: a, b",
        "SELECT 1 AS a, 2 AS b",
        database=":memory:",
        user="u",
    )
    with duckdb.connect("plays.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS u, 2 AS i")
    fails("the query", "INSERT INTO t VALUES (1, 2)", database="plays.duckdb")  # opened to read only
    assert read("FROM t", database="plays.duckdb").pairs == 1
    source = "a name of ours that SQL must not see"
    fails("source does not exist", "SELECT * FROM source", database=":memory:")
    assert source


def test_matrices():
    fails("negative entries", sparse.csr_array([[1.0, -1.0]]))
    fails("NaN entries", sparse.coo_array([[1.0, float("nan")]]))


def test_what_cannot_be_read_at_all():
    accepted = "a path, a pattern .* a list of paths, SQL with database=, a frame .* or a scipy sparse matrix"
    fails(f"cannot read builtins.dict; give {accepted}", {"u": [1]})
    fails("cannot read builtins.NoneType", None)
    fails("not a table that can be read", pd.Series([1, 2]))
    fails("memory must be a size", pa.table({"u": [1], "i": [1]}), memory="lots")
