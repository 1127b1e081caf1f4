"""The solvers of the core: on the simplex, optimal by their KKT gap, no worse than cvxopt, dense = sparse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from komd._core import solve
from komd._core.groups import Rows
from komd._core.simplex import simplex_scratch, solve_shrinking, solve_simplex
from komd._core.solve import MarginProblem, Solved, gather_row, solve_users, solver_scratch
from komd.matrix.dense import DenseMatrix
from komd.matrix.sparse import SparseMatrix
from tests import reference

TOL = 1e-9
lambdas = st.sampled_from([0.0, 1e-6, 0.01, 1.0, 100.0])
well_posed = st.sampled_from([0.01, 1.0, 100.0])  # pairs of items alone need very many steps where K is nearly flat


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


def sparse_of(K):
    indptr = np.zeros(len(K) + 1, np.int64)
    np.cumsum(np.count_nonzero(K, axis=1), out=indptr[1:])
    return SparseMatrix(indptr, np.nonzero(K)[1].astype(np.int32), K[np.nonzero(K)])


def assert_optimal(K, q, lam, alpha, tol):
    K = K.astype(np.float64)
    gap = reference.kkt_gap(K, q, lam, alpha)
    assert gap <= tol + 1e-12
    ours, theirs = (reference.objective(K, q, lam, a) for a in (alpha, reference.solve_simplex(K, q, lam)))
    # Convexity: no point of the simplex is lower than `ours` by more than twice the gap.
    assert theirs - 1e-8 * abs(theirs) - 1e-12 <= ours + 2 * gap
    assert ours <= theirs + 1e-8 * abs(theirs) + 1e-10  # of a value next to nothing no share can be asked


@settings(deadline=None, max_examples=120)
@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.integers(1, 12), st.integers(0, 6), well_posed)
@example(0, 1, 1, 0, 0.0)  # one item
@example(1, 2, 1, 1, 0.0)  # twice the same item, nothing to tell them apart
@example(2, 20, 1, 19, 0.0)  # all items the same
def test_simplex(seed, m, rank, repeats, lam):
    K, q = random_problem(seed, m, rank, repeats)
    alpha = np.full(m, 1.0 / m)
    g = K.astype(np.float64) @ alpha + lam * alpha - q
    steps = solve_simplex(K, g, lam, alpha, TOL, 1_000_000, np.empty(m))
    assert steps >= 0
    assert np.allclose(g, K.astype(np.float64) @ alpha + lam * alpha - q, atol=1e-11)
    assert_optimal(K, q, lam, alpha, TOL)


def test_simplex_says_when_its_steps_ran_out():
    K, q = random_problem(3, 30, 20, 0)
    alpha = np.full(30, 1.0 / 30)
    g = K.astype(np.float64) @ alpha - q
    assert solve_simplex(K, g, 0.0, alpha, TOL, 2, np.empty(30)) == -1
    assert alpha.sum() == pytest.approx(1)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(32, 120), st.integers(1, 40), st.integers(0, 30), lambdas)
def test_shrinking_finds_the_same_answer(seed, m, rank, repeats, lam):
    K, q = random_problem(seed, m, rank, repeats)
    alpha = np.full(m, 1.0 / m)
    g = K.astype(np.float64) @ alpha + lam * alpha - q
    solve_shrinking(K, q, g, lam, alpha, TOL, simplex_scratch(m, m))
    assert np.allclose(g, K.astype(np.float64) @ alpha + lam * alpha - q, atol=1e-11)
    assert_optimal(K, q, lam, alpha, TOL)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_gather_dense_is_gather_sparse(seed, m):
    rng = np.random.default_rng(seed)
    K = rng.random((m, m)).astype(np.float32)
    K[rng.random((m, m)) < 0.6] = 0.0
    h = np.sort(rng.choice(m, rng.integers(1, m + 1), replace=False)).astype(np.int32)
    for form in (DenseMatrix(K), sparse_of(K)):
        for x in range(len(h)):
            out = np.empty(len(h), np.float32)
            total = gather_row(form.stored(), h, x, out)
            assert np.array_equal(out, K[h[x], h])
            assert total == pytest.approx(K[h[x], h].sum(dtype=np.float64), rel=1e-14)


def solved(K, exact, lam, histories, tol=TOL, side=1000, theta=1.0):
    """`side`: histories up to this length are gathered whole, longer ones row by row."""
    indptr = np.cumsum([0, *map(len, histories)]).astype(np.int64)
    history = np.array([i for h in histories for i in h], np.int32)
    out = Solved(np.empty(len(history)), np.empty(len(histories)), np.empty(len(histories)))
    rows, problem = Rows(indptr, history), MarginProblem(K.sums(), exact, theta, lam, tol)
    own = K.own_entries(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "_GATHERED", side)
        scratch = solver_scratch(own, max(map(len, histories), default=0))
    unsolved = solve_users(own, problem, rows, out, scratch)
    weights, offsets, gaps = out
    return unsolved, np.split(weights, indptr[1:-1]), offsets, gaps


def random_histories(rng, m, users):
    """Of every length from nothing to everything."""
    sizes = [0, 1, m, *rng.integers(0, m + 1, users)]
    return [np.sort(rng.choice(m, size, replace=False)) for size in sizes]


def sparse_kernel(rng, m):
    """Cosines of random columns, some equal and some empty: positive semidefinite, with zeros."""
    R = (rng.random((max(2, m), m)) < rng.uniform(0.02, 0.5)).astype(float)
    for _ in range(3):
        a, b = rng.integers(0, m, 2)
        R[:, a] = R[:, b]
    X = reference.unit_items(R)
    K = (X @ X.T).astype(np.float32)
    np.fill_diagonal(K, R.any(axis=0))
    return K


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 45), st.booleans(), lambdas, st.sampled_from([1.0, 0.0, 0.5, 2.0]))
def test_users(seed, m, exact, lam, theta):
    rng = np.random.default_rng(seed)
    K = sparse_kernel(rng, m)
    wide = K.astype(np.float64)
    histories = random_histories(rng, m, 5)
    # Row by row, for very long histories, there are only pairwise steps: λ must do its part.
    for matrix, side in [(DenseMatrix(K), 1000), (sparse_of(K), 1000), (DenseMatrix(K), 4), (sparse_of(K), 4)][
        : 4 if lam >= 0.01 else 2
    ]:
        unsolved, weights, offsets, gaps = solved(matrix, exact, lam, histories, side=side, theta=theta)
        assert unsolved == 0
        assert (gaps <= TOL).all()
        assert len(weights) == len(histories)
        for u, h in enumerate(histories):
            if not len(h):
                assert offsets[u] == gaps[u] == 0.0
                continue
            left = m - len(h)
            expected = (theta / left if left else 0.0) if exact else theta / m
            assert offsets[u] == pytest.approx(expected, abs=1e-15)
            alpha = weights[u] - (offsets[u] if exact else 0.0)
            alpha[np.abs(alpha) < 1e-15] = 0.0  # 1/m_u- was added and taken away again
            q = reference.q_exact(wide, h) if exact else reference.q_mean(wide, h)
            assert_optimal(K[np.ix_(h, h)], theta * q, lam, alpha, TOL)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 45), st.booleans())
def test_users_dense_is_sparse_whole_is_row_by_row(seed, m, exact):
    rng = np.random.default_rng(seed)
    K = sparse_kernel(rng, m)
    histories = random_histories(rng, m, 5)
    whole = solved(DenseMatrix(K), exact, 0.01, histories)
    for form, side in ((sparse_of(K), 1000), (DenseMatrix(K), 2), (sparse_of(K), 2)):
        other = solved(form, exact, 0.01, histories, side=side)
        for ours, theirs in zip(whole[1], other[1], strict=True):
            # Only the order of the sums differs; strong convexity: no further apart than about TOL / λ.
            assert np.allclose(ours, theirs, atol=100 * TOL)
        assert np.array_equal(whole[2], other[2])


def test_users_are_counted_when_their_gap_stays_open():
    K, _ = random_problem(5, 60, 50, 0)
    rng = np.random.default_rng(5)
    histories = [np.sort(rng.choice(60, 50, replace=False)) for _ in range(4)]
    for side in (1000, 2):
        unsolved, _, _, gaps = solved(DenseMatrix(K), True, 0.01, histories, tol=1e-30, side=side)
        assert unsolved == np.count_nonzero(gaps > 1e-30) > 0
