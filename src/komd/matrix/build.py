"""The matrix K between all items, block by block: co-occurrence counts, then the kernel's function of them."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.kernels.entries import Recipe
from komd.kernels.functions import Kernel
from komd.matrix.item_matrix import DenseMatrix, ItemMatrix, SparseMatrix
from komd.matrix.storage import Plan
from komd.matrix.streamed import StreamedMatrix

__all__ = ["kernel_matrix"]

Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]

_DENSE_ROWS = 64  # items counted together: the strip of counts and its mirror image stay in the cache
_SPARSE_WORK = (1 << 18, 1 << 22)  # counts of a sparse block, about: enough to be worth a thread's while


def kernel_matrix(
    kernel: Kernel,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    items: int,
    how: Plan,
    *,
    user_weights: NDArray[np.float64] | None = None,
    degrees: NDArray[np.float64] | None = None,
    scale: NDArray[np.float64] | None = None,
    threads: int | None = None,
) -> ItemMatrix:
    """K between items, from users' sorted compressed rows.

    The `Recipe` of `kernel`, `user_weights`, `degrees` and `scale` says what an entry is; the diagonal of a kernel with
    a unit diagonal is exactly 1 (or scale²), or 0 for an item nobody chose. The same for any number of threads. A
    streamed matrix is computed whenever it is read, and keeps the rows it was given.
    """
    recipe = Recipe.of(kernel, indptr, indices, items, user_weights=user_weights, degrees=degrees, scale=scale)
    if how.storage == "streamed":
        return StreamedMatrix(recipe, indptr, indices)
    if how.storage == "sparse":
        return _sparse(StreamedMatrix(recipe, indptr, indices), threads)
    return _dense(recipe, indptr, indices, threads)


def _by_item(indptr: NDArray[np.int64], indices: NDArray[np.int32], items: int) -> Columns:
    """Each item's users, ascending, and where each pair stands in the users' rows."""
    from scipy.sparse import csr_array

    where = np.arange(len(indices), dtype=np.int64)
    columns = csr_array((where, indices, indptr), shape=(len(indptr) - 1, items)).tocsc()
    return (
        columns.indptr.astype(np.int64, copy=False),
        columns.indices.astype(np.int32, copy=False),
        cast("NDArray[np.int64]", columns.data),
    )


def _dense(
    recipe: Recipe,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    threads: int | None,
) -> ItemMatrix:
    from komd._core.cooccurrence import count_upper

    item_indptr, item_users, item_where = _by_item(indptr, indices, len(recipe.degree))
    kernel, degree, weights, scale = recipe.kernel, recipe.degree, recipe.user_weights, recipe.scale
    items = len(degree)
    K = np.empty((items, items), np.float32)

    def fill(block: tuple[int, int]) -> None:
        first, last = block
        counts: NDArray[Any] = np.zeros((last - first, items), recipe.number)
        count_upper(item_indptr, item_users, item_where, indptr, indices, first, last, counts, weights)
        # Below the diagonal of the little square the counts are missing: they stand mirrored above it.
        square = counts[:, first:last]
        square += np.triu(square, 1).T
        both = counts[:, first:].astype(np.float64, copy=False)
        values = kernel.of_counts(both, degree[first:last, None], degree[None, first:])
        if scale is not None:
            values *= scale[first:last, None] * scale[None, first:]
        K[first:last, first:] = values
        if kernel.symmetric:
            K[last:, first:last] = K[first:last, last:].T
        else:
            turned = kernel.of_counts(both[:, last - first :], degree[None, last:], degree[first:last, None])
            if scale is not None:
                turned *= scale[first:last, None] * scale[None, last:]
            K[last:, first:last] = turned.T

    pool.for_each(fill, pool.blocks(items, _DENSE_ROWS), threads=threads, label="kernel", size=_items_of)
    if kernel.unit_diagonal:
        np.fill_diagonal(K, recipe.diagonal)
    return DenseMatrix(K)


def _sparse(matrix: StreamedMatrix, threads: int | None) -> ItemMatrix:
    """All rows of a streamed matrix, kept."""
    items, work = matrix.items, matrix.work
    matrix.prepare()  # before threads ask for it

    def part(block: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        indptr, columns, values = matrix.block(*block, matrix.counter())
        return np.diff(indptr), columns, values

    row_indptr = np.zeros(items + 1, np.int64)
    columns, values = np.empty(0, np.int32), np.empty(0, np.float32)
    row = end = 0
    each = int(np.clip(work.sum() // (8 * pool.count(threads)), *_SPARSE_WORK))
    pieces = pool.even_blocks(work, each)
    for lengths, part_columns, part_values in pool.run(part, pieces, threads=threads, label="kernel", size=_items_of):
        # Parts come in order, and large arrays grow where they stand: K is never in memory twice.
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
