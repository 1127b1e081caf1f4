"""MSDW against its formula, and against figures known for real data."""

from __future__ import annotations

import numpy as np
import pytest

import komd


def dense(data):
    R = np.zeros(data.shape)
    R[data.rows, data.indices] = 1.0
    return R


def scores(model):
    """Of everybody, users × items in the order of the data."""
    return model.block_scores(model.catalogue.histories)[:, model.catalogue.inside]


def twin(R, alpha, locality):
    """score(u, i) = Σ_{j ∈ I_u} w_ij with w_ij = (|U_i ∩ U_j| / (|U_i|^α |U_j|^(1−α)))^locality (PAPER)."""
    both, d = R.T @ R, np.maximum(R.sum(axis=0), 1)
    w = (both / (d[:, None] ** alpha * d[None, :] ** (1 - alpha))) ** locality
    return R @ w.T


@pytest.mark.parametrize("alpha", [0, 0.25, 1.0])
@pytest.mark.parametrize("locality", [1, 2.5])
def test_formula(small, alpha, locality):
    model = komd.MSDW(alpha=alpha, locality=locality).fit(small)
    np.testing.assert_allclose(scores(model), twin(dense(small), alpha, locality), rtol=1e-6)


def test_dense_and_sparse_agree(small, request):
    model = komd.MSDW(alpha=0.3, locality=2)
    held_dense = scores(model.fit(small))
    assert model.matrix.storage == "dense"
    request.getfixturevalue("held_sparse")
    held_sparse = scores(model.fit(small))
    assert model.matrix.storage == "sparse"
    np.testing.assert_allclose(held_sparse, held_dense, rtol=1e-12)


def test_nothing_scores_minus_zero(held_sparse, checkerboard):
    data, _ = checkerboard
    model = komd.MSDW().fit(data)
    values = model.recommend("person-00", n=12).to_arrow()["score"].to_numpy()
    assert (values == 0).any()
    assert not np.signbit(values).any()
    assert not np.signbit(model.explain("person-00", "odd-1").global_term)


def test_explain_similar_save_load(small, tmp_path):
    model = komd.MSDW(alpha=0.2).fit(small)
    ids = small.users.values.to_pylist(), small.items.values.to_pylist()
    best = model.recommend(ids[0][3], n=1).to_arrow().to_pylist()[0]
    why = model.explain(ids[0][3], best["item_id"])
    assert why.score == best["score"] == pytest.approx(sum(why.table["contribution"].to_pylist()), rel=1e-12)
    assert set(why.table["weight"].to_pylist()) == {1.0}
    similar = model.similar_items(ids[1][0], n=5)
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.text == model.text == "MSDW(alpha=0.2)"
    assert np.array_equal(scores(loaded), scores(model))
    assert loaded.similar_items(ids[1][0], n=5).to_arrow() == similar.to_arrow()


def test_checkerboard(checkerboard):
    data, answers = checkerboard
    best = komd.MSDW().fit(data).recommend(n=1).to_arrow().to_pylist()
    assert {row["user_id"]: row["item_id"] for row in best} == answers


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"alpha": -1}, "alpha must be >= 0, got -1"),
        ({"alpha": 2}, "alpha must be <= 1, got 2"),
        ({"alpha": None}, "alpha must be a number >= 0, got None"),
        ({"locality": 0.0}, "locality must be > 0, got 0.0"),
    ],
)
def test_parameters_that_cannot_be(wrong, words):
    with pytest.raises(komd.InputError) as error:
        komd.MSDW(**wrong)
    assert str(error.value) == words


@pytest.mark.data
@pytest.mark.parametrize(("alpha", "expected"), [(0, 0.9625), (0.25, 0.962), (0.5, 0.9595), (0.75, 0.949), (1, 0.836)])
def test_filmtrust(real_data, alpha, expected):
    data = komd.read(real_data / "filmtrust" / "ratings.txt")
    areas = [
        komd.evaluate(komd.MSDW(alpha=alpha).fit(train), test, metrics="auc")["auc"].mean
        for train, test in komd.split.folds(data, folds=5, half="random", rng=0)
    ]
    assert np.mean(areas) == pytest.approx(expected, abs=0.01)


@pytest.mark.data
@pytest.mark.parametrize(("alpha", "expected"), [(0, 0.882), (0.25, 0.886), (0.5, 0.892), (0.75, 0.881), (1, 0.451)])
def test_movielens(ml_1m, alpha, expected):
    train, test = next(komd.split.folds(ml_1m, folds=5, half="random", rng=0))
    found = komd.evaluate(komd.MSDW(alpha=alpha).fit(train), test, metrics="auc")
    assert found["auc"].mean == pytest.approx(expected, abs=0.01)
