"""The solver's inner loop against three lines of numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.sweep import sweep


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.floats(-2, 2))
def test_sweep(seed, m, move):
    rng = np.random.default_rng(seed)
    g = rng.standard_normal(m).round(1)  # rounded, so that the least stands in several places
    floor = np.where(rng.random(m) < 0.5, 0.0, -np.inf)
    floor[rng.integers(m)] = 0.0
    K_low, K_high = rng.random((2, m)).astype(np.float32).round(1)
    expected = g + move * (K_low.astype(np.float64) - K_high.astype(np.float64))
    low, high = sweep(g, floor, K_low, K_high, move)
    np.testing.assert_allclose(g, expected, rtol=0, atol=1e-15)  # fused: rounded once instead of twice
    assert low == np.argmin(g)
    assert high == np.argmax(g + floor)
