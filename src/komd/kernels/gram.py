"""The matrix K between all items, block by block: co-occurrence counts, then the kernel's function of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.errors import InputError
from komd.kernels.dot_product import Kernel
from komd.kernels.matrix import DenseMatrix, ItemMatrix, SparseMatrix
from komd.kernels.plan import Plan

__all__ = ["kernel_matrix"]

Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]

_DENSE_ROWS = 64  # items counted together: the strip of counts and its mirror image stay in the cache
_SPARSE_WORK = 1 << 22  # counts per sparse block, about: enough to be worth a thread's while


def kernel_matrix(
    kernel: Kernel,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    items: int,
    how: Plan,
    *,
    user_weights: NDArray[np.float64] | None = None,
    degrees: NDArray[np.float64] | None = None,
    threads: int | None = None,
) -> ItemMatrix:
    """K between items, from users' sorted compressed rows.

    Entry (i, j) is `kernel.of_counts(|U_i ∩ U_j|, |U_i|, |U_j|)` rounded to float32 once; the diagonal of a kernel with
    a unit diagonal is exactly 1, or 0 for an item nobody chose. The same for any number of threads.

    With `user_weights` (one a user, > 0) the size of a set of users is what they weigh together: |U_i ∩ U_j| becomes
    Σ_{v ∈ U_i ∩ U_j} weight_v, and |U_i| likewise, which keeps the meaning of every kernel (the cosine becomes that of
    the weighted vectors). `degrees` (one an item) stand in for the sizes |U_i| where a method wants others.
    """
    if user_weights is not None:
        user_weights = np.ascontiguousarray(user_weights, np.float64)
        if user_weights.shape != (len(indptr) - 1,) or not (np.isfinite(user_weights) & (user_weights > 0)).all():
            raise InputError(f"user_weights must be {len(indptr) - 1:,} finite numbers > 0, one for each user")
    by_item = _by_item(indptr, indices, items)
    if degrees is not None:
        degree = np.asarray(degrees, np.float64)
    elif user_weights is not None:
        every = np.repeat(user_weights, np.diff(indptr))
        degree = np.bincount(indices, weights=every, minlength=items).astype(np.float64, copy=False)
    else:
        degree = np.diff(by_item[0]).astype(np.float64)
    build = _dense if how.storage == "dense" else _sparse
    return build(kernel, indptr, indices, by_item, user_weights, degree, threads)


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
    kernel: Kernel,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    by_item: Columns,
    weights: NDArray[np.float64] | None,
    degree: NDArray[np.float64],
    threads: int | None,
) -> ItemMatrix:
    from komd._core.gram import count_upper

    item_indptr, item_users, item_where = by_item
    items = len(degree)
    K = np.empty((items, items), np.float32)

    def fill(block: tuple[int, int]) -> None:
        first, last = block
        counts = np.zeros((last - first, items), np.int32 if weights is None else np.float64)
        count_upper(item_indptr, item_users, item_where, indptr, indices, first, last, counts, weights)
        # Below the diagonal of the little square the counts are missing: they stand mirrored above it.
        square = counts[:, first:last]
        square += np.triu(square, 1).T
        both = counts[:, first:].astype(np.float64, copy=False)
        values = kernel.of_counts(both, degree[first:last, None], degree[None, first:]).astype(np.float32)
        K[first:last, first:] = values
        below = values[:, last - first :]
        if not kernel.symmetric:
            turned = kernel.of_counts(both[:, last - first :], degree[None, last:], degree[first:last, None])
            below = turned.astype(np.float32)
        K[last:, first:last] = below.T

    for _ in pool.run(fill, pool.blocks(items, _DENSE_ROWS), threads=threads, label="kernel", size=_items_of):
        pass
    if kernel.unit_diagonal:
        np.fill_diagonal(K, np.diff(item_indptr) > 0)
    return DenseMatrix(K)


def _sparse(
    kernel: Kernel,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    by_item: Columns,
    weights: NDArray[np.float64] | None,
    degree: NDArray[np.float64],
    threads: int | None,
) -> ItemMatrix:
    from komd._core.gram import count_pairs

    item_indptr, item_users, _ = by_item
    items = len(degree)
    number = np.int32 if weights is None else np.float64
    activity = np.diff(indptr)
    reach = np.zeros(len(item_users) + 1, np.int64)  # counts to be made for all pairs before this one
    np.cumsum(activity[item_users], out=reach[1:])
    work = np.diff(reach[item_indptr])

    def part(block: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        first, last = block
        # One place more than can be filled: the branch-free list writes one ahead of its end.
        room = int(np.minimum(work[first:last], items).sum()) + 1
        rows = np.zeros(last - first + 1, np.int64)
        columns = np.empty(room, np.int32)
        counts = np.empty(room, number)
        counter = np.zeros(items, number)
        count_pairs(item_indptr, item_users, indptr, indices, first, last, counter, rows, columns, counts, weights)
        columns = columns[: rows[-1]].copy()
        row_of = np.repeat(np.arange(first, last), np.diff(rows))
        both = counts[: rows[-1]].astype(np.float64, copy=False)
        values = kernel.of_counts(both, degree[row_of], degree[columns]).astype(np.float32)
        if kernel.unit_diagonal:
            values[row_of == columns] = 1.0
        return np.diff(rows), columns, values

    pieces = _even_blocks(work)
    parts = list(pool.run(part, pieces, threads=threads, label="kernel", size=_items_of))
    row_indptr = np.zeros(items + 1, np.int64)
    np.cumsum(np.concatenate([p[0] for p in parts]) if parts else [], out=row_indptr[1:])
    columns = np.empty(row_indptr[-1], np.int32)
    values = np.empty(row_indptr[-1], np.float32)
    end = 0
    while parts:  # each part is let go as soon as it is copied: never two whole copies in memory
        _, part_columns, part_values = parts.pop(0)
        columns[end : end + len(part_columns)] = part_columns
        values[end : end + len(part_values)] = part_values
        end += len(part_columns)
    return SparseMatrix(row_indptr, columns, values)


def _items_of(block: tuple[int, int]) -> int:
    return block[1] - block[0]


def _even_blocks(work: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Consecutive blocks of items of about equal work."""
    cuts = np.searchsorted(np.cumsum(work), np.arange(_SPARSE_WORK, work.sum(), _SPARSE_WORK)) + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(work)]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]
