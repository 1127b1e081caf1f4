"""EASE against its closed form and its own optimality, and against figures known for real data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

import komd
from komd.engine.catalogue import Catalogue
from komd.matrix import regression
from komd.matrix import ridge_filter as spectral
from komd.matrix.saved import regression_restored

binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12)).filter(np.any)


def dense(data):
    R = np.zeros(data.shape)
    R[data.rows, data.indices] = 1.0
    return R


def scores(model):
    """Of everybody, users × items in the order of the data."""
    return model.block_scores(model.catalogue.histories)[:, model.catalogue.inside]


def learned(model):
    """B, in the order of the data."""
    inside = model.catalogue.inside
    return model.matrix.values[np.ix_(inside, inside)].astype(float)


def twin(R, regularization):
    """B = I − P diag(1 / diag P), P = (R'R + λI)⁻¹."""
    m = R.shape[1]
    P = np.linalg.inv(R.T @ R + regularization * np.eye(m))
    return np.eye(m) - P / np.diag(P)


@settings(deadline=None, max_examples=60)
@given(R=binary, regularization=st.floats(0.1, 1000))
def test_closed_form(R, regularization):
    """Items nobody chose included: their rows and columns are empty."""
    R = R.astype(float)
    B = learned(komd.EASE(regularization=regularization).fit(csr_array(R)))
    np.testing.assert_allclose(B, twin(R, regularization), rtol=1e-5, atol=1e-7)
    assert not B.diagonal().any()
    lonely = ~R.any(axis=0)
    assert not B[lonely].any()
    assert not B[:, lonely].any()


def test_scores(small):
    R = dense(small)
    np.testing.assert_allclose(scores(komd.EASE(regularization=20).fit(small)), R @ twin(R, 20), rtol=1e-5, atol=1e-6)


def test_optimal(small):
    """Column by column B is ridge regression of an item on all the others."""
    R = dense(small)
    B = learned(komd.EASE(regularization=5.0).fit(small))
    for j in range(R.shape[1]):
        others = np.arange(R.shape[1]) != j
        X = R[:, others]
        gradient = X.T @ (X @ B[others, j] - R[:, j]) + 5.0 * B[others, j]
        np.testing.assert_allclose(gradient, 0, atol=1e-4)


def test_blocks_and_threads(monkeypatch):
    """Mirrored in any pieces, by any number of threads, B is the same to the last bit."""
    rng = np.random.default_rng(2)
    R = csr_array((rng.random((80, 70)) < 0.2).astype(float))
    monkeypatch.setattr(spectral, "_BLOCK", 16)
    expected = learned(komd.EASE(regularization=10).fit(R, threads=1))
    for rows, threads in ((1, 1), (7, 2), (70, 3)):
        monkeypatch.setattr(regression, "_ROWS", rows)
        assert np.array_equal(learned(komd.EASE(regularization=10).fit(R, threads=threads)), expected)
    np.testing.assert_allclose(expected, twin(R.toarray(), 10), rtol=1e-5, atol=1e-7)


def test_lapack_sees_small_matrices_only_and_blas_one_thread(monkeypatch):
    """Threaded factorisations of large matrices have crashed on some processors."""
    import scipy.linalg.lapack
    from threadpoolctl import threadpool_info

    seen = []

    def watched(A, *args, **kwargs):
        threads = max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        seen.append((len(A), threads))
        return true(A, *args, **kwargs)

    true = scipy.linalg.lapack.dpotrf
    monkeypatch.setattr(scipy.linalg.lapack, "dpotrf", watched)
    rng = np.random.default_rng(2)
    komd.EASE(regularization=10).fit(csr_array((rng.random((1200, 1100)) < 0.02).astype(float)))
    assert len(seen) == 3
    assert max(seen) == (spectral._BLOCK, 1)


def test_small_regularization_needs_the_double_precision():
    """Two items that nearly always go together: the inverse has a condition of 10^8."""
    R = np.ones((200, 3))
    R[0, 0] = R[1, 1] = R[2:6, 2] = 0
    found = learned(komd.EASE(regularization=1e-6).fit(csr_array(R)))
    np.testing.assert_allclose(found, twin(R, 1e-6), rtol=1e-5)


def test_singular():
    R = csr_array(np.ones((3, 40)))
    with pytest.raises(komd.SolverError, match="use more regularization"):
        komd.EASE(regularization=1e-300).fit(R)


@pytest.mark.parametrize("shape", [(30, 90), (90, 30)])
def test_primal_and_dual_are_one_matrix(shape):
    """Whichever inverse is taken; and with the second one written out or not."""
    rng = np.random.default_rng(4)
    R = (rng.random(shape) < 0.08).astype(float)
    R[:5] = 0
    R[np.arange(5), np.arange(5)] = 1  # users with one item, who are on the diagonal only
    B = twin(R, 7.0)
    rows = Catalogue.of(komd.Interactions.of(csr_array(R))).histories.rows
    order = np.lexsort((np.arange(shape[1]), -R.sum(axis=0)))
    primal = regression._primal(rows, shape[1], int((R.sum(axis=0) > 0).sum()), 7.0, None)
    dual = regression._dual(rows, shape[1], 7.0, None)
    expected = B[np.ix_(order, order)]
    np.testing.assert_allclose(primal.values, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(dual.written_out().values, expected, rtol=1e-5, atol=1e-7)
    assert np.array_equal(dual.written_out(threads=1).values, dual.written_out(threads=2).values)


@pytest.fixture(scope="module")
def wide():
    """Few users, many items; and a budget with room for an inverse between users alone."""
    data = komd.generate(users=40, items=300, activity=15, rng=3)
    return data, "200kB"


def test_held_between_users(wide, tmp_path):
    """Every way of asking gives what the matrix written out gives."""
    data, tight = wide
    out, held = komd.EASE(regularization=9).fit(data), komd.EASE(regularization=9).fit(data, memory=tight)
    assert (out.matrix.storage, held.matrix.storage) == ("dense", "dual")
    assert held.matrix.bytes < out.matrix.bytes / 4
    np.testing.assert_allclose(scores(held), scores(out), rtol=1e-5, atol=1e-6)
    users, items = data.users.values.to_pylist(), data.items.values.to_pylist()
    stranger = {"guest": items[3:9]}
    lists = [m.recommend(users, n=5).to_arrow()["item_id"] for m in (out, held)]
    assert lists[0] == lists[1]
    assert (
        out.recommend(histories=stranger, n=4).to_arrow()["item_id"]
        == (held.recommend(histories=stranger, n=4).to_arrow()["item_id"])
    )
    best = held.recommend(users[7], n=1).to_arrow().to_pylist()[0]
    why = held.explain(users[7], best["item_id"])
    assert why.score == best["score"] == pytest.approx(sum(why.table["contribution"].to_pylist()), rel=1e-12)
    pair = held.score([(users[7], best["item_id"])]).to_arrow()["score"].to_pylist()
    assert pair == [best["score"]]
    assert (
        held.similar_items(items[0], n=5).to_arrow()["item_id"]
        == out.similar_items(items[0], n=5).to_arrow()["item_id"]
    )
    held.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.matrix.storage == "dual"
    assert np.array_equal(scores(loaded), scores(held))


def test_storage_that_is_asked_for(wide, small):
    for data in (wide[0], small):  # whichever inverse is the smaller
        dense, dual = (komd.EASE(regularization=9, storage=how).fit(data) for how in ("dense", "dual"))
        assert (dense.matrix.storage, dual.matrix.storage) == ("dense", "dual")
        np.testing.assert_allclose(scores(dual), scores(dense), rtol=1e-5, atol=1e-6)
    with pytest.raises(komd.InputError, match="storage must be"):
        komd.EASE(storage="sparse")
    with pytest.raises(komd.InputError, match=r"EASE needs .*360 kB for the result"):
        komd.EASE(storage="dense").fit(wide[0], memory="200kB")


def test_a_damaged_inverse_is_refused(wide, tmp_path):
    data, tight = wide
    model = komd.EASE(regularization=9).fit(data, memory=tight)
    arrays = model.learned_arrays()
    rows = model.catalogue.histories.rows
    for name, wrong in (("dual_Q", arrays["dual_Q"][1:]), ("dual_left", arrays["dual_left"].astype(np.float32))):
        with pytest.raises(komd.ModelFileError, match="not one of these users and items"):
            regression_restored(arrays | {name: wrong}, rows, data.shape[1])


def test_an_inverse_between_users_that_does_not_fit(wide):
    with pytest.raises(komd.InputError, match=r"EASE needs .* \(an inverse between 40 users\), and the budget is 5 kB"):
        komd.EASE().fit(wide[0], memory="5kB")


def test_memory_is_checked_first(small):
    with pytest.raises(
        komd.InputError,
        match=r"EASE needs 110 kB for 50 items \(an inverse between 50 items, 10 kB for .*budget is 20 kB",
    ):
        komd.EASE().fit(small, memory="20kB")
    komd.EASE().fit(small, memory="110kB")


def test_explain_similar_save_load(small, tmp_path):
    model = komd.EASE(regularization=30).fit(small)
    ids = small.users.values.to_pylist(), small.items.values.to_pylist()
    best = model.recommend(ids[0][3], n=1).to_arrow().to_pylist()[0]
    why = model.explain(ids[0][3], best["item_id"])
    assert why.score == best["score"] == pytest.approx(sum(why.table["contribution"].to_pylist()), rel=1e-12)
    similar = model.similar_items(ids[1][0], n=5)
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert repr(loaded) == repr(model) == "EASE(regularization=30)"
    assert np.array_equal(scores(loaded), scores(model))
    assert loaded.similar_items(ids[1][0], n=5).to_arrow() == similar.to_arrow()


def test_checkerboard(checkerboard):
    data, answers = checkerboard
    best = komd.EASE(regularization=1).fit(data).recommend(n=1).to_arrow().to_pylist()
    assert {row["user_id"]: row["item_id"] for row in best} == answers


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, "x"])
def test_parameters_that_cannot_be(wrong):
    with pytest.raises(komd.InputError, match=r"regularization must be .*> 0, got"):
        komd.EASE(regularization=wrong)


@pytest.mark.data
def test_movielens(ml_1m):
    train, test = next(komd.split.folds(ml_1m, folds=5, half="random", rng=0))
    found = komd.evaluate(komd.EASE(regularization=1000).fit(train), test, metrics="ndcg@100,auc")
    assert found["ndcg@100"].mean == pytest.approx(0.554, abs=0.01)
    assert found["auc"].mean == pytest.approx(0.911, abs=0.01)
