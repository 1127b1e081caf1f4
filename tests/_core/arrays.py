"""Small dense matrices and lists as the groups of arrays that compiled functions take."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from komd._core.groups import CountedPairs, PairValues, Rows, StoredMatrix, StripArrays, WeightedUsers
from komd._core.strip_counting import DENSE


def compiled_anew(function):
    """A compiled function that calls one without a Python wrapper. Not cached on disk: a cache would go stale."""
    return njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)


def rows_of(lists):
    """Compressed rows of lists of numbers."""
    indptr = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return Rows(indptr, np.array([number for each in lists for number in each], np.int32))


def random_rows(rng, count, items):
    """So many sorted rows of distinct items, of every length from nothing to everything."""
    return [np.sort(rng.choice(items, rng.integers(0, items + 1), replace=False)) for _ in range(count)]


def weighted(rng, lists):
    """Users with these items, and random weights and offsets."""
    rows = rows_of(lists)
    return WeightedUsers(*rows, rng.standard_normal(len(rows.indices)), rng.standard_normal(len(lists)))


def stored(K, *, sparse=False):
    """A float32 matrix, dense or compressed."""
    rows = csr_array(K)
    compressed = rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32)
    if sparse:
        return StoredMatrix(np.zeros((0, 0), np.float32), *compressed)
    return StoredMatrix(K, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def pairs_of(R):
    """Who chose what, both ways, and the place of each (item, user) pair in `user_items`."""
    rows = csr_array(R.astype(np.int64))
    rows.sort_indices()
    columns = csr_array((np.arange(rows.nnz), rows.indices, rows.indptr), shape=R.shape).tocsc()
    pairs = CountedPairs(
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
    )
    return pairs, columns.data.astype(np.int64)


def values_of(X):
    """The non-zeros of a users × items matrix, by user and by item."""
    return PairValues(X[X != 0].astype(np.float32), X.T[X.T != 0].astype(np.float32))


def random_values(rng, R, least=-30, most=30):
    """Values > 0 of float32 where R is true, of very different sizes, else 0."""
    return np.where(R, 10.0 ** rng.uniform(least, most, R.shape), 0.0).astype(np.float32)


def strip_of(K, first, last, rng, tile=None):
    """Columns first..last of K as a strip in tiles of so many columns: rows in a random order, dense where most is."""
    width, order = last - first, rng.permutation(len(K))
    tile = max(1, min(width, tile or width))
    tiles = -(-width // tile) or 1
    places, columns, values = np.zeros((tiles, len(K), 2), np.uint32), [], []
    dense = np.full((tiles, len(K), tile), np.nan, np.float32)
    slots = rng.permutation(len(K))
    for row, i in enumerate(order):
        full = np.count_nonzero(K[i, first:last]) > width / 2
        for t in range(tiles):
            line = K[i, first + t * tile : min(first + (t + 1) * tile, last)]
            if full:
                places[t, row] = slots[row], DENSE
                dense[t, slots[row], : len(line)] = line
            else:
                filled = rng.permutation(np.flatnonzero(line))
                places[t, row] = len(values), len(values) + len(filled)
                columns += filled.tolist()
                values += line[filled].tolist()
    return StripArrays(
        np.argsort(order).astype(np.int32),
        places,
        np.array(columns, np.uint16),
        np.array(values, np.float32),
        dense,
    )


def row_of_strip(strip, row, width):
    """One row of a strip that is so wide, written out."""
    out, wide = np.zeros(width, np.float32), strip.dense.shape[2]
    for t, (start, end) in enumerate(strip.places[:, row]):
        line = out[t * wide : (t + 1) * wide]
        if end == DENSE:
            line[:] = strip.dense[t, start, : len(line)]
        else:
            columns = strip.columns[start:end]
            assert len(set(columns.tolist())) == len(columns)
            line[columns] = strip.values[start:end]
    return out
