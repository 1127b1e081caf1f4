"""Scores: dense = sparse = the sum written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from komd._core.groups import WeightedUsers
from komd._core.scoring import score_dense, score_sparse
from komd.matrix.sparse import SparseMatrix
from tests import reference


def problem(seed, m, users):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((m, m)).astype(np.float32)
    M[rng.random((m, m)) < rng.random()] = 0.0
    S = rng.standard_normal(m)
    histories = [np.sort(rng.choice(m, rng.integers(0, m + 1), replace=False)) for _ in range(users)]
    indptr = np.cumsum([0, *map(len, histories)]).astype(np.int64)
    indices = np.concatenate([np.zeros(0), *histories]).astype(np.int32)
    return M, S, histories, indptr, indices, rng.standard_normal(len(indices)), rng.standard_normal(users)


def compressed(M):
    rows = csr_array(M)
    return SparseMatrix(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data).stored()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 5))
def test_dense_is_sparse_is_the_sum(seed, m, users):
    M, S, histories, indptr, indices, weights, offsets = problem(seed, m, users)
    dense, sparse = np.full((users, m), np.nan), np.full((users, m), np.nan)
    score_dense(M, S, WeightedUsers(indptr, indices, weights, offsets), dense)
    score_sparse(compressed(M), S, WeightedUsers(indptr, indices, weights, offsets), sparse)
    for u, history in enumerate(histories):
        expected = reference.scores(M, S, history, weights[indptr[u] : indptr[u + 1]], offsets[u])
        assert np.allclose(dense[u], expected, rtol=1e-13, atol=1e-13)
        assert np.allclose(sparse[u], expected, rtol=1e-13, atol=1e-13)


def test_wider_than_one_strip():
    m = 2500
    M, S, _, indptr, indices, weights, offsets = problem(0, m, 3)
    dense, sparse = np.empty((3, m)), np.empty((3, m))
    score_dense(M, S, WeightedUsers(indptr, indices, weights, offsets), dense)
    score_sparse(compressed(M), S, WeightedUsers(indptr, indices, weights, offsets), sparse)
    expected = np.zeros((3, m))
    for u in range(3):
        mine = slice(indptr[u], indptr[u + 1])
        expected[u] = weights[mine] @ M[indices[mine]].astype(float) - offsets[u] * S
    assert np.allclose(dense, expected, atol=1e-11)
    assert np.allclose(sparse, expected, atol=1e-11)


def test_one_user_scores_as_in_a_block():
    M, S, _, indptr, indices, weights, offsets = problem(1, 1500, 5)
    block, alone = np.empty((5, 1500)), np.empty((1, 1500))
    score_dense(M, S, WeightedUsers(indptr, indices, weights, offsets), block)
    for u in range(5):
        mine = slice(indptr[u], indptr[u + 1])
        pointers = np.array([0, indptr[u + 1] - indptr[u]])
        score_dense(M, S, WeightedUsers(pointers, indices[mine], weights[mine], offsets[u : u + 1]), alone)
        assert np.array_equal(alone[0], block[u])
