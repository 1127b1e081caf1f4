"""K in strips of columns, none of them kept: counted, turned into scores, overwritten by the next.

A strip is the part of K in columns first..last. Row r of it is described by `places[r]`: where its numbers begin in
`values`, where its columns begin in `columns` (counted from `first`), and how many there are. A row as long as the
strip is wide is dense and names no columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled
from komd._core.groups import PairValues, Rows, StripArrays
from komd._core.prefetch import prefetch

__all__ = ["CountedStrip", "CutStrip", "count_strip", "cut_strip", "lay_out", "score_strip"]

_TOGETHER = 256  # users of a row looked up together
_DENSE = 4  # a row with more than one column in so many is held dense: straight adding beats scattered adding
_FAR, _NEAR = 16, 8  # rows whose places, and whose beginnings, are asked for in advance


class CutStrip(NamedTuple):
    """Every user's items inside a strip, counted from its first: user v's are inside[starts[v]:starts[v + 1]].

    `active` holds one bit for each user: whether there are any.
    """

    starts: NDArray[np.uint32]
    inside: NDArray[np.uint16]
    active: NDArray[np.uint8]


class CountedStrip(NamedTuple):
    """What `count_strip` writes: each row's length, then columns and products of all rows one after another.

    `counter` is its scratch, as long as the strip is wide, all zero between calls.
    """

    counter: NDArray[np.generic]
    lengths: NDArray[np.int64]
    columns: NDArray[np.uint16]
    products: NDArray[np.float64]


@compiled
def cut_strip(
    rows: Rows,
    first: int,
    last: int,
    ends: np.ndarray,
    out: CutStrip,
    values: PairValues | None = None,
    cut_values: PairValues | None = None,
) -> None:
    """Copy every user's items in first..last. Side by side they fit a cache that the whole rows do not.

    `ends[v]` is where the previous strip ended in v's row, and leaves at the end of this one. What `values` has
    beside the users' items is copied to `cut_values`, aligned with `out.inside`; both are None where pairs have no
    values.
    """
    indptr, indices = rows.indptr, rows.indices
    starts, inside, active = out.starts, out.inside, out.active
    active[:] = 0
    end = 0
    for v in range(indptr.shape[0] - 1):
        start = end
        p = ends[v]
        stop = indptr[v + 1]
        while p < stop and indices[p] < last:
            inside[end] = indices[p] - first
            if values is not None and cut_values is not None:
                cut_values.of_user_items[end] = values.of_user_items[p]
            end += 1
            p += 1
        ends[v] = p
        starts[v] = start
        active[v >> 3] |= np.uint8(end > start) << np.uint8(v & 7)
    starts[indptr.shape[0] - 1] = end


@compiled
def count_strip(
    users_of: Rows,
    cut: CutStrip,
    rows: np.ndarray,
    first: int,
    left: np.ndarray,
    right: np.ndarray,
    out: CountedStrip,
    weights: np.ndarray | None = None,
    values: PairValues | None = None,
) -> int:
    """Rows of a strip: |U_i ∩ U_j| · left_i · right_j for i in `rows` and the columns j that were cut.

    `users_of` are each item's users. Returns the entries written. With `weights` or `values`: see `cooccurrence.py`;
    `values.of_user_items` are those that were cut, aligned with `cut.inside`.
    Users are taken in three steps, none of which waits for memory: those with anything here, where that is, counting.
    """
    starts, inside, active = cut.starts, cut.inside, cut.active
    counter, columns, products = out.counter, out.columns, out.products
    width = counter.shape[0]
    users = np.empty(_TOGETHER + 1, np.uint32)
    begin = np.empty(_TOGETHER, np.uint32)
    finish = np.empty(_TOGETHER, np.uint32)
    if values is not None:
        of_users = np.empty(_TOGETHER + 1, np.float64)
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        start = end
        stop = users_of.indptr[i + 1]
        for base in range(users_of.indptr[i], stop, _TOGETHER):
            found = 0
            for p in range(base, min(base + _TOGETHER, stop)):
                v = np.uint32(users_of.indices[p])
                users[found] = v
                if values is not None:
                    of_users[found] = values.of_item_users[p]
                found += int((active[v >> np.uint32(3)] >> np.uint8(v & np.uint32(7))) & np.uint8(1))
            for q in range(found):
                v = users[q]
                begin[q] = starts[v]
                finish[q] = starts[v + np.uint32(1)]
                prefetch(inside, begin[q])
                if values is not None:
                    prefetch(values.of_user_items, begin[q])
            for q in range(found):
                if weights is not None:
                    weight = weights[users[q]]
                elif values is not None:
                    weight = of_users[q]
                else:
                    weight = 1
                for k in range(begin[q], finish[q]):
                    j = inside[k]
                    seen = counter[j]
                    columns[end] = j
                    end += seen == 0
                    if values is None:
                        counter[j] = seen + weight
                    else:
                        counter[j] = seen + weight * values.of_user_items[k]
        scale = left[i]
        if (end - start) * _DENSE > width:
            for j in range(width):
                columns[start + j] = j
                products[start + j] = counter[j] * (scale * right[first + j])
                counter[j] = 0
            end = start + width
        else:
            for p in range(start, end):
                j = columns[p]
                products[p] = counter[j] * (scale * right[first + j])
                counter[j] = 0
        out.lengths[r] = end - start
    return end


@compiled
def lay_out(
    lengths: np.ndarray, width: int, columns: np.ndarray, start: int, end: int, out: np.ndarray, places: np.ndarray
) -> int:
    """Fill the places of rows whose numbers begin at `start` of the strip's values, one row after another.

    The columns of rows that are not dense are copied to `out` from `end`; returns the new end.
    """
    at = 0
    for r in range(lengths.shape[0]):
        length = lengths[r]
        places[r, 0] = start + at
        places[r, 1] = end
        places[r, 2] = length
        if length < width:
            for k in range(length):
                out[end + k] = columns[at + k]
            end += length
        at += length
    return end


@compiled
def score_strip(
    strip: StripArrays, S: np.ndarray, items: np.ndarray, weights: np.ndarray, offset: float, out: np.ndarray
) -> None:
    """One user's scores of a strip: the sum of weights_i times row i, minus offset times S.

    To the last bit what `score_dense` and `score_sparse` give: one multiply-add after another, in the history's order.
    Four dense rows in a row are added together, in that order too.
    """
    row_of, places, columns, values = strip.row_of, strip.places, strip.columns, strip.values
    width = S.shape[0]
    p = 0
    stop = items.shape[0]
    for q in range(min(_FAR, stop)):
        prefetch(places, 3 * row_of[items[q]])
    for j in range(width):
        out[j] = -offset * S[j]
    ahead = 0
    while p < stop:
        while ahead < min(p + _NEAR, stop):
            if ahead + _NEAR < stop:
                prefetch(places, 3 * row_of[items[ahead + _NEAR]])
            row = row_of[items[ahead]]
            prefetch(values, places[row, 0])
            prefetch(values, places[row, 0] + 16)
            prefetch(columns, places[row, 1])
            ahead += 1
        dense = 0
        while dense < 4 and p + dense < stop and places[row_of[items[p + dense]], 2] == width:
            dense += 1
        row = row_of[items[p]]
        start = places[row, 0]
        w = weights[p]
        if dense == 4:
            second = places[row_of[items[p + 1]], 0]
            third = places[row_of[items[p + 2]], 0]
            fourth = places[row_of[items[p + 3]], 0]
            line1 = values[start : start + width]
            line2 = values[second : second + width]
            line3 = values[third : third + width]
            line4 = values[fourth : fourth + width]
            w2 = weights[p + 1]
            w3 = weights[p + 2]
            w4 = weights[p + 3]
            for j in range(width):
                x = out[j]
                x += w * line1[j]
                x += w2 * line2[j]
                x += w3 * line3[j]
                x += w4 * line4[j]
                out[j] = x
            p += 4
            continue
        length = places[row, 2]
        line = values[start : start + length]
        if length == width:
            for j in range(width):
                out[j] += w * line[j]
        else:
            names = columns[places[row, 1] : places[row, 1] + length]
            for k in range(length):
                out[np.uint32(names[k])] += w * line[k]
        p += 1
