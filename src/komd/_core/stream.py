"""K in strips of columns, none of them kept: counted, turned into scores, forgotten.

A strip is the part of K in columns first..last. Row r of it is `lengths[r]` numbers from `starts[r]` of `values`; a row
as long as the strip is wide is dense; a shorter one names its columns, counted from `first`, from `named[r]` of
`columns`.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.prefetch import prefetch

__all__ = ["advance_segments", "count_strip", "deliver", "gather_rows", "keep_names", "score_strip", "score_targets"]

_AHEAD = 8  # users whose places are asked for in advance
_DENSE = 4  # a row with more than one column in so many is held dense: straight adding beats scattered adding


@compiled
def advance_segments(
    indptr: np.ndarray, indices: np.ndarray, last: int, ends: np.ndarray, segments: np.ndarray, active: np.ndarray
) -> None:
    """segments[v] = where the items of user v below `last` begin and how many there are, as start * 65536 + number.

    `ends[v]` is where the previous strip ended in v's row, and leaves at the end of this one. `active` gets one bit a
    user: whether there are any. It is small enough for the near cache, where most visits then end.
    """
    active[:] = 0
    for v in range(indptr.shape[0] - 1):
        start = ends[v]
        stop = indptr[v + 1]
        end = start
        while end < stop and indices[end] < last:
            end += 1
        ends[v] = end
        segments[v] = (start << 16) | (end - start)
        active[v >> 3] |= np.uint8(end > start) << np.uint8(v & 7)


@inner
def _is_active(active: np.ndarray, v: np.uint32) -> bool:
    """Whether user v has anything in the strip."""
    found: bool = (active[v >> 3] >> np.uint8(v & 7)) & np.uint8(1) != 0
    return found


@compiled
def count_strip(
    item_indptr: np.ndarray,
    item_users: np.ndarray,
    segments: np.ndarray,
    active: np.ndarray,
    user_items: np.ndarray,
    rows: np.ndarray,
    first: int,
    left: np.ndarray,
    right: np.ndarray,
    counter: np.ndarray,
    lengths: np.ndarray,
    columns: np.ndarray,
    products: np.ndarray,
    weights: np.ndarray | None = None,
) -> int:
    """Rows of a strip: |U_i ∩ U_j| · left_i · right_j for i in `rows` and the columns j of the segments.

    `counter` is scratch, as long as the strip is wide, all zero on entry and on return. Returns the entries written.
    Twin: tests/core/test_stream.py.
    """
    width = counter.shape[0]
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        start = end
        stop = item_indptr[i + 1]
        for p in range(item_indptr[i], stop):
            if p + 2 * _AHEAD < stop:  # a user's place first, then, when that has come, the row it points to
                v = np.uint32(item_users[p + 2 * _AHEAD])
                if _is_active(active, v):
                    prefetch(segments, v)
                v = np.uint32(item_users[p + _AHEAD])
                if _is_active(active, v):
                    prefetch(user_items, segments[v] >> 16)
            v = np.uint32(item_users[p])
            if not _is_active(active, v):
                continue
            segment = segments[v]
            number = segment & 65535
            if weights is None:
                weight = 1
            else:
                weight = weights[v]
            where = segment >> 16
            for k in range(where, where + number):
                j = user_items[k] - first
                seen = counter[np.uint32(j)]
                columns[end] = j
                end += seen == 0
                counter[np.uint32(j)] = seen + weight
        scale = left[i]
        if (end - start) * _DENSE > width:
            for j in range(width):
                columns[start + j] = j
                products[start + j] = counter[j] * scale * right[first + j]
                counter[j] = 0
            end = start + width
        else:
            for p in range(start, end):
                j = columns[p]
                products[p] = counter[j] * scale * right[first + j]
                counter[j] = 0
        lengths[r] = end - start
    return end


@compiled
def keep_names(
    lengths: np.ndarray, width: int, columns: np.ndarray, named: np.ndarray, out: np.ndarray, end: int
) -> int:
    """Copy the columns of rows that are not dense to `out` from place `end`; fills `named`, returns the new end."""
    start = 0
    for r in range(lengths.shape[0]):
        named[r] = end
        if lengths[r] < width:
            for k in range(lengths[r]):
                out[end + k] = columns[start + k]
            end += lengths[r]
        start += lengths[r]
    return end


@compiled
def score_strip(
    row_of: np.ndarray,
    starts: np.ndarray,
    named: np.ndarray,
    lengths: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    S: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    scores: np.ndarray,
) -> None:
    """scores[u] of one strip: sum of weights_i times row i, minus offsets_u S. `row_of[i]` is i's row in the strip.

    To the last bit what `score_dense` and `score_sparse` give: one multiply-add after another, in the history's order.
    """
    width = S.shape[0]
    for u in range(indptr.shape[0] - 1):
        out = scores[u]
        offset = offsets[u]
        for j in range(width):
            out[j] = -offset * S[j]
        for p in range(indptr[u], indptr[u + 1]):
            row = row_of[indices[p]]
            start = starts[row]
            length = lengths[row]
            w = weights[p]
            line = values[start : start + length]
            if length == width:
                for j in range(width):
                    out[j] += w * line[j]
            else:
                names = columns[named[row] : named[row] + length]
                for k in range(length):
                    out[np.uint32(names[k])] += w * line[k]


@compiled
def gather_rows(
    item_indptr: np.ndarray,
    item_users: np.ndarray,
    user_indptr: np.ndarray,
    user_items: np.ndarray,
    rows: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    people_indptr: np.ndarray,
    people: np.ndarray,
    wanted_indptr: np.ndarray,
    wanted: np.ndarray,
    counter: np.ndarray,
    touched: np.ndarray,
    columns: np.ndarray,
    products: np.ndarray,
    weights: np.ndarray | None = None,
) -> int:
    """For i in `rows` and each of the people who have i: |U_i ∩ U_j| · left_i · right_j for the items j they want.

    `people_indptr` and `people` are compressed rows by item. `counter` (one number an item, zero on entry and return)
    and `touched` (one place more than items) are scratch. Returns the entries written.
    """
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        met = 0
        stop = item_indptr[i + 1]
        for p in range(item_indptr[i], stop):
            if p + 4 < stop:
                prefetch(user_items, user_indptr[item_users[p + 4]])
            v = item_users[p]
            if weights is None:
                weight = 1
            else:
                weight = weights[v]
            for k in range(user_indptr[v], user_indptr[v + 1]):
                j = user_items[k]
                seen = counter[np.uint32(j)]
                touched[met] = j
                met += seen == 0
                counter[np.uint32(j)] = seen + weight
        scale = left[i]
        for p in range(people_indptr[i], people_indptr[i + 1]):
            u = people[p]
            for k in range(wanted_indptr[u], wanted_indptr[u + 1]):
                j = wanted[k]
                columns[end] = j
                products[end] = counter[j] * scale * right[j]
                end += 1
        for k in range(met):
            counter[touched[k]] = 0
    return end


@compiled
def deliver(values: np.ndarray, destinations: np.ndarray, lengths: np.ndarray, blocks: np.ndarray) -> None:
    """Copy pieces of `values`, one after another, each to its place in `blocks`."""
    start = 0
    for p in range(destinations.shape[0]):
        to = destinations[p]
        for k in range(lengths[p]):
            blocks[to + k] = values[start + k]
        start += lengths[p]


@compiled
def score_targets(
    blocks: np.ndarray,
    starts: np.ndarray,
    skip: bool,
    S: np.ndarray,
    indptr: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    target_indptr: np.ndarray,
    targets: np.ndarray,
    scores: np.ndarray,
) -> None:
    """The scores of each person's targets, from K(i, t) gathered: to the last bit those of `score_strip`.

    The block of person u begins at `starts[u]` of `blocks`: a row for each item of the history, a column a target,
    after one a history item if `skip`.
    """
    for u in range(indptr.shape[0] - 1):
        first = target_indptr[u]
        out = scores[first : target_indptr[u + 1]]
        width = out.shape[0]
        offset = offsets[u]
        for k in range(width):
            out[k] = -offset * S[targets[first + k]]
        before = indptr[u + 1] - indptr[u] if skip else 0
        at = starts[u] + before
        for p in range(indptr[u], indptr[u + 1]):
            w = weights[p]
            line = blocks[at : at + width]
            for k in range(width):
                out[k] += w * line[k]
            at += before + width
