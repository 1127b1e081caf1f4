"""Sums over users or items that do not depend on their order: each term is rounded to an integer before it is added.

`scale` is a power of two (`kernels/fixed_point.py` chooses it): a term x counts as the integer nearest to x · scale.
Twins: `math.fsum` of the rounded terms, in tests/_core/test_exact_sums.py.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled
from komd._core.groups import Rows

__all__ = ["largest_bits", "sum_dense_rows", "sum_gathered", "sum_rows", "sum_weights"]


@compiled
def sum_weights(indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """out[i] += the sum of the users' weights (int64) over the rows that hold item i."""
    for v in range(indptr.shape[0] - 1):
        weight = weights[v]
        for p in range(indptr[v], indptr[v + 1]):
            out[indices[p]] += weight


@compiled
def largest_bits(bits: np.ndarray) -> np.int32:
    """The bits of the largest absolute value among float32 numbers, given by their bits (int32): no NaN is among them.

    Without the sign, the order of the bits as integers is the order of the numbers; integers compare faster.
    """
    top = np.int32(0)
    for k in range(bits.shape[0]):
        top = max(top, bits[k] & np.int32(0x7FFFFFFF))
    return top


@compiled
def sum_dense_rows(values: np.ndarray, scale: float, out: np.ndarray) -> None:
    """out[i] = Σ_j values[i, j], in units of 1 / scale."""
    for i in range(values.shape[0]):
        total = np.int64(0)
        for j in range(values.shape[1]):
            total += np.int64(np.rint(values[i, j] * scale))
        out[i] = total


@compiled
def sum_rows(indptr: np.ndarray, values: np.ndarray, scale: float, out: np.ndarray) -> None:
    """The same for compressed rows."""
    for i in range(indptr.shape[0] - 1):
        total = np.int64(0)
        for p in range(indptr[i], indptr[i + 1]):
            total += np.int64(np.rint(values[p] * scale))
        out[i] = total


@compiled
def sum_gathered(
    rows: Rows,
    of_rows: np.ndarray,
    of_columns: np.ndarray,
    scale: float,
    out: np.ndarray,
    values: np.ndarray | None = None,
) -> None:
    """out[r] = Σ_p of_rows[r] · of_columns[indices[p]] · values[p] over the places p of row r, in units of 1 / scale.

    `values` are aligned with `rows.indices`; without them they are 1.
    """
    for r in range(rows.indptr.shape[0] - 1):
        total = np.int64(0)
        for p in range(rows.indptr[r], rows.indptr[r + 1]):
            of_column = of_columns[rows.indices[p]]
            if values is None:
                term = of_rows[r] * of_column
            else:
                term = of_rows[r] * values[p] * of_column
            total += np.int64(np.rint(term * scale))
        out[r] = total
