"""Splits: what goes where, for any data."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.generate import generate
from komd.data.read import read
from komd.data.split import folds, held_out_users, leave_out, temporal
from komd.errors import InputError


def make(seed, users=23, items=15, pairs=120):
    rng = np.random.default_rng(seed)
    return read(
        pa.table({
            "user_id": rng.integers(0, users, pairs),
            "item_id": rng.integers(0, items, pairs),
            "time": rng.integers(0, 50, pairs),
        }),
        time="time",
    )  # fmt: skip


def cells(data):
    return set(zip(data.rows.tolist(), data.indices.tolist(), strict=True))


def assert_partition(whole, *parts):
    for part in parts:
        assert part.users == whole.users
        assert part.items == whole.items
    assert sum(part.pairs for part in parts) == whole.pairs
    assert set().union(*map(cells, parts)) == cells(whole)


def later_half(data, user, half):
    """The slow twin of "given" and "time"."""
    row = list(range(data.indptr[user], data.indptr[user + 1]))
    if half == "time":
        row.sort(key=lambda k: data.times[k])
    return {int(data.indices[k]) for k in row[len(row) - len(row) // 2 :]}


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["random", "given", "time"]), st.integers(2, 6), st.integers(1, 8))
def test_folds(seed, half, n, min_activity):
    data = make(seed)
    tested = np.zeros(data.shape[0], np.int64)
    sizes = []
    for train, test in folds(data, folds=n, half=half, min_activity=min_activity, rng=seed):
        assert_partition(data, train, test)
        took = test.activity > 0
        assert (test.activity[took] == data.activity[took] // 2).all()
        assert (data.activity[took] >= min_activity).all()
        tested += took
        sizes.append(int(took.sum()))
        for user in np.flatnonzero(took):
            if half != "random":
                row = test.indices[test.indptr[user] : test.indptr[user + 1]]
                assert set(row.tolist()) == later_half(data, user, half)
    assert len(sizes) == n
    assert (tested == ((data.activity >= min_activity) & (data.activity >= 2))).all()  # each user in one round


def test_folds_are_groups_of_equal_size():
    data = generate(users=103, items=60, activity=10, user_tail=0)
    sizes = [int((test.activity > 0).sum()) for _, test in folds(data, rng=1)]
    assert sorted(sizes) == [20, 20, 21, 21, 21]


def test_folds_depend_on_rng_alone():
    data = make(0)
    first = [test for _, test in folds(data, rng=3)]
    assert first == [test for _, test in folds(data, rng=3)]
    assert first == [test for _, test in folds(data, rng=np.random.default_rng(3))]
    assert first != [test for _, test in folds(data, rng=4)]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from(["random", "given", "time"]))
def test_leave_out(seed, k, order):
    data = make(seed)
    train, test = leave_out(data, k=k, order=order, rng=seed)
    assert_partition(data, train, test)
    assert (test.activity == np.where(data.activity > k, k, 0)).all()
    if order == "time":
        for user in range(data.shape[0]):
            late = test.times[test.indptr[user] : test.indptr[user + 1]]
            early = train.times[train.indptr[user] : train.indptr[user + 1]]
            assert not len(late) or late.min() >= early.max()


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 3, 1]), st.floats(0.01, 0.99))
def test_held_out_users(seed, users, fold_in):
    data = make(seed)
    train, history, test = held_out_users(data, users=users, fold_in=fold_in, rng=seed)
    assert_partition(data, train, history, test)
    held = history.activity > 0
    assert (held == (test.activity > 0)).all()
    assert not train.activity[held].any()
    assert (train.activity[~held] == data.activity[~held]).all()
    assert held.sum() == (users if users >= 1 else max(1, round(users * data.shape[0])))
    assert (np.abs(history.activity[held] - fold_in * data.activity[held]) <= 1).all()


def test_held_out_users_of_one_item_never():
    data = read(pa.table({"u": [1, 2, 2, 3, 3, 4], "i": [1, 1, 2, 1, 2, 9]}))
    for seed in range(20):
        split = held_out_users(data, users=2, rng=seed)
        assert split.history.activity.tolist() == split.test.activity.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, match="cannot hold out 3 of 4 users: 2 have two items"):
        held_out_users(data, users=3)


def test_temporal():
    data = make(5)
    train, test = temporal(data, at=0.8)
    assert_partition(data, train, test)
    assert train.times.max() < test.times.min()
    assert train.pairs / data.pairs == pytest.approx(0.8, abs=0.05)
    train, test = temporal(data, at=25)
    assert train.times.max() < 25 <= test.times.min()


def test_temporal_at_a_date():
    data = read(
        pa.table({"u": [1, 1], "i": [1, 2], "t": [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]}),
        time="t",
    )
    for at in (datetime.date(2021, 1, 1), datetime.datetime(2020, 6, 1), np.datetime64("2020-06-01")):
        train, test = temporal(data, at=at)
        assert (train.history(1), test.history(1)) == ([1], [2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: folds(d, folds=1), "folds must be a whole number >= 2, got 1"),
        (lambda d: folds(d, folds=10_000), "folds must not outnumber the users, got 10,000 folds of 20 users"),
        (lambda d: folds(d, folds=2.5), "folds must be"),
        (lambda d: folds(d, min_activity=0), "min_activity must be"),
        (lambda d: folds(d, half="givn"), "unknown half 'givn': did you mean 'given'"),
        (lambda d: folds(d, half="time"), "no times: read it with time="),
        (lambda d: folds(d, rng=None), "rng must be a seed"),
        (lambda d: folds(d, rng=-1), "rng must be a seed"),
        (lambda d: leave_out(d, k=0), "k must be"),
        (lambda d: leave_out(d, order="last"), "unknown order 'last'"),
        (lambda d: held_out_users(d, users=0.0), "users must be a share"),
        (lambda d: held_out_users(d, users=1.5), "users must be a share"),
        (lambda d: held_out_users(d, users=0), "cannot hold out 0"),
        (lambda d: held_out_users(d, fold_in=1.0), "fold_in must lie"),
        (lambda d: held_out_users(d, fold_in=float("nan")), "fold_in must lie"),
        (lambda d: temporal(d), "no times"),
        (lambda d: temporal(make(0), at="noon"), "at must be"),
        (lambda d: temporal(make(0), at=1.5), "at must be"),
        (lambda d: temporal(make(0), at=float("nan")), "at must be"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(InputError, match=message):
        call(generate(users=20, items=30, activity=5))
