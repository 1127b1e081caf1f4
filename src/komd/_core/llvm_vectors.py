"""Building blocks of inner loops that are written in LLVM IR: loops whose sums stay in registers, multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config

__all__ = ["LONG", "load", "loop", "many_registers", "multiply_add", "splat", "store"]

LONG = ir.IntType(64)

_BYTES = {ir.FloatType(): 4, ir.DoubleType(): 8}  # arrays are aligned to their numbers, not to vectors


def many_registers() -> bool:
    """Whether code is compiled for AVX-512, which has 32 registers; others have 16, and narrower ones."""
    try:
        features = get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        return False
    return bool(features.get("avx512f")) and not config.CPU_NAME


def multiply_add(builder: ir.IRBuilder, vector: ir.Type) -> Callable[[Any, Any, Any], Any]:
    """A function that emits x · y + z for this type, rounded once if the processor has fused multiply-add."""
    lanes, one = (f"v{vector.count}", vector.element) if isinstance(vector, ir.VectorType) else ("", vector)
    width = "f64" if one == ir.DoubleType() else "f32"
    kind = ir.FunctionType(vector, [vector] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.{lanes}{width}")
    return lambda x, y, z: builder.call(function, [x, y, z])


def loop(
    builder: ir.IRBuilder,
    start: Any,
    stop: Any,
    step: int,
    sums: list[Any],
    body: Callable[[Any, list[Any]], list[Any]],
) -> list[Any]:
    """Emit: for k in range(start, stop, step): sums = body(k, sums). The sums stay in registers."""
    before, head, inside, after = builder.block, *(builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    k, now = builder.phi(LONG), [builder.phi(value.type) for value in sums]
    builder.cbranch(builder.icmp_signed("<", k, stop), inside, after)
    builder.position_at_end(inside)
    following = [builder.add(k, ir.Constant(LONG, step)), *body(k, now)]
    for value, first, later in zip([k, *now], [start, *sums], following, strict=True):
        value.add_incoming(first, before)
        value.add_incoming(later, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return now


def load(builder: ir.IRBuilder, pointer: Any, vector: ir.VectorType) -> Any:
    """Load the vector that begins at this pointer to a number."""
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=_BYTES[vector.element])


def store(builder: ir.IRBuilder, vector: Any, pointer: Any) -> None:
    """Store a vector, beginning at this pointer to a number."""
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()), align=_BYTES[vector.type.element])


def splat(builder: ir.IRBuilder, number: Any, lanes: int) -> Any:
    """A vector that has the same number in all lanes."""
    nothing, place = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, place(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(place, lanes), [0] * lanes))
