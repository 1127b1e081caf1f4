"""The product of K with many vectors: numpy's answer, and each row independent of the others."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from komd._core.wide_products import multiply_symmetric


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.integers(1, 19))
@example(0, 128, 8)
@example(0, 129, 9)
@example(0, 16, 1)
@example(0, 15, 16)
def test_the_product_is_right_and_each_row_is_independent_of_the_others(seed, m, users):
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((m, m)).astype(np.float32)
    K = K + K.T
    X = rng.standard_normal((users, m)) * (rng.random((users, m)) < 0.5)
    out = np.full((users, m), np.nan)
    multiply_symmetric(K, X, out)
    assert np.allclose(out, X @ K.astype(np.float64), rtol=1e-12, atol=1e-12 * m)
    for u in range(users):
        alone = np.empty((1, m))
        multiply_symmetric(K, X[u : u + 1], alone)
        assert np.array_equal(alone[0], out[u])
