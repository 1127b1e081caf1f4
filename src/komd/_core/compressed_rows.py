"""Building blocks of compressed sparse rows: group by row, drop or merge repeats, transpose, rank within rows.

Rows are `indptr` (int64, one more than there are rows) and `indices` (int32). All passes are linear
and stable: the order in which pairs arrived is kept within each row unless the name says otherwise.
"""

from __future__ import annotations

from numpy import bool_, float64, int32, int64
from numpy.typing import NDArray

from komd._core.compile import compiled

__all__ = ["LARGEST", "LAST", "SUM", "absent", "count", "distinct", "group", "merge", "places", "rank", "transpose"]

Ids32 = NDArray[int32]
Ints = NDArray[int64]

SUM, LARGEST, LAST = 0, 1, 2  # how `merge` makes one weight of several


@compiled
def count(keys: Ids32, indptr: Ints) -> None:
    """Fill `indptr` (zeros on entry) so that key k owns the places indptr[k] .. indptr[k + 1]."""
    for k in keys:
        indptr[k + 1] += 1
    for k in range(indptr.size - 1):
        indptr[k + 1] += indptr[k]


@compiled
def group(rows: Ids32, columns: Ids32, times: Ints, place: Ints, indices: Ids32, out_times: Ints) -> None:
    """Put each pair into the next free place of its row: a stable counting sort.

    `place` arrives as a copy of `indptr[:-1]` and is overwritten. `times` is empty when there are none.
    """
    timed = times.size > 0
    for k in range(rows.size):
        p = place[rows[k]]
        place[rows[k]] = p + 1
        indices[p] = columns[k]
        if timed:
            out_times[p] = times[k]


@compiled
def distinct(indptr: Ints, indices: Ids32, times: Ints, seen: Ints) -> int:
    """Keep the first of repeated pairs, in place, with the earliest of their times; returns the pairs left.

    `seen` has one entry per column, -1 on entry: where the column was last written. Since rows are
    written one after another, an entry at or past the row's start belongs to this row.
    """
    timed = times.size > 0
    written = 0
    start = indptr[0]
    for row in range(indptr.size - 1):
        stop = indptr[row + 1]
        first = written
        for k in range(start, stop):
            j = indices[k]
            at = seen[j]
            if at < first:
                seen[j] = written
                indices[written] = j
                if timed:
                    times[written] = times[k]
                written += 1
            elif timed and times[k] < times[at]:
                times[at] = times[k]
        start = stop
        indptr[row + 1] = written
    return written


@compiled
def merge(indptr: Ints, indices: Ids32, times: Ints, weights: NDArray[float64], seen: Ints, how: int) -> int:
    """Merge repeated pairs, in place, at the position of the first; returns the pairs left. `seen`: see `distinct`.

    SUM and LARGEST combine the weights and keep the earliest time. LAST keeps weight and time of the last pair: the one
    with the latest time (of equal times, the later pair), or without times the last in the order given. `times` and
    `weights` are empty when there are none. Twin: tests/reference.py::merge_repeated.
    """
    timed = times.size > 0
    weighted = weights.size > 0
    written = 0
    start = indptr[0]
    for row in range(indptr.size - 1):
        stop = indptr[row + 1]
        first = written
        for k in range(start, stop):
            j = indices[k]
            at = seen[j]
            if at < first:
                at = written
                seen[j] = at
                indices[at] = j
                if timed:
                    times[at] = times[k]
                if weighted:
                    weights[at] = weights[k]
                written += 1
            elif how == LAST:
                if not timed or times[k] >= times[at]:
                    if timed:
                        times[at] = times[k]
                    if weighted:
                        weights[at] = weights[k]
            else:
                if timed and times[k] < times[at]:
                    times[at] = times[k]
                if weighted and how == SUM:
                    weights[at] += weights[k]
                elif weighted and weights[k] > weights[at]:
                    weights[at] = weights[k]
        start = stop
        indptr[row + 1] = written
    return written


@compiled
def absent(
    indptr: Ints, indices: Ids32, other_indptr: Ints, other_indices: Ids32, marker: Ints, out: NDArray[bool_]
) -> None:
    """Whether the same row of the other rows lacks each entry. `marker` has one entry per column, -1 on entry."""
    for row in range(indptr.size - 1):
        for k in range(other_indptr[row], other_indptr[row + 1]):
            marker[other_indices[k]] = row
        for k in range(indptr[row], indptr[row + 1]):
            out[k] = marker[indices[k]] != row


@compiled
def transpose(indptr: Ints, indices: Ids32, place: Ints, out: Ids32) -> None:
    """Write, column by column, the rows that hold it, in ascending order. `place`: see `group`."""
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            j = indices[k]
            out[place[j]] = row
            place[j] += 1


@compiled
def places(indices: Ids32, place: Ints, out: Ints) -> None:
    """Write, column by column, the positions of its entries in `indices`, ascending. `place`: see `group`."""
    for k in range(indices.size):
        j = indices[k]
        out[place[j]] = k
        place[j] += 1


@compiled
def rank(order: Ints, rows: Ids32, reached: Ints, ranks: Ints) -> None:
    """Rank each pair within its row, pairs being taken in `order`; `reached` is zeros, one per row."""
    for k in order:
        row = rows[k]
        ranks[k] = reached[row]
        reached[row] += 1
