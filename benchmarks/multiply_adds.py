"""The most multiply-adds that the processor does in a second: sixteen chains of them in registers, without memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["most_multiply_adds"]

_LANES, _CHAINS, _STEPS, _TURNS = 16, 16, 1 << 23, 5
_LONG, _VECTOR = ir.IntType(64), ir.VectorType(ir.FloatType(), _LANES)


@intrinsic  # type: ignore[untyped-decorator]
def _chains(typing: Any, steps: Any, out: Any) -> Any:
    """`steps` times z = z · v + v in every chain; their sum goes to `out`, so that none is optimized away."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{_LANES}f32")
        before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        v = ir.Constant(_VECTOR, [0.5] * _LANES)
        builder.branch(loop)
        builder.position_at_end(loop)
        k, chains = builder.phi(_LONG), [builder.phi(_VECTOR) for _ in range(_CHAINS)]
        later = [builder.sub(k, ir.Constant(_LONG, 1)), *(builder.call(function, [z, v, v]) for z in chains)]
        starts = [arguments[0], *(ir.Constant(_VECTOR, [float(c)] * _LANES) for c in range(_CHAINS))]
        for value, first, following in zip([k, *chains], starts, later, strict=True):
            value.add_incoming(first, before)
            value.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed(">", later[0], ir.Constant(_LONG, 0)), loop, after)
        builder.position_at_end(after)
        total = later[1]
        for each in later[2:]:
            total = builder.fadd(total, each)
        data = context.make_array(signature.args[1])(context, builder, arguments[1]).data
        builder.store(total, builder.bitcast(data, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(steps, out), emit


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _run(steps: int, out: np.ndarray) -> None:
    _chains(steps, out)


def most_multiply_adds(threads: int) -> float:
    """Multiply-adds of float32 in a second, on so many threads: the best of several turns."""
    outs = [np.empty(_LANES, np.float32) for _ in range(threads)]
    _run(1, outs[0])  # compiles
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_TURNS):
            start = time.perf_counter()
            list(pool.map(lambda out: _run(_STEPS, out), outs))
            best = min(best, time.perf_counter() - start)
    return threads * _STEPS * _CHAINS * _LANES / best


if __name__ == "__main__":
    print(f"{most_multiply_adds(1) / 1e9:.0f} billion a second on one thread")
