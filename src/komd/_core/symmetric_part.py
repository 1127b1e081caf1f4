"""The part of a symmetric matrix between some items, both halves at once: K_u from K, or the part of a face from K_u.

Eight rows are read side by side: their entries in one column are a contiguous piece of a row of the other half. This is
written in LLVM IR, because Numba would recompute the address of each row for each entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from komd._core.compile import inner
from komd._core.llvm_vectors import LONG, loop, store

__all__ = ["copy_part"]

_ROWS = 8

_Int, _Float = ir.IntType(32), ir.FloatType()
_Piece = ir.VectorType(_Float, _ROWS)


@inner
def copy_part(M: np.ndarray, items: np.ndarray, out: np.ndarray) -> None:
    """out[x, y] = M[items[x], items[y]], of a symmetric float32 matrix."""
    m = items.shape[0]
    whole = m - m % _ROWS
    for x in range(0, whole, _ROWS):
        _copy_rows(M, items, x, out)
    for x in range(whole, m):
        row = M[np.uint32(items[x])]
        for y in range(x + 1):
            out[x, y] = row[np.uint32(items[y])]
            out[y, x] = out[x, y]


@intrinsic  # type: ignore[untyped-decorator]
def _copy_rows(typing: Any, M: Any, items: Any, x: Any, out: Any) -> Any:
    """Rows x to x + 8 of the part up to the diagonal, and the same entries as columns in the other half."""
    if (M.dtype, items.dtype, out.dtype) != (types.float32, types.int32, types.float32):
        raise TypeError(f"copy_part takes float32, int32 and float32, got {M}, {items}, {out}")

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        M, items, out = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 1, 3))
        first, byte = arguments[2], ir.IntType(8).as_pointer()

        def row_of(array: Any, number: Any) -> Any:
            step = builder.mul(number, builder.extract_value(array.strides, 0))
            return builder.bitcast(builder.gep(builder.bitcast(array.data, byte), [step]), _Float.as_pointer())

        def item(place: Any) -> Any:
            return builder.zext(builder.load(builder.gep(items.data, [place])), LONG)

        numbers = [builder.add(first, LONG(k)) for k in range(_ROWS)]
        rows, to = [row_of(M, item(number)) for number in numbers], [row_of(out, number) for number in numbers]

        def column(y: Any, _: list[Any]) -> list[Any]:
            i, piece = item(y), ir.Constant(_Piece, ir.Undefined)
            entries = [builder.load(builder.gep(row, [i])) for row in rows]
            for k, (entry, place) in enumerate(zip(entries, to, strict=True)):
                builder.store(entry, builder.gep(place, [y]))
                piece = builder.insert_element(piece, entry, _Int(k))
            store(builder, piece, builder.gep(row_of(out, y), [first]))
            return []

        loop(builder, LONG(0), builder.add(first, LONG(_ROWS)), 1, [], column)
        return context.get_dummy_value()

    return types.void(M, items, types.int64, out), emit
