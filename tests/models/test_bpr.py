"""BPR: the factors of known users, in any order and any subset; strangers and explanations refused in words."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import komd


@pytest.fixture(scope="module")
def model(small):
    return komd.BPR(factors=8, iterations=20).fit(small)


def test_scores_are_those_of_the_users_own_factors(model, small):
    """Any order, any subset: each row is served by the factors of the user it belongs to."""
    users = small.users.values.to_pylist()
    asked = [users[k] for k in (41, 3, 77, 3)]
    served = model.recommend(asked, n=50, exclude_seen=False).to_arrow().to_pylist()
    scores = model._X @ model._Y.T
    for row in served:
        u = users.index(row["user_id"])
        j = int(model.catalogue.find_items([row["item_id"]], "error")[0])
        assert row["score"] == pytest.approx(scores[u, j], abs=1e-9)
    everybody = model.recommend(n=4).to_arrow().to_pylist()
    mine = [r for r in everybody if r["user_id"] == users[41]]
    assert [r["item_id"] for r in mine] == model.recommend(users[41], n=4).to_arrow()["item_id"].to_pylist()


def test_evaluation_knows_who_is_who(small):
    """The test users of a fold are a subset in another order: as good by hand as by `evaluate`."""
    train, test = next(komd.split.folds(small, rng=1))
    model = komd.BPR(factors=8, iterations=20).fit(train)
    result = komd.evaluate(model, test, metrics="hit@5")
    held = {
        (u, i)
        for u, row in zip(test.users.values.to_pylist(), np.split(test.indices, test.indptr[1:-1]), strict=True)
        for i in test.items.take(row).to_pylist()
    }
    served = model.recommend(result.users, n=5).to_arrow().to_pylist()
    hits = {r["user_id"] for r in served if (r["user_id"], r["item_id"]) in held}
    assert result["hit@5"].mean == pytest.approx(len(hits) / len(result.users))


def test_strangers_are_refused(model, small):
    history = small.items.take(np.array([1, 2])).to_pylist()
    train, test = next(komd.split.folds(small, rng=1))
    assert not komd.BPR.serves_strangers
    assert komd.BPRKNN.serves_strangers
    with pytest.raises(komd.InputError, match=r"only the users it was fitted to: .*use BPRKNN, WRMF"):
        model.recommend(histories={"guest": history})
    with pytest.raises(komd.InputError, match="only the users it was fitted to"):
        model.explain(item=history[0], history=history)
    with pytest.raises(komd.InputError, match="only the users it was fitted to"):
        komd.evaluate(model, test, history=train)


def test_strangers_without_history_get_what_is_popular(model):
    with pytest.warns(komd.FallbackWarning):
        assert len(model.recommend(histories=[[]], n=3)) == 3


def test_explanations_are_refused(model, small):
    user = small.users.values.to_pylist()[0]
    with pytest.raises(komd.InputError, match="BPR cannot explain a score"):
        model.explain(user, model.recommend(user, n=1).to_arrow()["item_id"][0].as_py())


def test_the_seed_decides_and_threads_do_not(small):
    a, b = (komd.BPR(factors=6, iterations=5, rng=3).fit(small, threads=t) for t in (1, 2))
    c = komd.BPR(factors=6, iterations=5, rng=4).fit(small)
    assert np.array_equal(a._X, b._X)
    assert np.array_equal(a._Y, b._Y)
    assert not np.array_equal(a._Y, c._Y)


def test_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "m.komd")
    again = komd.load(tmp_path / "m.komd")
    assert again.recommend(n=5).to_arrow().equals(model.recommend(n=5).to_arrow())


def test_implicit_missing(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.bpr", None)
    with pytest.raises(komd.InputError, match=r"BPR .* not installed: pip install '.*\[rivals\]'"):
        komd.BPR().fit(small)


@pytest.mark.filterwarnings("error")
def test_quiet(small, capsys):
    komd.BPR(factors=4, iterations=2).fit(small)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "wrong", [{"factors": 0}, {"iterations": 0}, {"learning_rate": 0}, {"regularization": -1}, {"rng": 1.5}]
)
def test_wrong_parameters(wrong):
    with pytest.raises(komd.InputError, match=next(iter(wrong))):
        komd.BPR(**wrong)


@pytest.mark.data
def test_movielens(ml_1m):
    train, test = next(komd.split.folds(ml_1m, rng=0))
    result = komd.evaluate(komd.BPR(factors=16, iterations=10).fit(train), test, metrics="auc,ndcg@100")
    assert result["auc"].mean > 0.85
    assert result["ndcg@100"].mean > 0.35
