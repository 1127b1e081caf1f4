"""Ids: numbers, lookups, messages."""

from __future__ import annotations

import datetime
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data import ids as module
from komd.data.ids import Ids
from komd.errors import InputError, UnknownIdError

U = [uuid.UUID(int=n) for n in (3, 2**100, 7)]


@settings(deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True),
    st.lists(st.integers(-(2**65), 2**65), max_size=10),
)
def test_find_integers(values, others):
    ids = Ids.from_arrow(pa.array(values, pa.int64()))
    keys = values + others
    twin = {value: number for number, value in enumerate(sorted(values))}
    assert ids.find(keys, on_unknown="skip").tolist() == [twin.get(key, -1) for key in keys]


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True),
    st.lists(st.text(), max_size=5),
)
@pytest.mark.parametrize("way", ["remembered", "searched", "hashed"])
def test_find_text_by_every_way(way, values, others):
    # the three ways are chosen by size alone: force each
    step, remembered = {"remembered": (0, 10**9), "searched": (-1, -1), "hashed": (10**9, 0)}[way]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEP", step)
        patch.setattr(module, "_REMEMBERED", remembered)
        ids = Ids.from_arrow(values)
        twin = {value: number for number, value in enumerate(sorted(values, key=str.encode))}
        keys = values + others
        assert ids.find(keys, on_unknown="skip").tolist() == [twin.get(key, -1) for key in keys]


@pytest.mark.parametrize("way", [(0, 10**9), (-1, -1), (10**9, 0)])
def test_find_uuids_by_every_way(way, monkeypatch):
    monkeypatch.setattr(module, "_STEP", way[0])
    monkeypatch.setattr(module, "_REMEMBERED", way[1])
    ids = Ids.from_arrow(pa.array([u.bytes for u in U], pa.uuid()))
    assert ids.find([U[1], str(U[0]), U[2].bytes]).tolist() == [2, 0, 1]
    assert ids.find(["no", uuid.UUID(int=99), 3, None], on_unknown="skip").tolist() == [-1] * 4
    assert ids.find(ids.values).tolist() == [0, 1, 2]
    assert [ids[k] for k in range(3)] == sorted(U)


def test_find_in_a_range():
    ids = Ids.range(5)
    assert ids.find(np.array([4, 0], np.uint8)).tolist() == [4, 0]
    assert ids.find([5, -1, "1", None, True, 2.0, 2.5], on_unknown="skip").tolist() == [
        -1,
        -1,
        -1,
        -1,
        -1,
        2,
        -1,
    ]
    assert ids.values.to_pylist() == list(ids) == [0, 1, 2, 3, 4]
    assert ids == Ids.from_arrow([4, 3, 2, 1, 0])
    assert (4 in ids, 5 in ids) == (True, False)


@pytest.mark.parametrize(
    "keys",
    [
        ["b", "a"],
        ("b", "a"),
        np.array(["b", "a"]),
        np.array(["b", "a"], object),
        pa.array(["b", "a"]),
        pa.chunked_array([["b"], ["a"]]),
        pa.array(["b", "a"], pa.large_string()),
        pd.Series(["b", "a"]),
        pl.Series(["b", "a"]),
        (key for key in ["b", "a"]),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_keys_of_every_container(keys):
    assert Ids.from_arrow(["a", "b", "c"]).find(keys).tolist() == [1, 0]


def test_integer_keys_of_every_container():
    ids = Ids.from_arrow([10, 20, 30])
    for keys in (
        [30, 10],
        np.array([30, 10], np.int16),
        pd.Series([30, 10]),
        pl.Series([30, 10]),
        pa.array([30, 10]),
    ):
        assert ids.find(keys).tolist() == [2, 0]
    assert ids.find(np.array([30.0, 10.5]), on_unknown="skip").tolist() == [2, -1]
    assert ids.find([np.int64(30), np.uint8(10)]).tolist() == [2, 0]
    assert ids.find([]).tolist() == []
    wide = Ids.from_arrow(pa.array([2**64 - 1, 1], pa.uint64()))
    assert wide.find([1, -1, 2**64 - 1], on_unknown="skip").tolist() == [0, -1, 1]


def test_dates_and_timestamps():
    ids = Ids.from_arrow([datetime.date(2020, 1, 1), datetime.date(2019, 1, 1)])
    assert ids.find([datetime.date(2020, 1, 1), "x"], on_unknown="skip").tolist() == [1, -1]
    assert ids.parse("2019-01-01") == datetime.date(2019, 1, 1)
    moments = Ids.from_arrow([datetime.datetime(2020, 1, 1, 5)])
    assert moments.find([datetime.datetime(2020, 1, 1, 5)]).tolist() == [0]
    assert moments.parse("2020-01-01 05:00:00") == datetime.datetime(2020, 1, 1, 5)


def test_take_and_number():
    ids = Ids.from_arrow(pa.array([u.bytes for u in U], pa.uuid()))
    assert ids.take(np.array([2, 0], np.int32)).to_pylist() == [U[1], U[0]]
    assert ids.number(U[2]) == 1
    assert Ids.range(9).take(np.array([8, 8], np.int32)).to_pylist() == [8, 8]


def test_the_answer_may_be_written_to():
    for ids, keys in (
        (Ids.from_arrow(["a", "b"]), pa.array(["a"] * 1000)),
        (Ids.range(3), [1]),
        (Ids.from_arrow([5]), [5]),
    ):
        ids.find(keys)[:] = 0


def test_a_sliced_array_is_fine():
    ids = Ids(pa.array(["", "a", "b", "c"])[1:])
    assert ids.find(["c", "a", ""], on_unknown="skip").tolist() == [2, 0, -1]


def test_unknown_ids_are_named():
    ids = Ids.from_arrow(["alice", "bob", "carol"], noun="user")
    with pytest.raises(UnknownIdError) as error:
        ids.find(["alic"])
    assert str(error.value) == (
        "unknown user 'alic' (did you mean 'alice'?); leave out unknown ids with on_unknown=\"skip\""
    )
    with pytest.raises(UnknownIdError, match="7 unknown users: 'q0', 'q1', 'q2', 'q3', 'q4', …"):
        ids.find(["alice", *(f"q{k}" for k in range(7))])
    with pytest.raises(UnknownIdError, match=r"unknown user 5 \(user ids here are text, like 'alice'\)"):
        ids.find([5])
    with pytest.raises(UnknownIdError, match=r"unknown item '5' \(item ids here are integers, like 0\)"):
        Ids.range(9, noun="item").find(["5"])


def test_what_find_refuses():
    ids = Ids.from_arrow(["a"], noun="user")
    with pytest.raises(InputError, match=r"expected a list of user ids, got 'a' \(write \['a'\] for one\)"):
        ids.find("a")
    with pytest.raises(InputError, match="expected a list"):
        ids.find(7)
    with pytest.raises(InputError, match="on_unknown must be"):
        ids.find(["a"], on_unknown="ignore")


def test_parse_what_the_command_line_gives():
    assert Ids.range(5).parse("3") == 3
    assert Ids.from_arrow(["007"]).parse("007") == "007"
    assert Ids.from_arrow(pa.array([U[0].bytes], pa.uuid())).parse(str(U[0])) == U[0]
    with pytest.raises(InputError, match="'x' is not a user id: these are integers, like 0"):
        Ids.range(5, noun="user").parse("x")


def test_equality_and_repr():
    assert Ids.from_arrow(["b", "a"]) == Ids.from_arrow(["a", "b", "a"])
    assert Ids.from_arrow(["1"]) != Ids.from_arrow([1])
    assert Ids.range(2) != Ids.range(3)
    assert Ids.range(2) != "ids"
    assert repr(Ids.range(1000)) == "Ids(1,000 integers: 0, 1, 2, 3, 4, …)"
    assert repr(Ids.from_arrow(pa.array([], pa.string()))) == "Ids(0 text)"
    with pytest.raises(IndexError):
        Ids.range(3)[3]
