"""The weights of many users: optimal by their KKT gap, no worse than cvxopt; dense = sparse = gathered before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from komd._core import solve as module
from komd._core.groups import OwnEntries
from komd._core.solve import (
    MarginProblem,
    Solved,
    gather_row,
    gather_squares,
    row_total,
    solve_block,
    solve_users,
    solver_scratch,
)
from tests import reference
from tests._core.arrays import compiled_anew, rows_of, stored

NO_W = np.zeros((0, 0), np.float32)
TOL = 1e-9
lambdas = st.sampled_from([0.0, 1e-6, 0.01, 1.0, 100.0])
seeds = st.integers(0, 2**32 - 1)


@compiled_anew
def total_of(row):
    return row_total(row)


@settings(deadline=None, max_examples=50)
@given(seeds, st.integers(1, 30))
def test_a_row_is_gathered_from_dense_and_sparse(seed, m):
    rng = np.random.default_rng(seed)
    K = rng.random((m, m)).astype(np.float32)
    K[rng.random((m, m)) < 0.6] = 0.0
    h = np.sort(rng.choice(m, rng.integers(1, m + 1), replace=False)).astype(np.int32)
    for sparse in (False, True):
        for x in range(len(h)):
            out = np.empty(len(h), np.float32)
            gather_row(stored(K, sparse=sparse), h, x, out)
            assert np.array_equal(out, K[h[x], h])
            assert total_of(out) == pytest.approx(K[h[x], h].sum(dtype=np.float64), rel=1e-14)
        squares = np.empty(2 * len(h) ** 2, np.float32)
        gather_squares(stored(K, sparse=sparse), rows_of([h, [], h]), np.array([0, 1, 1, 2]) * len(h) ** 2, squares)
        assert np.array_equal(squares.reshape(2, len(h), len(h)), np.stack([K[np.ix_(h, h)]] * 2))


def gathered_before(K, histories, beside):
    """K between each user's own items in `blocks`, each row followed by `beside` entries that are not needed."""
    pieces, starts = [np.zeros(0, np.float32)], [0]
    for h in histories:
        block = np.full((len(h), len(h) + beside), np.nan, np.float32)
        block[:, : len(h)] = K[np.ix_(h, h)]
        pieces.append(block.ravel())
        starts.append(starts[-1] + block.size)
    return OwnEntries(stored(np.zeros((0, 0), np.float32)), np.concatenate(pieces), np.array(starts, np.int64), NO_W)


def from_matrix(matrix, W=NO_W, added=0):
    return OwnEntries(matrix, np.zeros(0, np.float32), np.zeros(0, np.int64), W, added)


def solved(own, K, histories, exact=True, lam=0.01, theta=1.0, tol=TOL, h=None, omega=0.0):
    rows = rows_of(histories)
    out = Solved(np.empty(len(rows.indices)), np.empty(len(histories)), np.empty(len(histories)))
    problem = MarginProblem(K.sum(axis=1, dtype=np.float64), exact, theta, lam, tol, omega)
    unsolved = solve_block(own, problem, rows, h, out)
    return unsolved, np.split(out.weights, rows.indptr[1:-1]), out.offsets, out.gaps


@pytest.fixture
def gather_at_most(monkeypatch):
    """Histories longer than this are not gathered into a square: their rows are read at every step."""
    return lambda side: monkeypatch.setattr(module, "_GATHERED", side)


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


# A fixture that sets one number may stay in place from example to example.
several = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_a_problem_that_faces_do_not_solve_is_solved_by_pairs():
    """K is not positive definite: a direction between two items is not curved upwards."""
    K = np.array([[1.0, 1.5, 0.0], [1.5, 1.2, 0.0], [0.0, 0.0, 1.0]], np.float32)
    histories = [np.array(h, np.int32) for h in ([0, 2], [0, 1], [2])]
    own, rows = from_matrix(stored(K)), rows_of(histories)
    problem = MarginProblem(K.sum(axis=1, dtype=np.float64), True, 0.0, 0.01, TOL)
    out = Solved(np.empty(5), np.empty(3), np.empty(3))
    args = (own.stored, own.blocks, own.starts, problem, rows, None, out, module.solver_scratch(own, 2), None)
    assert module.solve_users(*args, None) == 1
    assert out.gaps[1] > TOL
    unsolved, weights, _, gaps = solved(own, K, histories, theta=0.0)
    assert unsolved == 0
    assert (gaps <= TOL).all()
    assert weights[1].tolist() == [1.0, 0.0]
    assert weights[0].tolist() == out.weights[:2].tolist()


@several
@given(seeds, st.integers(1, 45), st.booleans(), lambdas, st.sampled_from([1.0, 0.0, 0.5, 2.0]))
def test_users(gather_at_most, seed, m, exact, lam, theta):
    rng = np.random.default_rng(seed)
    K = sparse_kernel(rng, m)
    wide = K.astype(np.float64)
    histories = random_histories(rng, m, 5)
    forms = [(from_matrix(stored(K, sparse=sparse)), side) for side in (1000, 4) for sparse in (False, True)]
    # Row by row, for very long histories, there are only pairwise steps: λ must do its part.
    for own, side in forms if lam >= 0.01 else forms[:2]:
        gather_at_most(side)
        unsolved, weights, offsets, gaps = solved(own, K, histories, exact, lam, theta)
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
            alpha[np.abs(alpha) < 1e-15] = 0.0  # 1/m_u- was added and subtracted again
            q = reference.q_exact(wide, h) if exact else reference.q_mean(wide, h)
            reference.assert_optimal(K[np.ix_(h, h)], theta * q, lam, alpha, TOL)


@several
@given(seeds, st.integers(1, 45), st.booleans())
def test_users_dense_is_sparse_gathered_is_row_by_row(gather_at_most, seed, m, exact):
    rng = np.random.default_rng(seed)
    K = sparse_kernel(rng, m)
    histories = random_histories(rng, m, 5)
    gather_at_most(1000)
    dense = solved(from_matrix(stored(K)), K, histories, exact)
    blocks = solved(gathered_before(K, histories, int(rng.integers(0, 4))), K, histories, exact)
    for ours, theirs in zip(dense[1], blocks[1], strict=True):
        assert np.array_equal(ours, theirs)  # to the last bit
    for sparse, side in ((True, 1000), (False, 2), (True, 2)):
        gather_at_most(side)
        other = solved(from_matrix(stored(K, sparse=sparse)), K, histories, exact)
        for ours, theirs in zip(dense[1], other[1], strict=True):
            # Only the order of the sums differs; strong convexity: no further apart than about TOL / λ.
            assert np.allclose(ours, theirs, atol=100 * TOL)
        assert np.array_equal(dense[2], other[2])


@several
@given(seeds, st.integers(2, 45), st.integers(1, 9))
def test_users_of_a_corrected_matrix(seed, m, factors):
    """K − W W' + (the last factors): the answer on the matrix written out."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((m, factors)).astype(np.float32)
    W /= np.linalg.norm(W, 2)  # W W' has eigenvalues up to 1
    added = int(rng.integers(0, factors + 1))
    signs = np.where(np.arange(factors) < factors - added, 1.0, -1.0)
    C = sparse_kernel(rng, m) + 2 * np.eye(m, dtype=np.float32)  # far from singular, corrected or not
    K = (C.astype(float) - (W * signs).astype(float) @ W.T.astype(float)).astype(np.float32)
    histories = random_histories(rng, m, 4)
    for sparse in (False, True):
        own = from_matrix(stored(C, sparse=sparse), W, added)
        unsolved, weights, _, _ = solved(own, K, histories, exact=False, lam=0.1)
        assert unsolved == 0
        for u, h in enumerate(histories):
            if len(h):
                expected = reference.solve_simplex(
                    K[np.ix_(h, h)].astype(float), reference.q_mean(K.astype(float), h), 0.1
                )
                assert weights[u] == pytest.approx(expected, abs=1e-5)


@several
@given(seeds, st.integers(2, 45), st.booleans(), st.sampled_from([0.01, 1.0]), st.sampled_from([0.0, 1.0]))
def test_users_with_weights_and_dislikes(gather_at_most, seed, m, exact, lam, omega):
    """λ_i = λ / h_i; items with h below 0 join the negatives."""
    rng = np.random.default_rng(seed)
    K = sparse_kernel(rng, m)
    wide, rows = K.astype(np.float64), random_histories(rng, m, 5)
    h = [(10.0 ** rng.uniform(-2, 2, len(row))).astype(np.float32) for row in rows]
    for each in h:
        each[rng.random(len(each)) < (0.3 if omega else 0.0)] = -1.0
    flat = np.concatenate(h)
    forms = [(from_matrix(stored(K, sparse=sparse)), 1000) for sparse in (False, True)]
    forms += [(gathered_before(K, rows, int(rng.integers(0, 4))), 1000), (from_matrix(stored(K)), 4)]
    answers = []
    for own, side in forms:
        gather_at_most(side)
        unsolved, weights, offsets, _ = solved(own, K, rows, exact, lam, 0.5, h=flat, omega=omega)
        answers.append(weights)
        assert unsolved == 0
        for u, row in enumerate(rows):
            chosen, disliked = row[h[u] > 0], row[h[u] < 0]
            if not len(chosen):
                assert (weights[u] == 0).all() and offsets[u] == 0
                continue
            left = m - len(chosen)
            assert offsets[u] == pytest.approx((0.5 / left if left else 0.0) if exact else 0.5 / m, abs=1e-15)
            assert (weights[u][h[u] < 0] == -omega / max(len(disliked), 1)).all()
            alpha = weights[u][h[u] > 0] - (offsets[u] if exact else 0.0)
            alpha[np.abs(alpha) < 1e-15] = 0.0
            q = 0.5 * (reference.q_exact(wide, chosen) if exact else reference.q_mean(wide, chosen))
            if len(disliked):
                q += omega * wide[np.ix_(chosen, disliked)].mean(axis=1)
            reference.assert_optimal(K[np.ix_(chosen, chosen)], q, lam / h[u][h[u] > 0].astype(float), alpha, TOL)
    for other in answers[1:3]:  # the same matrix, however it is held
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(answers[0], other, strict=True))


@several
@given(seeds, st.integers(1, 45), st.booleans())
def test_users_whose_items_all_count_one_are_the_paper_to_the_last_bit(gather_at_most, seed, m, exact):
    rng = np.random.default_rng(seed)
    K = sparse_kernel(rng, m)
    histories = random_histories(rng, m, 5)
    ones = np.ones(sum(map(len, histories)), np.float32)
    for own, side in ((from_matrix(stored(K)), 1000), (from_matrix(stored(K, sparse=True)), 4)):
        gather_at_most(side)
        ours, theirs = solved(own, K, histories, exact, h=ones), solved(own, K, histories, exact)
        assert all(np.array_equal(a, b) for a, b in zip(ours[1], theirs[1], strict=True))
        assert np.array_equal(ours[3], theirs[3])


def test_users_are_counted_when_their_gap_stays_open(gather_at_most):
    rng = np.random.default_rng(5)
    X = np.abs(rng.standard_normal((60, 50)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T).astype(np.float32)
    histories = [np.sort(rng.choice(60, 50, replace=False)) for _ in range(4)]
    for side in (1000, 2):
        gather_at_most(side)
        unsolved, _, _, gaps = solved(from_matrix(stored(K)), K, histories, lam=1e-9, tol=1e-30)
        rounding = 1e-15 * 1e-9  # times λ, the size of gradients: no less is asked for
        assert unsolved == np.count_nonzero(gaps > rounding) > 0


def test_ill_conditioned_problems_are_solved_where_the_first_attempt_leaves_them(monkeypatch):
    """K has rank 20: two users have many more items, and two have fewer. Without λ, the former have flat problems."""
    monkeypatch.setattr(module, "_EASY", 0.0)
    X = np.random.default_rng(0).random((150, 20))
    K = (X @ X.T).astype(np.float32)
    histories = [np.arange(3), np.arange(0, 150, 2), np.arange(4, 9), np.arange(100)]
    own, rows = from_matrix(stored(K, sparse=False)), rows_of(histories)
    problem = MarginProblem(K.sum(axis=1, dtype=np.float64), True, 1.0, 0.0, TOL)

    def attempt(solve):
        out = Solved(np.empty(len(rows.indices)), np.empty(4), np.empty(4))
        return solve(out), out

    scratch = solver_scratch(own, 100)
    given = (own.stored, own.blocks, own.starts, problem, rows, None)
    left, first = attempt(lambda out: solve_users(*given, out, scratch, None, None))
    assert left == 2 and list(first.gaps > TOL) == [False, True, False, True]
    at_once, expected = attempt(lambda out: solve_users(*given, out, scratch))
    unsolved, found = attempt(lambda out: solve_block(own, problem, rows, None, out))
    assert at_once == unsolved == 0
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
