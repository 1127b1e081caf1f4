"""Co-occurrence, counted and weighted by user and by pair, against sets of users: to the last bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from komd._core.cooccurrence import count_pairs, count_row, count_touched, count_upper, reach
from tests import reference
from tests._core.arrays import compiled_anew, pairs_of, random_values, values_of

binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))
positive = st.floats(1e-300, 1e300)  # first touches must be seen whatever the size of the weights


@st.composite
def problems(draw):
    """A matrix, weights of its users or None, values of its pairs or None, and a block of its items."""
    R = draw(binary)
    weights = draw(st.none() | st.lists(positive, min_size=len(R), max_size=len(R)).map(np.array))
    X = None
    if weights is None and draw(st.booleans()):
        X = random_values(np.random.default_rng(draw(st.integers(0, 99))), R)
    first = draw(st.integers(0, R.shape[1]))
    return R, weights, X, first, draw(st.integers(first, R.shape[1]))


def expected_of(R, weights, X):
    """The counts, their type, and what compiled functions take."""
    if X is not None:
        return reference.dot_products(X), np.float64, None, values_of(X)
    if weights is not None:
        return reference.weighted_cooccurrence(R, weights), np.float64, weights, None
    return reference.cooccurrence(R), np.int32, None, None


@settings(deadline=None, max_examples=100)
@given(problems())
def test_upper_counts(problem):
    R, weights, X, first, last = problem
    pairs, item_where = pairs_of(R)
    expected, kind, weights, values = expected_of(R, weights, X)
    counts = np.zeros((last - first, R.shape[1]), kind)
    count_upper(pairs, item_where, first, last, counts, weights, None if values is None else values.of_user_items)
    assert np.array_equal(counts, np.triu(expected)[first:last])
    assert np.array_equal(expected, expected.T)


@settings(deadline=None, max_examples=100)
@given(problems())
def test_sparse_rows(problem):
    R, weights, X, first, last = problem
    m = R.shape[1]
    expected, kind, weights, values = expected_of(R, weights, X)
    indptr = np.zeros(last - first + 1, np.int64)
    indices, counts = np.empty((last - first) * m + 1, np.int32), np.empty((last - first) * m + 1, kind)
    counter = np.zeros(m, kind)
    count_pairs(
        pairs_of(R)[0], np.arange(first, last, dtype=np.int32), counter, indptr, indices, counts, weights, values
    )
    assert not counter.any()  # left as it was found
    expected = expected[first:last]
    for row, (start, stop) in enumerate(pairwise(indptr)):
        columns = np.flatnonzero(expected[row])
        assert indices[start:stop].tolist() == columns.tolist()
        assert counts[start:stop].tolist() == expected[row, columns].tolist()


@compiled_anew
def counted(pairs, first, stop, whole, counter, touched, end, weights, values):
    return count_row(pairs, first, stop, whole, counter, touched, end, weights, values)


@settings(deadline=None, max_examples=100)
@given(problems(), st.booleans(), st.integers(0, 3))
def test_one_row_and_the_list_of_what_it_met(problem, whole, end):
    R, weights, X, i, last = problem
    if i == last:
        return
    pairs, _ = pairs_of(R)
    expected, kind, weights, values = expected_of(R, weights, X)
    expected, counter = expected[i], np.zeros(R.shape[1], kind)
    touched = np.full(end + R.shape[1] + 1, -1, np.int32)
    first, last = pairs.item_indptr[i], pairs.item_indptr[i + 1]
    stop = counted(pairs, first, last, whole, counter, touched, end, weights, values)
    assert np.array_equal(counter, expected)
    assert sorted(touched[end:stop]) == ([] if whole else np.flatnonzero(expected).tolist())
    assert (touched[:end] == -1).all()


@settings(deadline=None, max_examples=100)
@given(binary, st.data())
def test_touched_items(R, data):
    """Of any rows in any order, complete or from the diagonal on."""
    pairs, item_where = pairs_of(R)
    m = R.shape[1]
    rows = np.array(data.draw(st.lists(st.integers(0, m - 1), unique=True)), np.int32)
    expected = reference.cooccurrence(R) > 0
    for where, wanted in ((None, expected), (item_where, np.triu(expected))):
        stamps = np.full(m, -1, np.int32)
        touched = np.full(len(rows), 99, np.int64)
        count_touched(pairs, rows, stamps, touched, where)
        assert touched.tolist() == wanted[rows].sum(axis=1).tolist()


@settings(deadline=None, max_examples=50)
@given(binary)
def test_reach(R):
    pairs, _ = pairs_of(R)
    found = np.zeros(R.shape[1], np.int64)
    reach(pairs.user_indptr, pairs.user_items, found)
    assert found.tolist() == (R.astype(int).T @ R.sum(axis=1)).tolist()


@pytest.mark.parametrize("weighted", ["", "users", "pairs"])
def test_full_and_thin_rows_of_a_wide_matrix(weighted):
    """Rows put in order by sorting and rows put in order by going through all counters."""
    rng = np.random.default_rng(0)
    R = rng.random((30, 600)) < 0.01
    R[0] = True
    R[1, :300] = False
    R[0, 300:] = False
    weights = rng.random(30) + 0.1 if weighted == "users" else None
    X = random_values(rng, R, -1, 1) if weighted == "pairs" else None
    values, kind = None if X is None else values_of(X), np.float64 if weighted else np.int32
    indptr = np.zeros(601, np.int64)
    indices, counts = np.empty(600 * 600 + 1, np.int32), np.empty(600 * 600 + 1, kind)
    counter = np.zeros(600, kind)
    count_pairs(pairs_of(R)[0], np.arange(600, dtype=np.int32), counter, indptr, indices, counts, weights, values)
    filled = csr_array((counts[: indptr[-1]], indices[: indptr[-1]], indptr), shape=(600, 600))
    assert not counter.any() and filled.has_sorted_indices
    sizes = np.diff(indptr)
    assert (sizes * 64 > 600).any() and ((sizes > 1) & (sizes * 64 <= 600)).any()
    vectors = R * np.sqrt(1.0 if weights is None else weights[:, None]) if X is None else X.astype(float)
    assert np.allclose(filled.toarray(), vectors.T @ vectors, rtol=1e-14 if weighted else 0, atol=0)
