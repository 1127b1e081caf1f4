"""Weights as they are read: numbers that are finite and > 0, also in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.data.numeric_columns import as_numbers, stripped
from komd.data.tables import SourceTable
from komd.errors import InputError, argument

__all__ = ["first_unusable", "single_precision", "weights_of"]

_RULE = "weights must be finite and > 0"


def weights_of(
    column: pa.Array, among: NDArray[np.bool_], table: SourceTable, position: int, row: int
) -> NDArray[np.float64]:
    """The weights of a batch of rows; those `among` (bool, one a row) must be usable. `row` are the rows before."""
    values: NDArray[np.float64] = as_numbers(column).to_numpy(zero_copy_only=False)
    at = first_unusable(values, among)
    if at is None:
        return values
    value = stripped(column)[at].as_py()
    where = f"in row {row + 1 + at:,} of {table.columns[position]!r}"
    if value is None or value == "":
        raise InputError(
            f"{table.name} has no weight {where}: {_RULE}; leave such rows out, or read without {argument('weight')}"
        )
    how = "leave such rows out"
    if values[at] == 0:
        asked = table.columns[position] if table.named else position
        how = f"leave such rows out (as {argument('rating', asked)} does with those of 0)"
    raise InputError(
        f"{table.name} has the weight {value if isinstance(value, int | float) else repr(value)} {where}: "
        f"{_beyond(values[at]) or _RULE}; {how}, or choose another column with {argument('weight')}"
    )


def first_unusable(values: NDArray[Any], among: NDArray[np.bool_] | None = None) -> int | None:
    """Where the first weight is that cannot be used, or None."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        wrong = ~(np.isfinite(single) & (single > 0))
    if among is not None:
        wrong &= among
    return int(np.argmax(wrong)) if wrong.any() else None


def single_precision(sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """The weights of distinct pairs as float32; sums of repeated pairs may be too large for it."""
    if len(sums) and float(sums.max()) > float(np.finfo(np.float32).max):
        raise InputError(
            f"the weights of a repeated pair add up to {float(sums.max()):g}, beyond single precision (3.4e38): "
            f"scale the weights, or choose with {argument('repeated')}"
        )
    return sums.astype(np.float32)


def _beyond(value: float) -> str | None:
    """What is wrong with a number that is finite and > 0, but not in single precision."""
    if not np.isfinite(value) or value <= 0:
        return None
    return f"{_RULE}, also in single precision (1.4e-45 to 3.4e38)"
