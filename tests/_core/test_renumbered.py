import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.groups import Rows, StoredMatrix
from komd._core.renumbered import (
    CountedAgain,
    RowChanges,
    column_codes,
    find_pairs,
    renew_dense,
    renew_dense_in_place,
    renew_rows,
    renew_sparse,
    renewed_lengths,
)
from komd.rows import pointers
from tests._core.arrays import random_rows, rows_of, stored


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_pairs_are_found_where_they_are(seed):
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 12))
    lists = random_rows(rng, int(rng.integers(1, 9)), items)
    users, wanted = rng.integers(0, len(lists), 40).astype(np.int32), rng.integers(0, items, 40).astype(np.int32)
    out = np.empty(40, np.int64)
    rows = rows_of(lists)
    find_pairs(rows, users, wanted, out)
    for user, item, place in zip(users, wanted, out, strict=True):
        expected = rows.indptr[user] + list(lists[user]).index(item) if item in lists[user] else -1
        assert place == expected


def renumbering(rng, old):
    """A new order of some of the old numbers with new ones among them: (source, numbers, moved)."""
    moved = rng.random(old) < 0.3
    gone = moved & (rng.random(old) < 0.3)
    # Those that did not move stay in order; the others come anywhere between them, and so do new ones (-1).
    order = [c for c in range(old) if not moved[c]]
    for c in [*np.flatnonzero(moved & ~gone), *([-1] * int(rng.integers(0, 3)))]:
        order.insert(int(rng.integers(0, len(order) + 1)), int(c))
    source = np.array(order, np.int32).reshape(-1)
    numbers = np.full(old, -1, np.int32)
    numbers[source[source >= 0]] = np.flatnonzero(source >= 0)
    return source, numbers, moved, gone


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32 - 1))
def test_renewed_rows_are_the_old_ones_with_what_changed(seed):
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 100 if seed % 5 == 0 else 15))
    lists = [sorted(set(map(int, row))) for row in random_rows(rng, int(rng.integers(1, 8)), items)]
    source_items, numbers, moved, gone = renumbering(rng, items)
    source_rows = rng.permutation(np.append(np.arange(len(lists)), -1))[: len(lists)].astype(np.int32)
    dropped, added, expected = [], [], []
    for row in source_rows:
        held = lists[row] if row >= 0 else []
        left = [c for c in held if gone[c] or rng.random() < 0.2]
        kept = {int(numbers[c]): c for c in held if c not in left}
        came = [j for j in range(len(source_items)) if j not in kept and rng.random() < 0.2]
        dropped.append(left)
        added.append(came)
        expected.append(sorted([*kept, *came]))
    old, out = (
        rows_of(lists),
        Rows(pointers([len(row) for row in expected]), np.empty(sum(map(len, expected)), np.int32)),
    )
    changes = RowChanges(source_rows, column_codes(numbers, moved), bool(moved.any()), rows_of(dropped), rows_of(added))
    places = np.empty(len(out.indices), np.int64)
    middle = len(expected) // 2
    for first, last in ((0, middle), (middle, len(expected))):
        renew_rows(old, changes, first, last, out, places)
    assert out.indices.tolist() == [j for row in expected for j in row]
    for place, number in zip(places.tolist(), out.indices.tolist(), strict=True):
        assert number == (numbers[old.indices[place]] if place >= 0 else changes.added.indices[-1 - place])
    again = Rows(out.indptr, np.empty_like(out.indices))
    renew_rows(old, changes, 0, len(expected), again, np.empty(0, np.int64))
    assert again.indices.tolist() == out.indices.tolist()


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 2**32 - 1), same_size=st.booleans())
def test_renewed_matrices(seed, same_size):
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 15))
    source, numbers, moved, _ = renumbering(rng, items)
    if same_size:  # as a matrix changed in place must be
        order = [c for c in range(items) if not moved[c]]
        for c in np.flatnonzero(moved):
            order.insert(int(rng.integers(0, len(order) + 1)), int(c))
        source = np.array(order, np.int32)
    size = len(source)
    source = np.where((source >= 0) & moved[source], -1, source).astype(np.int32)  # moved items are counted again
    numbers = np.full(items, -1, np.int32)
    numbers[source[source >= 0]] = np.flatnonzero(source >= 0)
    old = rng.random((items, items)).astype(np.float32) * (rng.random((items, items)) < 0.5)
    fresh = rng.random((size, size)).astype(np.float32) * (rng.random((size, size)) < 0.5)
    expected = np.where((source[:, None] >= 0) & (source[None] >= 0), old[source][:, source], fresh)

    again = np.flatnonzero(source < 0).astype(np.int32)
    counted = CountedAgain(again, fresh[again], np.ascontiguousarray(fresh[:, again].T))
    out = np.empty((size, size), np.float32)
    for first, last in ((0, size // 2), (size // 2, size)):
        renew_dense(old, source, counted, first, last, out)
    assert np.array_equal(out, expected)
    if size == items:
        values = old.copy()
        renew_dense_in_place(values, source, counted)
        assert np.array_equal(values, expected)

    put_in = np.where((source[:, None] >= 0) & (source[None] >= 0), np.float32(0), fresh)
    lengths = np.empty(size, np.int64)
    renewed_lengths(stored(old, sparse=True), source, numbers, 0, size, lengths)
    indptr = pointers(lengths + np.diff(stored(put_in, sparse=True).indptr))
    made = StoredMatrix(
        np.zeros((0, 0), np.float32), indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    )
    renew_sparse(stored(old, sparse=True), source, numbers, stored(put_in, sparse=True), 0, size, made)
    wanted = stored(expected, sparse=True)
    assert all(np.array_equal(a, b) for a, b in zip(made[1:], wanted[1:], strict=True))
