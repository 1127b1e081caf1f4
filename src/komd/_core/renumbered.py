"""Rows and matrices after an update: what did not change is copied under its new numbers, the rest is put in.

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

    New row r comes from the old row `source[r]` (-1: from none); old column c is now called `numbers[c]`, and is out of
    order if `moved[c]`. `dropped` are old columns to leave out of each new row, ascending; `added` are new columns to
    put in, ascending.
    """

    source: NDArray[np.int32]
    numbers: NDArray[np.int32]
    moved: NDArray[np.bool_]
    dropped: Rows
    added: Rows


class CountedAgain(NamedTuple):
    """Items, ascending, whose entries were counted again: rows K(i, ·) and columns K(·, i), a row of numbers each."""

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


@inner
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
    placed = places.shape[0] > 0
    most = 0
    for r in range(first, last):
        most = max(most, out.indptr[r + 1] - out.indptr[r])
    sorting = np.empty(most, np.int64)  # number · 2³² + place within the old row, or within the added ones (negative)
    for r in range(first, last):
        start, end = out.indptr[r], out.indptr[r + 1]
        kept = start
        waiting = 0
        begin = np.int64(0)
        if changes.source[r] >= 0:
            begin, stop = old.indptr[changes.source[r]], old.indptr[changes.source[r] + 1]
            drop, drops = changes.dropped.indptr[r], changes.dropped.indptr[r + 1]
            for p in range(begin, stop):
                c = old.indices[p]
                while drop < drops and changes.dropped.indices[drop] < c:
                    drop += 1
                if drop < drops and changes.dropped.indices[drop] == c:
                    continue
                if changes.moved[c]:
                    sorting[waiting] = (np.int64(changes.numbers[c]) << 32) | (p - begin)
                    waiting += 1
                else:
                    out.indices[kept] = changes.numbers[c]
                    if placed:
                        places[kept] = p
                    kept += 1
        a = changes.added.indptr[r]
        for k in range(a, changes.added.indptr[r + 1]):
            sorting[waiting] = (np.int64(changes.added.indices[k]) << 32) | (np.int64(1) << 31) | (k - a)
            waiting += 1
        _sort(sorting, waiting)
        # Merged from the end: what is kept stands at the beginning already.
        at = end - 1
        kept -= 1
        for w in range(waiting - 1, -1, -1):
            number = np.int32(sorting[w] >> 32)
            while kept >= start and out.indices[kept] > number:
                out.indices[at] = out.indices[kept]
                if placed:
                    places[at] = places[kept]
                at -= 1
                kept -= 1
            out.indices[at] = number
            if placed:
                within = sorting[w] & 0x7FFFFFFF
                places[at] = -1 - (a + within) if sorting[w] & 0x80000000 else begin + within
            at -= 1


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

    What is kept stays in order. So an entry that moves to a smaller number overwrites nothing that is still to be moved
    if these are taken in ascending order, and the others in descending order.
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
