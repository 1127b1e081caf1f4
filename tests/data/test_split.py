"""Splits: what goes where, for any data."""

from __future__ import annotations

import datetime
import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.generate import generate
from komd.data.interactions import Interactions
from komd.data.read import read
from komd.data.split import folds, held_out_users, leave_out, temporal, time
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


# ---- by time, and what users dislike ------------------------------------------------------------------------------

# Of the data without dislikes, made by the code before dislikes were split.
DIGESTS = {
    "folds random": "bd5babf32c384c1e",
    "leave_out random": "751189bb090f1951",
    "held_out_users random": "9b4cf3d7c1a08bcb",
    "folds given": "29159541005d7d6d",
    "leave_out given": "9d04dd7e6e95c8a8",
    "held_out_users given": "154a32e237db97d2",
    "folds time": "252e89cd527ab6a2",
    "leave_out time": "b65292acfd4a6814",
    "held_out_users time": "2114ca09dc111b9e",
    "temporal": "85881b75f9113199",
}


def digest(parts):
    found = hashlib.sha256()
    for part in parts:
        for array in (part.indptr, part.indices, part.times):
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def splits(data):
    """Every split of these data by name: a list of parts, training data and test data in turn."""
    made = {"temporal": temporal(data, at=0.7)}
    for order in ("random", "given", "time"):
        made[f"folds {order}"] = [part for fold in folds(data, half=order, rng=3) for part in fold]
        made[f"leave_out {order}"] = leave_out(data, k=2, order=order, rng=3)
        made[f"held_out_users {order}"] = held_out_users(data, users=0.3, order=order, rng=3)
    return made


def rated(seed, timed=True):
    rng = np.random.default_rng(seed)
    table = {"user": rng.integers(0, 23, 400), "item": rng.integers(0, 40, 400), "stars": rng.integers(1, 6, 400)}
    table |= {"when": rng.permutation(400), "w": rng.integers(1, 9, 400)}
    asked = {"time": "when"} if timed else {}
    return read(pa.table(table), rating="stars", liked=3, disliked=2, weight="w", **asked)


def test_splits_of_data_without_dislikes_stay_as_they_were():
    assert {name: digest(parts) for name, parts in splits(make(0)).items()} == DIGESTS


def test_dislikes_and_weights_change_no_split():
    data = rated(1)
    assert data.dislikes is not None and data.weights is not None
    plain = splits(data.with_dislikes(None))
    for name, parts in splits(data).items():
        assert [part.with_dislikes(None) for part in parts] == list(plain[name]), name
        assert all(part.weights is not None and part.times is not None for part in parts)


def before(dislikes, user):
    return (
        set()
        if dislikes is None
        else {int(j) for j in dislikes.indices[dislikes.indptr[user] : dislikes.indptr[user + 1]]}
    )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_no_dislike_is_known_that_comes_later(seed):
    data = rated(seed)
    everything = data.dislikes
    when = dict(
        zip(
            zip(everything.rows.tolist(), everything.indices.tolist(), strict=True),
            everything.times.tolist(),
            strict=True,
        )
    )
    for name, parts in (splits(data) | {"per user": time(data, at=0.6, per_user=True)}).items():
        *known, test = parts[:2] if name.startswith("folds") else parts
        assert test.dislikes is None, name
        learned = known[-1]
        for user in range(data.shape[0]):
            all_theirs, kept = before(everything, user), before(learned.dislikes, user)
            assert kept <= all_theirs
            late = test.times[test.indptr[user] : test.indptr[user + 1]]
            tested, items = len(late), int(data.activity[user])
            if name == "temporal":
                moment = int(test.times.min())
                assert kept == {j for j in all_theirs if when[user, j] < moment}
            elif not tested:
                assert name.startswith("held_out") or kept == all_theirs
            elif "time" in name or name == "per user":
                assert kept == {j for j in all_theirs if when[user, j] < late.min()}
            else:
                assert abs(len(kept) - len(all_theirs) * (items - tested) / items) <= 0.5
                if "given" in name:
                    given_order = everything.indices[everything.indptr[user] : everything.indptr[user + 1]].tolist()
                    assert set(given_order[: len(kept)]) == kept
        if name.startswith("held_out"):
            held = test.activity > 0
            assert not any(before(known[0].dislikes, user) for user in np.flatnonzero(held))
            assert not any(before(learned.dislikes, user) for user in np.flatnonzero(~held))
            others = [before(known[0].dislikes, user) == before(everything, user) for user in np.flatnonzero(~held)]
            assert all(others)


def test_in_each_round_the_other_users_keep_their_dislikes():
    data = rated(2)
    for train, test in folds(data, rng=0):
        for user in np.flatnonzero(test.activity == 0):
            assert before(train.dislikes, user) == before(data.dislikes, user)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.95))
def test_time_per_user(seed, share):
    data = make(seed)
    train, test = time(data, at=share, per_user=True)
    assert_partition(data, train, test)
    expected = np.clip(np.rint(share * data.activity), 1, np.maximum(data.activity - 1, 1))
    assert (train.activity == np.where(data.activity, expected, 0)).all()
    for user in range(data.shape[0]):
        late = test.times[test.indptr[user] : test.indptr[user + 1]]
        early = train.times[train.indptr[user] : train.indptr[user + 1]]
        assert not len(late) or late.min() >= early.max()


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "h", "d"])
def test_moments_in_any_unit(unit):
    day = {"ns": 86_400 * 10**9, "us": 86_400 * 10**6, "ms": 86_400_000, "s": 86_400, "h": 24, "d": 1}[unit]
    data = read(
        pa.table({"u": [1] * 3, "i": [1, 2, 3], "t": [day * k for k in (10_000, 10_001, 10_002)]}),
        time="t",
        time_unit=unit,
    )
    moment = datetime.datetime(1997, 5, 20)  # day 10,001
    for at in (
        "1997-05-20",
        " 1997-05-20 00:00 ",
        "1997-05-20T02:00:00+02:00",
        moment,
        moment.date(),
        np.datetime64("1997-05-20"),
    ):
        assert time(data, at=at)[0].history(1) == [1]
    assert time(data, at="1997-05-20T00:00:01")[0].history(1) == [1, 2]
    assert temporal(data, at=day * 10_002)[1].history(1) == [3]


def test_bad_moments():
    data = make(0)
    with pytest.raises(InputError, match=r"with per_user=True, at must be a share between 0 and 1, got '1998-03-01'"):
        time(data, at="1998-03-01", per_user=True)
    with pytest.raises(InputError, match="the unit of the times is not known"):
        time(data, at="1998-03-01")
    with pytest.raises(InputError, match="at must be a share between 0 and 1 or a moment, got 'noon'"):
        time(data, at="noon")
    undated = rated(0).with_dislikes(rated(0, timed=False).dislikes)
    for cut in (time, temporal, lambda d: time(d, per_user=True), lambda d: leave_out(d, order="time")):
        with pytest.raises(InputError, match="the dislikes have no times like those of the pairs"):
            cut(undated)
    assert leave_out(undated)[0].dislikes is not None


def test_rolling_folds_test_windows_after_all_that_trains():
    rng = np.random.default_rng(0)
    data = generate(users=60, items=40, activity=8, rng=0)
    times = rng.integers(0, 1000, data.pairs)
    data = Interactions(data.users, data.items, data.indptr, data.indices, times, time_unit="s")
    rounds = list(folds(data, folds=4, half="rolling"))
    assert len(rounds) == 4
    tested = sum(test.pairs for _, test in rounds)
    assert abs(tested - data.pairs / 2) <= 5  # pairs of one moment stay together
    before = np.inf
    for train, test in rounds:  # the latest window first
        assert train.times.max() < test.times.min()
        assert test.times.max() < before
        before = test.times.min()
        assert train.pairs == np.count_nonzero(times < before)
    assert rounds[0][0].pairs + rounds[0][1].pairs == data.pairs
    with pytest.raises(InputError, match="the data has no times"):
        folds(Interactions(data.users, data.items, data.indptr, data.indices), half="rolling")
