"""Strips of K: cut, counted, laid out and scored, against the matrix written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.groups import PairValues, Rows
from komd._core.scoring import score_dense
from komd._core.strip_counting import CountedStrip, CutStrip, count_strip, cut_strip, lay_out, score_strip
from tests import reference
from tests._core.arrays import pairs_of, random_rows, random_values, strip_of, values_of, weighted


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
    """Rows counted in two parts; sparse ones name their columns, dense ones do not."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 40)), int(rng.integers(1, 60))
    R = rng.random((n, m)) < density
    pairs, _ = pairs_of(R)
    weights = values = None
    if counted_by == "pairs":
        X = random_values(rng, R)
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
    places = np.zeros((len(rows), 3), np.int64)
    columns = np.empty(len(rows) * width, np.uint16)
    values, named = [], 0
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
        named = lay_out(out.lengths, width, out.columns, len(values), named, columns, places[a:b])
        values += out.products[:written].tolist()
    for place, i in zip(places, rows, strict=True):
        start, names, length = place
        found = np.zeros(width)
        where = columns[names : names + length] if length < width else np.arange(width)
        assert len(set(where.tolist())) == length
        found[where] = values[start : start + length]
        assert np.allclose(found, counts[i, first:last] * left[i] * right[first:last], rtol=1e-14, atol=0)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 1.0]))
def test_scores_of_strips_are_those_of_the_matrix_to_the_last_bit(seed, density):
    rng = np.random.default_rng(seed)
    m, count = int(rng.integers(1, 50)), 4
    K = rng.standard_normal((m, m)).astype(np.float32) * (rng.random((m, m)) < density * rng.random(m)[:, None])
    S, users = rng.standard_normal(m), weighted(rng, random_rows(rng, count, m))
    expected = np.empty((count, m))
    score_dense(K, S, users, expected)
    for first, last in pairwise([0, *np.sort(rng.integers(0, m + 1, 2)), m]):
        strip = strip_of(K, first, last, rng)
        for u in range(count):
            mine = slice(users.indptr[u], users.indptr[u + 1])
            out = np.full(last - first, np.nan)
            score_strip(strip, S[first:last], users.indices[mine], users.weights[mine], users.offsets[u], out)
            assert np.array_equal(out, expected[u, first:last])
