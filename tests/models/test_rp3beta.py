"""RP3β against a walk taken step by step, and against a figure known for real data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import komd


def dense(data):
    R = np.zeros(data.shape)
    R[data.rows, data.indices] = 1.0
    return R


def scores(model):
    """Of everybody, users × items in the order of the data."""
    return model.block_scores(model.catalogue.histories)[:, model.catalogue.inside]


def twin(R, alpha, beta):
    """The three steps as matrices of transition probabilities, each to the power alpha; the first one left out."""
    d, a = np.maximum(R.sum(axis=0), 1), np.maximum(R.sum(axis=1), 1)
    to_users = np.where(R.T > 0, R.T / d[:, None], 0) ** alpha * (R.T > 0)
    to_items = np.where(R > 0, R / a[:, None], 0) ** alpha * (R > 0)
    return R @ (to_users @ to_items) / d**beta


@pytest.mark.parametrize(("alpha", "beta"), [(0.6, 0.6), (1, 0), (0, 0), (1.7, 0.3)])
def test_walk(small, alpha, beta):
    model = komd.RP3Beta(alpha=alpha, beta=beta).fit(small)
    np.testing.assert_allclose(scores(model), twin(dense(small), alpha, beta), rtol=1e-6)


def test_the_first_step_changes_no_order(small):
    """With it the plain walk's scores are probabilities: they sum to one over all items."""
    R = dense(small)
    model = komd.RP3Beta(alpha=1, beta=0).fit(small)
    np.testing.assert_allclose((scores(model) / R.sum(axis=1, keepdims=True)).sum(axis=1), 1.0, rtol=1e-6)


def test_dense_and_sparse_agree(small, request):
    model = komd.RP3Beta()
    held_dense = scores(model.fit(small))
    assert model.matrix.storage == "dense"
    request.getfixturevalue("held_sparse")
    held_sparse = scores(model.fit(small, threads=1))
    assert model.matrix.storage == "sparse"
    np.testing.assert_allclose(held_sparse, held_dense, rtol=1e-12)


def test_people_and_items_with_nothing():
    R = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]])
    with np.errstate(all="raise"):
        model = komd.RP3Beta().fit(csr_array(R))
    expected = twin(R.astype(float), 0.6, 0.6)
    np.testing.assert_allclose(scores(model)[[0, 2]], expected[[0, 2]], rtol=1e-6)
    assert not scores(model)[[0, 2], 3].any()


def test_explain_similar_save_load(small, tmp_path):
    model = komd.RP3Beta(beta=0.3).fit(small)
    ids = small.users.values.to_pylist(), small.items.values.to_pylist()
    best = model.recommend(ids[0][3], n=1).to_arrow().to_pylist()[0]
    why = model.explain(ids[0][3], best["item_id"])
    assert why.score == best["score"] == pytest.approx(sum(why.table["contribution"].to_pylist()), rel=1e-12)
    similar = model.similar_items(ids[1][0], n=5)
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.text == model.text == "RP3Beta(beta=0.3)"
    assert np.array_equal(scores(loaded), scores(model))
    assert loaded.similar_items(ids[1][0], n=5).to_arrow() == similar.to_arrow()


def test_checkerboard(checkerboard):
    data, answers = checkerboard
    best = komd.RP3Beta().fit(data).recommend(n=1).to_arrow().to_pylist()
    assert {row["user_id"]: row["item_id"] for row in best} == answers


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("wrong", [-0.5, "x", np.inf])
def test_parameters_that_cannot_be(name, wrong):
    with pytest.raises(komd.InputError, match=rf"{name} must be .*>= 0, got"):
        komd.RP3Beta(**{name: wrong})


@pytest.mark.data
def test_movielens(ml_1m):
    train, test = next(komd.split.folds(ml_1m, folds=5, half="random", rng=0))
    found = komd.evaluate(komd.RP3Beta(alpha=0.6, beta=0.6).fit(train), test, metrics="ndcg@100")
    assert found["ndcg@100"].mean == pytest.approx(0.485, abs=0.01)
