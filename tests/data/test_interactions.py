"""Interactions: shape, rows, conversions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.data.read import read
from komd.errors import InputError, UnknownIdError


def table(pairs, **more):
    return pa.table({"user_id": [u for u, _ in pairs], "item_id": [i for _, i in pairs], **more})


@pytest.fixture
def data():
    return read(table([("bo", "z"), ("ana", "y"), ("bo", "x"), ("bo", "z"), ("cy", "z")]))


def test_what_it_holds(data):
    assert data.shape == (3, 3)
    assert data.pairs == 4
    assert data.density == pytest.approx(4 / 9)
    assert data.activity.tolist() == [1, 2, 1]
    assert data.popularity.tolist() == [1, 1, 2]
    assert data.history("bo") == ["z", "x"]  # in the order of the data
    assert data.items_by_appearance.to_pylist() == ["y", "z", "x"]  # ana is the first user
    assert data.keep(data.rows == 1).items_by_appearance.to_pylist() == ["z", "x"]  # nobody has y
    assert data.indices.tolist() == [1, 2, 0, 2]
    assert data.rows.tolist() == [0, 1, 1, 2]
    assert (data.indptr.dtype, data.indices.dtype, data.activity.dtype) == (np.int64, np.int32, np.int64)
    with pytest.raises(UnknownIdError, match="unknown user 'dee'"):
        data.history("dee")


def test_it_cannot_be_altered(data):
    with pytest.raises(ValueError, match="read-only"):
        data.indices[0] = 0
    with pytest.raises(TypeError, match="unhashable"):
        hash(data)


def test_repr():
    data = Interactions.of(sparse.random_array((6040, 3706), density=0.0447, rng=np.random.default_rng(0)))
    assert repr(data) == f"Interactions(6,040 users × 3,706 items, {data.pairs:,} pairs, 4.47 % full)"
    assert "0.0001 % full" in repr(Interactions.of(sparse.csr_array(([1], ([0], [0])), shape=(1000, 1000))))
    assert "100 % full" in repr(Interactions.of(sparse.csr_array(np.ones((2, 2)))))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60))
def test_rows_and_matrices_agree(pairs):
    data = read(table(pairs))
    dense = np.zeros(data.shape)
    for user, item in pairs:
        dense[data.users.number(user), data.items.number(item)] = 1
    matrix = data.to_csr()
    assert matrix.dtype == np.float32
    assert matrix.has_canonical_format
    assert (matrix.toarray() == dense).all()
    indptr, indices = data.by_item()
    assert (sparse.csr_array((np.ones(data.pairs), indices, indptr), shape=data.shape[::-1]).toarray() == dense.T).all()
    for user in {user for user, _ in pairs}:
        assert data.history(user) == list(dict.fromkeys(i for u, i in pairs if u == user))
    assert read(data.to_arrow()) == data
    assert read(data) is data
    assert Interactions.of(pd.DataFrame(data.to_arrow().to_pandas())) == data


def test_keep_leaves_the_ids(data):
    part = data.keep(np.array([True, False, True, False]))
    assert part.shape == data.shape
    assert part.activity.tolist() == [1, 1, 0]
    assert part.history("bo") == ["x"]
    with pytest.raises(InputError, match="mask must be 4 booleans"):
        data.keep(np.array([1, 0, 1, 0]))


def test_equality(data):
    assert data == read(data.to_arrow())
    assert data != data.keep(np.array([True, True, True, False]))
    assert data != "data"
    timed = read(data.to_arrow().append_column("time", pa.array([1, 2, 3, 4])), time="time")
    assert timed != data
    assert timed == read(timed.to_arrow(), time="time")
    assert repr(timed).endswith("with times; user=user_id, item=item_id, time=time)")


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
def test_scipy_matrices(form, make):
    dense = np.array([[0, 2.0, 0], [1, 0, 3], [0, 0, 0]])
    matrix = make(dense).asformat(form)
    before = matrix.toarray()
    data = Interactions.of(matrix)
    assert data.shape == (3, 3)
    assert (data.to_csr().toarray() == (dense != 0)).all()
    assert (matrix.toarray() == before).all()
    assert data.users == Ids.range(3)


def test_scipy_explicit_zeros_and_repeats():
    matrix = sparse.coo_array(([1, 1, 0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert Interactions.of(matrix).history(0) == [1]
    assert Interactions.of(matrix).history(1) == []
    unsorted = sparse.csr_array((np.ones(3), np.array([2, 0, 1]), np.array([0, 3])), shape=(1, 3))
    assert Interactions.of(unsorted).history(0) == [2, 0, 1]
    assert Interactions.of(sparse.csr_array(np.eye(2, dtype=bool))).pairs == 2


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (sparse.csr_array([[1.0, -2.0]]), r"1 negative entries \(least -2.0\)"),
        (sparse.csr_array([[1.0, np.nan]]), "1 NaN entries"),
        (sparse.csr_array([[1j]]), "holds numbers, got complex"),
        (np.eye(3), "the numpy array has 3 columns, and pairs have two"),
        ([[1, 0, 1], [0, 1, 1]], "the list of pairs has 3 columns, .*csr_array"),
        (None, "NoneType"),
    ],
)
def test_what_it_refuses(bad, message):
    with pytest.raises(InputError, match=message):
        Interactions.of(bad)


def test_parts_that_do_not_fit():
    ids = Ids.range(2)
    with pytest.raises(InputError, match="indptr does not fit 2 users and 1 pairs"):
        Interactions(ids, ids, np.array([0, 1]), np.array([0]))
    with pytest.raises(InputError, match="there are 2 times for 1 pairs"):
        Interactions(ids, ids, np.array([0, 1, 1]), np.array([0]), np.array([1, 2]))
