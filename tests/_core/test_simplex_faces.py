"""Problems on the simplex by whole faces: optimal by their KKT gap, no worse than cvxopt, or left as they were."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.simplex import simplex_scratch
from komd._core.simplex_faces import descend_by_faces
from tests import reference
from tests._core.arrays import compiled_anew
from tests._core.test_simplex import random_problem, spread

TOL = 1e-9
seeds = st.integers(0, 2**32 - 1)


@compiled_anew
def by_faces(K, q, g, lam, alpha, tol, scratch):
    return descend_by_faces(K, q, g, lam, alpha, tol, scratch)


def start(rng, m):
    """Even weights, or random ones of which some are zero."""
    alpha = np.full(m, 1.0)
    if rng.random() < 0.5:
        alpha = rng.random(m) * (rng.random(m) < 0.5)
        alpha[rng.integers(m)] += 0.1
    return alpha / alpha.sum()


@settings(deadline=None, max_examples=100)
@given(
    seeds, st.integers(1, 70), st.integers(1, 40), st.integers(0, 10), st.sampled_from([0.0, 1e-6, 0.01, 1.0, 100.0])
)
def test_solved_to_the_gap_or_left_alone(seed, m, rank, repeats, lam):
    """Scratch of a larger problem with other numbers in it does as well as a new one."""
    rng = np.random.default_rng(seed)
    K, q = random_problem(seed, m, rank, repeats)
    each, alpha = spread(seed, m, lam), start(rng, m)
    wide = K.astype(np.float64)
    g = wide @ alpha + each * alpha - q
    before, g_before = alpha.copy(), g.copy()
    scratch = simplex_scratch(m + 20, m + 20)
    scratch.lines[:], scratch.K_kept[:] = rng.standard_normal(scratch.lines.shape), np.nan
    if by_faces(K, q, g, each, alpha, TOL, scratch):
        assert np.allclose(g, wide @ alpha + each * alpha - q, atol=1e-13 * (1 + each.max()))
        reference.assert_optimal(K, q, each, alpha, TOL)
    else:
        assert lam < 1.0  # a well-conditioned problem is always solved; others may be left to pairs
        assert np.array_equal(alpha, before) and np.array_equal(g, g_before)


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(2, 60))
def test_an_answer_is_a_fixed_point(seed, m):
    K, q = random_problem(seed, m, 20, 0)
    lam, alpha = np.full(m, 0.1), np.full(m, 1.0 / m)
    g = K.astype(np.float64) @ alpha + lam * alpha - q
    assert by_faces(K, q, g, lam, alpha, TOL, simplex_scratch(m, m))
    again, g_again = alpha.copy(), g.copy()
    assert by_faces(K, q, g_again, lam, again, TOL, simplex_scratch(m, m))
    assert np.array_equal(again, alpha) and np.array_equal(g_again, g)
