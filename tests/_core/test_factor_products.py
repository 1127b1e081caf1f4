"""The low-rank correction of scores and entries: against numpy, and the same to the bit however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core import factor_products as lowrank
from komd._core.groups import Rows


def some(seed, items, factors, users):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((items, factors)).astype(np.float32)
    rows = [
        np.sort(rng.choice(items, rng.integers(0, items + 1), replace=False)).astype(np.int32) for _ in range(users)
    ]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return rng, W, indptr, np.concatenate([np.zeros(0, np.int32), *rows]), rows


sizes = (st.integers(0, 2**32 - 1), st.integers(1, 150), st.integers(1, 13), st.integers(1, 6))


@settings(deadline=None, max_examples=40)
@given(*sizes)
def test_scores_and_targets(seed, items, factors, users):
    rng, W, indptr, indices, rows = some(seed, items, factors, users)
    weights = rng.standard_normal(len(indices))
    projected = np.empty((users, factors), np.float32)
    lowrank.project(W, Rows(indptr, indices), weights, np.empty(factors), projected)
    wide = W.astype(float)
    for u, row in enumerate(rows):
        assert np.allclose(projected[u], weights[indptr[u] : indptr[u + 1]] @ wide[row], atol=1e-4)
    tile = lowrank.tile_for(factors)
    products = np.empty((users, items), np.float32)
    lowrank.factor_products(projected, W, tile, products)
    assert np.allclose(products, projected.astype(float) @ wide.T, rtol=1e-4, atol=1e-3)
    for u in range(users):  # one user, part of the items: the same bits
        alone = np.empty((1, items - items // 2), np.float32)
        lowrank.factor_products(projected[u : u + 1], W[items // 2 :], tile, alone)
        assert np.array_equal(alone[0], products[u, items // 2 :])
    scores = np.zeros(len(indices))
    lowrank.subtract_targets(W, projected, Rows(indptr, indices), tile, scores)
    expected = [products[u, row] for u, row in enumerate(rows)]
    assert np.array_equal(-scores, np.concatenate([np.zeros(0), *expected]))


@settings(deadline=None, max_examples=40)
@given(*sizes, st.integers(0, 3), st.integers(0, 2))
def test_squares(seed, items, factors, users, beside, added):
    added = min(added, factors)
    rng, W, indptr, indices, rows = some(seed, items, factors, users)
    lengths = np.diff(indptr)
    starts = np.concatenate([[0], np.cumsum(lengths * (lengths + beside))]).astype(np.int64)
    before = rng.standard_normal(starts[-1]).astype(np.float32)
    blocks = before.copy()
    lowrank.subtract_squares(W, added, Rows(indptr, indices), starts, lowrank.tile_for(factors), blocks)
    for u, row in enumerate(rows):
        if not len(row):
            continue
        old, new = (b[starts[u] : starts[u + 1]].reshape(len(row), -1) for b in (before, blocks))
        assert np.array_equal(new[:, len(row) :], old[:, len(row) :])  # what stands beside is left alone
        own = W[row].astype(float)
        signs = np.where(np.arange(factors) < factors - added, 1.0, -1.0)
        assert np.allclose(new[:, : len(row)], old[:, : len(row)] - (own * signs) @ own.T, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_products_with_compressed_rows(seed):
    rng = np.random.default_rng(seed)
    K = sparse.random_array((40, 40), density=0.2, rng=rng, format="csr", dtype=np.float32)
    X = rng.standard_normal((40, 7)).astype(np.float32)
    out = np.empty((30, 7), np.float32)
    lowrank.multiply_rows(K.indptr[10:].astype(np.int64), K.indices.astype(np.int32), K.data, X, out)
    assert np.allclose(out, (K @ X)[10:], atol=1e-5)
