"""Co-occurrence counts against sets of users."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from komd._core.cooccurrence import count_pairs, count_touched, count_upper, reach
from komd._core.groups import CountedPairs
from tests import reference

binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


def both_ways(R):
    """(user_indptr, user_items, item_indptr, item_users, item_where) of a dense matrix."""
    rows = csr_array(R.astype(np.int64))
    rows.sort_indices()
    where = csr_array((np.arange(rows.nnz), rows.indices, rows.indptr), shape=R.shape).tocsc()
    pointers = rows.indptr.astype(np.int64), where.indptr.astype(np.int64)
    return (
        pointers[0],
        rows.indices.astype(np.int32),
        pointers[1],
        where.indices.astype(np.int32),
        where.data.astype(np.int64),
    )


@settings(deadline=None, max_examples=100)
@given(binary, st.data())
def test_upper_counts(R, data):
    user_indptr, user_items, item_indptr, item_users, item_where = both_ways(R)
    m = R.shape[1]
    first = data.draw(st.integers(0, m))
    last = data.draw(st.integers(first, m))
    counts = np.zeros((last - first, m), np.int32)
    count_upper(CountedPairs(item_indptr, item_users, user_indptr, user_items), item_where, first, last, counts)
    expected = np.triu(reference.cooccurrence(R))[first:last]
    assert np.array_equal(counts, expected)


@settings(deadline=None, max_examples=100)
@given(binary, st.data())
def test_sparse_rows(R, data):
    user_indptr, user_items, item_indptr, item_users, _ = both_ways(R)
    m = R.shape[1]
    first = data.draw(st.integers(0, m))
    last = data.draw(st.integers(first, m))
    indptr = np.zeros(last - first + 1, np.int64)
    indices = np.empty((last - first) * m + 1, np.int32)
    counts = np.empty((last - first) * m + 1, np.int32)
    counter = np.zeros(m, np.int32)
    count_pairs(
        CountedPairs(item_indptr, item_users, user_indptr, user_items), first, last, counter, indptr, indices, counts
    )
    assert not counter.any()  # left as it was found
    expected = reference.cooccurrence(R)[first:last]
    for row, (start, stop) in enumerate(pairwise(indptr)):
        columns = np.flatnonzero(expected[row])
        assert indices[start:stop].tolist() == columns.tolist()
        assert counts[start:stop].tolist() == expected[row, columns].tolist()


@settings(deadline=None, max_examples=100)
@given(binary, st.data())
def test_touched_items(R, data):
    """Of any rows in any order, whole or from the diagonal on."""
    user_indptr, user_items, item_indptr, item_users, item_where = both_ways(R)
    m = R.shape[1]
    rows = np.array(data.draw(st.lists(st.integers(0, m - 1), unique=True)), np.int32)
    expected = reference.cooccurrence(R) > 0
    for where, wanted in ((None, expected), (item_where, np.triu(expected))):
        stamps = np.full(m, -1, np.int32)
        touched = np.full(len(rows), 99, np.int64)
        count_touched(CountedPairs(item_indptr, item_users, user_indptr, user_items), rows, stamps, touched, where)
        assert touched.tolist() == wanted[rows].sum(axis=1).tolist()


@settings(deadline=None, max_examples=50)
@given(binary)
def test_reach(R):
    user_indptr, user_items, *_ = both_ways(R)
    found = np.zeros(R.shape[1], np.int64)
    reach(user_indptr, user_items, found)
    assert found.tolist() == (R.astype(int).T @ R.sum(axis=1)).tolist()


def test_full_and_thin_rows_of_a_wide_matrix():
    """Rows put in order by sorting and rows put in order by going through all counters."""
    rng = np.random.default_rng(0)
    R = rng.random((30, 600)) < 0.01
    R[0] = True
    R[1, :300] = False
    R[0, 300:] = False
    user_indptr, user_items, item_indptr, item_users, _ = both_ways(R)
    indptr = np.zeros(601, np.int64)
    indices, counts = np.empty(600 * 600 + 1, np.int32), np.empty(600 * 600 + 1, np.int32)
    counter = np.zeros(600, np.int32)
    count_pairs(
        CountedPairs(item_indptr, item_users, user_indptr, user_items), 0, 600, counter, indptr, indices, counts
    )
    filled = csr_array((counts[: indptr[-1]], indices[: indptr[-1]], indptr), shape=(600, 600))
    assert not counter.any() and filled.has_sorted_indices
    sizes = np.diff(indptr)
    assert (sizes * 64 > 600).any() and ((sizes > 1) & (sizes * 64 <= 600)).any()
    assert np.array_equal(filled.toarray(), reference.cooccurrence(R))
