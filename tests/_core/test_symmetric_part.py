"""The part of a symmetric matrix between some items: what numpy takes of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.symmetric_part import copy_part
from tests._core.arrays import compiled_anew


@compiled_anew
def copied(M, items, out):
    copy_part(M, items, out)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 70), st.integers(0, 9))
def test_both_halves_are_copied(seed, m, beside):
    """The rows of both matrices may be longer than they are read or written; what is beside stays as it was."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((90, 90 + beside)).astype(np.float32)
    M[:, :90] = np.triu(M[:, :90]) + np.triu(M[:, :90], 1).T
    items = rng.choice(90, m, replace=False).astype(np.int32)
    out = np.full((m, m + beside), np.nan, np.float32)
    copied(M, items, out)
    assert np.array_equal(out[:, :m], M[np.ix_(items, items)])
    assert np.isnan(out[:, m:]).all()


def test_other_numbers_are_refused():
    with pytest.raises(TypeError, match="copy_part takes float32"):
        copied(np.eye(9), np.zeros(9, np.int32), np.zeros((9, 9), np.float32))
