"""Sums over a line, in vector registers: of products, of what is above a level; and whether anything is above one.

LLVM does not reorder a sum of doubles, so these loops are written in LLVM IR: vectors of eight doubles, compiled for
the instructions of the processor. A sum is taken in eight lanes and then over the lanes: the same order on every
machine. On processors that have fused multiply-adds they are used throughout.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from komd._core.compile import inner
from komd._core.llvm_vectors import LONG, load, loop, multiply_add, splat

__all__ = ["COMPARED", "LANES", "above", "any_above", "dot", "fill", "padded", "padded_length"]

LANES = 8
COMPARED = 64  # numbers that `any_above` compares

_Vector = ir.VectorType(ir.DoubleType(), LANES)
_FIRST, _ZERO = ir.Constant(LONG, 0), ir.Constant(_Vector, [0.0] * LANES)


def padded_length(items: int) -> int:
    """The length of a line for so many items: rounded up to a multiple of `LANES`."""
    return (items + LANES - 1) // LANES * LANES


padded = inner(padded_length)


@inner
def fill(out: np.ndarray, value: float) -> None:
    """out[:] = value: a function, because Numba takes 0.1 s to compile that statement in every place."""
    for k in range(out.shape[0]):
        out[k] = value


@intrinsic  # type: ignore[untyped-decorator]
def dot(typing: Any, x: Any, y: Any) -> Any:
    """x · y, of lines whose length is a multiple of `LANES`."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        of_x, of_y = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(2))
        add_product = multiply_add(builder, _Vector)

        def step(k: Any, sums: list[Any]) -> list[Any]:
            left, right = (load(builder, builder.gep(of.data, [k]), _Vector) for of in (of_x, of_y))
            return [add_product(left, right, sums[0])]

        (total,) = loop(builder, _FIRST, builder.extract_value(of_x.shape, 0), LANES, [_ZERO], step)
        return _lanes(builder, total)

    return types.float64(x, y), emit


@intrinsic  # type: ignore[untyped-decorator]
def above(typing: Any, v: Any, c: Any, level: Any) -> Any:
    """The sums of v + level · c and of c over all places where the former is > 0; lengths are as in `dot`."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        of_v, of_c = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(2))
        add_product, level = multiply_add(builder, _Vector), splat(builder, arguments[2], LANES)

        def step(k: Any, sums: list[Any]) -> list[Any]:
            left, right = (load(builder, builder.gep(of.data, [k]), _Vector) for of in (of_v, of_c))
            x = add_product(level, right, left)
            positive = builder.fcmp_ordered(">", x, _ZERO)
            return [
                builder.fadd(total, builder.select(positive, more, _ZERO))
                for total, more in zip(sums, (x, right), strict=True)
            ]

        totals = loop(builder, _FIRST, builder.extract_value(of_v.shape, 0), LANES, [_ZERO, _ZERO], step)
        return context.make_tuple(builder, signature.return_type, [_lanes(builder, total) for total in totals])

    return types.UniTuple(types.float64, 2)(v, c, types.float64), emit


@intrinsic  # type: ignore[untyped-decorator]
def any_above(typing: Any, x: Any, start: Any, level: Any) -> Any:
    """Whether one of the `COMPARED` numbers of x, which must be contiguous, from `start` on is > level."""
    if x.layout != "C":
        raise TypeError(f"any_above takes a contiguous array, got {x}")

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        data = builder.gep(context.make_array(signature.args[0])(context, builder, arguments[0]).data, [arguments[1]])
        level = splat(builder, arguments[2], LANES)
        parts = [load(builder, builder.gep(data, [ir.Constant(LONG, k)]), _Vector) for k in range(0, COMPARED, LANES)]
        found = [builder.fcmp_ordered(">", part, level) for part in parts]
        bits = builder.bitcast(functools.reduce(builder.or_, found), ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(x, types.int64, types.float64), emit


def _lanes(builder: ir.IRBuilder, total: Any) -> Any:
    """The sum of the lanes: ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))."""
    parts = [builder.extract_element(total, ir.Constant(ir.IntType(32), lane)) for lane in range(LANES)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [builder.fadd(x, y) for x, y in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]
