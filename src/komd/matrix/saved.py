"""A matrix in the arrays of a saved model: which arrays there may be, and the matrix made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd._core.groups import DualArrays, Rows
from komd.errors import ModelFileError
from komd.kernels.stages import Stages
from komd.matrix.dense import DenseMatrix
from komd.matrix.dual import DualMatrix, active_users
from komd.matrix.item_matrix import Arrays, Correction, ItemMatrix, Truncation
from komd.matrix.low_rank import LowRankMatrix
from komd.matrix.sparse import SparseMatrix
from komd.matrix.streamed import StreamedMatrix

__all__ = ["layouts", "regression_restored", "restored", "staged_layouts", "staged_matrix", "well_formed"]

_NAMES = {
    "dense": {"matrix"},
    "sparse": {"matrix_indptr", "matrix_indices", "matrix_values"},
    "streamed": {"item_indptr", "item_users"},
    "dual": {"dual_Q", "dual_left", "dual_right", "dual_own"},
}


def layouts(*storages: str) -> list[set[str]]:
    """The names of a matrix's arrays, one set for each storage."""
    return [set(_NAMES[storage]) for storage in storages]


def staged_layouts(stages: Stages, storage: str | None) -> list[set[str]]:
    """The names that a matrix built from these stages may have, one set for each way to hold it.

    If the factor is stored separately, `factor` is one of the names, except in models saved by earlier versions.
    """
    out = []
    for held in ("dense", "sparse", "streamed") if storage is None else (storage,):
        names = set(_NAMES[held])
        if stages.prior and held != "dense":  # whose entries include filter and prior
            names |= {"prior"}
        if not stages.filtered or (held == "dense" and not stages.low_rank):
            out.append(names)
        if stages.filtered and (stages.low_rank or storage != "dense"):
            out.append(names | {"truncation"} | (set() if held == "dense" else {"filter", "filter_scale"}))
    return out + [names | {"factor"} for names in out] if stages.apart else out


def restored(arrays: Arrays, items: int) -> ItemMatrix:
    """The dense or sparse matrix between so many items that was saved in these arrays."""
    found: Any = arrays
    if "matrix" in arrays:
        matrix = found["matrix"]
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype != np.float32:
            raise ModelFileError("the saved matrix is not a square of float32; save the model again")
        made: ItemMatrix = DenseMatrix(matrix, Truncation.from_arrays(arrays))
        fits = made.items == items
    else:
        indptr, indices, values = (found[f"matrix_{name}"] for name in ("indptr", "indices", "values"))
        fits = well_formed(indptr, indices, items, items) and values.dtype == np.float32 and len(values) == len(indices)
        made = SparseMatrix(indptr, indices, values)
    if not fits:
        raise ModelFileError("the saved matrix is not one of these items; save the model again")
    return made


def regression_restored(arrays: Arrays, rows: Rows, items: int) -> ItemMatrix:
    """The matrix of a regression between so many items that was saved in these arrays; `rows` are the histories."""
    if "dual_Q" not in arrays:
        return restored(arrays, items)
    found: Any = arrays
    Q, *vectors = (found[f"dual_{name}"] for name in ("Q", "left", "right", "own"))
    active = int((np.diff(rows.indptr) > 1).sum())
    fits = Q.shape == (active, active) and all(each.shape == (items,) for each in vectors)
    if not fits or any(each.dtype != np.float64 for each in (Q, *vectors)):
        raise ModelFileError("the saved matrix is not one of these users and items; save the model again")
    return DualMatrix(DualArrays(*active_users(rows, items), Q, *vectors))


def staged_matrix(
    arrays: Arrays, stages: Stages, rows: Rows, items: int, *, values: NDArray[np.float32] | None = None
) -> ItemMatrix:
    """The matrix that was built from these stages, and these values of pairs, and saved in these arrays."""
    found: Any = arrays
    streamed = "matrix" not in arrays and "matrix_indptr" not in arrays
    if streamed:
        if values is not None and values.shape != rows.indices.shape:
            raise ModelFileError("the saved weights are not those of these histories; save the model again")
        entries = stages.entries(rows, items, values)
        base: ItemMatrix = StreamedMatrix(entries, rows, _by_item(arrays, rows, items))
    else:
        base = restored(arrays, items)
    if "filter" in arrays:
        W, scale, truncation = found["filter"], found["filter_scale"], Truncation.from_arrays(arrays)
        fits = W.dtype == np.float32 and W.ndim == 2 and len(W) == items and scale.shape == (1,) and scale[0] > 0
        added = truncation.added if truncation is not None else 0
        if not fits or truncation is None or "matrix" in arrays or not 0 <= added <= W.shape[1]:
            raise ModelFileError("the saved filter is not one of these items; save the model again")
        # A streamed base is counted from the stages; a sparse one was saved as it is.
        counted = base.scaled(np.full(items, np.sqrt(scale[0]))) if streamed else base
        base = LowRankMatrix(counted, Correction(W, added, float(scale[0]), truncation))
    if "prior" in arrays:
        prior = found["prior"]
        if "matrix" in arrays or prior.dtype != np.float32 or prior.shape != (items,):
            raise ModelFileError("the saved prior is not one of these items; save the model again")
        base = base.corrected(Correction(prior[:, None], added=1))
    return base


def _by_item(arrays: Arrays, rows: Rows, items: int) -> Rows | None:
    """The pairs by item, if they were saved; compiled code does not check them, so they must fit the rest."""
    if "item_users" not in arrays:
        return None
    indptr: Any = arrays["item_indptr"]
    users: Any = arrays["item_users"]
    if len(users) != len(rows.indices) or not well_formed(indptr, users, items, len(rows.indptr) - 1):
        raise ModelFileError("the saved arrays do not belong together; save the model again")
    return Rows(indptr, users)


def well_formed(indptr: Any, indices: Any, rows: int, columns: int) -> bool:
    """Whether these are compressed rows of such a matrix: compiled code does not check indices."""
    return bool(
        indptr.dtype == np.int64
        and indices.dtype == np.int32
        and indptr.shape == (rows + 1,)
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and (np.diff(indptr) >= 0).all()
        and (indices.size == 0 or (indices.min() >= 0 and indices.max() < columns))
    )
