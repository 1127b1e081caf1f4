"""One problem on the simplex: optimal by its KKT gap, no worse than cvxopt; its single steps written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from komd._core.simplex import move_weight, simplex_scratch, solve_shrinking, solve_simplex, worst_pair
from tests import reference
from tests._core.arrays import compiled_anew

TOL = 1e-9
lambdas = st.sampled_from([0.0, 1e-6, 0.01, 1.0, 100.0])
well_posed = st.sampled_from([0.01, 1.0, 100.0])  # pairs of items alone need very many steps where K is nearly flat
seeds = st.integers(0, 2**32 - 1)


def random_problem(seed, m, rank, repeats):
    """K (float32, unit diagonal, of low rank so that λ = 0 is hard) and q, with some items repeated exactly."""
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((m, rank)))
    q = rng.random(m) * rng.random()
    for _ in range(min(repeats, m - 1)):
        a, b = rng.integers(0, m, 2)
        X[a], q[a] = X[b], q[b]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    np.fill_diagonal(K, 1.0)
    return K, q


def spread(seed, m, lam):
    """λ for each item: the same for all, or over two orders of magnitude."""
    rng = np.random.default_rng([seed, 1])
    return lam * (10.0 ** rng.uniform(-1, 1, m) if rng.random() < 0.7 else np.ones(m))


@settings(deadline=None, max_examples=120)
@given(seeds, st.integers(1, 25), st.integers(1, 12), st.integers(0, 6), well_posed)
@example(0, 1, 1, 0, 0.0)  # one item
@example(1, 2, 1, 1, 0.0)  # twice the same item, nothing to tell them apart
@example(2, 20, 1, 19, 0.0)  # all items the same
def test_simplex(seed, m, rank, repeats, lam):
    K, q = random_problem(seed, m, rank, repeats)
    lam = spread(seed, m, lam)
    alpha = np.full(m, 1.0 / m)
    g = K.astype(np.float64) @ alpha + lam * alpha - q
    steps = solve_simplex(K, g, lam, alpha, TOL, 1_000_000, np.empty(m))
    assert steps >= 0
    assert np.allclose(g, K.astype(np.float64) @ alpha + lam * alpha - q, atol=1e-11)
    reference.assert_optimal(K, q, lam, alpha, TOL)


def test_simplex_says_when_its_steps_ran_out():
    K, q = random_problem(3, 30, 20, 0)
    alpha = np.full(30, 1.0 / 30)
    g = K.astype(np.float64) @ alpha - q
    assert solve_simplex(K, g, np.zeros(30), alpha, TOL, 2, np.empty(30)) == -1
    assert alpha.sum() == pytest.approx(1)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(32, 120), st.integers(1, 40), st.integers(0, 30), lambdas)
def test_shrinking_finds_the_same_answer(seed, m, rank, repeats, lam):
    K, q = random_problem(seed, m, rank, repeats)
    lam = spread(seed, m, lam)
    alpha = np.full(m, 1.0 / m)
    g = K.astype(np.float64) @ alpha + lam * alpha - q
    solve_shrinking(K, q, g, lam, alpha, TOL, simplex_scratch(m, m))
    assert np.allclose(g, K.astype(np.float64) @ alpha + lam * alpha - q, atol=1e-11)
    reference.assert_optimal(K, q, lam, alpha, TOL)


@compiled_anew
def one_move(K, g, lam, alpha, floor):
    """The functions that only compiled code calls, called once each."""
    low, high = worst_pair(g, alpha, floor)
    return low, high, move_weight(K[low], K[high], low, high, g, lam, alpha, floor)


@settings(deadline=None, max_examples=60)
@given(seeds, st.sampled_from([1, 2, 7, 40, 95, 96, 150]), st.sampled_from([0.0, 0.01, 1.0]))
def test_a_move_goes_to_the_minimum_between_the_worst_two(seed, m, lam):
    """With less and with more items than from which four are swept at a time."""
    rng = np.random.default_rng(seed)
    K, q = random_problem(seed, m, int(rng.integers(1, 12)), int(rng.integers(0, 3)))
    alpha = rng.random(m) * (rng.random(m) < 0.6)
    alpha[rng.integers(m)] += 0.1
    alpha /= alpha.sum()
    wide, lam = K.astype(np.float64), spread(seed, m, lam)
    g = wide @ alpha + lam * alpha - q
    assume(g[alpha > 0].max() - g.min() > 1e-9)  # as the solver does: it moves only what is worth moving
    before, g_before, floor = alpha.copy(), g.copy(), np.empty(m)
    low, high, (next_low, next_high) = one_move(K, g, lam, alpha, floor)
    assert g_before[low] == g_before.min()
    assert before[high] > 0 and g_before[high] == g_before[before > 0].max()
    assert np.allclose(alpha, reference.move_between(wide, q, lam, before, low, high), atol=1e-9)
    assert np.allclose(g, wide @ alpha + lam * alpha - q, atol=1e-12)
    assert np.array_equal(floor, np.where(alpha > 0, 0.0, -np.inf))
    assert (next_low, next_high) == (np.argmin(g), np.argmax(g + floor))
