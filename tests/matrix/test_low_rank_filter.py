"""The filter of low rank: eigenvectors against LAPACK's, and the exact filter within the bound that is stated."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.errors import FilterWarning, InputError, ModelFileError
from komd.matrix import eigenvectors as eigen
from komd.matrix.dense import DenseMatrix
from komd.matrix.eigenvectors import leading
from komd.matrix.low_rank import LowRankMatrix
from komd.matrix.low_rank_filter import filter_truncated, truncation
from komd.matrix.sparse import SparseMatrix


def a_kernel(seed, items, nobody=2):
    """A random correlation matrix with a falling spectrum; nobody chose the last items."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((items, 2 * items)) * np.arange(1, 2 * items + 1) ** -rng.uniform(0.3, 1.5)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = np.zeros((items + nobody, items + nobody), np.float32)
    K[:items, :items] = X @ X.T
    return K


def compressed(K):
    rows, columns = np.nonzero(K)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(K)))]).astype(np.int64)
    return SparseMatrix(indptr, columns.astype(np.int32), K[rows, columns])


def full(matrix):
    return np.array([matrix.row(i) for i in range(matrix.items)], float)


def filtered(K, spectrum, mu, items):
    return K.corrected(filter_truncated(spectrum, mu, items))


def exact_filter(K, mu, items):
    """K (K + μI)⁻¹ at a mean diagonal of 1, by LAPACK."""
    values, vectors = np.linalg.eigh(K.astype(float))
    values = np.maximum(values, 0)
    F = (vectors * (values / (values + mu))) @ vectors.T
    return F / (np.trace(F) / items)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 70), st.floats(0.3, 300))
def test_it_is_the_exact_filter_within_the_bound_it_states(seed, items, rank, mu):
    K = a_kernel(seed, items)
    spectrum = leading(compressed(K), rank, items)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = filtered(compressed(K), spectrum, mu, items)
    assert bool(said) == (max(spectrum.last, spectrum.beyond_found) > mu / 2)
    assert isinstance(found, LowRankMatrix)
    got, (stated, scale, _) = full(found), truncation(spectrum, mu, items)
    assert found.truncation == stated
    rounding = 1e-5 + 5 * eigen._NOTHING * scale * np.linalg.eigvalsh(K.astype(float))[-1]
    assert np.abs(got - exact_filter(K, mu, items)).max() <= stated.error + rounding
    assert np.linalg.eigvalsh((got + got.T) / 2).min() > -rounding  # positive semi-definite, whatever the rank
    assert np.diag(got)[:items].mean() == pytest.approx(1, abs=1e-4)
    assert np.allclose(found.diagonal(), np.diag(got), atol=1e-4)
    assert not got[items:].any() and not got[:, items:].any()
    assert np.allclose(found.sums(), got.sum(axis=1), atol=1e-3)
    some = np.arange(0, items, 3, dtype=np.int32)
    assert np.array_equal(found.entries(some, some[::-1]), got[np.ix_(some, some[::-1])].astype(np.float32))
    dense = filtered(DenseMatrix(K.copy()), spectrum, max(mu, 2 * spectrum.last + 1e-9), items)
    assert np.array_equal(dense.values, dense.values.T)


def adversarial_kernel(rng):
    """K of data that are hard for a few random vectors: cliques, users of one item, long tails, twins, popularity."""
    users, items = int(rng.integers(5, 250)), int(rng.integers(4, 250))
    family = rng.choice(["cliques", "one item", "long tail", "twins", "blocks and noise"])
    if family == "cliques":
        size = int(rng.integers(1, 9))
        R = np.kron(np.eye(max(1, items // size)), np.ones((int(rng.integers(1, 4)), size)))
    elif family == "one item":
        R = np.eye(items)[rng.integers(0, items, users)]
        R[: users // 4] += rng.random((users // 4, items)) < 3 / items
    elif family == "long tail":
        R = rng.random((users, items)) < np.minimum(
            1, rng.uniform(0.2, 1) * np.arange(1, items + 1) ** -rng.uniform(0.5, 2)
        )
    elif family == "twins":
        R = np.repeat(rng.random((users, max(1, items // 4))) < 0.1, 4, axis=1)
    else:
        R = np.kron(np.eye(max(1, items // 20)), np.ones((3, 20)))
        R = np.concatenate([R, rng.random((users, R.shape[1])) < 0.02])
    R = (R > 0).astype(float)
    R = R[:, np.argsort(-R.sum(axis=0), kind="stable")]
    chosen = max(1, int(np.count_nonzero(R.sum(axis=0))))
    if not R.any():
        R[0, 0] = 1.0
    counts = (R.T * np.maximum(R.sum(axis=1), 1) ** -rng.choice([0.0, 0.5])) @ R
    length = np.sqrt(np.where(np.diag(counts) > 0, np.diag(counts), 1.0))
    K = counts / length / length[:, None]
    K = K / (2 - K) if rng.random() < 0.3 else K
    scale = np.maximum(R.sum(axis=0), 1) ** rng.choice([0.0, 0.3, 1.0])
    K *= scale * scale[:, None]
    return (K / (np.trace(K) / chosen)).astype(np.float32), chosen


def test_the_bound_holds_on_adversarial_data():
    """`KOMD_FUZZ=3000 pytest tests/matrix/test_low_rank_filter.py -k adversarial` tries as many."""
    for seed in range(int(os.environ.get("KOMD_FUZZ", "25"))):
        rng = np.random.default_rng(seed)
        K, chosen = adversarial_kernel(rng)
        mu, rank = float(10 ** rng.uniform(-1, 2.5)), int(rng.integers(1, 1 + min(chosen, 64)))
        spectrum = leading(DenseMatrix(K), rank, chosen)
        beside = K.astype(float) - (spectrum.vectors * spectrum.values) @ spectrum.vectors.T.astype(float)
        U = spectrum.vectors.astype(float)
        beside -= U @ (U.T @ beside)
        beside -= (beside @ U) @ U.T
        largest = np.linalg.eigvalsh((beside + beside.T) / 2)[-1]
        assert largest <= spectrum.beyond * 1.001 + 1e-4, seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FilterWarning)
            found = filtered(DenseMatrix(K.copy()), spectrum, mu, chosen)
        apart = np.abs(found.values - exact_filter(K, mu, chosen)).max()
        assert apart <= found.truncation.error + 1e-4 * max(1.0, float(found.values.max())), seed


def data():
    return komd.generate(users=400, items=150, activity=12, rng=3)


SETTING = {"user_damping": 0.5, "popularity": 0.2, "ridge": 20.0, "rank": 24}


def test_however_k_is_held_it_is_the_same_filter():
    held = [komd.CFKOMD(**SETTING, storage=storage).fit(data()) for storage in ("sparse", "streamed", "dense")]
    first = full(held[0].matrix)
    for model in held[1:]:
        assert np.allclose(full(model.matrix), first, atol=2e-5)
        assert np.allclose(model.S, held[0].S, atol=1e-3)
        assert model.matrix.truncation.error == pytest.approx(held[0].matrix.truncation.error, rel=1e-2)
        assert "filter of rank 24, eigenvalues down to" in repr(model)
    scores = [model.block_scores(model.catalogue.histories.block(0, 50)) for model in held]
    assert np.allclose(scores[0], scores[1], atol=1e-4) and np.allclose(scores[0], scores[2], atol=1e-4)


@pytest.mark.parametrize("storage", ["sparse", "streamed"])
def test_threads_change_not_a_bit(storage):
    one, two = (komd.CFKOMD(**SETTING, storage=storage).fit(data(), threads=threads) for threads in (1, 3))
    assert np.array_equal(one.matrix.W, two.matrix.W)
    assert one.recommend(n=9, threads=1).to_arrow().equals(two.recommend(n=9, threads=2).to_arrow())


def test_strips_give_the_lists_and_areas_that_rows_give(monkeypatch):
    from komd.engine import item_based

    train, test = next(komd.split.folds(data(), rng=0))
    model = komd.CFKOMD(**SETTING, storage="streamed").fit(train)
    rows, areas = model.recommend(n=20).to_arrow(), komd.evaluate(model, test, metrics=["auc", "ndcg@100"])
    monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    assert model.recommend(n=20).to_arrow().equals(rows)
    strips = komd.evaluate(model, test, metrics=["auc", "ndcg@100"])
    for metric in ("auc", "ndcg@100"):
        assert np.array_equal(strips[metric].values, areas[metric].values)


@pytest.mark.parametrize("storage", ["sparse", "streamed", "dense"])
def test_it_travels(storage, tmp_path):
    model = komd.CFKOMD(**SETTING, storage=storage).fit(data())
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.recommend(n=7).to_arrow().equals(model.recommend(n=7).to_arrow())
    assert repr(loaded).split("; ")[-1] == repr(model).split("; ")[-1]


def test_a_damaged_filter_is_refused():
    model = komd.CFKOMD(**SETTING, storage="sparse").fit(data())
    histories = model.catalogue.histories
    arrays = model.learned_arrays() | {"order": model.catalogue.order}
    arrays |= {"history_indptr": histories.indptr, "history_indices": histories.indices}
    for name, wrong in (("filter", np.zeros((3, 2), np.float32)), ("filter_scale", np.zeros(1))):
        with pytest.raises(ModelFileError, match="filter is not one of these items"):
            komd.CFKOMD()._restore(arrays | {name: wrong})
    with pytest.raises(ModelFileError, match="is not three or four numbers"):
        komd.CFKOMD()._restore(arrays | {"truncation": np.zeros(2)})


def test_where_the_exact_filter_does_not_fit_it_is_of_low_rank():
    many = komd.generate(users=500, items=2000, activity=8, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)
        model = komd.CFKOMD(ridge=300.0).fit(many, memory="20MB")
    assert isinstance(model.matrix, LowRankMatrix) and model.matrix.truncation.rank == 256
    with pytest.raises(InputError, match=r"filtered kernel between 2,000 items is dense"):
        komd.CFKOMD(ridge=1.0, storage="dense").fit(many, memory="10MB")


def test_a_rough_filter_says_so():
    with pytest.warns(FilterWarning, match=r"ridge=0.1 is not well above .* rank 4 .* use a larger rank= or ridge="):
        komd.CFKOMD(ridge=0.1, rank=4).fit(data())
    with pytest.raises(InputError, match="rank must be a whole number"):
        komd.CFKOMD(ridge=1.0, rank=0)
