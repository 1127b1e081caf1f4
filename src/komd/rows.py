"""Compressed sparse rows without values: row u is `indices[indptr[u]:indptr[u + 1]]`, distinct column numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["frozen", "places", "pointers", "transpose"]


def pointers(lengths: Any) -> NDArray[np.int64]:
    """`indptr` of rows of these lengths.

    >>> pointers([2, 0, 1])
    array([0, 2, 2, 3])
    """
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:], dtype=np.int64)
    return out


def transpose(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(indptr, indices) of the transpose: the rows that hold each of the `columns`, ascending.

    >>> transpose(np.array([0, 2, 3]), np.array([1, 0, 1]), 2)
    (array([0, 1, 3]), array([0, 0, 1], dtype=int32))
    """
    from komd._core import compressed_rows as csr

    indptr, indices = frozen(indptr, np.int64), frozen(indices, np.int32)
    out_indptr = np.zeros(columns + 1, np.int64)
    csr.count(indices, out_indptr)
    out = np.empty(len(indices), np.int32)
    csr.transpose(indptr, indices, out_indptr[:-1].copy(), out)
    return out_indptr, out


def places(indices: NDArray[np.int32], out_indptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry of the transpose, in its order, the place in `indices` that it comes from.

    `out_indptr` is the transpose's own.

    >>> places(np.array([1, 0, 1]), np.array([0, 1, 3]))
    array([1, 0, 2])
    """
    from komd._core import compressed_rows as csr

    out = np.empty(len(indices), np.int64)
    csr.places(frozen(indices, np.int32), out_indptr[:-1].copy(), out)
    return out


def frozen(array: Any, dtype: Any) -> Any:
    """A contiguous read-only view. What the core reads always arrives read-only: Numba compiles each kind apart."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
