"""Interactions from a scipy sparse matrix: rows are users, columns are items."""

from __future__ import annotations

from typing import Any

import numpy as np

from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.data.ratings import RatingRule
from komd.data.weights import first_unusable
from komd.errors import InputError, argument

__all__ = ["from_matrix"]

_EVERYTHING = RatingRule()


def from_matrix(
    matrix: Any, rule: RatingRule = _EVERYTHING, *, weighted: bool = False, repeated: str = "sum"
) -> Interactions:
    """The non-zero entries of a matrix, sorted by `rule` as `read` sorts ratings; `weighted`: values are weights.

    An entry of 0 that is stored is a rating of 0 where `rule` asks for dislikes, and no weight; otherwise it is none.
    """
    if matrix.ndim != 2:
        raise InputError(f"a matrix of interactions is users × items, got {matrix.ndim} dimensions")
    if max(matrix.shape) > np.iinfo(np.int32).max:
        raise InputError(f"a matrix may have up to 2^31 - 1 rows and columns, got {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"a matrix of interactions holds numbers, got {matrix.dtype}")
    entries = matrix.tocoo(copy=False)
    if entries.dtype.kind == "f" and np.isnan(entries.data).any():
        raise InputError(f"the matrix has {int(np.isnan(entries.data).sum()):,} NaN entries; remove them first")
    negative = int((entries.data < 0).sum())
    if negative and not rule.name and not weighted:
        raise InputError(
            f"the matrix has {negative:,} negative entries (least {entries.data.min()}): "
            "interactions say what users chose, so keep only what is positive, or say what counts with "
            f"{argument('min_rating')}"
        )
    values, rows, columns = entries.data, entries.row, entries.col
    if not weighted and rule.disliked is None:
        there = values != 0
        if not there.all():
            values, rows, columns = values[there], rows[there], columns[there]
    chosen, disliked = rule.masks(values) if rule.name else (None, None)
    if weighted:
        at = first_unusable(values, chosen)
        if at is not None:
            raise InputError(
                f"the matrix has the weight {values[at]} in row {rows[at]}, column {columns[at]}: weights must be "
                "finite and > 0, also in single precision; remove such entries first (stored zeros: "
                "matrix.eliminate_zeros())"
            )
    return Interactions.from_numbers(
        Ids.range(matrix.shape[0], noun="user"),
        Ids.range(matrix.shape[1], noun="item"),
        rows.astype(np.int32),
        columns.astype(np.int32),
        chosen=chosen,
        disliked=disliked,
        weights=values.astype(np.float64) if weighted else None,
        repeated=repeated,
    )
