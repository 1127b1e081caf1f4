"""WRMF: fold-in as implicit does it, scores that add up over the history, the same for the same seed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import komd


def matrix(data, value):
    rows = data.histories
    return sp.csr_matrix(
        (np.full(len(rows.indices), value, np.float32), rows.indices, rows.indptr.astype(np.int32)),
        shape=(len(rows), len(data.order)),
    )


@pytest.fixture(scope="module")
def model(small):
    return komd.WRMF(factors=8, regularization=2.0, alpha=3.0).fit(small)


def test_fold_in_is_that_of_implicit(model):
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    R = matrix(model.catalogue, 4.0)
    with threadpool_limits(1, user_api="blas"):
        rival = AlternatingLeastSquares(factors=8, iterations=15, regularization=2.0, random_state=0)
        rival.fit(R, show_progress=False)
        expected = rival.recalculate_user(np.arange(R.shape[0]), R)
    assert np.array_equal(model._Y.astype(np.float32), rival.item_factors)
    assert model._user_factors(model.catalogue.histories) == pytest.approx(expected, abs=2e-5)


def test_fold_in_solves_the_persons_problem(model):
    """x_u is where the gradient of Σ_i c_i (p_i − x·y_i)² + λ‖x‖² vanishes."""
    rows = model.catalogue.histories
    X = model._user_factors(rows)
    for u in (0, 7, 50):
        p = np.zeros(len(model._Y))
        p[rows.indices[rows.indptr[u] : rows.indptr[u + 1]]] = 1.0
        c = 1.0 + 3.0 * p
        gradient = model._Y.T @ (c * (model._Y @ X[u] - p)) + 2.0 * X[u]
        assert gradient == pytest.approx(np.zeros(8), abs=1e-9)


def test_contributions_sum_to_the_score(model, small):
    for user in small.users.values.to_pylist()[:5]:
        for row in model.recommend(user, n=3).to_arrow().to_pylist():
            why = model.explain(user, row["item_id"])
            table = why.table.to_pydict()
            assert sum(table["contribution"]) == pytest.approx(row["score"], abs=1e-12)
            assert set(table["weight"]) == {4.0}
            assert table["contribution"] == pytest.approx([4.0 * s for s in table["similarity"]], abs=1e-6)


def test_known_or_not_the_history_decides(model, small):
    users = small.users.values.to_pylist()[:10]
    rows = model.catalogue.histories
    histories = [
        model.catalogue.item_ids(rows.indices[rows.indptr[u] : rows.indptr[u + 1]]).to_pylist() for u in range(10)
    ]
    known = model.recommend(users, n=7).to_arrow()
    strangers = model.recommend(histories=histories, n=7).to_arrow()
    assert known["item_id"].equals(strangers["item_id"])
    assert known["score"].equals(strangers["score"])


def test_people_without_history_are_no_obstacle(model):
    with pytest.warns(komd.FallbackWarning):
        served = model.recommend(histories=[[], model.catalogue.item_ids(np.array([3, 4])).to_pylist(), []], n=2)
    assert len(served) == 6


def test_the_seed_decides_and_threads_do_not(small):
    a, b = (komd.WRMF(factors=6, rng=3).fit(small, threads=t)._Y for t in (1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, komd.WRMF(factors=6, rng=4).fit(small)._Y)


def test_similar_items_are_those_of_like_factors(model):
    Y = model._Y / np.linalg.norm(model._Y, axis=1, keepdims=True)
    best = model.similar_items(model.catalogue.item_ids(np.array([5])), n=3).to_arrow()
    cosines = np.delete(Y @ Y[5], 5)
    assert best["score"].to_pylist() == pytest.approx(np.sort(cosines)[::-1][:3], abs=1e-6)


def test_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "m.komd")
    again = komd.load(tmp_path / "m.komd")
    assert again.recommend(n=5).to_arrow().equals(model.recommend(n=5).to_arrow())


def test_implicit_missing(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(komd.InputError, match=r"WRMF .* not installed: pip install '.*\[rivals\]'"):
        komd.WRMF().fit(small)


@pytest.mark.filterwarnings("error")
def test_quiet(small, capsys):
    komd.WRMF(factors=4, iterations=2).fit(small)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "wrong", [{"factors": 0}, {"iterations": 1.5}, {"regularization": 0}, {"alpha": -1}, {"rng": None}]
)
def test_wrong_parameters(wrong):
    with pytest.raises(komd.InputError, match=next(iter(wrong))):
        komd.WRMF(**wrong)


@pytest.mark.data
def test_movielens(ml_1m):
    train, test = next(komd.split.folds(ml_1m, rng=0))
    result = komd.evaluate(komd.WRMF(factors=32, iterations=8).fit(train), test, metrics="auc,ndcg@100")
    assert result["auc"].mean > 0.90
    assert result["ndcg@100"].mean > 0.50
