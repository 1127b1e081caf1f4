"""Strips of K: cut, counted, laid out and scored, against the matrix written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.groups import PairValues, Rows, StripArrays
from komd._core.scoring import score_dense
from komd._core.strip_counting import (
    TILE,
    CountedStrip,
    CutStrip,
    RowPlaces,
    count_entries,
    count_strip,
    cut_strip,
    lay_out,
    score_tile,
)
from tests import reference
from tests._core.arrays import pairs_of, random_rows, random_values, row_of_strip, strip_of, values_of, weighted


def empty_cut(users, entries):
    return CutStrip(np.empty(users + 1, np.uint32), np.empty(entries, np.uint16), np.empty((users + 7) // 8, np.uint8))


def cut_copy(values, entries):
    """Room for the values of a strip."""
    return None if values is None else PairValues(np.empty(entries, np.float32), values.of_item_users)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.03, 0.4]), st.booleans())
def test_strips_one_after_another_hold_every_users_items(seed, density, valued):
    """And the values of these pairs, if there are any."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 30)), int(rng.integers(1, 40))
    R = rng.random((n, m)) < density
    pairs, _ = pairs_of(R)
    rows, ends = Rows(pairs.user_indptr, pairs.user_items), pairs.user_indptr[:-1].copy()
    X = random_values(rng, R)
    values = values_of(X) if valued else None
    cut_values = cut_copy(values, R.sum() + 1)
    for first, last in pairwise([0, *np.sort(rng.integers(0, m + 1, 2)), m]):
        cut = empty_cut(n, R.sum() + 1)
        cut_strip(rows, first, last, ends, cut, values, cut_values)
        for v in range(n):
            expected = np.flatnonzero(R[v, first:last]).tolist()
            assert cut.inside[cut.starts[v] : cut.starts[v + 1]].tolist() == expected
            assert bool(cut.active[v // 8] >> v % 8 & 1) == bool(expected)
            if cut_values is not None:
                inside = cut_values.of_user_items[cut.starts[v] : cut.starts[v + 1]]
                assert np.array_equal(inside, X[v, first:last][R[v, first:last]])
    assert np.array_equal(ends, pairs.user_indptr[1:])


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.03, 0.15, 0.6]), st.sampled_from(["", "users", "pairs"]))
def test_counted_rows_laid_out_are_the_matrix(seed, density, counted_by):
    """Rows counted in two parts; sparse ones name their columns, dense ones do not.

    Strips of several tiles: tests/matrix/test_streamed.py.
    """
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 40)), int(rng.integers(1, 60))
    R = rng.random((n, m)) < density * rng.random(m)
    pairs, _ = pairs_of(R)
    weights = values = None
    if counted_by == "pairs":
        X = random_values(rng, R, -8, 8)  # products of two fit float32
        counts, values = reference.dot_products(X), values_of(X)
    elif counted_by:
        weights = rng.random(n) + 0.1
        counts = reference.weighted_cooccurrence(R, weights)
    else:
        counts = reference.cooccurrence(R)
    left, right = rng.random(m) + 0.1, rng.random(m) + 0.1
    first, last = sorted(rng.integers(0, m + 1, 2))
    width = last - first
    cut, ends = empty_cut(n, R.sum() + 1), pairs.user_indptr[:-1] + R[:, :first].sum(axis=1)
    cut_values = cut_copy(values, R.sum() + 1)
    cut_strip(Rows(pairs.user_indptr, pairs.user_items), first, last, ends, cut, values, cut_values)
    rows = rng.permutation(m)[: rng.integers(0, m + 1)].astype(np.int32)
    some = int(rng.integers(0, len(rows) + 1))
    wide = min(width, TILE) if width else 1
    tiles, slots = -(-width // wide) or 1, int(rng.integers(0, len(rows) + 1))  # few: some rows find none left
    places = np.full((tiles, len(rows), 2), 12345, np.uint32)
    dense = np.full((tiles, slots, wide), np.nan, np.float32)
    columns, values, slot = np.zeros(0, np.uint16), np.zeros(0, np.float32), 0
    for a, b in ((0, some), (some, len(rows))):
        room = (b - a) * width + width + 1
        out = CountedStrip(
            np.zeros(width, np.float64 if counted_by else np.int32),
            np.empty(b - a, np.int64),
            np.empty(room, np.uint16),
            np.empty(room),
        )
        users_of = Rows(pairs.item_indptr, pairs.item_users)
        written = count_strip(users_of, cut, rows[a:b], first, left, right, out, weights, cut_values)
        assert written == out.lengths.sum()
        assert not out.counter.any()  # left as it was found
        full = min(int(np.count_nonzero(out.lengths == width)), slots - slot)
        rest = written - full * width
        piece = RowPlaces(
            places[:, a:b], dense, slot, full, np.empty(rest, np.uint16), np.empty(rest, np.float32), len(values)
        )
        lay_out(out.lengths, width, out.columns, out.products[:written].astype(np.float32), piece)
        columns, values = np.concatenate([columns, piece.columns]), np.concatenate([values, piece.values])
        slot += full
    strip, nonzeros = StripArrays(np.zeros(0, np.int32), places, columns, values, dense), 0
    for r, i in enumerate(rows):
        found = row_of_strip(strip, r, width)
        assert np.allclose(found, counts[i, first:last] * left[i] * right[first:last], rtol=1e-6, atol=0)
        nonzeros += np.count_nonzero(found)
    assert count_entries(strip, width) == nonzeros


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 1.0]))
def test_scores_of_strips_are_those_of_the_matrix_to_the_last_bit(seed, density):
    rng = np.random.default_rng(seed)
    m, count, tile = int(rng.integers(1, 50)), 4, int(rng.integers(1, 30))
    K = rng.standard_normal((m, m)).astype(np.float32) * (rng.random((m, m)) < density * rng.random(m)[:, None])
    S, users = rng.standard_normal(m), weighted(rng, random_rows(rng, count, m))
    expected = np.empty((count, m))
    score_dense(K, S, users, expected)
    for first, last in pairwise([0, *np.sort(rng.integers(0, m + 1, 2)), m]):
        strip, wide = strip_of(K, first, last, rng, tile), min(tile, last - first)
        for u in range(count):
            mine = slice(users.indptr[u], users.indptr[u + 1])
            rows, weights = strip.row_of[users.indices[mine]], users.weights[mine]
            out, slots = np.full(last - first, np.nan), np.empty(len(rows), np.int32)
            for t in range(len(strip.places) if wide else 0):
                part = slice(t * wide, (t + 1) * wide)
                score_tile(strip, t, S[first:last][part], rows, weights, users.offsets[u], slots, out[part])
            assert np.array_equal(out, expected[u, first:last])
