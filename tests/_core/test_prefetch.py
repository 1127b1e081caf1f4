"""Hints to the processor change nothing and read nothing, wherever they point."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.prefetch import fetch_ahead, prefetch
from tests._core.arrays import compiled_anew


@compiled_anew
def hint(array, index):
    prefetch(array, index)


@compiled_anew
def hint_all(item_users, user_indptr, user_items):
    for p in range(item_users.shape[0]):
        fetch_ahead(p, item_users, user_indptr, user_items)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_nothing_is_altered_or_read(seed, anywhere):
    rng = np.random.default_rng(seed)
    users = int(rng.integers(1, 30))
    user_indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 9, users))]).astype(np.int64)
    user_items = rng.integers(0, 50, user_indptr[-1]).astype(np.int32)
    item_users = rng.integers(0, users, rng.integers(0, 40)).astype(np.int32)
    before = [array.copy() for array in (item_users, user_indptr, user_items)]
    hint_all(item_users, user_indptr, user_items)
    hint(user_items, anywhere)  # far outside: no fault
    for array, old in zip((item_users, user_indptr, user_items), before, strict=True):
        assert np.array_equal(array, old)
