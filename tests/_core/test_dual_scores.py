"""Scores of a matrix that is held between users, against the same written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from komd._core.dual_scores import dual_scratch, quadratic_forms, score_dual
from komd._core.groups import DualArrays, WeightedUsers
from tests._core.arrays import random_rows, weighted


def arrays(rng, n, m):
    """A random matrix Q between n users who chose some of m items."""
    X = rng.random((n, m)) < rng.choice([0.1, 0.5])
    Q = rng.standard_normal((n, n))
    Q = Q + Q.T
    left, right = rng.random(m) + 0.5, rng.random(m) + 0.5
    by_item = csr_array(X.T)
    by_item.sort_indices()
    H = X.T.astype(float) @ Q @ X
    B = left[:, None] * H * right
    dual = DualArrays(
        by_item.indptr.astype(np.int64), by_item.indices.astype(np.int32), Q, left, right, B.diagonal().copy()
    )
    np.fill_diagonal(B, 0.0)
    return dual, B, H


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 15), m=st.integers(1, 25))
def test_scores_and_quadratic_forms(seed, n, m):
    rng = np.random.default_rng(seed)
    dual, B, H = arrays(rng, n, m)
    forms = np.empty(m)
    quadratic_forms(dual.indptr, dual.users, dual.Q, forms)
    np.testing.assert_allclose(forms, H.diagonal(), rtol=1e-9, atol=1e-9)
    lists = random_rows(rng, 4, m)
    users, S = weighted(rng, lists), rng.standard_normal(m)
    found = np.full((4, m), np.nan)
    score_dual(dual, S, users, dual_scratch(n), found)
    for u, own in enumerate(lists):
        w = users.weights[users.indptr[u] : users.indptr[u + 1]]
        np.testing.assert_allclose(found[u], w @ B[own] - users.offsets[u] * S, rtol=1e-9, atol=1e-8)
    for u in range(4):  # alone as in a block, to the last bit
        mine = slice(users.indptr[u], users.indptr[u + 1])
        one = WeightedUsers(
            np.array([0, len(lists[u])]), users.indices[mine], users.weights[mine], users.offsets[u : u + 1]
        )
        alone = np.empty((1, m))
        score_dual(dual, S, one, dual_scratch(n), alone)
        assert np.array_equal(alone[0], found[u])
