"""Measuring a model: who is measured, what is left out, and the figures the design promises."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.errors import InputError, UnknownIdError
from tests import reference


def small(seed=0):
    return komd.generate(users=150, items=70, activity=12, rng=seed)


def test_threads_and_blocks_change_nothing(monkeypatch):
    train, test = next(iter(komd.split.folds(small(), rng=0)))
    model = komd.CFKOMD().fit(train)
    names = "auc,ndcg@10,map@20,coverage@5,novelty@5"
    one = komd.evaluate(model, test, metrics=names, threads=1)
    monkeypatch.setattr(type(model), "_users_per_block", lambda self: 7)
    many = komd.evaluate(model, test, metrics=names, threads=3)
    for name in one.metrics:
        np.testing.assert_array_equal(one[name].values, many[name].values)
        assert one[name].mean == many[name].mean
        assert one[name].low == many[name].low


def test_the_interval_holds_the_mean_and_depends_on_rng_alone():
    train, test = next(iter(komd.split.folds(small(), rng=0)))
    model = komd.ECFOMD().fit(train)
    first, again, other = (komd.evaluate(model, test, metrics="auc", rng=seed)["auc"] for seed in (1, 1, 2))
    assert first.low < first.mean < first.high
    assert (first.low, first.high) == (again.low, again.high) != (other.low, other.high)
    assert first.std == pytest.approx(np.std(first.values))


def test_users_never_seen_are_evaluated_with_their_history():
    held = komd.split.held_out_users(small(), users=0.2, rng=0)
    model = komd.ECFOMD().fit(held.train)
    found = komd.evaluate(model, held.test, metrics="recall@10", history=held.history)
    some = found.users.to_pylist()[0]
    listed = model.recommend(histories={some: held.history.history(some)}).items(some)
    wanted = held.test.history(some)
    assert found["recall@10"].values[0] == len(set(listed) & set(wanted)) / len(wanted)


def test_unknown_users_and_items_are_named_or_counted():
    train = komd.read(_frame([("a", "x"), ("a", "y"), ("b", "y"), ("b", "z")]))
    test = komd.read(_frame([("a", "z"), ("a", "new"), ("c", "x")]))
    model = komd.ECFOMD().fit(train)
    with pytest.raises(UnknownIdError, match="new"):
        komd.evaluate(model, test, metrics="hit@1")
    found = komd.evaluate(model, test, metrics="hit@1", on_unknown="skip")
    assert found.users.to_pylist() == ["a"]
    assert found.skipped == 2
    assert found["hit@1"].mean == 1.0


def test_pairs_of_the_history_are_no_targets():
    train = komd.read(_frame([("a", "x"), ("a", "y"), ("b", "y"), ("b", "z")]))
    test = komd.read(_frame([("a", "x"), ("a", "z"), ("b", "y")]))
    found = komd.evaluate(komd.ECFOMD().fit(train), test, metrics="recall@1")
    assert found.users.to_pylist() == ["a"]
    assert (found["recall@1"].mean, found.skipped) == (1.0, 2)
    with pytest.raises(InputError, match="nothing to measure"):
        komd.evaluate(komd.ECFOMD().fit(train), train)


def test_a_user_without_others_has_no_auc():
    train = komd.read(_frame([("a", "x"), ("b", "x"), ("b", "y")]))
    test = komd.read(_frame([("a", "y")]))
    found = komd.evaluate(komd.ECFOMD().fit(train), test, metrics="auc,hit@1")
    assert np.isnan(found["auc"].values[0])
    assert np.isnan(found["auc"].mean)
    assert found["hit@1"].mean == 1.0


def test_bad_arguments_are_worded():
    train, test = next(iter(komd.split.folds(small(), rng=0)))
    model = komd.ECFOMD().fit(train)
    with pytest.raises(InputError, match="'strict' or item ids in order of preference, got 'both'"):
        komd.evaluate(model, test, ties="both")
    with pytest.raises(InputError, match="ties must be a word or item ids in order of preference, got 3"):
        komd.evaluate(model, test, ties=3)
    item = train.items[0]
    with pytest.raises(InputError, match="ties names 2 items that the model does not know, the first at 1"):
        komd.evaluate(model, test, ties=[item, "no such item", "nor this"])
    with pytest.raises(InputError, match=re.escape(f"ties names an item twice: {item!r}")):
        komd.evaluate(model, test, ties=[item, train.items[1], item])
    with pytest.raises(InputError, match="not fitted"):
        komd.evaluate(komd.ECFOMD(), test)
    with pytest.raises(InputError, match="was not measured"):
        komd.evaluate(model, test, metrics="auc")["map@5"]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_an_order_decides_between_equal_scores(seed):
    """MSDW on few pairs: most scores are 0. Some items are in no order, some were chosen by nobody."""
    rng = np.random.default_rng(seed)
    train, test = (rng.random((12, 15)) < share for share in (0.1, 0.2))
    train[:, [3, 7]] = False
    train[:, 0] = True
    test[0, 1:] |= ~train[0, 1:]
    R, T = (scipy.sparse.csr_array(pairs.astype(int)) for pairs in (train, test))
    order = rng.permutation(15)[: rng.integers(0, 16)].tolist()
    places = {item: place for place, item in enumerate(order)}
    found = [
        komd.evaluate(komd.MSDW(storage=storage).fit(R), T, metrics="auc", ties=order)
        for storage in ("dense", "sparse", "streamed")
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0]["auc"].values, other["auc"].values)
    assert found[0].ties == "in order"
    model = komd.MSDW().fit(R)
    for user, area in zip(found[0].users.to_pylist(), found[0]["auc"].values, strict=True):
        listed = model.recommend(user, n=15, items=list(range(15)), exclude_seen=False).to_arrow().to_pylist()
        known = {row["item_id"]: row["score"] for row in listed}
        score = [(known[j] if train[:, j].any() else -1.0, places.get(j, 99)) for j in range(15)]
        tested, others = (
            [score[j] for j in np.flatnonzero(which)]
            for which in (test[user] & ~train[user], ~test[user] & ~train[user])
        )
        assert area == pytest.approx(reference.area_in_order(tested, others), abs=1e-12, nan_ok=True)


def test_orders_of_one_kind_are_one_order():
    train, test = next(iter(komd.split.folds(small(), rng=0)))
    model = komd.MSDW().fit(train)
    order = train.items_by_appearance
    found = [komd.evaluate(model, test, metrics="auc", ties=ties) for ties in (order, order.to_pylist())]
    assert found[0]["auc"].mean == found[1]["auc"].mean
    half, strict, empty = (
        komd.evaluate(model, test, metrics="auc", ties=t)["auc"].mean for t in ("half", "strict", [])
    )
    assert empty == half
    backwards = komd.evaluate(model, test, metrics="auc", ties=order.to_pylist()[::-1])["auc"].mean
    assert found[0]["auc"].mean + backwards == pytest.approx(2 * half)
    assert strict <= min(found[0]["auc"].mean, backwards)


def _frame(pairs):
    import pyarrow as pa

    return pa.table({"user_id": [u for u, _ in pairs], "item_id": [i for _, i in pairs]})


def _folds(data, text, metrics):
    values = []
    for train, test in komd.split.folds(data, folds=5, half="random", rng=0):
        found = komd.evaluate(komd.model_from_text(text).fit(train), test, metrics=metrics)
        values.append([found[name].mean for name in found.metrics])
    return np.mean(values, axis=0)


@pytest.mark.data
def test_filmtrust_figures(real_data):
    data = komd.read(real_data / "filmtrust" / "ratings.txt")
    (ecf,) = _folds(data, "ECFOMD(regularization=0.01)", "auc")
    (tanimoto,) = _folds(data, "CFKOMD(kernel='tanimoto', regularization=0.01)", "auc")
    assert ecf == pytest.approx(0.962, abs=0.005)
    assert tanimoto == pytest.approx(0.965, abs=0.005)


@pytest.mark.data
def test_movielens_figures(real_data):
    data = komd.read(real_data / "ml-1m" / "ratings.csv.gz")
    auc, ndcg = _folds(data, "ECFOMD(regularization=0.01)", "auc,ndcg@100")
    (popular,) = _folds(data, "Popularity()", "ndcg@100")
    assert auc == pytest.approx(0.924, abs=0.003)
    assert ndcg == pytest.approx(0.51, abs=0.01)
    assert popular < ndcg - 0.1
