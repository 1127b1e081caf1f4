"""Rows and matrices after an update: what did not change is copied under its new numbers, the rest is inserted.

An update changes how popular some items are, and items are numbered by popularity. Items that it does not touch keep
their order among themselves: renumbered, their entries of a row are still ascending, and only those of touched items
are sorted and merged into them. Twins: tests/_core/test_renumbered.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled, inner
from komd._core.groups import Rows, StoredMatrix

__all__ = ["RowChanges", "find_pairs", "renew_dense", "renew_rows", "renew_sparse", "renewed_lengths"]


_SHORT = 64  # numbers that are sorted by insertion


class RowChanges(NamedTuple):
    """How compressed rows change.

    New row r comes from the old row `source[r]` (-1: from none). Old column c has the new number `codes[c] >> 1`, and
    is out of order if `codes[c]` is odd; `any_moved` says whether there are such columns. `dropped` are old columns to
    leave out of each new row, ascending; `added` are new columns to insert, ascending.
    """

    source: NDArray[np.int32]
    codes: NDArray[np.uint32]
    any_moved: bool
    dropped: Rows
    added: Rows


def column_codes(numbers: NDArray[np.int32], moved: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """`codes` of columns with these new numbers; those of columns that are gone (-1) are not to be used."""
    codes: NDArray[np.uint32] = numbers.astype(np.uint32) << np.uint32(1)
    codes[: len(moved)] |= moved
    return codes


class CountedAgain(NamedTuple):
    """Items whose entries were counted again, ascending; `rows` has K(i, ·) and `columns` K(·, i), a row per item."""

    items: NDArray[np.int32]
    rows: NDArray[np.float32]
    columns: NDArray[np.float32]


@compiled
def find_pairs(rows: Rows, users: np.ndarray, items: np.ndarray, out: np.ndarray) -> None:
    """out[k] = the place of item items[k] in row users[k], whose items are ascending; -1 where it is not."""
    for k in range(users.shape[0]):
        low, high = rows.indptr[users[k]], rows.indptr[users[k] + 1]
        stop = high
        while low < high:
            middle = (low + high) // 2
            if rows.indices[middle] < items[k]:
                low = middle + 1
            else:
                high = middle
        out[k] = low if low < stop and rows.indices[low] == items[k] else -1


@compiled
def _sort(values: np.ndarray, size: int) -> None:
    """The first `size` values in ascending order; quick where they are few and nearly in order."""
    if size > _SHORT:
        values[:size].sort()
        return
    for k in range(1, size):
        value = values[k]
        at = k
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@compiled
def renew_rows(old: Rows, changes: RowChanges, first: int, last: int, out: Rows, places: np.ndarray) -> None:
    """Fill the new rows first..last, ascending; `out.indptr` says how long they are.

    `places`, unless it is empty, gets the place in `old.indices` that each entry comes from, or -1 - k for the k-th
    of `added`.
    """
    codes, dropped, added = changes.codes, changes.dropped, changes.added
    placed = places.shape[0] > 0
    most = 0
    for r in range(first, last):
        most = max(most, out.indptr[r + 1] - out.indptr[r])
    # Entries that are out of order: number · 2³² + place within the old row, or 2³¹ + place within the added ones.
    sorting = np.empty(most + 1, np.int64)
    for r in range(first, last):
        begin = stop = np.int64(0)
        if changes.source[r] >= 0:
            begin, stop = old.indptr[changes.source[r]], old.indptr[changes.source[r] + 1]
        drop, drops = dropped.indptr[r], dropped.indptr[r + 1]
        a, waiting = added.indptr[r], 0
        for k in range(a, added.indptr[r + 1]):
            sorting[waiting] = (np.int64(added.indices[k]) << 32) | (np.int64(1) << 31) | (k - a)
            waiting += 1
        if changes.any_moved:
            d = drop
            for p in range(begin, stop):
                c = old.indices[p]
                if codes[c] & np.uint32(1):
                    while d < drops and dropped.indices[d] < c:
                        d += 1
                    if d == drops or dropped.indices[d] != c:
                        sorting[waiting] = (np.int64(codes[c] >> np.uint32(1)) << 32) | (p - begin)
                        waiting += 1
            _sort(sorting, waiting)
        at, w = out.indptr[r], 0
        sorting[waiting] = np.int64(1) << 62  # after all others
        following = np.int64(sorting[0] >> 32)
        for p in range(begin, stop):
            c = old.indices[p]
            code = codes[c]
            if code & np.uint32(1):
                continue
            if drop < drops:
                while drop < drops and dropped.indices[drop] < c:
                    drop += 1
                if drop < drops and dropped.indices[drop] == c:
                    continue
            number = np.int64(code >> np.uint32(1))
            while following < number:
                out.indices[at] = following
                if placed:
                    places[at] = _place(sorting[w], begin, a)
                at += 1
                w += 1
                following = np.int64(sorting[w] >> 32)
            out.indices[at] = number
            if placed:
                places[at] = p
            at += 1
        while w < waiting:
            out.indices[at] = np.int32(sorting[w] >> 32)
            if placed:
                places[at] = _place(sorting[w], begin, a)
            at += 1
            w += 1


@inner
def _place(sorted_entry: np.int64, begin: np.int64, added: np.int64) -> np.int64:
    """Where an entry that was out of order comes from, as `places` says it."""
    within = sorted_entry & 0x7FFFFFFF
    return -1 - (added + within) if sorted_entry & 0x80000000 else begin + within


@compiled
def renew_dense(
    old: np.ndarray, source: np.ndarray, counted: CountedAgain, first: int, last: int, out: np.ndarray
) -> None:
    """Rows first..last: out[a, b] = old[source[a], source[b]]; what has no source was counted again."""
    for a in range(first, last):
        row, to = old[max(source[a], 0)], out[a]
        for b in range(source.shape[0]):
            to[b] = row[max(source[b], 0)]
        for k in range(counted.items.shape[0]):
            to[counted.items[k]] = counted.columns[k, a]
    for k in range(counted.items.shape[0]):
        if first <= counted.items[k] < last:
            out[counted.items[k], :] = counted.rows[k]


@compiled
def renew_dense_in_place(values: np.ndarray, source: np.ndarray, counted: CountedAgain) -> None:
    """The same in the old array itself.

    Kept items stay in order among themselves. So entries that move to smaller numbers are moved in ascending order, and
    the others in descending order: none overwrites an entry that is still to be moved.
    """
    items = source.shape[0]
    for a in range(items):
        if source[a] > a:
            values[a, :] = values[source[a], :]
    for a in range(items - 1, -1, -1):
        if 0 <= source[a] < a:
            values[a, :] = values[source[a], :]
    up, down = np.flatnonzero(source > np.arange(items)), np.flatnonzero((source >= 0) & (source < np.arange(items)))
    for a in range(items):
        row = values[a]
        for b in up:
            row[b] = row[source[b]]
        for k in range(down.shape[0] - 1, -1, -1):
            row[down[k]] = row[source[down[k]]]
        for k in range(counted.items.shape[0]):
            row[counted.items[k]] = counted.columns[k, a]
    for k in range(counted.items.shape[0]):
        values[counted.items[k], :] = counted.rows[k]


@compiled
def renewed_lengths(
    old: StoredMatrix, source: np.ndarray, numbers: np.ndarray, first: int, last: int, lengths: np.ndarray
) -> None:
    """lengths[a] = how many entries of row source[a] have a column that is kept, for rows first..last."""
    for a in range(first, last):
        kept = 0
        if source[a] >= 0:
            for p in range(old.indptr[source[a]], old.indptr[source[a] + 1]):
                kept += numbers[old.indices[p]] >= 0
        lengths[a] = kept


@compiled
def renew_sparse(
    old: StoredMatrix,
    source: np.ndarray,
    numbers: np.ndarray,
    fresh: StoredMatrix,
    first: int,
    last: int,
    out: StoredMatrix,
) -> None:
    """Rows first..last: the kept entries of row source[a] under their new numbers, merged with row a of `fresh`."""
    for a in range(first, last):
        at = out.indptr[a]
        q, end = fresh.indptr[a], fresh.indptr[a + 1]
        if source[a] >= 0:
            for p in range(old.indptr[source[a]], old.indptr[source[a] + 1]):
                number = numbers[old.indices[p]]
                if number < 0:
                    continue
                while q < end and fresh.indices[q] < number:
                    out.indices[at] = fresh.indices[q]
                    out.values[at] = fresh.values[q]
                    at += 1
                    q += 1
                out.indices[at] = number
                out.values[at] = old.values[p]
                at += 1
        while q < end:
            out.indices[at] = fresh.indices[q]
            out.values[at] = fresh.values[q]
            at += 1
            q += 1
