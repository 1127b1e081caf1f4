"""Products of four rows with four rows: against numpy, and the same bits whatever stands beside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError

from komd._core import row_products as module
from komd._core.row_products import SIDE, row_products


@njit
def products_of(A, a, B, b, out):
    row_products(A, a, B, b, out)


def products(A, a, B, b):
    out = np.empty(SIDE * SIDE, np.float32)
    products_of(A, tuple(map(int, a)), B, tuple(map(int, b)), out)
    return out.reshape(SIDE, SIDE)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 70))
def test_products(seed, factors):
    rng = np.random.default_rng(seed)
    A, B = (rng.standard_normal((rows, factors)).astype(np.float32) for rows in (9, 7))
    a, b = rng.integers(0, 9, SIDE), rng.integers(0, 7, SIDE)
    found = products(A, a, B, b)
    size = np.abs(A[a].astype(float)) @ np.abs(B[b].astype(float)).T
    assert (np.abs(found - A[a].astype(float) @ B[b].astype(float).T) <= 2e-6 * size).all()
    assert np.array_equal(products(B, b, A, a), found.T)
    for x in range(SIDE):
        for y in range(SIDE):
            beside = products(A, np.full(SIDE, a[x]), B, np.full(SIDE, b[y]))
            assert (beside == found[x, y]).all()


def test_the_order_of_the_sum():
    """In 16 lanes, these in halves, the rest one by one: seen in powers of two, whose products are exact."""
    A, B = np.ones((4, 35), np.float32), np.ones((4, 35), np.float32)
    for large, small in ((0, 16), (0, 8), (3, 1), (34, 33)):  # beside 2²⁴ a one is lost to rounding
        B[:] = 0.0
        B[:, large], B[:, small] = 2.0**24, 1.0
        lost = products(A, range(4), B, range(4))
        assert (lost == 2.0**24).all()
    B[:] = 0.0
    B[:, [0, 16]], B[:, [1, 17]] = [2.0**24, -(2.0**24)], [1.0, 1.0]  # not so in a lane of its own
    assert (products(A, range(4), B, range(4)) == 2.0).all()
    B[:] = 0.0
    B[:, [0, 8]], B[:, [4, 12]] = [2.0**24, -(2.0**24)], [1.0, 1.0]
    assert (products(A, range(4), B, range(4)) == 2.0).all()


@pytest.mark.parametrize("factors", [5, 16, 33, 256])
def test_the_bits_do_not_depend_on_the_registers(factors, monkeypatch):
    """Two rows by two at a time, as where registers are few, or four by four."""
    rng, found = np.random.default_rng(factors), []
    A, B = (rng.standard_normal((4, factors)).astype(np.float32) for _ in range(2))
    for together in (2, 4):
        monkeypatch.setattr(module, "_together", lambda side=together: side)
        compiled_anew = njit(products_of.py_func)
        compiled_anew(A, (0, 1, 2, 3), B, (0, 1, 2, 3), out := np.empty(SIDE * SIDE, np.float32))
        found.append(out)
    assert np.array_equal(*found)


def test_rows_that_are_not_contiguous_are_refused():
    A, out = np.ones((8, 8), np.float32), np.empty(SIDE * SIDE, np.float32)
    for other in (A.T, A.astype(float)):
        with pytest.raises(TypingError, match="contiguous"):
            products_of(other, (0, 1, 2, 3), A, (0, 1, 2, 3), out)
