"""Small dense matrices and lists as the groups of arrays that compiled functions take."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from komd._core.groups import CountedPairs, PairValues, Rows, StoredMatrix, StripArrays, WeightedUsers


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


def strip_of(K, first, last, rng):
    """Columns first..last of K as a strip: rows in a random order, dense where most is filled."""
    width, order = last - first, rng.permutation(len(K))
    places, columns, values = np.zeros((len(K), 3), np.int64), [], []
    for row, i in enumerate(order):
        line = K[i, first:last]
        filled = np.arange(width) if np.count_nonzero(line) > width / 2 else np.flatnonzero(line)
        places[row] = len(values), len(columns), len(filled)
        columns += filled.tolist() if len(filled) < width else []
        values += line[filled].tolist()
    ends = np.zeros(64)  # what is read ahead of a row's end must be there
    return StripArrays(
        np.argsort(order).astype(np.int32),
        places,
        np.array([*columns, *ends], np.uint16),
        np.array([*values, *ends], np.float32),
    )
