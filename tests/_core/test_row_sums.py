"""Weighted sums of rows: against numpy, and each column's sum the same whatever is beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.row_sums import add_distant_rows, add_rows
from tests._core.arrays import compiled_anew

seeds = st.integers(0, 2**32 - 1)


@compiled_anew
def added(M, rows, weights, start, out):
    add_rows(M, rows, weights, start, out)


@compiled_anew
def added_from_afar(M, rows, weights, start, out):
    add_distant_rows(M, rows, weights, start, out)


@pytest.mark.parametrize("add", [added, added_from_afar])
@settings(deadline=None, max_examples=60)
@given(seed=seeds, count=st.integers(0, 30), width=st.integers(0, 300))
def test_weighted_rows_are_added_one_after_another(add, seed, count, width):
    """A column has the same bits alone and beside others; it is the sum that numpy finds, but for rounding."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((12, width + 5)).astype(np.float32)
    rows, weights = rng.integers(0, 12, count).astype(np.int32), rng.standard_normal(count)
    start, before = int(rng.integers(0, 6)), rng.standard_normal(width)
    around = np.concatenate([[7.0], before, [8.0]])
    out = around[1:-1]
    add(M, rows, weights, start, out)
    expected = before + weights @ M[rows, start : start + width].astype(float)
    assert np.allclose(out, expected, atol=1e-12)
    assert around[0] == 7.0 and around[-1] == 8.0
    for j in range(width):
        alone = before[j : j + 1].copy()
        add(M, rows, weights, start + j, alone)
        assert alone[0] == out[j]


def test_rows_may_be_a_part_of_longer_ones():
    M = np.arange(40, dtype=np.float32).reshape(4, 10)
    out = np.zeros(9)
    added(M[:, :9], np.array([3, 1], np.int32), np.array([1.0, -1.0]), 0, out)
    assert np.array_equal(out, np.full(9, 20.0))


def test_other_numbers_are_refused():
    with pytest.raises(TypeError, match="add_rows takes float32"):
        added(np.eye(3), np.zeros(1, np.int32), np.ones(1), 0, np.zeros(3))
