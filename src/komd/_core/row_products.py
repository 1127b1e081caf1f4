"""Inner products of four rows with four other rows at a time, in registers: what every low-rank correction is made of.

LLVM does not keep so many sums in registers by itself, so the loop is written in LLVM IR. A product is summed
in 16 lanes, the sum over k in lane k mod 16, then the lanes in halves, then the last factors one after another. So a
product has the same bits whatever rows are beside it, and a · b has the same bits as b · a. On processors that have
fused multiply-adds they are used throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from komd._core.llvm_vectors import LONG, loop, many_registers, multiply_add

__all__ = ["SIDE", "row_products"]

SIDE = 4  # rows of either matrix; with 16 lanes, 16 products are reduced to one vector
_LANES = 16

_Float = ir.FloatType()
_Vector, _Places = ir.VectorType(_Float, _LANES), ir.VectorType(ir.IntType(32), _LANES)
_ZERO = ir.Constant(_Vector, [0.0] * _LANES)


def _together() -> int:
    """Rows of either matrix in one loop: 4 × 4 sums fit the 32 registers of AVX-512, 2 × 2 those of others."""
    return SIDE if many_registers() else 2


@intrinsic  # type: ignore[untyped-decorator]
def row_products(typing: Any, A: Any, a: Any, B: Any, b: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
    """out[4 x + y] = A[a[x]] · B[b[y]], for four rows a of A and four rows b of B, which must be C-contiguous."""
    if A.layout != "C" or B.layout != "C" or A.dtype != types.float32 or B.dtype != types.float32:
        raise TypingError("rows of float32 that are contiguous in memory are needed")
    return types.void(A, a, B, b, out), _emit


def _emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
    """The instructions of `row_products`."""
    A, B, out = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 2, 4))
    factors = builder.extract_value(A.shape, 1)
    rows = [
        [builder.gep(of.data, [builder.mul(builder.extract_value(numbers, k), factors)]) for k in range(SIDE)]
        for of, numbers in ((A, arguments[1]), (B, arguments[3]))
    ]
    add_product = multiply_add(builder, _Vector)
    whole = builder.and_(factors, ir.Constant(LONG, -_LANES))
    side, sums = _together(), dict[tuple[int, ...], Any]()
    for first, second in product(range(0, SIDE, side), repeat=2):
        places = list(product(range(first, first + side), range(second, second + side)))

        def step(k: Any, sums: list[Any], places: Any = places) -> list[Any]:
            left = {x: _load(builder, rows[0][x], k) for x in sorted({x for x, _ in places})}
            right = {y: _load(builder, rows[1][y], k) for y in sorted({y for _, y in places})}
            return [add_product(left[x], right[y], sums[p]) for p, (x, y) in enumerate(places)]

        found = loop(builder, ir.Constant(LONG, 0), whole, _LANES, [_ZERO] * len(places), step)
        sums.update(zip(places, found, strict=True))

    def last(k: Any, sums: list[Any]) -> list[Any]:
        left, right = ([builder.load(builder.gep(row, [k])) for row in four] for four in rows)
        pairs = list(product(left, right))
        return [add_product(_vector(builder, [x for x, _ in pairs]), _vector(builder, [y for _, y in pairs]), sums[0])]

    reduced = _reduced(builder, [sums[place] for place in product(range(SIDE), repeat=2)])
    (products,) = loop(builder, whole, factors, 1, [reduced], last)
    builder.store(products, builder.bitcast(out.data, _Vector.as_pointer()), align=4)
    return context.get_dummy_value()


def _load(builder: ir.IRBuilder, row: Any, k: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(row, [k]), _Vector.as_pointer()), align=4)


def _vector(builder: ir.IRBuilder, numbers: Iterable[Any]) -> Any:
    out = ir.Constant(_Vector, ir.Undefined)
    for place, number in enumerate(numbers):
        out = builder.insert_element(out, number, ir.Constant(ir.IntType(32), place))
    return out


def _reduced(builder: ir.IRBuilder, sums: list[Any]) -> Any:
    """Of 16 vectors, one with the sum of each: half of the lanes is added to the other half, of two vectors at once."""
    width = _LANES // 2
    while width:
        first = [start + k for start in range(0, 2 * _LANES, 2 * width) for k in range(width)]
        low, high = ([place + half for place in first] for half in (0, width))
        sums = [
            builder.fadd(*(builder.shuffle_vector(x, y, ir.Constant(_Places, part)) for part in (low, high)))
            for x, y in zip(sums[::2], sums[1::2], strict=True)
        ]
        width //= 2
    return sums[0]
