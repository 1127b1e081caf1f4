"""CF-OMD's proximal gradients: the projection, its gaps, and the answer beside cvxopt's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.two_simplexes import (
    TwoSimplexProblem,
    measure_gaps,
    project_simplex,
    scratch_for,
    solve_one_side,
    solve_positives,
    state_for,
    step_users,
    times_rows,
)
from komd._core.wide_products import multiply_symmetric
from tests import reference


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(1e-3, 1e3))
def test_projection_on_the_simplex(seed, m, spread):
    rng = np.random.default_rng(seed)
    for v in (rng.standard_normal(m) * spread, np.full(m, spread)):
        left_out = np.concatenate([v, np.full(3, -np.inf)])
        t = project_simplex(left_out, rng.standard_normal() * spread)
        assert np.allclose(np.maximum(v - t, 0.0), reference.project_simplex(v), atol=1e-12 * max(1.0, spread))
        assert np.maximum(left_out - t, 0.0).sum() == pytest.approx(1.0, abs=1e-12 * max(1.0, spread))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.01, 1.0]), st.sampled_from([0.0, 0.01, 1.0, 100.0]))
def test_steps_lead_to_the_optimum_and_gaps_are_the_twins(seed, lam_p, lam_n):
    rng = np.random.default_rng(seed)
    m, users = 17, 5
    X = np.abs(rng.standard_normal((m, 6)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    rows = [np.sort(rng.choice(m, rng.integers(1, m), replace=False)).astype(np.int32) for _ in range(users)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    lengths = np.diff(indptr)
    lam_of = lam_p / 10.0 ** rng.uniform(-1, 1, indptr[-1])
    problem = TwoSimplexProblem(K, indptr, np.concatenate(rows), lam_of, lam_n, 1 / (2 * m), np.full(users, 1e-12))
    state = state_for(indptr, problem.indices, m, np.repeat(1.0 / lengths, lengths))
    scratch = scratch_for(m, m)
    multiply_symmetric(K, state.a, state.Ka)
    state.Ka_before[:] = state.Ka
    for _ in range(600):
        step_users(problem, state, scratch)
        multiply_symmetric(K, state.a, state.Ka)
    measure_gaps(problem, state)
    for u, row in enumerate(rows):
        positive = np.isin(np.arange(m), row)
        alpha = state.a[u].copy()
        assert (alpha[row] == 0).all()
        alpha[row] = state.p[indptr[u] : indptr[u + 1]]
        lam_p = np.zeros(m)
        lam_p[row] = lam_of[indptr[u] : indptr[u + 1]]
        gap = reference.two_simplex_gap(K.astype(np.float64), positive, lam_p, lam_n, alpha)
        assert state.gap[u] == pytest.approx(gap, abs=1e-12 * max(1.0, lam_n))
        theirs = reference.solve_two_simplexes(K.astype(np.float64), positive, lam_p, lam_n)
        best = reference.two_simplex_objective(K, positive, lam_p, lam_n, theirs)
        assert reference.two_simplex_objective(K, positive, lam_p, lam_n, alpha) <= best + gap + 1e-9
        assert lam_n < 1 or gap < 1e-9 * lam_n
        assert np.allclose(state.scores[u], (np.where(positive, alpha, -alpha)) @ K, atol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_the_history_is_solved_for_given_negatives(spread):
    rng = np.random.default_rng(1)
    m, h = 15, np.array([0, 2, 3, 7, 8, 12, 14], np.int32)
    X = np.abs(rng.standard_normal((m, 6)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    lam = 0.01 * np.geomspace(1.0, spread, len(h))
    Ka, Ka_before = rng.random((2, m))
    q = (Ka + 0.3 * (Ka - Ka_before))[h]
    K_u = K[np.ix_(h, h)]
    expected = reference.solve_simplex(K_u.astype(np.float64), q, lam)
    problem = TwoSimplexProblem(K, np.array([0, len(h)]), h, lam, 1.0, 0.0, np.zeros(1))
    p = np.full(len(h), 1 / len(h))
    solve_positives(problem, 0, Ka, Ka_before, 0.3, p, 1e-12, scratch_for(m, m))
    assert np.allclose(p, expected, atol=1e-6)
    alone = np.full(len(h), 1 / len(h))
    solve_one_side(K_u, q, K_u @ alone + lam * alone - q, lam, alone, 1e-12, scratch_for(m, m).simplex)
    assert np.allclose(alone, p, atol=1e-9)


@pytest.mark.parametrize("size", [0, 1, 4, 7, 12])
def test_rows_are_summed_by_weight(size):
    rng = np.random.default_rng(2)
    K = rng.standard_normal((20, 20)).astype(np.float32)
    h = np.sort(rng.choice(20, size, replace=False)).astype(np.int32)
    p = rng.random(size) * (rng.random(size) < 0.7)
    out = np.empty(20)
    times_rows(K, h, p, out)
    assert np.allclose(out, p @ K[h].astype(np.float64), atol=1e-13)
