"""Weighted sums of rows of a matrix: the inner loop of scores and of gradients, written in LLVM's language.

The sums of up to 128 columns stay in registers while all rows go by. Each sum takes its terms in the order of the rows,
so that its bits depend neither on the columns beside it nor on the processor's registers. Compiled once for each
function that Python calls, as a function of its own, however often it is used there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from komd._core.llvm_vectors import LONG, load, loop, many_registers, multiply_add, splat, store

__all__ = ["add_distant_rows", "add_rows"]

_LANES = 8
_AHEAD = 16  # rows of a matrix outside the cache are asked for so many rows before they are needed
_LINE = 16  # floats in a line of the cache
_MOST = 16 if many_registers() else 4  # vectors of sums at a time

_Byte, _Int, _Float, _Double = ir.IntType(8), ir.IntType(32), ir.FloatType(), ir.DoubleType()
_Vector, _Narrow = ir.VectorType(_Double, _LANES), ir.VectorType(_Float, _LANES)
_ZERO = ir.Constant(LONG, 0)


def _adder(ahead: int) -> Any:
    """An intrinsic: out[j] += weights[0] M[rows[0], start + j] + weights[1] M[rows[1], start + j] + ..."""

    def typed(typing: Any, M: Any, rows: Any, weights: Any, start: Any, out: Any) -> Any:
        if (M.dtype, rows.dtype, weights.dtype, out.dtype) != (
            types.float32,
            types.int32,
            types.float64,
            types.float64,
        ):
            raise TypeError(f"add_rows takes float32, int32, float64 and float64, got {M}, {rows}, {weights}, {out}")

        def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            M, rows, weights, out = (
                context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 1, 2, 4)
            )
            add = _function(builder.module, ahead)
            first, stride = builder.gep(M.data, [arguments[3]]), builder.extract_value(M.strides, 0)
            count, width = (builder.extract_value(each.shape, 0) for each in (rows, out))
            builder.call(add, [first, stride, rows.data, count, weights.data, out.data, width])
            return context.get_dummy_value()

        return types.void(M, rows, weights, types.int64, out), emit

    return intrinsic(typed)


def _function(module: ir.Module, ahead: int) -> ir.Function:
    """The loop as a function of this module: (M, bytes from row to row, rows, how many, weights, out, width)."""
    name = f"komd_add_rows_{ahead}"
    if name in module.globals:
        return module.globals[name]
    single, double, whole = (kind.as_pointer() for kind in (_Float, _Double, _Int))
    kind = ir.FunctionType(ir.VoidType(), [single, LONG, whole, LONG, double, double, LONG])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    M, stride, rows, count, weights, out, width = function.args

    def row_from(p: Any, j: Any) -> Any:
        number = builder.sext(builder.load(builder.gep(rows, [p])), LONG)
        row = builder.gep(builder.bitcast(M, _Byte.as_pointer()), [builder.mul(number, stride)])
        return builder.gep(builder.bitcast(row, single), [j])

    def ask_for(p: Any, j: Any, columns: int) -> None:
        later = builder.add(p, LONG(ahead))
        row = row_from(builder.select(builder.icmp_signed("<", later, count), later, p), j)
        takes = [_Byte.as_pointer(), _Int, _Int, _Int]
        hint = module.declare_intrinsic("llvm.prefetch", takes[:1], ir.FunctionType(ir.VoidType(), takes))
        for k in range(0, columns, _LINE):
            line = builder.bitcast(builder.gep(row, [LONG(k)]), takes[0])
            builder.call(hint, [line, _Int(0), _Int(3), _Int(1)])

    def add_columns(j: Any, places: list[Any]) -> None:
        """To the vectors at these places after column j: load the sums, add all rows, store them."""
        add_product = multiply_add(builder, _Vector)
        at = [builder.gep(out, [builder.add(j, place)]) for place in places]

        def step(p: Any, sums: list[Any]) -> list[Any]:
            row = row_from(p, j)
            if ahead:
                ask_for(p, j, _LANES * len(places))
            weight = splat(builder, builder.load(builder.gep(weights, [p])), _LANES)
            pieces = [builder.fpext(load(builder, builder.gep(row, [place]), _Narrow), _Vector) for place in places]
            return [add_product(weight, piece, total) for piece, total in zip(pieces, sums, strict=True)]

        sums = loop(builder, _ZERO, count, 1, [load(builder, pointer, _Vector) for pointer in at], step)
        for total, pointer in zip(sums, at, strict=True):
            store(builder, total, pointer)

    def add_full(j: Any, _: list[Any]) -> list[Any]:
        add_columns(j, [LONG(_LANES * k) for k in range(_MOST)])
        return []

    def add_column(j: Any, _: list[Any]) -> list[Any]:
        add_product, at = multiply_add(builder, _Double), builder.gep(out, [j])

        def step(p: Any, sums: list[Any]) -> list[Any]:
            weight = builder.load(builder.gep(weights, [p]))
            return [add_product(weight, builder.fpext(builder.load(row_from(p, j)), _Double), sums[0])]

        (total,) = loop(builder, _ZERO, count, 1, [builder.load(at)], step)
        builder.store(total, at)
        return []

    # Full blocks of columns while at least one more vector follows; then what is left, its last vector overlapping the
    # one before, which adds the same terms. Fewer columns than a vector has are added one by one.
    narrow = builder.icmp_signed("<", width, LONG(_LANES))
    full = builder.sdiv(builder.sub(width, LONG(_LANES)), LONG(_LANES * _MOST))
    stop = builder.mul(builder.select(narrow, _ZERO, full), LONG(_LANES * _MOST))
    loop(builder, _ZERO, stop, _LANES * _MOST, [], add_full)
    few, some, end = (builder.append_basic_block() for _ in range(3))
    builder.cbranch(narrow, few, some)
    builder.position_at_end(some)
    left = builder.sub(width, stop)
    cases = builder.switch(builder.sdiv(builder.add(left, LONG(_LANES - 1)), LONG(_LANES)), end)
    for vectors in range(1, _MOST + 2):
        block = builder.append_basic_block()
        cases.add_case(LONG(vectors), block)
        builder.position_at_end(block)
        add_columns(stop, [*(LONG(_LANES * k) for k in range(vectors - 1)), builder.sub(left, LONG(_LANES))])
        builder.branch(end)
    builder.position_at_end(few)
    loop(builder, _ZERO, width, 1, [], add_column)
    builder.branch(end)
    builder.position_at_end(end)
    builder.ret_void()
    return function


add_rows = _adder(0)
"""out[j] += weights[0] M[rows[0], start + j] + weights[1] M[rows[1], start + j] + ..., one row after another.

M is float32, rows are int32, the rest is float64.
"""

add_distant_rows = _adder(_AHEAD)
"""The same of a matrix that is larger than the cache: rows are asked for in advance."""
