"""Weighted co-occurrence against sums over sets of users, to the last bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from komd._core.cooccurrence import count_pairs, count_upper
from komd._core.groups import CountedPairs

binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))
positive = st.floats(1e-300, 1e300)  # first touches must be seen whatever the size of the weights


def weighted_cooccurrence(R, weights):
    """Σ_{v ∈ U_i ∩ U_j} weight_v, users ascending."""
    m = R.shape[1]
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            for v in range(len(R)):
                if R[v, i] and R[v, j]:
                    out[i, j] += weights[v]
    return out


def both_ways(R):
    """(user_indptr, user_items, item_indptr, item_users, item_where) of a dense matrix."""
    rows = csr_array(R.astype(np.int64))
    columns = csr_array((np.arange(rows.nnz), rows.indices, rows.indptr), shape=R.shape).tocsc()
    return (
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        columns.data.astype(np.int64),
    )


@st.composite
def problems(draw):
    """A matrix, weights of its users, and a block of its items."""
    R = draw(binary)
    weights = np.array(draw(st.lists(positive, min_size=len(R), max_size=len(R))))
    first = draw(st.integers(0, R.shape[1]))
    return R, weights, first, draw(st.integers(first, R.shape[1]))


@settings(deadline=None, max_examples=100)
@given(problems())
def test_upper_sums(problem):
    R, weights, first, last = problem
    user_indptr, user_items, item_indptr, item_users, item_where = both_ways(R)
    sums = np.zeros((last - first, R.shape[1]))
    count_upper(CountedPairs(item_indptr, item_users, user_indptr, user_items), item_where, first, last, sums, weights)
    assert np.array_equal(sums, np.triu(weighted_cooccurrence(R, weights))[first:last])


@settings(deadline=None, max_examples=100)
@given(problems())
def test_sparse_sums(problem):
    R, weights, first, last = problem
    m = R.shape[1]
    user_indptr, user_items, item_indptr, item_users, _ = both_ways(R)
    indptr = np.zeros(last - first + 1, np.int64)
    indices = np.empty((last - first) * m + 1, np.int32)
    sums = np.empty((last - first) * m + 1)
    counter = np.zeros(m)
    count_pairs(
        CountedPairs(item_indptr, item_users, user_indptr, user_items),
        first,
        last,
        counter,
        indptr,
        indices,
        sums,
        weights,
    )
    assert not counter.any()  # left as it was found
    expected = weighted_cooccurrence(R, weights)[first:last]
    for row, (start, stop) in enumerate(pairwise(indptr)):
        columns = np.flatnonzero(expected[row])
        assert indices[start:stop].tolist() == columns.tolist()
        assert np.array_equal(sums[start:stop], expected[row, columns])
