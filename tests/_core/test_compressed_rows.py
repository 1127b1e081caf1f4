"""The compiled building blocks of rows against what plain Python does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core import compressed_rows as csr
from tests.reference import merge_repeated

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(-50, 50)), max_size=80)


def frozen(values, dtype):
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


@settings(deadline=None)
@given(pairs, st.booleans())
def test_group_and_distinct_keep_the_first_at_the_earliest_time(rows, timed):
    twin: dict[int, dict[int, int]] = {user: {} for user in range(7)}
    for user, item, time in rows:
        twin[user][item] = min(twin[user].get(item, time), time)

    users, items = frozen([r[0] for r in rows], np.int32), frozen([r[1] for r in rows], np.int32)
    times = frozen([r[2] for r in rows] if timed else [], np.int64)
    indptr = np.zeros(8, np.int64)
    csr.count(users, indptr)
    assert indptr.tolist() == [sum(r[0] < user for r in rows) for user in range(8)]
    indices, out_times = np.empty(len(rows), np.int32), np.empty(len(times), np.int64)
    csr.group(users, items, times, indptr[:-1].copy(), indices, out_times)
    left = csr.distinct(indptr, indices, out_times, np.full(10, -1, np.int64))

    assert left == indptr[-1] == sum(map(len, twin.values()))
    for user in range(7):
        row = slice(indptr[user], indptr[user + 1])
        assert indices[row].tolist() == list(twin[user])
        if timed:
            assert out_times[row].tolist() == list(twin[user].values())


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-5, 5), st.floats(0.5, 8)), max_size=60),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["sum", "max", "last"]),
)
def test_merge_makes_one_of_repeated_pairs(rows, timed, weighted, how):
    rows = sorted(rows, key=lambda row: row[0])
    times, weights = ([r[2] for r in rows] if timed else None), ([r[3] for r in rows] if weighted else None)
    twin = merge_repeated([r[:2] for r in rows], times, weights, how)

    indptr = np.zeros(6, np.int64)
    csr.count(frozen([r[0] for r in rows], np.int32), indptr)
    indices = np.array([r[1] for r in rows], np.int32)
    out_times, out_weights = np.array(times or [], np.int64), np.array(weights or [], np.float64)
    code = {"sum": csr.SUM, "max": csr.LARGEST, "last": csr.LAST}[how]
    left = csr.merge(indptr, indices, out_times, out_weights, np.full(4, -1, np.int64), code)

    users = np.repeat(np.arange(5), np.diff(indptr))
    assert left == indptr[-1] == len(twin)
    assert list(zip(users.tolist(), indices[:left].tolist(), strict=True)) == list(twin)
    for k, (time, weight) in enumerate(twin.values()):
        assert not timed or out_times[k] == time
        assert not weighted or out_weights[k] == weight


@settings(deadline=None)
@given(pairs, pairs)
def test_absent_is_the_difference_of_sets(rows, others):
    cells, taken = (sorted({row[:2] for row in each}) for each in (rows, others))
    parts = []
    for each in (cells, taken):
        indptr = np.zeros(8, np.int64)
        csr.count(frozen([user for user, _ in each], np.int32), indptr)
        parts += [frozen(indptr, np.int64), frozen([item for _, item in each], np.int32)]
    out = np.empty(len(cells), np.bool_)
    csr.absent(*parts, np.full(10, -1, np.int64), out)
    assert out.tolist() == [cell not in taken for cell in cells]


@settings(deadline=None)
@given(pairs)
def test_transpose_lists_rows_in_ascending_order(rows):
    cells = sorted({(user, item) for user, item, _ in rows})
    indptr = np.zeros(8, np.int64)
    csr.count(frozen([user for user, _ in cells], np.int32), indptr)
    indices = frozen([item for _, item in cells], np.int32)
    out_indptr = np.zeros(11, np.int64)
    csr.count(indices, out_indptr)
    out = np.empty(len(cells), np.int32)
    indptr.flags.writeable = False
    csr.transpose(indptr, indices, out_indptr[:-1].copy(), out)
    for item in range(10):
        assert out[out_indptr[item] : out_indptr[item + 1]].tolist() == [u for u, i in cells if i == item]
    where = np.empty(len(cells), np.int64)
    csr.places(indices, out_indptr[:-1].copy(), where)
    assert [cells[k] for k in where] == sorted(cells, key=lambda cell: cell[::-1])


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=60), st.integers(0, 1000))
def test_rank_counts_those_of_the_row_that_come_before(rows, seed):
    rows = sorted(rows)
    order = np.random.default_rng(seed).permutation(len(rows))
    ranks = np.empty(len(rows), np.int64)
    csr.rank(order, np.array(rows, np.int32), np.zeros(6, np.int64), ranks)
    place = {int(k): position for position, k in enumerate(order)}
    for k, row in enumerate(rows):
        assert ranks[k] == sum(other == row and place[j] < place[k] for j, other in enumerate(rows))
