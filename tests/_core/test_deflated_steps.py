"""CF-OMD's steps with leading eigenvectors: the optimum is cvxopt's, whatever U leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from komd._core.deflated_steps import Deflation, deflated_scratch, start_users, step_deflated
from komd._core.two_simplexes import TwoSimplexProblem, measure_gaps, state_for
from komd._core.wide_products import multiply_symmetric
from tests import reference


def deflation_of(K, rank, lam_n, part=0.5):
    values, vectors = np.linalg.eigh(K.astype(np.float64))
    values, vectors = values[::-1], vectors[:, ::-1]
    U = (vectors[:, :rank] * np.sqrt(np.maximum(values[:rank], 0))).astype(np.float32)
    beyond = max(float(values[rank]) if rank < len(K) else 0.0, 1e-5 * float(values[0]))
    wide = U.astype(np.float64)
    return Deflation(
        U,
        np.ascontiguousarray(U.T),
        wide.T @ wide,
        wide.sum(axis=0),
        K.astype(np.float64).sum(axis=1),
        tau=lam_n + part * beyond,
        share=1.0 - part * (1.0 - lam_n / (lam_n + beyond)),
    )


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 1.0, 1e6]),
    st.sampled_from([1.0, 10.0, 100.0, 1e9]),
    st.sampled_from([1, 3, 9, 21]),
    st.booleans(),
)
def test_steps_lead_to_the_optimum(seed, lam_p, lam_n, rank, uneven):
    rng = np.random.default_rng(seed)
    m, users = 21, 6
    X = np.abs(rng.standard_normal((m, 8)))
    X[5], X[11] = X[4], X[10]  # the same item twice
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    K = np.maximum(K, K.T)
    rows = [np.sort(rng.choice(m, size, replace=False)).astype(np.int32) for size in (1, m - 1, 5, 7, 10, 15)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    lengths = np.diff(indptr)
    lam_of = lam_p / 10.0 ** rng.uniform(-2, 2, indptr[-1]) if uneven else np.full(indptr[-1], lam_p)
    problem = TwoSimplexProblem(K, indptr, np.concatenate(rows), lam_of, lam_n, 0.0, np.zeros(users))
    state = state_for(indptr, problem.indices, m, np.repeat(1.0 / lengths, lengths))
    deflation, scratch = deflation_of(K, rank, lam_n), deflated_scratch(m, m, rank)
    start_users(problem, deflation, state, scratch)
    for _ in range(80):
        step_deflated(problem, deflation, state, scratch)
        multiply_symmetric(K, state.a, state.Ka)
        measure_gaps(problem, state)
    for u, row in enumerate(rows):
        positive = np.isin(np.arange(m), row)
        alpha = state.a[u].copy()
        assert (alpha[row] == 0).all()
        alpha[row] = state.p[indptr[u] : indptr[u + 1]]
        assert (alpha >= 0).all()
        assert alpha[positive].sum() == pytest.approx(1, abs=1e-12)
        assert alpha[~positive].sum() == pytest.approx(1, abs=1e-12)
        lam = np.zeros(m)
        lam[row] = lam_of[indptr[u] : indptr[u + 1]]
        gap = reference.two_simplex_gap(K.astype(np.float64), positive, lam, lam_n, alpha)
        assert gap <= 1e-12 + 1e-14 * max(lam_n, lam.max())
        try:
            theirs = reference.solve_two_simplexes(K.astype(np.float64), positive, lam, lam_n)
        except ZeroDivisionError:  # cvxopt's, at every tolerance: there is nothing to compare with
            reject()
        best = reference.two_simplex_objective(K, positive, lam, lam_n, theirs)
        mine = reference.two_simplex_objective(K, positive, lam, lam_n, alpha)
        assert mine <= best + 1e-8 * abs(best) + 1e-9


def test_the_first_weights_are_ecfomds():
    rng = np.random.default_rng(0)
    m, row = 12, np.array([1, 4, 9], np.int32)
    X = np.abs(rng.standard_normal((m, 5)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    indptr = np.array([0, 3], np.int64)
    problem = TwoSimplexProblem(K, indptr, row, np.full(3, 0.1), 100.0, 0.0, np.zeros(1))
    state = state_for(indptr, row, m, np.full(3, 1 / 3))
    start_users(problem, deflation_of(K, 4, 100.0), state, deflated_scratch(3, m, 4))
    assert np.allclose(state.scores[0], reference.komd_scores(K.astype(np.float64), row, 0.1), atol=1e-5)
