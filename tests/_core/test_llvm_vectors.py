"""Loops in LLVM's language: every step is taken, from the start to before the stop, and multiply-adds are exact."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from komd._core.llvm_vectors import LONG, loop, multiply_add
from tests._core.arrays import compiled_anew

VECTOR = ir.VectorType(ir.DoubleType(), 4)


@intrinsic
def stepped(typing, start, stop):
    """The sum of k and of k² over range(start, stop, 3), each as one lane of a vector."""

    def emit(context, builder, signature, arguments):
        def splat(number):
            out = ir.Constant(VECTOR, ir.Undefined)
            for lane in range(4):
                out = builder.insert_element(out, number, ir.Constant(ir.IntType(32), lane))
            return out

        def body(k, sums):
            x = splat(builder.sitofp(k, ir.DoubleType()))
            add_product = multiply_add(builder, VECTOR)
            ones = ir.Constant(VECTOR, [1.0] * 4)
            return [add_product(x, ones, sums[0]), add_product(x, x, sums[1])]

        zero = ir.Constant(VECTOR, [0.0] * 4)
        sums = loop(builder, arguments[0], arguments[1], 3, [zero, zero], body)
        parts = [builder.extract_element(total, ir.Constant(ir.IntType(32), 2)) for total in sums]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float64, 2)(types.int64, types.int64), emit


@compiled_anew
def sums(start, stop):
    return stepped(start, stop)


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (2, 3), (5, 5), (7, 2), (-4, 9)])
def test_every_step_is_taken(start, stop):
    k = np.arange(start, stop, 3)
    assert sums(start, stop) == (k.sum(), (k * k).sum())


def test_places_are_counted_in_64_bits():
    assert LONG.width == 64
