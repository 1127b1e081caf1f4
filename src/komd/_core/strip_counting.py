"""K in strips of columns, none of them kept: counted, turned into scores, overwritten by the next.

A strip is the part of K in columns first..last. It is counted as a whole and read in tiles of `TILE` columns, one after
another by many users: the rows that many of them have stay in the cache meanwhile. In a strip, a row is dense, or names
the columns of its entries, tile by tile (`StripArrays`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled
from komd._core.groups import PairValues, Rows, StripArrays
from komd._core.prefetch import prefetch
from komd._core.row_sums import add_distant_rows

__all__ = [
    "DENSE",
    "FILLED",
    "TILE",
    "CountedStrip",
    "CutStrip",
    "RowPlaces",
    "count_entries",
    "count_strip",
    "cut_strip",
    "lay_out",
    "score_tile",
]

TILE = 1024  # columns: a user's scores of them, and four rows of K, fit the nearest cache
FILLED = 4  # a row with more than one column in so many is held dense: straight adding beats scattered adding
DENSE = np.uint32(0xFFFFFFFF)  # in `places`: the row is dense

_SHIFT, _REST = 10, TILE - 1  # the tile of a column, and the column in it
_TOGETHER = 256  # users of a row looked up together
_LISTED = 2  # with more counts than one column in so many, looking at every counter beats keeping a list
_LINE = np.uint32(16)  # values in a line of the cache, and half as many as columns
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

    A row with many entries gets all columns, in their order. `users_of` are each item's users. Returns the entries
    written. With `weights` or `values`: see `cooccurrence.py`; `values.of_user_items` are those that were cut, aligned
    with `cut.inside`.
    Users are taken in three steps, none of which waits for memory: those with anything here, where that is, counting.
    """
    starts, inside, active = cut.starts, cut.inside, cut.active
    counter, columns, products = out.counter, out.columns, out.products
    width = counter.shape[0]
    everybody = starts.shape[0] - 1
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
        listed = (stop - users_of.indptr[i]) * np.int64(starts[everybody]) * _LISTED < np.int64(everybody) * width
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
                if listed:
                    for k in range(begin[q], finish[q]):
                        j = inside[k]
                        seen = counter[j]
                        columns[end] = j
                        end += seen == 0
                        if values is None:
                            counter[j] = seen + weight
                        else:
                            counter[j] = seen + weight * values.of_user_items[k]
                else:
                    for k in range(begin[q], finish[q]):
                        if values is None:
                            counter[inside[k]] += weight
                        else:
                            counter[inside[k]] += weight * values.of_user_items[k]
        if not listed:
            filled = 0
            for j in range(width):
                filled += counter[j] != 0
            if filled * FILLED <= width:
                for j in range(width):
                    columns[end] = j
                    end += counter[j] != 0
            else:
                end = start + filled
        scale = left[i]
        if (end - start) * FILLED > width:
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


class RowPlaces(NamedTuple):
    """What `lay_out` writes of some rows: their places, dense rows, and the columns and values of the others.

    `places` and `dense` are those of the strip, `places` of these rows alone. Columns and values are a piece of the
    strip's that begins at `start` there. The first `slots` rows that could be dense are, from `slot` on.
    """

    places: NDArray[np.uint32]
    dense: NDArray[np.float32]
    slot: int
    slots: int
    columns: NDArray[np.uint16]
    values: NDArray[np.float32]
    start: int


@compiled
def lay_out(lengths: np.ndarray, width: int, columns: np.ndarray, entries: np.ndarray, out: RowPlaces) -> None:
    """Put rows, which stand one after another in `columns` and `entries`, where a strip has them.

    Those that are not dense are sorted by tile: what the users who read a tile need stands together.
    """
    places, dense = out.places, out.dense
    tiles = places.shape[0]
    wide = dense.shape[2]
    slot = out.slot
    last = out.slot + out.slots
    at = 0
    for r in range(lengths.shape[0]):  # dense rows, and how many entries of the others each tile has
        length = lengths[r]
        if length == width and slot < last:
            for t in range(tiles):
                places[t, r, 0] = slot
                places[t, r, 1] = DENSE
                line = dense[t, slot]
                start = at + t * wide
                for k in range(min(wide, width - t * wide)):
                    line[k] = entries[start + k]
            slot += 1
        else:
            for t in range(tiles):
                places[t, r, 1] = 0
            for p in range(at, at + length):
                places[columns[p] >> _SHIFT, r, 1] += np.uint32(1)
        at += length
    end = out.start
    for t in range(tiles):
        for r in range(lengths.shape[0]):
            if places[t, r, 1] != DENSE:
                length = places[t, r, 1]
                places[t, r, 0] = end
                places[t, r, 1] = end
                end += length
    at = 0
    for r in range(lengths.shape[0]):
        if places[0, r, 1] != DENSE:
            for p in range(at, at + lengths[r]):
                t = columns[p] >> _SHIFT
                to = np.int64(places[t, r, 1]) - out.start
                out.columns[to] = columns[p] & _REST
                out.values[to] = entries[p]
                places[t, r, 1] += np.uint32(1)
        at += lengths[r]


@compiled
def score_tile(
    strip: StripArrays,
    tile: int,
    S: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    offset: float,
    slots: np.ndarray,
    out: np.ndarray,
) -> None:
    """One user's scores of a tile of a strip: the sum of weights times these `rows` of it, minus offset times S.

    To the last bit what `score_dense` and `score_sparse` give: one multiply-add after another, in the history's order.
    Dense rows that follow each other are added together, in that order too. `slots` is scratch for their numbers.
    """
    places, columns, values, dense = strip.places[tile], strip.columns, strip.values, strip.dense[tile]
    stop = rows.shape[0]
    for j in range(out.shape[0]):
        out[j] = -offset * S[j]
    for q in range(min(_FAR, stop)):
        prefetch(places, 2 * rows[q])
    p = 0
    ahead = 0
    while p < stop:
        while ahead < min(p + _NEAR, stop):
            if ahead + _FAR < stop:
                prefetch(places, 2 * rows[ahead + _FAR])
            begin, end = places[rows[ahead], 0], places[rows[ahead], 1]
            if end != DENSE:
                prefetch(values, begin)
                prefetch(columns, begin)
                if begin + _LINE < end:
                    prefetch(values, begin + _LINE)
                if begin + 2 * _LINE < end:
                    prefetch(values, begin + 2 * _LINE)
                    prefetch(columns, begin + 2 * _LINE)
            ahead += 1
        begin, end = places[rows[p], 0], places[rows[p], 1]
        if end != DENSE:
            w = weights[p]
            for k in range(begin, end):
                out[np.uint32(columns[k])] += w * values[k]
            p += 1
            continue
        first = p
        while p < stop and places[rows[p], 1] == DENSE:
            slots[p - first] = places[rows[p], 0]
            p += 1
        add_distant_rows(dense, slots[: p - first], weights[first:p], 0, out)


@compiled
def count_entries(strip: StripArrays, width: int) -> int:
    """How many entries of a strip so wide are not zero."""
    found = 0
    tiles, wide = strip.places.shape[0], strip.dense.shape[2]
    for t in range(tiles):
        for r in range(strip.places.shape[1]):
            begin, end = strip.places[t, r]
            if end == DENSE:
                for k in range(min(wide, width - t * wide)):
                    found += strip.dense[t, begin, k] != 0
            else:
                for k in range(begin, end):
                    found += strip.values[k] != 0
    return found
