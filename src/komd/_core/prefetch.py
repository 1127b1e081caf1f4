"""A hint to the processor: bring this place of an array into the cache."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["prefetch"]


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def prefetch(context, array, index):  # type: ignore[no-untyped-def]
    """Ask for `array[index]` to be brought into the cache; reads nothing, so it cannot fail."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        function = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], function)
        builder.call(hint, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate
