"""Filters of low rank: eigenvectors against LAPACK's, the exact filter within the bound that is stated, the head."""

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


@pytest.mark.parametrize("likeness", [0.05, 0.147, 0.5, 0.9, 0.975, 1.0])
@pytest.mark.parametrize("mu", [0.2, 1.0, 20.0])
def test_the_bound_holds_where_few_of_many_equal_eigenvalues_are_kept(likeness, mu):
    """100 disjoint groups of three items: 1 + 2c a hundred times, 1 − c two hundred times, of which 8 are kept."""
    K = np.kron(np.eye(100), (1 - likeness) * np.eye(3) + likeness).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)
        found = filtered(compressed(K), leading(compressed(K), 8, 300), mu, 300)
    largest, other = ((value / (value + mu)) for value in (1 + 2 * likeness, 1 - likeness))
    within = (largest - other) / (largest + 2 * other)  # the exact filter between two items of a group
    F = np.kron(np.eye(100), (1 - within) * np.eye(3) + within)
    assert np.allclose(exact_filter(K, mu, 300), F, atol=1e-5)
    apart = np.abs(full(found) - F).max()
    assert apart <= found.truncation.error + 1e-5
    if (likeness, mu) == (0.147, 1.0):
        assert apart == pytest.approx(likeness - within, abs=1e-3) and likeness - within > 0.07


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


# ---- the head -----------------------------------------------------------------------------------------------------


def with_head(K, spectrum, mu, items, head):
    return K.corrected(filter_truncated(spectrum, mu, items, head=head))


def exact_head(K, mu, items, rank, head):
    """K + V diag(f(λ) − λ) V' at a mean diagonal of 1, f(λ) = (μ + t) λ/(λ + μ) + a t, by LAPACK."""
    values, vectors = (part[..., ::-1][..., :rank] for part in np.linalg.eigh(K.astype(float)))
    t = values[-1]
    curve = values if mu is None else (mu + t) * values / (values + mu)
    lifted = K + (vectors * (curve + head * t - values)) @ vectors.T
    return lifted / (np.trace(lifted) / items)


def a_separated_kernel(seed, items, ratio, nobody=2):
    """Eigenvalues fall by the same ratio, so that each vector is well determined; nobody chose the last items."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((items, items)))[0]
    values = ratio ** np.arange(items)
    K = np.zeros((items + nobody, items + nobody), np.float32)
    K[:items, :items] = (Q * (values / values.mean())) @ Q.T
    return (K + K.T) / 2


RIDGES = st.sampled_from([None, 1e-6, 0.1, 3.0, 1e3, 1e9])
HEADS = st.sampled_from([1e-9, 0.1, 1.0, 7.0, 1e3, 1e6])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(4, 30), st.integers(4, 34), st.sampled_from([0.7, 0.8]), RIDGES, HEADS)
def test_a_head_is_its_formula(seed, items, rank, ratio, mu, head):
    K = a_separated_kernel(seed, items, ratio)
    spectrum, kept = leading(compressed(K), rank, items), min(rank, items)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the filter is these vectors: nothing is approximated
        found = with_head(compressed(K), spectrum, mu, items, head)
    expected = exact_head(K, mu, items, kept, head)
    said = found.truncation
    assert (said.rank, said.error) == (kept, None)
    assert said.last == pytest.approx(np.linalg.eigvalsh(K.astype(float))[::-1][kept - 1], rel=0.02)
    assert "entries within" not in str(said)
    # Single precision, of eigenvalues and of the subtraction of two large numbers.
    rounding = 1e-5 + 1e-4 * np.abs(expected).max() + 1e-6 * found.by.factor * float(spectrum.values[0])
    # Vectors that are not exact, by their residuals beside the gap to the first eigenvalue left out (Davis and Kahan).
    turned = np.linalg.norm(spectrum.residuals) / ((1 - ratio) * said.last) if kept < items else 0.0
    lengths = (found.W.astype(float) ** 2).sum(axis=0)
    got = full(found)
    assert np.abs(got - expected).max() <= rounding + 2 * turned * lengths.max()
    assert np.linalg.eigvalsh((got + got.T) / 2).min() >= -rounding
    assert np.diag(got)[:items].mean() == pytest.approx(1, abs=1e-4 + rounding)
    assert not got[items:].any() and not got[:, items:].any()
    # Every way to read it.
    some = np.arange(0, items, 3, dtype=np.int32)
    assert np.array_equal(found.entries(some, some[::-1]), got[np.ix_(some, some[::-1])].astype(np.float32))
    assert np.allclose(found.diagonal(), np.diag(got), atol=rounding)
    assert np.allclose(found.sums(), got.sum(axis=1), atol=(items + 2) * rounding)
    X = np.random.default_rng(seed).standard_normal((items + 2, 2)).astype(np.float32)
    assert np.allclose(found.multiply(X), got @ X, atol=4 * (items + 2) * rounding)
    dense = with_head(DenseMatrix(K.copy()), spectrum, mu, items, head)
    assert dense.truncation == said
    assert np.allclose(dense.values, got, atol=rounding) and np.array_equal(dense.values, dense.values.T)


@pytest.mark.parametrize("head", [0.5, 1.0, 4.0])
def test_a_head_with_a_tiny_ridge_makes_all_leading_eigenvalues_equal(head):
    K = a_separated_kernel(1, 24, 0.8)
    spectrum = leading(compressed(K), 7, 24)
    got, V = full(with_head(compressed(K), spectrum, 1e-6, 24, head)), spectrum.vectors.astype(float)
    inside, t = V.T @ got @ V, spectrum.values[-1]
    mean = (24 - spectrum.values.sum() + 7 * (1 + head) * t) / 24
    assert np.allclose(inside, np.eye(7) * (1 + head) * t / mean, atol=1e-3)


@pytest.mark.parametrize("head", [0.5, 1.0, 4.0])
def test_a_head_without_a_ridge_adds_the_same_to_each_leading_eigenvalue(head):
    K = a_separated_kernel(2, 24, 0.8)
    spectrum = leading(compressed(K), 7, 24)
    V, alpha = spectrum.vectors.astype(float), head * spectrum.values[-1]
    expected = (K + alpha * V @ V.T) / (1 + 7 * alpha / 24)
    found = with_head(compressed(K), spectrum, None, 24, head)
    assert np.allclose(full(found), expected, atol=1e-5)
    assert found.added == found.truncation.added == 7


@pytest.mark.parametrize("mu", [0.3, 3.0, 300.0])
def test_a_head_of_nothing_is_the_ridge_filter_of_low_rank(mu):
    K = a_separated_kernel(3, 24, 0.8)
    spectrum = leading(compressed(K), 7, 24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)
        ridge = filtered(compressed(K), spectrum, mu, 24)
    assert np.allclose(full(with_head(compressed(K), spectrum, mu, 24, 1e-12)), full(ridge), atol=1e-4)


def test_a_head_adds_some_factors_and_subtracts_others():
    K = a_separated_kernel(4, 24, 0.8)
    spectrum = leading(compressed(K), 7, 24)
    values, t = spectrum.values, spectrum.values[-1]
    found = with_head(compressed(K), spectrum, 1e-6, 24, 1.0)
    assert found.added == int((values < 2 * t).sum()) and 0 < found.added < 7


def test_a_head_is_positive_semi_definite_on_adversarial_data():
    """`KOMD_FUZZ=3000 pytest tests/matrix/test_low_rank_filter.py -k adversarial` tries as many."""
    for seed in range(int(os.environ.get("KOMD_FUZZ", "25"))):
        rng = np.random.default_rng(seed)
        K, chosen = adversarial_kernel(rng)
        mu = [None, 1e-6, float(10 ** rng.uniform(-3, 2.5))][rng.integers(3)]
        rank, head = int(rng.integers(1, 1 + chosen)), float(rng.choice([1e-3, 0.3, 1, 10, 1e6]))
        spectrum = leading(DenseMatrix(K), rank, chosen)
        correction = filter_truncated(spectrum, mu, chosen, head=head)
        got = DenseMatrix(K.copy()).corrected(correction).values.astype(float)
        rounding = 1e-5 + 1e-6 * correction.factor * float(spectrum.values[0])
        assert np.linalg.eigvalsh(got).min() >= -rounding, seed
        assert np.diag(got)[:chosen].mean() == pytest.approx(1, abs=1e-3), seed
        assert not got[chosen:].any(), seed
        # With the vectors found, whatever they are, it is the formula.
        V, values = spectrum.vectors.astype(float), spectrum.values
        curve = values if mu is None else (mu + values[-1]) * values / (values + mu)
        lifted = K + (V * (curve + head * values[-1] - values)) @ V.T
        expected = lifted / (np.trace(lifted) / chosen)
        assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max() + 10 * rounding, seed


# ---- of models ----------------------------------------------------------------------------------------------------


def data():
    return komd.generate(users=400, items=150, activity=12, rng=3)


SETTING = {"user_damping": 0.5, "popularity": 0.2, "ridge": 20.0, "rank": 24}
HEAD = {"user_damping": 0.5, "popularity": 0.2, "rank": 24, "head": 1.0}
SETTINGS = [SETTING, HEAD, HEAD | {"ridge": 2.0, "prior": 0.01}]
FILTERS = pytest.mark.parametrize("setting", SETTINGS, ids=["ridge", "head", "head, ridge, prior"])


@FILTERS
def test_however_k_is_held_it_is_the_same_filter(setting):
    held = [komd.CFKOMD(**setting, storage=storage).fit(data()) for storage in ("sparse", "streamed", "dense")]
    first = full(held[0].matrix)
    for model in held[1:]:
        assert np.allclose(full(model.matrix), first, atol=2e-5)
        assert np.allclose(model.S, held[0].S, atol=1e-3)
        ours, other = model.matrix.truncation, held[0].matrix.truncation
        assert ours.error == other.error is None or ours.error == pytest.approx(other.error, rel=1e-2)
        assert ours.added == other.added
        assert "filter of rank 24, eigenvalues down to" in repr(model)
    scores = [model.block_scores(model.catalogue.histories.block(0, 50)) for model in held]
    assert np.allclose(scores[0], scores[1], atol=1e-4) and np.allclose(scores[0], scores[2], atol=1e-4)


@FILTERS
@pytest.mark.parametrize("storage", ["sparse", "streamed"])
def test_threads_change_not_a_bit(setting, storage):
    one, two = (komd.CFKOMD(**setting, storage=storage).fit(data(), threads=threads) for threads in (1, 3))
    assert np.array_equal(one.matrix.W, two.matrix.W)
    assert one.recommend(n=9, threads=1).to_arrow().equals(two.recommend(n=9, threads=2).to_arrow())


@FILTERS
def test_strips_give_the_lists_and_areas_that_rows_give(setting, monkeypatch):
    from komd.engine import item_based

    train, test = next(komd.split.folds(data(), rng=0))
    model = komd.CFKOMD(**setting, storage="streamed").fit(train)
    rows, areas = model.recommend(n=20).to_arrow(), komd.evaluate(model, test, metrics=["auc", "ndcg@100"])
    monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    assert model.recommend(n=20).to_arrow().equals(rows)
    strips = komd.evaluate(model, test, metrics=["auc", "ndcg@100"])
    for metric in ("auc", "ndcg@100"):
        assert np.array_equal(strips[metric].values, areas[metric].values)


@FILTERS
@pytest.mark.parametrize("storage", ["sparse", "streamed", "dense"])
def test_it_travels(setting, storage, tmp_path):
    model = komd.CFKOMD(**setting, storage=storage).fit(data())
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.recommend(n=7).to_arrow().equals(model.recommend(n=7).to_arrow())
    assert repr(loaded).split("; ")[-1] == repr(model).split("; ")[-1]
    assert loaded.matrix.truncation == model.matrix.truncation
    assert np.array_equal(full(loaded.matrix), full(model.matrix))


def saved_arrays(model):
    histories = model.catalogue.histories
    arrays = model.learned_arrays() | {"order": model.catalogue.order}
    return arrays | {"history_indptr": histories.indptr, "history_indices": histories.indices}


def test_a_damaged_filter_is_refused():
    arrays = saved_arrays(komd.CFKOMD(**SETTING, storage="sparse").fit(data()))
    for name, wrong in (("filter", np.zeros((3, 2), np.float32)), ("filter_scale", np.zeros(1))):
        with pytest.raises(ModelFileError, match="filter is not one of these items"):
            komd.CFKOMD()._restore(arrays | {name: wrong})
    with pytest.raises(ModelFileError, match="is not three or four numbers"):
        komd.CFKOMD()._restore(arrays | {"truncation": np.zeros(2)})


@pytest.mark.parametrize("storage", [None, "dense", "sparse", "streamed"])
@pytest.mark.parametrize("prior", [0.0, 0.01])
def test_no_folder_of_a_head_is_without_it(storage, prior):
    model = komd.CFKOMD(**HEAD, prior=prior, storage=storage)
    assert all("truncation" in names for names in model._layouts())
    assert set(model.fit(data()).learned_arrays()) in model._layouts()


@pytest.mark.parametrize("storage", ["sparse", "streamed"])
def test_a_damaged_head_is_refused(storage):
    arrays, model = saved_arrays(komd.CFKOMD(**HEAD, storage=storage).fit(data())), komd.CFKOMD(**HEAD, storage=storage)
    rank, last, error, added = arrays["truncation"]
    assert (error, added) == (0, 24)
    model._restore(arrays)
    for wrong in (25.0, -1.0, 1e300):  # more factors added than there are, or fewer than none
        with pytest.raises(ModelFileError, match="filter is not one of these items"):
            model._restore(arrays | {"truncation": np.array([rank, last, error, wrong])})
    for wrong in (
        [rank, last, np.nan],
        [rank, last, error, np.nan],
        [rank, np.inf, error, added],
        [np.nan, last, error, added],
        [rank, last, error, added, 0.0],
    ):
        with pytest.raises(ModelFileError, match="is not three or four numbers"):
            model._restore(arrays | {"truncation": np.array(wrong)})
    with pytest.raises(ModelFileError, match="is not three or four numbers"):
        model._restore(arrays | {"truncation": arrays["truncation"].astype(np.float32)})


def test_where_the_exact_filter_does_not_fit_it_is_of_low_rank():
    many = komd.generate(users=500, items=2000, activity=8, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)
        model = komd.CFKOMD(ridge=300.0).fit(many, memory="20MB")
    assert isinstance(model.matrix, LowRankMatrix) and model.matrix.truncation.rank == 256
    with pytest.raises(InputError, match=r"filtered kernel between 2,000 items is dense"):
        komd.CFKOMD(ridge=1.0, storage="dense").fit(many, memory="10MB")


@pytest.mark.parametrize("storage", [None, "dense", "sparse", "streamed"])
@pytest.mark.filterwarnings("error")
def test_with_a_head_it_is_of_low_rank_whatever_the_storage_and_never_rough(storage):
    many = komd.generate(users=500, items=400, activity=8, rng=0)
    for ridge in (None, 1e-3):
        model = komd.CFKOMD(ridge=ridge, head=1.0, storage=storage).fit(many)
        said = model.matrix.truncation
        assert (said.rank, said.error) == (256, None)
        assert repr(model).endswith(f"; filter of rank 256, eigenvalues down to {said.last:.3g}")


def test_a_rough_filter_says_so():
    with pytest.warns(FilterWarning, match=r"ridge=0.1 is not well above .* rank 4 .* use a larger rank= or ridge="):
        komd.CFKOMD(ridge=0.1, rank=4).fit(data())
    with pytest.raises(InputError, match="rank must be a whole number"):
        komd.CFKOMD(ridge=1.0, rank=0)
