"""K from its stages: weighted users, the kernel function, popularity and a head, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import komd
from komd.kernels import Jaccard, Linear, Polynomial, Tanimoto
from komd.kernels.stages import Stages
from komd.matrix.build import build
from komd.matrix.matrix_cache import MatrixCache
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
    got = np.array([model.matrix.row(i) for i in range(R.shape[1])])
    assert np.allclose(got, K, atol=3e-7)
    assert np.array_equal(got, got.T)
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
    K = full(komd.CFKOMD(**stages, storage="dense").fit(data).matrix)
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
