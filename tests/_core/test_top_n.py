"""The n best: order, ties, candidates, and strips merged one after another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.top_n import collect_top, mask, mask_strip, push_top, sort_top, take_waiting, waiting_for
from tests import reference
from tests._core.arrays import compiled_anew, random_rows, rows_of

# Few distinct values, so that ties are everywhere; some items out of the running.
values = st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf]), min_size=1, max_size=150)


def fresh(users, n):
    return np.full((users, n), -7, np.int32), np.full((users, n), np.nan), np.zeros(users, np.int64)


def check(row, candidates, n, best):
    items, scores, counts = best
    expected = reference.top(row, candidates, n)
    assert items[0, : counts[0]].tolist() == expected
    assert scores[0, : counts[0]].tolist() == [row[j] for j in expected]


@settings(deadline=None, max_examples=200)
@given(values, st.integers(1, 45), st.data())
def test_one_strip(row, n, data):
    scores = np.array([row])
    chosen = data.draw(st.sets(st.integers(0, len(row) - 1)))
    candidates = np.array(sorted(chosen), np.int32)
    best = fresh(1, n)
    push_top(scores, candidates, 0, *best)
    sort_top(*best)
    check(row, candidates, n, best)
    assert np.array_equal(scores[0], row)  # read, not altered


@settings(deadline=None, max_examples=200)
@given(values, st.integers(1, 45), st.data())
def test_strips_merged_one_after_another_are_one_merge(row, n, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(row)))) | {0, len(row)})
    candidates = np.array(sorted(data.draw(st.sets(st.integers(0, len(row) - 1)))), np.int32)
    best = fresh(1, n)
    for first, last in pairwise(cuts):
        inside = candidates[(candidates >= first) & (candidates < last)]
        push_top(np.array([row[first:last]]), inside, first, *best)
    sort_top(*best)
    check(row, candidates, n, best)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_many_users_long_lists(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 60, (5, 300)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    best = fresh(5, 100)
    everything = np.arange(300, dtype=np.int32)
    push_top(scores, everything, 0, *best)
    sort_top(*best)
    for u in range(5):
        assert best[0][u, : best[2][u]].tolist() == reference.top(scores[u], everything, 100)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_candidates_without_gaps(seed):
    """Such as all items that have users, in strips that they fill, enter or miss."""
    rng = np.random.default_rng(seed)
    row = rng.integers(0, 9, 120).astype(float)
    low, high = np.sort(rng.integers(0, 121, 2))
    candidates, best = np.arange(low, high, dtype=np.int32), fresh(1, 20)
    for first, last in pairwise([0, *np.sort(rng.integers(0, 121, 3)), 120]):
        inside = candidates[(candidates >= first) & (candidates < last)]
        push_top(np.array([row[first:last]]), inside, first, *best)
    sort_top(*best)
    check(row, candidates, 20, best)


@compiled_anew
def collected(scores, edges, candidates, waiting, items, values, counts):
    """The lists of users who come one after another to each strip; what waits is taken after the last strip."""
    for k in range(edges.shape[0] - 1):
        first, last = edges[k], edges[k + 1]
        inside = candidates[(candidates >= first) & (candidates < last)]
        for u in range(scores.shape[0]):
            collect_top(u, scores[u, first:last].copy(), inside, first, waiting, items, values, counts)
    for u in range(scores.shape[0]):
        take_waiting(u, waiting, items, values, counts)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 30, 10**6]), st.sampled_from([0.7, 1.0]))
def test_candidates_that_wait_make_the_same_lists(seed, levels, share):
    """Ties stand at the end of lists; some users have more candidates than may wait, some have none."""
    rng = np.random.default_rng(seed)
    m, users, n = int(rng.integers(1, 400)), 4, int(rng.integers(1, 90))
    scores = rng.integers(0, levels, (users, m)).astype(float)
    scores[rng.random((users, m)) < 0.1] = -np.inf
    scores[0] = np.sort(scores[0])  # every one is better than those before, or equal
    scores[1] = -np.inf
    candidates = np.flatnonzero(rng.random(m) < share).astype(np.int32)
    edges = np.array([0, *np.sort(rng.integers(0, m + 1, 5)), m])
    best = fresh(users, n)
    collected(scores, edges, candidates, waiting_for(*best[1:]), *best)
    sort_top(*best)
    for u in range(users):
        assert best[0][u, : best[2][u]].tolist() == reference.top(scores[u], candidates, n)


def test_minus_infinity_is_never_taken():
    best = fresh(1, 3)
    push_top(np.full((1, 5), -np.inf), np.arange(5, dtype=np.int32), 0, *best)
    assert best[2][0] == 0


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_masked_items_are_at_minus_infinity_and_others_as_they_were(seed):
    """In one piece, or strip by strip for each user."""
    rng = np.random.default_rng(seed)
    users, m = 4, int(rng.integers(1, 40))
    lists = random_rows(rng, users, m)
    rows, before = rows_of(lists), rng.standard_normal((users, m))
    expected = [[-np.inf if j in lists[u] else before[u, j] for j in range(m)] for u in range(users)]
    whole = before.copy()
    mask(rows, whole)
    assert whole.tolist() == expected
    parts, cursor = before.copy(), rows.indptr[:-1].copy()
    for first, last in pairwise([0, *np.sort(rng.integers(0, m + 1, 3)), m]):
        for u in range(users):
            mask_strip(rows.indptr[u + 1], rows.indices, first, cursor[u : u + 1], parts[u, first:last])
    assert parts.tolist() == expected
    assert cursor.tolist() == rows.indptr[1:].tolist()
