"""The regressions of SLIM in the core: optimal by their own conditions, honest when sweeps run out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.groups import CountedPairs, Rows
from komd._core.slim_descent import (
    FoundWeights,
    ItemRegression,
    descend,
    regress_items,
    regression_scratch,
    scratch_bytes,
    write_rows,
)
from tests import reference


def choices(seed, users, items, density):
    return (np.random.default_rng(seed).random((users, items)) < density).astype(float)


def compressed(R):
    matrix = sp.csr_array(R)
    return Rows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def gram(R):
    return (R.T @ R).astype(np.float32)


def regress(R, l1, l2, *, on="residuals", copies=None, tol=1e-8, sweeps=100_000, first=0, last=None):
    """Rows of the answer are targets, as in `reference.regress_item`."""
    users, m = R.shape
    last = m if last is None else last
    G = gram(R) if on == "gram" else np.zeros((0, 0), np.float32)
    copies = np.ones(m, np.int64) if copies is None else copies
    problem = ItemRegression(CountedPairs(*compressed(R.T), *compressed(R)), copies, G, l1, l2, tol, sweeps)
    size = (last - first) * m
    found = FoundWeights(np.empty(last - first, np.int64), np.empty(size, np.int32), np.empty(size, np.float32))
    steps = np.empty(last - first)
    scratch = regression_scratch(m, users, on == "gram")
    unsolved = regress_items(problem, first, last, scratch, found, steps)
    W = np.zeros((last - first, m))
    for t, (start, stop) in enumerate(pairwise([0, *found.ends])):
        W[t, found.columns[start:stop]] = found.values[start:stop]
    return W, steps, unsolved


both_ways = pytest.mark.parametrize("on", ["residuals", "gram"])


@both_ways
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    items=st.integers(1, 25),
    density=st.sampled_from([0.02, 0.3, 0.9]),
    l1=st.sampled_from([0.0, 0.5, 3.0]),
    l2=st.sampled_from([0.1, 5.0, 1000.0]),
)
def test_every_problem_meets_its_conditions(on, seed, items, density, l1, l2):
    """w >= 0, w_j = 0, and the gradient G w − g_j + l1 + l2 w is zero where w > 0 and not negative elsewhere."""
    R = choices(seed, 40, items, density)
    G = R.T @ R
    W, steps, unsolved = regress(R, l1, l2, on=on)
    assert unsolved == 0
    assert (steps <= 1e-8).all()
    assert (W >= 0).all()
    assert (W.diagonal() == 0).all()
    gradient = W @ G - G + l1 + l2 * W
    # Weights leave in single precision.
    slack = 1e-7 * (G.diagonal() + l2) + 1e-7 * (W @ G + l2 * W)
    others = ~np.eye(items, dtype=bool)
    assert (gradient >= -slack)[others].all()
    assert (np.abs(gradient) <= slack)[others & (W > 0)].all()


@both_ways
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.1, 5.0]))
def test_the_weights_are_those_of_an_independent_solver(on, seed, items, l1, l2):
    R = choices(seed, 30, items, 0.3)
    W, _, _ = regress(R, l1, l2, on=on, tol=1e-10)
    for j in range(items):
        assert W[j] == pytest.approx(reference.regress_item(R.T @ R, j, l1, l2), abs=1e-5)


@both_ways
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    columns=st.integers(1, 8),
    l1=st.sampled_from([0.0, 0.5, 3.0]),
    l2=st.sampled_from([0.1, 5.0, 100.0]),
)
def test_copies_are_that_many_items(on, seed, columns, l1, l2):
    """One column with copies has the weights that the solver finds for the items one by one."""
    R = choices(seed, 30, columns, 0.3)
    copies = np.random.default_rng(seed).integers(1, 5, columns)
    column_of = np.repeat(np.arange(columns), copies)
    V, _, unsolved = regress(R, l1, l2, on=on, copies=copies, tol=1e-10)
    assert unsolved == 0
    G = R[:, column_of].T @ R[:, column_of]
    W = reference.item_weights(column_of, V.T)
    for j in range(len(column_of)):
        assert W[:, j] == pytest.approx(reference.regress_item(G, j, l1, l2), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 4), st.sampled_from([0.0, 0.5]))
def test_a_sweep_is_one_exact_step_for_each_weight(seed, items, sweeps, l1):
    rng = np.random.default_rng(seed)
    G, b = gram(choices(seed, 30, items, 0.4)), rng.integers(-3, 9, items).astype(float)
    w = rng.random(items) * (rng.random(items) < 0.5)
    expected = w
    for _ in range(sweeps):
        expected = reference.coordinate_sweep(G.astype(float), b, l1, 2.0, expected)
    q = b - G @ w - 2.0 * w
    assert descend(G, l1, 2.0, -1.0, sweeps, np.ones(items), G.diagonal() + 2.0, q, w) == -1
    assert w == pytest.approx(expected, abs=1e-12)
    assert q == pytest.approx(b - G @ w - 2.0 * w, abs=1e-9)


@both_ways
def test_more_items_want_weight_than_enter_at_a_time(on):
    """200 near-copies of one item: on G they enter in crowds of 64, and the answer shares the weight between all."""
    rng = np.random.default_rng(3)
    shared = rng.random(500) < 0.4
    R = np.array([np.where(rng.random(500) < 0.02, ~shared, shared) for _ in range(200)]).T.astype(float)
    G = R.T @ R
    W, _, unsolved = regress(R, 0.1, 2000.0, on=on, first=0, last=3)
    assert unsolved == 0
    assert ((W > 0).sum(axis=1) > 128).all()
    gradient = W @ G - G[:3] + 0.1 + 2000.0 * W
    gradient[np.arange(3), np.arange(3)] = 0.0
    assert gradient.min() > -1e-3


def test_more_items_have_weight_than_the_square_holds():
    """2,100 items that all have weight: the residuals are used although there is G, to the same bits."""
    R = choices(4, 2200, 2101, 0.0)
    R[np.arange(2101), np.arange(2101)] = 1.0
    R[2190:] = 1.0
    on_gram, _, unsolved = regress(R, 0.0, 5000.0, on="gram", tol=1e-6, last=1)
    assert unsolved == 0
    assert (on_gram > 0).sum() == 2100
    assert np.array_equal(on_gram, regress(R, 0.0, 5000.0, tol=1e-6, last=1)[0])


@both_ways
def test_blocks_change_nothing(on):
    R = choices(1, 60, 30, 0.2)
    whole, _, _ = regress(R, 0.5, 2.0, on=on)
    parts = np.vstack([regress(R, 0.5, 2.0, on=on, first=a, last=b)[0] for a, b in [(0, 7), (7, 8), (8, 30)]])
    assert np.array_equal(whole, parts)


@both_ways
def test_items_nobody_chose_have_no_part(on):
    R = choices(2, 40, 12, 0.3)
    R[:, 4] = 0.0
    W, _, unsolved = regress(R, 0.0, 0.0, on=on)
    assert unsolved == 0
    assert not W[4].any()
    assert not W[:, 4].any()
    assert np.isfinite(W).all()


@both_ways
def test_too_few_sweeps_are_told(on):
    R = choices(5, 60, 30, 0.5)
    _, steps, unsolved = regress(R, 0.0, 0.1, on=on, tol=1e-12, sweeps=2)
    assert unsolved == (steps > 1e-12).sum() > 0


def test_descend_counts_its_sweeps():
    G = np.array([[4.0, 0.0], [0.0, 2.0]], np.float32)
    w, q = np.zeros(2), np.array([3.0, 0.5])
    one, curvature = np.ones(2), np.array([5.0, 3.0])
    assert descend(G, 1.0, 1.0, 1e-12, 10, one, curvature, q, w) == 2  # one to move, one to see that nothing does
    assert w == pytest.approx([2 / 5, 0.0])
    assert q == pytest.approx([1.0, 0.5])
    assert descend(G, 0.0, 1.0, 1e-12, 1, one, curvature, q, w) == -1


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 12))
def test_rows_of_items_from_weights_of_columns(seed, columns, more):
    rng = np.random.default_rng(seed)
    column_of = np.concatenate([np.arange(columns), rng.integers(0, columns, more)]).astype(np.int32)
    V = (rng.random((columns, columns)) * (rng.random((columns, columns)) < 0.5)).astype(np.float32)
    expected = sp.csr_array(reference.item_weights(column_of, V))
    targets = [np.flatnonzero(V[:, t]) for t in range(columns)]
    found = FoundWeights(
        np.cumsum([len(rows) for rows in targets]),
        np.concatenate(targets).astype(np.int32),
        np.concatenate([V[rows, t] for t, rows in enumerate(targets)]),
    )
    members = Rows(
        np.concatenate([[0], np.cumsum(np.bincount(column_of))]), np.argsort(column_of, kind="stable").astype(np.int32)
    )
    ends = expected.indptr[:-1].astype(np.int64)
    indices, values = np.empty(expected.nnz, np.int32), np.empty(expected.nnz, np.float32)
    write_rows(column_of, members, found, ends, indices, values)
    assert np.array_equal(ends, expected.indptr[1:])
    assert np.array_equal(indices, expected.indices)
    assert np.array_equal(values, expected.data)


@pytest.mark.parametrize("with_gram", [False, True])
def test_scratch_is_what_is_said(with_gram):
    scratch = regression_scratch(3000, 500, with_gram)
    partition = scratch.entering.nbytes
    assert sum(array.nbytes for array in scratch) + partition == scratch_bytes(3000, 500, with_gram)
