"""K from its stages: weighted users, the kernel function and popularity, against the formula."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.kernels import Jaccard, Linear, Polynomial, Tanimoto


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
    import scipy.sparse

    model.fit(scipy.sparse.csr_matrix(R.astype(np.float32)))
    got = np.array([model.matrix.row(i) for i in range(R.shape[1])])
    assert np.allclose(got, K, atol=3e-7)
    assert np.array_equal(got, got.T)
    assert np.linalg.eigvalsh(got.astype(float)).min() > -1e-6
    assert np.diag(got)[popularity > 0].mean() == pytest.approx(1, abs=1e-6)
