"""The low-rank correction of scores and entries: against numpy, and the same to the last bit however it is cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random_array

from komd._core.factor_products import (
    multiply_rows,
    project,
    subtract_products,
    subtract_squares,
    subtract_targets,
)
from komd._core.groups import Rows
from tests._core.arrays import random_rows, rows_of

# More items than are used together, or fewer; more factors than are summed side by side, or fewer.
sizes = (
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 7, 63, 64, 65, 150]),
    st.sampled_from([1, 13, 16, 37]),
    st.integers(1, 9),
)


def some(seed, items, factors, users):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((items, factors)).astype(np.float32)
    lists = random_rows(rng, users, items)
    return rng, W, lists, rows_of(lists)


@settings(deadline=None, max_examples=40)
@given(*sizes)
def test_projections_products_and_targets(seed, items, factors, users):
    rng, W, lists, rows = some(seed, items, factors, users)
    weights, wide = rng.standard_normal(len(rows.indices)), W.astype(float)
    projected = np.empty((users, factors), np.float32)
    project(W, rows, weights, np.empty(factors), projected)
    for u, mine in enumerate(lists):
        expected = weights[rows.indptr[u] : rows.indptr[u + 1]] @ wide[mine]
        assert np.allclose(projected[u], expected, rtol=1e-6, atol=1e-4)
    products = np.zeros((users, items))
    subtract_products(projected, W, products)
    assert np.allclose(-products, projected.astype(float) @ wide.T, rtol=1e-4, atol=1e-3)
    single = np.zeros((users, items), np.float32)
    subtract_products(projected, W, single)
    assert np.array_equal(single, products)
    for u in range(users):  # one user, part of the items: the same bits
        alone = np.zeros((1, items - items // 2))
        subtract_products(projected[u : u + 1], W[items // 2 :], alone)
        assert np.array_equal(alone[0], products[u, items // 2 :])
    scores = np.zeros(len(rows.indices))
    subtract_targets(W, projected, rows, scores)
    assert np.array_equal(scores, np.concatenate([np.zeros(0), *(products[u, mine] for u, mine in enumerate(lists))]))


@settings(deadline=None, max_examples=40)
@given(*sizes, st.integers(0, 3), st.integers(0, 2))
def test_squares(seed, items, factors, users, beside, added):
    """Between each user's own items; what stands beside the entries is left alone."""
    added = min(added, factors)
    rng, W, lists, rows = some(seed, items, factors, users)
    lengths = np.diff(rows.indptr)
    starts = np.concatenate([[0], np.cumsum(lengths * (lengths + beside))]).astype(np.int64)
    before = rng.standard_normal(starts[-1]).astype(np.float32)
    blocks = before.copy()
    subtract_squares(W, added, rows, starts, blocks)
    signs = np.where(np.arange(factors) < factors - added, 1.0, -1.0)
    for u, mine in enumerate(lists):
        if not len(mine):
            continue
        old, new = (b[starts[u] : starts[u + 1]].reshape(len(mine), -1) for b in (before, blocks))
        assert np.array_equal(new[:, len(mine) :], old[:, len(mine) :])
        own = W[mine].astype(float)
        products = np.zeros((len(mine), len(mine)), np.float32)  # as single entries are corrected, to the last bit
        subtract_products(W[mine] * signs.astype(np.float32), W[mine], products)
        assert np.array_equal(new[:, : len(mine)], old[:, : len(mine)] + products)
        expected = old[:, : len(mine)] - (own * signs) @ own.T
        assert np.allclose(new[:, : len(mine)], expected, rtol=1e-5, atol=1e-4)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_products_with_compressed_rows(seed, vectors):
    rng = np.random.default_rng(seed)
    K = random_array((40, 40), density=0.2, rng=rng, format="csr", dtype=np.float32)
    X = rng.standard_normal((40, vectors)).astype(np.float32)
    out = np.full((40, vectors), np.nan, np.float32)
    rows = Rows(K.indptr.astype(np.int64), K.indices.astype(np.int32))
    multiply_rows(*rows, K.data, X, out)
    assert np.allclose(out, K.toarray().astype(float) @ X, atol=1e-4)
    part = np.empty((15, vectors), np.float32)  # some rows alone: the same bits
    multiply_rows(rows.indptr[10:26], rows.indices, K.data, X, part)
    assert np.array_equal(part, out[10:25])
