"""K from co-occurrence counts: held dense, held sparse, or streamed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import CountedPairs, Rows
from komd.kernels.entries import KernelEntries
from komd.matrix.dense import DenseMatrix
from komd.matrix.item_matrix import ItemMatrix
from komd.matrix.sparse import SparseMatrix
from komd.matrix.streamed import StreamedMatrix
from komd.rows import places, transpose

__all__ = ["dense_from_counts", "matrix_from_counts"]

_DENSE_ROWS = 64  # items counted together: the strip of counts and its mirror image stay in the cache
_SPARSE_WORK = (1 << 18, 1 << 22)  # approximate counts of a sparse block: enough for a thread to be efficient


def matrix_from_counts(of: KernelEntries, rows: Rows, storage: str, threads: int | None = None) -> ItemMatrix:
    """K between items, from users' sorted compressed rows, held as `storage` says.

    The diagonal of a kernel with a unit diagonal is exactly 1 (or scale²), or 0 for an item nobody chose. The
    result does not depend on the number of threads. A streamed matrix keeps `rows`, and is computed whenever it is
    read.
    """
    if storage == "streamed":
        return StreamedMatrix(of, rows)
    if storage == "sparse":
        return _sparse(StreamedMatrix(of, rows), threads)
    return dense_from_counts(of, rows, threads)


def dense_from_counts(of: KernelEntries, rows: Rows, threads: int | None = None) -> DenseMatrix:
    """The same, dense."""
    from komd._core.cooccurrence import count_upper

    kernel, degree, scale = of.kernel, of.degree, of.scale
    items = len(degree)
    item_indptr, item_users = transpose(*rows, items)
    pairs, item_where = CountedPairs(item_indptr, item_users, *rows), places(rows.indices, item_indptr)
    K = np.empty((items, items), np.float32)

    def fill(block: tuple[int, int]) -> None:
        first, last = block
        counts: NDArray[Any] = np.zeros((last - first, items), of.number)
        count_upper(pairs, item_where, first, last, counts, of.user_weights, of.pair_values)
        # Below the diagonal of the small square, counts are missing: they are mirrored from above it.
        square = counts[:, first:last]
        square += np.triu(square, 1).T
        both = of.weights_of(counts[:, first:])
        values = kernel.of_counts(both, degree[first:last, None], degree[None, first:])
        if scale is not None:
            values *= scale[first:last, None] * scale[None, first:]
        K[first:last, first:] = values
        if kernel.symmetric:
            K[last:, first:last] = K[first:last, last:].T
        else:
            mirrored = kernel.of_counts(both[:, last - first :], degree[None, last:], degree[first:last, None])
            if scale is not None:
                mirrored *= scale[first:last, None] * scale[None, last:]
            K[last:, first:last] = mirrored.T

    pool.for_each(fill, pool.blocks(items, _DENSE_ROWS), threads=threads, label="kernel", size=_items_of)
    if kernel.unit_diagonal:
        np.fill_diagonal(K, of.diagonal)
    return DenseMatrix(K)


def _sparse(matrix: StreamedMatrix, threads: int | None) -> SparseMatrix:
    """All rows of a streamed matrix, as a sparse matrix."""
    items, work = matrix.items, matrix.work
    matrix.prepare()

    def part(block: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        indptr, columns, values = matrix.block(*block, matrix.counter())
        return np.diff(indptr), columns, values

    row_indptr = np.zeros(items + 1, np.int64)
    columns, values = np.empty(0, np.int32), np.empty(0, np.float32)
    row = end = 0
    each = int(np.clip(work.sum() // (8 * pool.count(threads)), *_SPARSE_WORK))
    pieces = pool.even_blocks(work, each)
    for lengths, part_columns, part_values in pool.run(part, pieces, threads=threads, label="kernel", size=_items_of):
        # Parts arrive in order, and large arrays grow in place: K is never in memory twice.
        stop = end + len(part_columns)
        if stop > len(columns):
            for array in (columns, values):
                array.resize(stop + stop // 4, refcheck=False)
        columns[end:stop], values[end:stop] = part_columns, part_values
        np.cumsum(lengths, out=row_indptr[row + 1 : row + 1 + len(lengths)])
        row_indptr[row + 1 : row + 1 + len(lengths)] += end
        row, end = row + len(lengths), stop
    for array in (columns, values):
        array.resize(end, refcheck=False)
    return SparseMatrix(row_indptr, columns, values)


def _items_of(block: tuple[int, int]) -> int:
    return block[1] - block[0]
