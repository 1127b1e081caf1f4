"""What users need of rows that are counted and not kept: against the matrix written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.gather import GatheredEntries, copy_pieces, gather_rows, gather_scratch, list_products
from tests import reference
from tests._core.arrays import pairs_of, random_rows, random_values, rows_of, values_of


def counted(rng, R, weighted):
    """Co-occurrence by the slow twin, and what it was counted by: weights of users, values of pairs, or neither."""
    if weighted == "pairs":
        X = random_values(rng, R)
        return reference.dot_products(X), None, values_of(X)
    if weighted:
        weights = rng.random(len(R)) + 0.1
        return reference.weighted_cooccurrence(R, weights), weights, None
    return reference.cooccurrence(R), None, None


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["", "users", "pairs"]), st.sampled_from([0.05, 0.5]))
def test_every_user_gets_the_entries_they_ask_for(seed, weighted, density):
    """Weighted by user, by pair, or not; rows with few counts, which are listed, and with many, which are not."""
    rng = np.random.default_rng(seed)
    n, m, users = int(rng.integers(1, 20)), int(rng.integers(1, 60)), 4
    R = rng.random((n, m)) < density
    counts, weights, values = counted(rng, R, weighted)
    asking = random_rows(rng, users, m)  # the rows each user asks for
    wanted = random_rows(rng, users, m)  # the columns
    users_of = [[u for u in range(users) if i in asking[u]] for i in range(m)]
    left, right = rng.random(m), rng.random(m)
    rows = rng.permutation(m)[: rng.integers(0, m + 1)].astype(np.int32)
    scratch = gather_scratch(m, np.float64 if weighted else np.int32)
    expected = [(j, counts[i, j] * left[i] * right[j]) for i in rows for u in users_of[i] for j in wanted[u].tolist()]
    columns, products = np.full(len(expected), -1, np.int32), np.full(len(expected), np.nan)
    out = GatheredEntries(columns, products)
    end = gather_rows(
        pairs_of(R)[0], rows, left, right, rows_of(users_of), rows_of(wanted), scratch, out, weights, values
    )
    assert end == len(expected)
    assert columns.tolist() == [j for j, _ in expected]
    assert np.allclose(products, [value for _, value in expected], rtol=1e-15, atol=0)
    assert not scratch.counter.any()  # left as it was found


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["", "users", "pairs"]), st.sampled_from([0.05, 0.5]))
def test_all_entries_of_rows_are_listed(seed, weighted, density):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 20)), int(rng.integers(1, 60))
    R = rng.random((n, m)) < density
    counts, weights, values = counted(rng, R, weighted)
    left, right = rng.random(m) + 0.1, rng.random(m) + 0.1
    rows = rng.permutation(m)[: rng.integers(0, m + 1)].astype(np.int32)
    work = (R.T @ R.sum(axis=1))[rows]
    size = int(np.minimum(work, m).sum())
    scratch = gather_scratch(m, np.float64 if weighted else np.int32)
    indptr, out = np.zeros(len(rows) + 1, np.int64), GatheredEntries(np.full(size, -1, np.int32), np.full(size, np.nan))
    list_products(pairs_of(R)[0], rows, left, right, work, scratch, indptr, out, weights, values)
    for r, i in enumerate(rows):
        columns, products = (each[indptr[r] : indptr[r + 1]] for each in out)
        assert len(set(columns.tolist())) == len(columns)
        found = np.zeros(m)
        found[columns] = products
        assert np.allclose(found, counts[i] * left[i] * right, rtol=1e-14, atol=0)
        assert (len(columns) == m) if work[r] > m else products.all()
    assert not scratch.counter.any()  # left as it was found


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 6), max_size=8), st.integers(0, 2**32 - 1))
def test_pieces_are_copied_to_their_places(lengths, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(sum(lengths)).astype(np.float32)
    order = rng.permutation(len(lengths))
    gaps = rng.integers(0, 3, len(lengths))
    blocks = np.full(sum(lengths) + gaps.sum(), np.nan, np.float32)
    destinations, place = np.zeros(len(lengths), np.int64), 0
    for piece in order:
        place += gaps[piece]
        destinations[piece] = place
        place += lengths[piece]
    copy_pieces(values, destinations, np.array(lengths, np.int64), blocks)
    expected, start = np.full(len(blocks), np.nan, np.float32), 0
    for destination, length in zip(destinations, lengths, strict=True):
        expected[destination : destination + length] = values[start : start + length]
        start += length
    assert np.array_equal(blocks, expected, equal_nan=True)
