"""K in strips of columns, none of them kept: counted, turned into scores, forgotten.

A strip is the part of K in columns first..last. Row r of it is described by `places[r]`: where its numbers begin in
`values`, where its columns begin in `columns` (counted from `first`), and how many there are. A row as long as the
strip is wide is dense and names no columns.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled
from komd._core.prefetch import prefetch

__all__ = ["count_strip", "cut_strip", "lay_out", "score_strip"]

_TOGETHER = 256  # users of a row looked up together
_DENSE = 4  # a row with more than one column in so many is held dense: straight adding beats scattered adding
_FAR, _NEAR = 16, 8  # rows whose places, and whose beginnings, are asked for in advance


@compiled
def cut_strip(
    indptr: np.ndarray,
    indices: np.ndarray,
    first: int,
    last: int,
    ends: np.ndarray,
    starts: np.ndarray,
    inside: np.ndarray,
    active: np.ndarray,
) -> None:
    """Copy everybody's items in first..last, as distances from `first`: user v's are inside[starts[v]:starts[v + 1]].

    Side by side they fit a cache that the whole rows do not. `ends[v]` is where the previous strip ended in v's row,
    and leaves at the end of this one. `active` gets one bit a user: whether there are any items.
    """
    active[:] = 0
    end = 0
    for v in range(indptr.shape[0] - 1):
        start = end
        p = ends[v]
        stop = indptr[v + 1]
        while p < stop and indices[p] < last:
            inside[end] = indices[p] - first
            end += 1
            p += 1
        ends[v] = p
        starts[v] = start
        active[v >> 3] |= np.uint8(end > start) << np.uint8(v & 7)
    starts[indptr.shape[0] - 1] = end


@compiled
def count_strip(
    item_indptr: np.ndarray,
    item_users: np.ndarray,
    starts: np.ndarray,
    inside: np.ndarray,
    active: np.ndarray,
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
    """Rows of a strip: |U_i ∩ U_j| · left_i · right_j for i in `rows` and the columns j that `cut_strip` has cut.

    `counter` is scratch, as long as the strip is wide, all zero on entry and on return. Returns the entries written.
    Users are taken in three steps, none of which waits for memory: those with anything here, where that is, counting.
    """
    width = counter.shape[0]
    users = np.empty(_TOGETHER + 1, np.uint32)
    begin = np.empty(_TOGETHER, np.uint32)
    finish = np.empty(_TOGETHER, np.uint32)
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        start = end
        stop = item_indptr[i + 1]
        for base in range(item_indptr[i], stop, _TOGETHER):
            found = 0
            for p in range(base, min(base + _TOGETHER, stop)):
                v = np.uint32(item_users[p])
                users[found] = v
                found += int((active[v >> np.uint32(3)] >> np.uint8(v & np.uint32(7))) & np.uint8(1))
            for q in range(found):
                v = users[q]
                begin[q] = starts[v]
                finish[q] = starts[v + np.uint32(1)]
                prefetch(inside, begin[q])
            for q in range(found):
                if weights is None:
                    weight = 1
                else:
                    weight = weights[users[q]]
                for k in range(begin[q], finish[q]):
                    j = inside[k]
                    seen = counter[j]
                    columns[end] = j
                    end += seen == 0
                    counter[j] = seen + weight
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
    row_of: np.ndarray,
    places: np.ndarray,
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
    Four dense rows in a row are added in one go, in that order too.
    """
    width = S.shape[0]
    for u in range(indptr.shape[0] - 1):
        out = scores[u]
        offset = offsets[u]
        p = indptr[u]
        stop = indptr[u + 1]
        for q in range(p, min(p + _FAR, stop)):
            prefetch(places, 3 * row_of[indices[q]])
        for j in range(width):
            out[j] = -offset * S[j]
        ahead = p
        while p < stop:
            while ahead < min(p + _NEAR, stop):
                if ahead + _NEAR < stop:
                    prefetch(places, 3 * row_of[indices[ahead + _NEAR]])
                row = row_of[indices[ahead]]
                prefetch(values, places[row, 0])
                prefetch(values, places[row, 0] + 16)
                prefetch(columns, places[row, 1])
                ahead += 1
            dense = 0
            while dense < 4 and p + dense < stop and places[row_of[indices[p + dense]], 2] == width:
                dense += 1
            row = row_of[indices[p]]
            start = places[row, 0]
            w = weights[p]
            if dense == 4:
                second = places[row_of[indices[p + 1]], 0]
                third = places[row_of[indices[p + 2]], 0]
                fourth = places[row_of[indices[p + 3]], 0]
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
