"""Pairs that are known to a user without being part of the history: what is rated below `min_rating`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data import split
from komd.data.align import align
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.data.read import read
from komd.errors import InputError

RATED = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abcdef"), st.integers(0, 5)), min_size=1, max_size=40)


def pairs(data):
    return set() if data is None else {(row["user_id"], row["item_id"]) for row in data.to_arrow().to_pylist()}


@settings(deadline=None, max_examples=100)
@given(RATED, st.integers(1, 5))
def test_what_is_rated_low_is_seen(rows, least):
    """Among the users and items of the rows that are kept; a pair that is kept somewhere is chosen."""
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    kept = frame[frame["rating"] >= least]
    if not len(kept):
        return
    data = read(frame, min_rating=least)
    plain = read(kept[["user", "item"]])
    assert (data.users, data.items, data.without_seen()) == (plain.users, plain.items, plain)
    chosen = set(zip(kept["user"], kept["item"], strict=True))
    expected = {
        (user, item)
        for user, item, _ in rows
        if (user, item) not in chosen and user in set(kept["user"]) and item in set(kept["item"])
    }
    assert pairs(data.seen) == expected
    assert data.pairs == len(chosen) and (data.seen is None or data.seen.pairs == len(expected))


def test_ids_are_those_of_the_rows_kept(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("1,10,5\n1,11,2\nx,10,1\n2,11,4\n2,y,1\n2,10,\n")  # x and y are no integers, and not kept
    data = read(path, min_rating=4)
    assert (list(data.users), list(data.items)) == ([1, 2], [10, 11])
    assert pairs(data.seen) == {(1, 11), (2, 10)}
    timed = read(pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 4], "rating": [5, 1, 5], "time": [7, 8, 9]}), time=3)
    assert timed.seen is None
    data = read(pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 4], "r": [5, 1, 5], "t": [7, 8, 9]}), rating=2,
                time=3, min_rating=2)  # fmt: skip
    assert data.times.tolist() == [7, 9] and data.seen.times is None


def test_matrices():
    R = sparse.csr_array(np.array([[5, 1, 0], [0, 4, 2], [3, 0, 0]]))
    data = read(R, min_rating=4)
    assert pairs(data) == {(0, 0), (1, 1)}
    assert pairs(data.seen) == {(0, 1), (1, 2), (2, 0)}
    assert read(R).seen is None
    assert "2 pairs, 22.2 % full, and 3 low-rated pairs kept as seen)" in repr(data)


def test_operations_carry_it():
    data = read(sparse.csr_array(np.array([[5, 1, 0], [0, 4, 2], [3, 0, 4]])), min_rating=4)
    part = data.keep(np.array([True, False, True]))
    assert part.seen == data.seen
    assert data != data.without_seen() and data == data.without_seen().with_seen(data.seen.rows, data.seen.indices)
    # What is in a history is not seen beside it.
    assert pairs(data.with_seen(np.array([0, 0, 0]), np.array([0, 2, 2])).seen) == {(0, 2)}
    named = read(pd.DataFrame({"u": ["b", "b", "a"], "i": ["x", "z", "z"], "r": [5, 1, 5]}), rating=2, min_rating=2)
    other = read(pd.DataFrame({"u": ["aa"], "i": ["y"]}))
    first, second = align(named, other)
    assert pairs(first) == pairs(named) and pairs(first.seen) == pairs(named.seen) == {("b", "z")}
    assert first.seen.shape == first.shape == second.shape and second.seen is None
    assert align(named, named)[0] == named
    with pytest.raises(InputError, match="the pairs seen are of"):
        Interactions(Ids.range(2), Ids.range(3), np.array([0, 1, 1]), np.array([2], np.int32), seen=data.seen)


def test_splits_leave_it_out():
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random((30, 20)) < 0.6)
    frame = pd.DataFrame({"u": rows, "i": columns, "r": rng.integers(1, 6, len(rows)), "t": np.arange(len(rows))})
    data = read(frame, rating=2, time=3, min_rating=3)
    assert data.seen is not None
    plain = data.without_seen()
    for cut in (
        lambda d: [part for fold in split.folds(d, rng=0) for part in fold],
        lambda d: split.leave_out(d, rng=0),
        lambda d: split.held_out_users(d, rng=0),
        split.temporal,
    ):
        parts = list(cut(data))
        assert all(part.seen is None for part in parts) and parts == list(cut(plain))
