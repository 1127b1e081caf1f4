"""Compressed rows: the transpose, and where its entries come from."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.rows import frozen, places, transpose

cells = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=50)


@settings(deadline=None)
@given(cells, st.integers(0, 2**32 - 1))
def test_transpose_and_places_agree_with_plain_python(pairs, seed):
    rng = np.random.default_rng(seed)
    rows = [rng.permutation([i for u, i in sorted(pairs) if u == user]).tolist() for user in range(7)]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([item for row in rows for item in row], np.int32)
    out_indptr, users = transpose(indptr, indices, 10)
    assert out_indptr.dtype == np.int64
    assert users.dtype == np.int32
    for item in range(10):
        assert users[out_indptr[item] : out_indptr[item + 1]].tolist() == [u for u in range(7) if item in rows[u]]
    where = places(indices, out_indptr)
    assert np.array_equal(indices[where], np.repeat(np.arange(10), np.diff(out_indptr)))
    assert np.array_equal(np.searchsorted(indptr, where, side="right") - 1, users)


def test_frozen_leaves_the_callers_array_writable():
    mine = np.arange(3)
    assert not frozen(mine, np.int64).flags.writeable
    assert mine.flags.writeable
