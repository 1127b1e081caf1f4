"""Numbers in columns of any type: ratings and weights as float64, and which value is none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from komd.data.keys import is_text

__all__ = ["all_numbers", "as_numbers", "first_not", "stripped"]

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def as_numbers(column: pa.Array) -> pa.Array:
    """The values as float64; null where they are not numbers."""
    column = stripped(column)
    try:
        return column.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not is_text(column.type):
            return pa.nulls(len(column), pa.float64())
        written = pc.fill_null(pc.match_substring_regex(column, _NUMBER), False)
        return pc.if_else(written, column, pa.scalar(None, column.type)).cast(pa.float64())


def all_numbers(column: pa.Array) -> bool:
    """Whether every value of a column of text is written like a number."""
    return bool(pc.all(pc.match_substring_regex(column, _NUMBER)).as_py())


def stripped(column: pa.Array) -> pa.Array:
    """Text without the blanks around it; other columns as they are."""
    return pc.utf8_trim_whitespace(column) if is_text(column.type) else column


def first_not(column: pa.Array, *kinds: pa.DataType) -> tuple[Any, int]:
    """The first value that none of these types can take, and its row from 1."""
    for k, value in enumerate(column):
        if not any(_castable(value, kind) for kind in kinds):
            return value.as_py(), k + 1
    return column[0].as_py(), 1


def _castable(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
