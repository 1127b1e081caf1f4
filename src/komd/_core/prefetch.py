"""Hints to the processor: load this element of an array into the cache."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from komd._core.compile import inner

__all__ = ["fetch_ahead", "prefetch"]

_FAR, _NEAR = 12, 6  # how many users ahead the row pointer, and the row, are prefetched: enough to hide the latency


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def prefetch(context, array, index):  # type: ignore[no-untyped-def]
    """Start loading `array[index]` into the cache; the value is not read, so any index is safe."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        function = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], function)
        builder.call(hint, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@inner
def fetch_ahead(p: int, item_users: np.ndarray, user_indptr: np.ndarray, user_items: np.ndarray) -> None:
    """At the p-th (item, user) pair: prefetch the first items of users some pairs ahead."""
    last = item_users.shape[0]
    if p + _FAR < last:
        prefetch(user_indptr, item_users[p + _FAR])
    if p + _NEAR < last:
        row = user_indptr[item_users[p + _NEAR]]
        prefetch(user_items, row)
        prefetch(user_items, row + 16)
        prefetch(user_items, row + 32)
