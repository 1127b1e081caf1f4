"""The simplex problem where the λ_i of a user's items differ by many orders of magnitude."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.simplex import simplex_scratch
from komd._core.uneven_simplex import solve_uneven, step_together
from tests._core.arrays import compiled_anew

TOL = 1e-9


def kernel(rng, m, factors):
    X = np.abs(rng.standard_normal((m, factors))) * (rng.random((m, factors)) < 0.5) + 1e-3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    np.fill_diagonal(K, 1.0)
    return K


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 120),
    st.sampled_from([1e-3, 0.01, 1.0, 100.0]),
    st.sampled_from([0.0, 1.0, 3.0, 6.0, 18.0]),
)
def test_the_answer_has_no_gap_whatever_the_spread(seed, m, lam, spread):
    rng = np.random.default_rng(seed)
    K, q = kernel(rng, m, int(rng.integers(1, 20))), rng.random(m) * 0.3
    h = 10.0 ** -rng.uniform(0, spread, m)
    lam_of, alpha = lam / h, h / h.sum()
    g = K.astype(np.float64) @ alpha + lam_of * alpha - q
    solve_uneven(K, q, g, lam_of, alpha, TOL, simplex_scratch(m, m))
    assert (alpha >= 0).all()
    assert alpha.sum() == pytest.approx(1, abs=1e-12)
    true_g = K.astype(np.float64) @ alpha + lam_of * alpha - q
    assert np.allclose(g, true_g, atol=1e-11 * max(1.0, lam))
    # The problem is convex: weights without a gap are the answer, and strictly so, since λ > 0.
    assert true_g[alpha > 0].max() - true_g.min() <= TOL + 1e-12 * max(1.0, lam)


def test_a_large_regularization_leaves_the_weights_as_given():
    rng = np.random.default_rng(1)
    K, q, h = kernel(rng, 40, 8), rng.random(40), 10.0 ** -rng.uniform(0, 6, 40)
    alpha = np.full(40, 1 / 40)
    lam = 1e9 / h
    g = K.astype(np.float64) @ alpha + lam * alpha - q
    solve_uneven(K, q, g, lam, alpha, 1e-6, simplex_scratch(40, 40))
    assert alpha == pytest.approx(h / h.sum(), rel=1e-6)


@compiled_anew
def one_step(g, alpha, D, step):
    """The function that only compiled code calls."""
    step_together(g, alpha, D, step)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_a_step_of_all_goes_to_the_minimum_of_the_bound(seed, m):
    rng = np.random.default_rng(seed)
    D, g = 10.0 ** rng.uniform(-2, 6, m), rng.standard_normal(m)
    before = rng.random(m) * (rng.random(m) < 0.6)
    before[rng.integers(m)] += 0.1
    before /= before.sum()
    x = before.copy()
    one_step(g, x, D, np.empty(m))
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1, abs=1e-12)
    # KKT of 2 (x - before)'g + Σ D (x - before)²: the same slope where there is weight, no less elsewhere.
    slope = g + D * (x - before)
    assert slope[x > 0].max() - slope.min() <= 1e-9 * max(1.0, np.abs(slope).max())
