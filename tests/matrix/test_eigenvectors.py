"""The leading eigenvectors: approximated from below, multiple ones found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.errors import FilterWarning
from komd.matrix import eigenvectors as eigen
from komd.matrix.dense import DenseMatrix
from komd.matrix.eigenvectors import leading
from komd.matrix.low_rank_filter import filter_truncated


def a_kernel(seed, items, nobody=2):
    """A random correlation matrix with a falling spectrum; nobody chose the last items."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((items, 2 * items)) * np.arange(1, 2 * items + 1) ** -rng.uniform(0.3, 1.5)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = np.zeros((items + nobody, items + nobody), np.float32)
    K[:items, :items] = X @ X.T
    return K


def test_multiple_eigenvalues_are_found_and_what_is_left_out_is_said():
    """100 cliques of 3 items: one eigenvalue of 3, a hundred times, which products with 4 vectors meet 4 times only."""
    K = DenseMatrix(np.kron(np.eye(100), np.ones((3, 3))).astype(np.float32))
    found = leading(K, 8, 300)
    assert len(found.values) == 8 and np.allclose(found.values, 3.0, atol=1e-4)
    assert found.last == pytest.approx(3.0, abs=1e-4) and found.beyond >= 3.0
    assert len(leading(K, 100, 300).values) == 100 and leading(K, 100, 300).last == 0.0
    with pytest.warns(FilterWarning, match=r"ridge=1 is not well above the eigenvalues that were left out \(up to 3\)"):
        filter_truncated(found, 1.0, 300)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(20, 80), st.integers(1, 20))
def test_eigenvectors_approximate_from_below(seed, items, rank):
    K = a_kernel(seed, items)
    found = leading(DenseMatrix(K), rank, items)
    U, wide = found.vectors.astype(float), K.astype(float)
    true = np.linalg.eigvalsh(wide)[::-1][: len(found.values)]
    rounding = 5 * eigen._NOTHING * true[0]
    assert (found.values <= true + rounding).all()
    assert found.values[0] == pytest.approx(true[0], rel=5e-3)
    assert np.allclose(U.T @ U, np.eye(len(found.values)), atol=1e-4)
    rest = wide - (U * found.values) @ U.T
    assert np.linalg.eigvalsh(rest).min() > -rounding
    assert np.allclose(np.linalg.norm(rest @ U, axis=0), found.residuals, atol=1e-3)
    assert found.spread == pytest.approx(np.linalg.norm(rest @ U, 2), abs=1e-3)


def test_enough_of_them_are_all():
    K = a_kernel(1, 30)
    found = leading(DenseMatrix(K), 64, 30)
    assert found.last == 0 and found.beyond < 1e-4 and len(found.values) == 30
    assert np.allclose(found.values, np.linalg.eigvalsh(K.astype(float))[::-1][:30], atol=1e-5)


def test_more_passes_come_nearer(monkeypatch):
    K = DenseMatrix(a_kernel(9, 200))
    found = []
    for passes in (2, 4, 8):
        monkeypatch.setattr(eigen, "_PASSES", passes)
        found.append(leading(K, 20, 200).spread)
    assert found[0] > 2 * found[1] > 4 * found[2]


def test_threads_change_nothing():
    K = DenseMatrix(a_kernel(5, 1300))
    one, two = (leading(K, 24, 1300, threads=threads) for threads in (1, 2))
    assert np.array_equal(one.values, two.values) and np.array_equal(one.vectors, two.vectors)
    assert (one.spread, one.beyond, one.inside) == (two.spread, two.beyond, two.inside)
