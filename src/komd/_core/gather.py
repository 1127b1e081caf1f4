"""Entries of K that users need for their problems and targets, from rows that are counted once and not stored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd._core.compile import compiled
from komd._core.cooccurrence import count_row
from komd._core.groups import CountedPairs, PairValues, Rows

__all__ = ["GatherScratch", "GatheredEntries", "copy_pieces", "gather_rows", "gather_scratch", "list_products"]

_CLEARED = 16  # counters cleared in the time of one count: with more counts than items / 16, no list is kept


class GatherScratch(NamedTuple):
    """Buffers of one thread: a counter for each item, all zero between calls, and a list of the items counted."""

    counter: NDArray[np.generic]
    touched: NDArray[np.int32]


class GatheredEntries(NamedTuple):
    """What `gather_rows` writes: columns and products, one entry after another."""

    columns: NDArray[np.int32]
    products: NDArray[np.float64]


def gather_scratch(items: int, number: type[np.int32] | type[np.int64] | type[np.float64]) -> GatherScratch:
    """Scratch buffers for `gather_rows`; the list has one place more than items, written ahead of its end."""
    return GatherScratch(np.zeros(items, number), np.empty(items + 1, np.int32))


@compiled
def gather_rows(
    pairs: CountedPairs,
    rows: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    users_of: Rows,
    wanted: Rows,
    scratch: GatherScratch,
    out: GatheredEntries,
    weights: np.ndarray | None = None,
    values: PairValues | None = None,
) -> int:
    """For i in `rows` and each user who needs row i: |U_i ∩ U_j| · left_i · right_j for the items j in `wanted`.

    `users_of` are, for each item, the users who need its row; `wanted` are the columns each user needs. Returns the
    number of entries written to `out`. With `weights` or `values`: see `cooccurrence.py`.
    """
    counter, touched = scratch.counter, scratch.touched
    columns, products = out.columns, out.products
    mean = pairs.user_items.shape[0] // max(pairs.user_indptr.shape[0] - 1, 1)
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        first, stop = pairs.item_indptr[i], pairs.item_indptr[i + 1]
        whole = (stop - first) * mean * _CLEARED > counter.shape[0]
        met = count_row(pairs, first, stop, whole, counter, touched, 0, weights, values)
        scale = left[i]
        for p in range(users_of.indptr[i], users_of.indptr[i + 1]):
            u = users_of.indices[p]
            for k in range(wanted.indptr[u], wanted.indptr[u + 1]):
                j = wanted.indices[k]
                columns[end] = j
                products[end] = counter[j] * (scale * right[j])
                end += 1
        if whole:
            counter[:] = 0
        for k in range(met):
            counter[touched[k]] = 0
    return end


@compiled
def list_products(
    pairs: CountedPairs,
    rows: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    work: np.ndarray,
    scratch: GatherScratch,
    indptr: np.ndarray,
    out: GatheredEntries,
    weights: np.ndarray | None = None,
    values: PairValues | None = None,
) -> None:
    """|U_i ∩ U_j| · left_i · right_j for i in `rows` and all j that share a user with i, in no order.

    Compressed: `indptr` (rows + 1) begins with 0. `work` is the number of counts needed for each row: a row with more
    counts than there are items gets all j, including zeros. With `weights` or `values`: see `cooccurrence.py`.
    """
    counter, touched = scratch.counter, scratch.touched
    columns, products = out.columns, out.products
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        first, stop = pairs.item_indptr[i], pairs.item_indptr[i + 1]
        whole = work[r] > counter.shape[0]
        met = count_row(pairs, first, stop, whole, counter, touched, 0, weights, values)
        scale = left[i]
        if whole:
            met = counter.shape[0]
            for j in range(met):
                columns[end + j] = j
                products[end + j] = counter[j] * (scale * right[j])
                counter[j] = 0
        else:
            for k in range(met):
                j = touched[k]
                columns[end + k] = j
                products[end + k] = counter[j] * (scale * right[j])
                counter[j] = 0
        end += met
        indptr[r + 1] = end


@compiled
def copy_pieces(values: np.ndarray, destinations: np.ndarray, lengths: np.ndarray, blocks: np.ndarray) -> None:
    """Copy consecutive pieces of `values`, each to its destination in `blocks`."""
    start = 0
    for p in range(destinations.shape[0]):
        to = destinations[p]
        for k in range(lengths[p]):
            blocks[to + k] = values[start + k]
        start += lengths[p]
