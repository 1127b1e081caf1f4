"""K from its stages: weighted users and pairs, the kernel function, popularity and a head, against their formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.errors import InputError
from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto
from komd.kernels.asymmetric import AsymmetricCosine, CoOccurrence
from komd.kernels.stages import Stages
from komd.matrix.build import build
from komd.matrix.matrix_cache import MatrixCache
from tests import reference
from tests._core.arrays import rows_of


def random_choices(seed, users=60, items=40):
    rng = np.random.default_rng(seed)
    R = rng.random((users, items)) < 0.5 * rng.random(items) ** 2
    return R[:, np.argsort(-R.sum(axis=0), kind="stable")]  # by falling popularity, as inside a model


def kernel_of_vectors(kernel, X):
    """The kernel of weighted item vectors (rows of X), straight from its definition on them."""
    if isinstance(kernel, Jaccard):
        both = X @ X.T
        size = np.diag(both)
        union = size[:, None] + size[None, :] - both
        return np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    unit = np.divide(X, length, out=np.zeros_like(X), where=length > 0)
    return kernel.of_cosine(np.minimum(unit @ unit.T, 1.0))


@pytest.mark.parametrize("kernel", [Linear(), Tanimoto(), Polynomial(degree=3, c=1), Jaccard()], ids=repr)
@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_the_stages_are_their_formulas(kernel, storage):
    R = random_choices(3)
    gamma, beta = 0.5, 0.3
    activity, popularity = R.sum(axis=1), R.sum(axis=0)
    X = R.T * np.maximum(activity, 1) ** (-gamma / 2)  # users weigh a^−γ in x·y
    K = kernel_of_vectors(kernel, X) * np.outer(popularity**beta, popularity**beta)
    K /= np.diag(K)[popularity > 0].mean()
    model = komd.CFKOMD(kernel=kernel, user_damping=gamma, popularity=beta, storage=storage)
    model.fit(scipy.sparse.csr_matrix(R.astype(np.float32)))
    held = np.array([model.matrix.row(i) for i in range(R.shape[1])])
    got = held * model.factor
    assert np.allclose(got, K, atol=3e-7)
    assert np.allclose(model.S * model.factor, K.sum(axis=1), rtol=1e-6)
    assert np.array_equal(held, held.T)
    assert np.linalg.eigvalsh(got.astype(float)).min() > -1e-6
    assert np.diag(got)[popularity > 0].mean() == pytest.approx(1, abs=1e-6)


def full(matrix):
    return np.array([matrix.row(i) for i in range(matrix.items)], float)


@pytest.mark.parametrize("storage", [None, "dense", "sparse", "streamed"])
@pytest.mark.parametrize(("ridge", "head"), [(None, 0.7), (2.0, 1.0), (1e-6, 3.0)])
def test_the_head_is_made_of_k_scaled_by_popularity(storage, ridge, head):
    """All vectors are kept, so that nothing depends on where a few of them are cut off."""
    data = scipy.sparse.csr_matrix(random_choices(5, users=300, items=20).astype(np.float32))
    stages = {"user_damping": 0.5, "popularity": 0.3}
    plain = komd.CFKOMD(**stages, storage="dense").fit(data)
    K = full(plain.matrix) * plain.factor
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-4
    values, vectors = values[kept], vectors[:, kept]
    t = values.min()
    curve = values if ridge is None else (ridge + t) * values / (values + ridge)
    lifted = K + (vectors * (curve + head * t - values)) @ vectors.T
    lifted /= np.trace(lifted) / 20
    model = komd.CFKOMD(**stages, ridge=ridge, head=head, rank=20, storage=storage).fit(data)
    assert model.matrix.truncation.rank == kept.sum() == 20
    assert np.allclose(full(model.matrix), lifted, atol=1e-3)
    assert np.allclose(model.S, full(model.matrix).sum(axis=1), atol=1e-3)
    default = komd.CFKOMD(**stages, ridge=ridge, head=head, storage=storage).fit(data)
    assert np.array_equal(full(default.matrix), full(model.matrix))  # a rank of 256, where there are as many


@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_the_target_is_no_part_of_k(storage):
    rows = rows_of([np.flatnonzero(row) for row in random_choices(3)])
    plain, asked = Stages(Tanimoto(), popularity=0.3, prior=0.01), Stages(Tanimoto(), 0.0, 0.3, prior=0.01, target=2.0)
    assert np.array_equal(full(build(plain, rows, 40, storage=storage)), full(build(asked, rows, 40, storage=storage)))
    cache = MatrixCache(1 << 30)
    assert build(plain, rows, 40, storage=storage, cache=cache) is build(asked, rows, 40, storage=storage, cache=cache)


# ---- weights of pairs ---------------------------------------------------------------------------------------------

STORAGES = ("dense", "sparse", "streamed")
TWINS = {
    Linear(): lambda X: reference.gram(X, reference.linear),
    Polynomial(degree=3, c=0.5): lambda X: reference.gram(X, reference.polynomial(3, 0.5)),
    RBF(gamma=1.5): lambda X: reference.gram(X, reference.rbf(1.5)),
    Tanimoto(): lambda X: reference.gram(X, reference.tanimoto),
    DotProduct([3.0, 1.0, 0.0, 2.0]): lambda X: reference.gram(X, reference.series([3.0, 1.0, 0.0, 2.0])),
    Jaccard(): reference.jaccard_gram,
}
FILTERS = (
    {},
    {"ridge": 3.0},
    {"ridge": 3.0, "rank": 5},
    {"ridge": 3.0, "head": 0.7, "rank": 5},
    {"head": 0.7, "rank": 5},
    {"prior": 0.02},
    {"ridge": 3.0, "prior": 0.02},
)


def weighted_choices(seed, spread=1.0):
    """Choices, their rows, and the values of these pairs as a matrix and beside the rows."""
    rng = np.random.default_rng(seed)
    R = random_choices(seed, users=int(rng.integers(1, 25)), items=int(rng.integers(1, 20)))
    H = (10.0 ** rng.uniform(-spread, spread, R.shape)).astype(np.float32)
    return R, rows_of([np.flatnonzero(row) for row in R]), H, H[R]


def every_storage(stages, rows, items, values, **options):
    """K held in each way, written out; the same to the last bit."""
    found = [build(stages, rows, items, storage=each, values=values, **options) for each in STORAGES]
    written = [np.array([K.row(i) for i in range(items)]).reshape(items, items) for K in found]
    assert np.array_equal(written[0], written[1]) and np.array_equal(written[0], written[2])
    for K in found:
        assert np.allclose(K.sums(), written[0].sum(axis=1, dtype=float), rtol=1e-5)
        assert np.array_equal(K.diagonal(), np.diag(written[0]))
    return written[0]


@pytest.mark.parametrize("kernel", TWINS, ids=repr)
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), gamma=st.sampled_from([0.0, 0.5, 1.7]), beta=st.sampled_from([0.0, 0.3]))
def test_weighted_k_is_the_kernel_of_the_weighted_vectors(kernel, seed, gamma, beta):
    R, rows, H, values = weighted_choices(seed)
    m, popularity = R.shape[1], R.sum(axis=0)
    stages = Stages(kernel, gamma, beta, weighting="linear")
    K = every_storage(stages, rows, m, values, threads=1 + seed % 3)
    scale = stages.item_scale(popularity)
    expected = TWINS[kernel](reference.item_vectors(R, H, gamma)) * np.outer(scale, scale)
    assert np.allclose(K, expected, rtol=1e-6, atol=1e-6)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K.astype(float)).min() > -1e-6 * (1 + K.max())
    assert np.array_equal(np.diag(K), ((popularity > 0) * scale**2).astype(np.float32))
    assert np.array_equal(K != 0, reference.cooccurrence(R) > 0)
    assert (np.outer(scale, scale).astype(np.float32) >= K).all()  # no cosine above 1


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]), st.sampled_from(list(TWINS)), st.sampled_from(FILTERS))
def test_values_of_one_and_no_weighting_change_no_bit(seed, gamma, kernel, stages):
    R, rows, _, values = weighted_choices(seed)
    binary = Stages(kernel, gamma, 0.2, **stages)
    weighted = replace(binary, weighting="linear")
    for storage in STORAGES:
        first, *others = (
            full(build(made, rows, R.shape[1], storage=storage, values=given))
            for made, given in (
                (binary, None),
                (binary, values),
                (weighted, None),
                (weighted, np.ones_like(values)),
            )
        )
        assert all(np.array_equal(first, other) for other in others)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(-60, 60), st.sampled_from(list(TWINS)), st.sampled_from([0.0, 0.5]))
def test_weights_times_a_power_of_two_change_no_bit(seed, power, kernel, gamma):
    R, rows, _, values = weighted_choices(seed)
    stages = Stages(kernel, gamma, weighting="linear")
    K = every_storage(stages, rows, R.shape[1], values)
    assert np.array_equal(every_storage(stages, rows, R.shape[1], values * np.float32(2.0**power)), K)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(list(TWINS)), st.sampled_from([0.0, 0.5, 20.0]))
def test_extreme_weights_stay_finite_and_no_pair_is_lost(seed, kernel, gamma):
    """Entries too small for float32 are 0; the counts they come from are not."""
    R, rows, _, values = weighted_choices(seed, spread=30.0)
    m = R.shape[1]
    stages = Stages(kernel, gamma, weighting="linear")
    entries = stages.entries(rows, m, values)
    if len(values):
        assert entries.user_weights is None and entries.pair_values.dtype == np.float32
        assert (entries.pair_values > 0).all() and np.isfinite(entries.pair_values).all()
    K = every_storage(stages, rows, m, values)
    assert np.isfinite(K).all() and (K >= 0).all() and (K <= 1).all()
    assert np.array_equal(np.diag(K), R.any(axis=0))
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K.astype(float)).min() > -1e-6
    streamed = build(stages, rows, m, storage="streamed", values=values)
    indptr, columns, _ = streamed.block(0, m, streamed.counter())
    counted = np.zeros((m, m), bool)
    counted[np.repeat(np.arange(m), np.diff(indptr)), columns] = True
    assert np.array_equal(counted, reference.cooccurrence(R) > 0)


def test_duplicates_are_alike_whatever_their_weights():
    """The cosine of equal vectors is 1 to the last bit, though sums are rounded."""
    rng = np.random.default_rng(0)
    H = np.repeat(rng.pareto(1, (200, 1)) + 0.01, 3, axis=1).astype(np.float32)
    rows = rows_of([[0, 1, 2]] * 200)
    for kernel in TWINS:
        K = every_storage(Stages(kernel, 0.5, weighting="linear"), rows, 3, H.ravel())
        assert (K == 1).all()


@pytest.mark.parametrize("storage", [None, *STORAGES])
@pytest.mark.parametrize("stages", FILTERS, ids=repr)
@pytest.mark.parametrize("kernel", [Linear(), Tanimoto()], ids=repr)
def test_filters_and_priors_are_made_of_weighted_k(kernel, stages, storage):
    """All eigenvectors are kept: nothing depends on where a few of them are cut off."""
    R = random_choices(5, users=300, items=20)
    rows, popularity = rows_of([np.flatnonzero(row) for row in R]), R.sum(axis=0)
    H = (np.random.default_rng(1).pareto(1, R.shape) + 0.1).astype(np.float32)
    asked = Stages(kernel, 0.5, 0.3, **(stages | {"rank": 20} if "rank" in stages else stages), weighting="linear")
    scale = asked.item_scale(popularity)
    assert (scale**2).mean() * (asked.factor(popularity) or 1.0) == pytest.approx(1)
    K = TWINS[kernel](reference.item_vectors(R, H, 0.5)) * np.outer(scale, scale)
    if asked.filtered:
        values, vectors = np.linalg.eigh(K)
        t = values.min()
        curve = values if asked.ridge is None else (asked.ridge + t) * values / (values + asked.ridge)
        K = (vectors * (curve + asked.head * t)) @ vectors.T
        K /= np.trace(K) / 20
    prior = asked.prior_factor(popularity).astype(float)
    found = build(asked, rows, 20, storage=storage, values=H[R])
    assert np.allclose(full(found), K + np.outer(prior, prior) * (asked.prior > 0), atol=2e-3)
    # And with a cache, which keeps the matrices of other weightings apart.
    cache = MatrixCache(1 << 30)
    build(replace(asked, weighting="log"), rows, 20, storage=storage, values=np.sqrt(H[R]), cache=cache)
    kept = build(asked, rows, 20, storage=storage, values=H[R], cache=cache)
    assert kept is build(replace(asked, target=1.0), rows, 20, storage=storage, values=H[R], cache=cache)
    assert np.allclose(full(kept), full(found), atol=2e-3)


@pytest.mark.parametrize("kernel", [CoOccurrence(), AsymmetricCosine()], ids=repr)
def test_similarities_of_counts_take_no_weights(kernel):
    rows = rows_of([[0, 1], [1]])
    values = np.array([1, 2, 3], np.float32)
    with pytest.raises(InputError, match="takes no weights of pairs"):
        build(Stages(kernel, weighting="linear"), rows, 2, values=values)
    build(Stages(kernel), rows, 2, values=values)
    build(Stages(kernel, weighting="linear"), rows, 2)


@pytest.mark.parametrize("values", [[1, 2], [1, 2, 0], [1, 2, -1], [1, 2, np.nan], [1, 2, np.inf]])
def test_values_are_positive_and_as_many_as_pairs(values):
    with pytest.raises(InputError, match="values must be 3 finite numbers > 0, one for each pair of user and item"):
        build(Stages(Linear(), weighting="linear"), rows_of([[0, 1], [1]]), 2, values=np.array(values, np.float32))
