"""K: the twin's values, dense = sparse, positive semidefinite, its non-zeros, and nothing that depends on threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto
from komd.matrix import from_counts as gram_module
from komd.matrix.dense import DenseMatrix
from komd.matrix.item_matrix import ItemMatrix
from komd.matrix.saved import restored
from komd.matrix.sparse import SparseMatrix
from tests import reference
from tests.matrix.held import held

TWINS = {
    Linear(): lambda R: reference.gram(R, reference.linear),
    Polynomial(degree=3, c=0.5): lambda R: reference.gram(R, reference.polynomial(3, 0.5)),
    RBF(gamma=1.5): lambda R: reference.gram(R, reference.rbf(1.5)),
    Tanimoto(): lambda R: reference.gram(R, reference.tanimoto),
    DotProduct([3.0, 1.0, 0.0, 2.0]): lambda R: reference.gram(R, reference.series([3.0, 1.0, 0.0, 2.0])),
    Jaccard(): reference.jaccard_gram,
}
KERNELS = list(TWINS)
binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9))


def K_of(kernel, R, storage="dense", threads=1, values=None):
    rows = csr_array(np.asarray(R, np.int8))
    rows.sort_indices()
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    return held(kernel, indptr, indices, R.shape[1], storage, threads=threads, values=values)


def whole(K: ItemMatrix):
    return np.array([K.row(i) for i in range(K.items)])


def random_matrix(seed, users=80, items=50, density=0.08):
    rng = np.random.default_rng(seed)
    R = rng.random((users, items)) < density * rng.pareto(2, items)[None, :]
    R[:, 3] = False  # nobody's item
    R[:, 4] = R[:, 5]  # twice the same item
    R[:, 6] = True  # everybody's item
    return R


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@settings(deadline=None, max_examples=25)
@given(R=binary)
def test_values(kernel, R):
    expected = TWINS[kernel](R)
    for storage in ("dense", "sparse"):
        K = K_of(kernel, R, storage)
        assert K.storage == storage
        assert np.allclose(whole(K), expected, atol=2e-7)
        assert np.isfinite(whole(K)).all()
        assert np.array_equal(np.diag(whole(K)), R.any(axis=0))  # exactly one, or zero: nobody's item


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_dense_is_sparse(kernel, seed):
    R = random_matrix(seed)
    dense, sparse = K_of(kernel, R, "dense"), K_of(kernel, R, "sparse")
    assert isinstance(dense, DenseMatrix)
    assert isinstance(sparse, SparseMatrix)
    assert np.array_equal(whole(dense), whole(sparse))
    assert dense.nonzeros == sparse.nonzeros == np.count_nonzero(whole(dense))
    assert np.allclose(dense.sums(), sparse.sums(), rtol=1e-14)
    assert np.allclose(dense.sums(), whole(dense).sum(axis=1, dtype=float), rtol=1e-14)
    rows = np.array([0, 4, 9, 49], np.int32)
    columns = np.array([30, 0, 49, 3, 0], np.int32)
    assert np.array_equal(dense.entries(rows, columns), sparse.entries(rows, columns))
    assert np.array_equal(dense.entries(rows, columns), whole(dense)[np.ix_(rows, columns)])
    for K in (dense, sparse):
        assert np.array_equal(whole(restored(K.arrays(), K.items)), whole(K))
        assert K.bytes == sum(part.nbytes for part in K.arrays().values())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_positive_semidefinite_and_symmetric(kernel):
    K = whole(K_of(kernel, random_matrix(11, users=60, items=90, density=0.2))).astype(float)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-6  # float32 rounding of K, times its 90 items
    assert K.min() >= 0
    assert K.max() <= 1


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not isinstance(k, Jaccard)], ids=repr)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_an_rdp_kernel_has_exactly_the_nonzeros_of_the_linear_one(kernel, storage):
    R = random_matrix(12)
    linear = whole(K_of(Linear(), R, storage))
    assert 0 < np.count_nonzero(linear) < linear.size
    assert np.array_equal(whole(K_of(kernel, R, storage)) != 0, linear != 0)
    assert np.array_equal(linear != 0, reference.cooccurrence(R) > 0)
    assert np.count_nonzero(linear) / linear.size == reference.density(R)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_threads_and_blocks_change_nothing(storage, weighted, monkeypatch):
    R = random_matrix(13, users=150, items=200)
    values = np.random.default_rng(0).pareto(1, R.sum()).astype(np.float32) + 1 if weighted else None
    first = whole(K_of(Tanimoto(), R, storage, values=values))
    for dense_rows, sparse_work in ((1, 1), (7, 100), (1000, 1 << 30)):
        monkeypatch.setattr(gram_module, "_DENSE_ROWS", dense_rows)
        monkeypatch.setattr(gram_module, "_SPARSE_WORK", (sparse_work, sparse_work))
        for threads in (1, 2, 5):
            assert np.array_equal(whole(K_of(Tanimoto(), R, storage, threads, values)), first)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_nobody_chose_anything(storage):
    K = K_of(RBF(), np.zeros((3, 4), bool), storage)
    assert not whole(K).any()
    assert K.sums().tolist() == [0, 0, 0, 0]
