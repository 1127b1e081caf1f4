import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.exact_sums import sum_dense_rows, sum_gathered, sum_rows, sum_weights
from tests._core.arrays import random_rows, rows_of

SCALE = 2.0**40


def rounded(terms):
    """The exact sum of the terms, each rounded to a multiple of 1 / SCALE, in units of it."""
    return int(math.fsum(float(np.rint(float(term) * SCALE)) for term in terms))


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_sums_are_exact_and_the_same_in_any_order(seed):
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal((int(rng.integers(1, 6)), int(rng.integers(1, 50)))) / 7).astype(np.float32)
    out = np.empty(len(values), np.int64)
    sum_dense_rows(values, SCALE, out)
    assert out.tolist() == [rounded(row) for row in values]
    shuffled = np.empty_like(out)
    sum_dense_rows(np.ascontiguousarray(values[:, rng.permutation(values.shape[1])]), SCALE, shuffled)
    assert out.tolist() == shuffled.tolist()

    indptr = np.concatenate([[0], np.sort(rng.integers(0, values.size + 1, 3)), [values.size]])
    compressed = np.empty(len(indptr) - 1, np.int64)
    sum_rows(indptr, values.ravel(), SCALE, compressed)
    assert compressed.tolist() == [rounded(values.ravel()[a:b]) for a, b in pairwise(indptr)]


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), weighted=st.booleans())
def test_sums_over_rows_of_users(seed, weighted):
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 12))
    lists = random_rows(rng, int(rng.integers(1, 9)), items)
    rows = rows_of(lists)
    weights = rng.integers(1, 2**40, len(lists))
    out = np.zeros(items, np.int64)
    sum_weights(*rows, weights, out)
    assert out.tolist() == [
        sum(int(w) for w, row in zip(weights, lists, strict=True) if i in row) for i in range(items)
    ]

    of_rows, of_columns = rng.random(len(lists)), rng.random(items)
    values = rng.random(len(rows.indices)).astype(np.float32) if weighted else None
    found = np.empty(len(lists), np.int64)
    sum_gathered(rows, of_rows, of_columns, SCALE, found, values)
    place = 0
    for r, row in enumerate(lists):
        beside = np.ones(len(row)) if values is None else values[place : place + len(row)].astype(float)
        terms = [
            of_rows[r] * of_columns[i] if values is None else of_rows[r] * x * of_columns[i]
            for i, x in zip(row, beside, strict=True)
        ]
        assert found[r] == pytest.approx(rounded(terms), abs=len(row) + 1)
        place += len(row)
