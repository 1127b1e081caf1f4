"""The regression of every item on all others, min ‖R − RB‖² + λ‖B‖² with B[i, i] = 0: EASE's matrix, solved exactly.

    P = (R'R + λI)⁻¹,   B[i, j] = −P[i, j] / P[j, j] for i ≠ j

**Primal**: R'R is inverted, items × items. **Dual**: users with one item add to the diagonal of R'R alone, so with
A = λI + that diagonal (a_i) and X the choices of the users with two items or more,

    P = (A + X'X)⁻¹ = A⁻¹ − A⁻¹ X' Q X A⁻¹,   Q = (I + X A⁻¹ X')⁻¹

(Woodbury), and only Q is inverted, users × users. P[j, j] = 1/a_j − (X'QX)[j, j] / a_j², and off the diagonal
B[i, j] = (X'QX)[i, j] / (a_i a_j P[j, j]). Nothing is left out: both are the same matrix. The smaller inverse is taken,
in double precision, block by block (`ridge_filter.invert`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import DualArrays, Rows
from komd.errors import InputError, SolverError, argument
from komd.kernels.asymmetric import CoOccurrence
from komd.kernels.entries import KernelEntries
from komd.matrix.dense import DenseMatrix
from komd.matrix.dual import DualMatrix, active_users
from komd.matrix.from_counts import dense_from_counts
from komd.matrix.item_matrix import ItemMatrix
from komd.matrix.ridge_filter import inverse_scratch, invert
from komd.memory import budget, readable

__all__ = ["REGRESSION_STORAGES", "regression_matrix"]

REGRESSION_STORAGES = ("dense", "dual")
_ROWS = 256  # rows of an inverse mirrored at a time
_ALLOWED = 1e-4  # relative error of an inverse
_SINGULAR = "G + λI could not be inverted: to double precision it is singular; use more regularization"


def regression_matrix(
    rows: Rows,
    items: int,
    regularization: float,
    *,
    storage: str | None = None,
    threads: int | None = None,
    memory: str | int | None = None,
) -> ItemMatrix:
    """B of these users' histories; items are numbered by falling popularity, so those nobody chose are the last.

    It is dense if that fits the budget; otherwise, it is held as an inverse between users ("dual"), if that is smaller.
    `storage` selects one form.
    """
    chosen = int(rows.indices.max()) + 1 if len(rows.indices) else 0
    active = int((np.diff(rows.indptr) > 1).sum())
    primal = storage != "dual" and chosen <= active
    inverted, room, result = chosen if primal else active, budget(memory), 4 * items * items
    inverse = 8 * inverted * inverted + inverse_scratch(inverted, np.float64)
    dense = storage == "dense" or (storage is None and (primal or inverse + result <= room))
    needed = inverse + (result if dense else 0)
    if needed > room:
        raise InputError(
            f"EASE needs {readable(needed)} for {items:,} items (an inverse between {inverted:,} "
            f"{'items' if primal else 'users'}{f', {readable(result)} for the result' if dense else ''}), and the "
            f"budget is {readable(room)}; raise {argument('memory')}, or leave out the rarest items"
        )
    if primal:
        return _primal(rows, items, chosen, regularization, threads)
    dual = _dual(rows, items, regularization, threads)
    return dual.written_out(threads) if dense else dual


def _primal(rows: Rows, items: int, chosen: int, regularization: float, threads: int | None) -> DenseMatrix:
    """B, computed in place of R'R; its rows and columns from `chosen` on are zero."""
    # Counts are exact in single precision up to 2^24 users.
    made = dense_from_counts(KernelEntries.of(CoOccurrence(), rows, items), rows, threads)
    G = made.values
    P = G[:chosen, :chosen].astype(np.float64)
    P.flat[:: chosen + 1] += regularization
    _inverted(P, threads)
    diagonal = P.diagonal().copy()
    for first, last in pool.blocks(chosen, _ROWS):
        strip = P[first:last, first:]
        square = strip[:, : last - first]
        square[:] = np.triu(square) + np.triu(square, 1).T
        np.divide(strip, -diagonal[first:], out=G[first:last, first:chosen], casting="same_kind")
        rest = strip[:, last - first :].T
        np.divide(rest, -diagonal[first:last], out=G[last:chosen, first:last], casting="same_kind")
    np.fill_diagonal(G, 0.0)
    return made


def _dual(rows: Rows, items: int, regularization: float, threads: int | None) -> DualMatrix:
    from scipy.sparse import csr_array

    from komd._core.dual_scores import quadratic_forms

    by_item = active_users(rows, items)
    active = int((np.diff(rows.indptr) > 1).sum())
    alone = np.bincount(rows.indices, minlength=items) - np.diff(by_item.indptr)  # the users with this item only
    a: NDArray[np.float64] = (regularization + alone).astype(np.float64)
    values = np.ones(len(by_item.indices))
    X = csr_array((values, by_item.indices, by_item.indptr), shape=(items, active)).T.tocsr()
    Q: NDArray[np.float64] = np.empty((active, active))
    weighted = (X / a[None, :]).tocsr()
    for first, last in pool.blocks(active, _ROWS):
        Q[first:last] = (weighted[first:last] @ X.T).toarray()
    Q.flat[:: active + 1] += 1.0
    # No eigenvalue is below 1 or above the largest sum of a row: their ratio bounds the condition.
    if active and np.finfo(np.float64).eps * Q.sum(axis=1).max() > _ALLOWED:
        raise SolverError(_SINGULAR)
    _inverted(Q, threads)
    for first, last in pool.blocks(active, _ROWS):  # from the upper triangle
        square = Q[first:last, first:last]
        square[:] = np.triu(square) + np.triu(square, 1).T
        Q[last:, first:last] = Q[first:last, last:].T
    forms: NDArray[np.float64] = np.empty(items)
    quadratic_forms(*by_item, Q, forms)
    left = 1.0 / a
    rest = 1.0 - forms * left  # a_j P[j, j]
    if not (rest > 0.0).all():
        raise SolverError(_SINGULAR)
    return DualMatrix(DualArrays(by_item.indptr, by_item.indices, Q, left, 1.0 / rest, forms * left / rest))


def _inverted(A: NDArray[np.float64], threads: int | None) -> None:
    """Replace the upper triangle by that of the inverse."""
    if not invert(A, label="EASE", threads=threads):
        raise SolverError(_SINGULAR)
