"""The regressions of SLIM in the core: optimal by their own conditions, honest when sweeps run out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.slim_descent import ItemRegression, descend, regress_items, regression_scratch
from tests import reference


def gram(seed, users, items, density):
    R = (np.random.default_rng(seed).random((users, items)) < density).astype(float)
    return (R.T @ R).astype(np.float32)


def regress(G, l1, l2, *, tol=1e-8, sweeps=100_000, first=0, last=None):
    m = len(G)
    last = m if last is None else last
    W = np.full((last - first, m), np.nan)
    steps = np.empty(last - first)
    unsolved = regress_items(ItemRegression(G, l1, l2, tol, sweeps), first, last, regression_scratch(m), W, steps)
    return W, steps, unsolved


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    items=st.integers(1, 25),
    density=st.sampled_from([0.02, 0.3, 0.9]),
    l1=st.sampled_from([0.0, 0.5, 3.0]),
    l2=st.sampled_from([0.1, 5.0, 1000.0]),
)
def test_every_problem_meets_its_conditions(seed, items, density, l1, l2):
    """w >= 0, w_j = 0, and the gradient G w − g_j + l1 + l2 w is zero where w > 0 and not negative elsewhere."""
    G = gram(seed, 40, items, density)
    W, steps, unsolved = regress(G, l1, l2)
    assert unsolved == 0
    assert (steps <= 1e-8).all()
    assert (W >= 0).all()
    assert (W.diagonal() == 0).all()
    gradient = W @ G.astype(float) - G + l1 + l2 * W
    slack = 1e-7 * (G.diagonal() + l2)
    others = ~np.eye(items, dtype=bool)
    assert (gradient >= -slack)[others].all()
    assert (np.abs(gradient) <= slack)[others & (W > 0)].all()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.1, 5.0]))
def test_the_weights_are_those_of_an_independent_solver(seed, items, l1, l2):
    G = gram(seed, 30, items, 0.3)
    W, _, _ = regress(G, l1, l2, tol=1e-10)
    for j in range(items):
        assert W[j] == pytest.approx(reference.regress_item(G.astype(float), j, l1, l2), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 4), st.sampled_from([0.0, 0.5]))
def test_a_sweep_is_one_exact_step_for_each_weight(seed, items, sweeps, l1):
    rng = np.random.default_rng(seed)
    G, b = gram(seed, 30, items, 0.4), rng.integers(-3, 9, items).astype(float)
    w = rng.random(items) * (rng.random(items) < 0.5)
    expected = w
    for _ in range(sweeps):
        expected = reference.coordinate_sweep(G.astype(float), b, l1, 2.0, expected)
    q = b - G @ w - 2.0 * w
    assert descend(G, l1, 2.0, -1.0, sweeps, G.diagonal() + 2.0, q, w) == -1
    assert w == pytest.approx(expected, abs=1e-12)
    assert q == pytest.approx(b - G @ w - 2.0 * w, abs=1e-9)


def test_more_items_want_weight_than_enter_at_a_time():
    """200 near-copies of one item: they enter in crowds of 64, and the answer shares the weight between all of them."""
    rng = np.random.default_rng(3)
    shared = rng.random(500) < 0.4
    R = np.array([np.where(rng.random(500) < 0.02, ~shared, shared) for _ in range(200)]).T.astype(float)
    G = (R.T @ R).astype(np.float32)
    W, _, unsolved = regress(G, 0.1, 2000.0, first=0, last=3)
    assert unsolved == 0
    assert ((W > 0).sum(axis=1) > 128).all()
    gradient = W @ G.astype(float) - G[:3] + 0.1 + 2000.0 * W
    gradient[np.arange(3), np.arange(3)] = 0.0
    assert gradient.min() > -1e-4


def test_blocks_change_nothing():
    G = gram(1, 60, 30, 0.2)
    whole, _, _ = regress(G, 0.5, 2.0)
    parts = np.vstack([regress(G, 0.5, 2.0, first=a, last=b)[0] for a, b in [(0, 7), (7, 8), (8, 30)]])
    assert np.array_equal(whole, parts)


def test_items_nobody_chose_have_no_part():
    G = gram(2, 40, 12, 0.3)
    G[4] = G[:, 4] = 0.0
    W, _, unsolved = regress(G, 0.0, 0.0)
    assert unsolved == 0
    assert not W[4].any()
    assert not W[:, 4].any()
    assert np.isfinite(W).all()


def test_too_few_sweeps_are_told():
    G = gram(5, 60, 30, 0.5)
    _, steps, unsolved = regress(G, 0.0, 0.1, tol=1e-12, sweeps=2)
    assert unsolved == (steps > 1e-12).sum() > 0


def test_descend_counts_its_sweeps():
    G = np.array([[4.0, 0.0], [0.0, 2.0]], np.float32)
    w, q = np.zeros(2), np.array([3.0, 0.5])
    curvature = np.array([5.0, 3.0])
    assert descend(G, 1.0, 1.0, 1e-12, 10, curvature, q, w) == 2  # one to move, one to see that nothing does
    assert w == pytest.approx([2 / 5, 0.0])
    assert q == pytest.approx([1.0, 0.5])
    assert descend(G, 0.0, 1.0, 1e-12, 1, curvature, q, w) == -1
