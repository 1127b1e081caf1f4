"""Numbering ids as they stream by, against a dictionary."""

from __future__ import annotations

import datetime
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.encode import Encoder, encode
from komd.errors import InputError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def in_batches(batches, kind=None, **options):
    encoder = Encoder("user")
    for batch in batches:
        encoder.add(batch if isinstance(batch, pa.Array) else pa.array(batch, kind), **options)
    return encoder.finish()


@settings(deadline=None)
@given(st.lists(st.lists(texts, max_size=20), min_size=1, max_size=6))
def test_text_is_numbered_in_sorted_order(batches):
    ids, codes = in_batches(batches, pa.string())
    values = [value for batch in batches for value in batch]
    order = sorted(set(values), key=str.encode)
    assert ids.values.to_pylist() == order
    assert codes.tolist() == [order.index(value) for value in values]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), min_size=1, max_size=6))
def test_integers_are_numbered_in_numeric_order(batches):
    ids, codes = in_batches(batches, pa.int64())
    values = [value for batch in batches for value in batch]
    order = sorted(set(values))
    assert ids.values.to_pylist() == order
    assert codes.tolist() == [order.index(value) for value in values]


def test_many_values_through_a_growing_table():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 150_000, 400_000)
    values = pa.array([f"{n:x}-{'z' * (n % 23)}" for n in numbers.tolist()])
    ids, codes = encode(values)
    assert ids.take(codes).equals(values)
    assert len(ids) == len(np.unique(numbers))
    assert codes.dtype == np.int32


@pytest.mark.parametrize(
    "values",
    [
        pa.array([uuid.UUID(int=9).bytes, uuid.UUID(int=2**127).bytes], pa.uuid()),
        pa.array([datetime.date(2020, 1, 2), datetime.date(1960, 1, 2)]),
        pa.array([datetime.datetime(2020, 1, 2, 3), datetime.datetime(1960, 1, 2)], pa.timestamp("us")),
        pa.array(["b", "a"]).dictionary_encode(),
        pa.array([b"\xff", b"\x00"]),
        pa.array([2**64 - 1, 0], pa.uint64()),
        pa.array([-5, 3], pa.int16()),
        pa.array(["1.50", "-2.25"]).cast(pa.decimal128(10, 2)),
        pa.array(["", "ü🎉"], pa.large_string()),
    ],
    ids=lambda values: str(values.type),
)
def test_every_kind_comes_back(values):
    ids, codes = encode(values)
    assert ids.take(codes).to_pylist() == values.to_pylist()
    assert ids.values.to_pylist() == sorted(values.to_pylist())
    assert [ids.find([value])[0] for value in values.to_pylist()] == codes.tolist()


def test_digits_of_text_files_become_integers_only_in_canonical_form():
    assert in_batches([["12", "-7", "0"]], text=True)[0].values.to_pylist() == [-7, 0, 12]
    for kept in (["007", "1"], ["+1"], ["-0"], ["1.0"], ["x"], [str(2**63)], ["1" * 25], ["٣"]):
        assert in_batches([kept], text=True)[0].values.to_pylist() == sorted(kept)
    assert in_batches([[str(2**63 - 1), str(-(2**63))]], text=True)[0].type == pa.int64()
    assert in_batches([["12"]], text=False)[0].type == pa.string()


def test_integers_in_other_clothes():
    assert encode(pa.array([3.0, 1.0]))[0].values.to_pylist() == [1, 3]
    assert encode(pa.array([5, 3], pa.uint64()))[0].type == pa.int64()
    assert encode(pa.array([5, 3]).cast(pa.decimal128(38, 0)))[0].type == pa.int64()


def test_files_that_disagree_meet_in_a_wider_type():
    ids, codes = in_batches([pa.array([7, 1]), pa.array(["x", "7"])])
    assert (ids.values.to_pylist(), codes.tolist()) == (["1", "7", "x"], [1, 0, 2, 1])
    ids, codes = in_batches([pa.array([-1, 5]), pa.array([2**64 - 1, 5], pa.uint64())])
    assert [int(value) for value in ids] == [-1, 5, 2**64 - 1]
    assert codes.tolist() == [0, 1, 2, 1]
    one = uuid.UUID(int=1)
    ids, _ = in_batches([pa.array([one.bytes], pa.uuid()), pa.array(["x"])])
    assert ids.values.to_pylist() == [str(one), "x"]
    ids, codes = in_batches([pa.array([one.bytes], pa.uuid()), pa.array([1])])
    assert ids.values.to_pylist() == [str(one), "1"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([1.5]), "whole numbers or text"),
        (pa.array([True]), "cannot be of type bool"),
        (pa.array([[1]]), "cannot be of type list"),
        (pa.array([1, None]), "1 id ids are missing"),
    ],
)
def test_what_cannot_be_an_id(values, message):
    with pytest.raises(InputError, match=message):
        encode(values)
