"""The inner loop of the simplex solver, four items at a time.

Numba does not vectorise a minimum of doubles (comparisons that may meet a NaN must not be reordered), and the solver
spends most of its time in one. So this loop alone is written in LLVM IR: vectors of four doubles, compiled for the
instructions of the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from komd._core.compile import compiled

__all__ = ["sweep"]

_LANES = 4


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _sweep_vectors(context, g, floor, K_low, K_high, move, first, last):  # type: ignore[no-untyped-def]
    """g[k] += move (K_low[k] - K_high[k]) for first <= k < last, a multiple of 4 apart; min g and max (g + floor)."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        double, single = ir.DoubleType(), ir.FloatType()
        wide, narrow = ir.VectorType(double, _LANES), ir.VectorType(single, _LANES)
        data = [context.make_array(signature.args[k])(context, builder, args[k]).data for k in range(4)]
        splat = ir.Constant(wide, ir.Undefined)
        for lane in range(_LANES):
            splat = builder.insert_element(splat, args[4], ir.Constant(ir.IntType(32), lane))
        least = cgutils.alloca_once_value(builder, ir.Constant(wide, [float("inf")] * _LANES))
        most = cgutils.alloca_once_value(builder, ir.Constant(wide, [float("-inf")] * _LANES))

        def vector(k: int, at: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(data[k], [at]), kind.as_pointer())

        step = ir.Constant(args[5].type, _LANES)
        with cgutils.for_range_slice(builder, args[5], args[6], step, args[5].type) as (at, _):
            difference = builder.fsub(
                builder.fpext(builder.load(vector(2, at, narrow), align=4), wide),
                builder.fpext(builder.load(vector(3, at, narrow), align=4), wide),
            )
            here = vector(0, at, wide)
            change = builder.fmul(splat, difference, flags=("contract",))
            x = builder.fadd(builder.load(here, align=8), change, flags=("contract",))
            builder.store(x, here, align=8)
            y = builder.fadd(x, builder.load(vector(1, at, wide), align=8))
            low, high = builder.load(least), builder.load(most)
            builder.store(builder.select(builder.fcmp_ordered("<", x, low), x, low), least)
            builder.store(builder.select(builder.fcmp_ordered(">", y, high), y, high), most)
        ends = []
        for place, sign in ((least, "<"), (most, ">")):
            lanes = builder.load(place)
            best = builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))
            for lane in range(1, _LANES):
                other = builder.extract_element(lanes, ir.Constant(ir.IntType(32), lane))
                best = builder.select(builder.fcmp_ordered(sign, other, best), other, best)
            ends.append(best)
        return context.make_tuple(builder, signature.return_type, ends)

    pair = types.UniTuple(types.float64, 2)
    return pair(g, floor, K_low, K_high, types.float64, types.int64, types.int64), generate


_BLOCK = 32  # items for which only extreme values are kept; at the end the item is searched in one block


@compiled
def sweep(g: np.ndarray, floor: np.ndarray, K_low: np.ndarray, K_high: np.ndarray, move: float) -> tuple[int, int]:
    """g += move (K_low - K_high); returns where g is least, and where g + floor is largest.

    `floor` is 0 for items with weight and minus infinity for others, so that the second is among those with weight.
    Twin: tests/_core/test_sweep.py.
    """
    m = g.shape[0]
    low = 0
    high = 0
    g_low = np.inf
    g_high = -np.inf
    full = m - m % _LANES
    for first in range(0, full, _BLOCK):
        last = min(first + _BLOCK, full)
        least, most = _sweep_vectors(g, floor, K_low, K_high, move, first, last)
        if least < g_low:
            g_low = least
            low = first
        if most > g_high:
            g_high = most
            high = first
    while low < full and g[low] != g_low:
        low += 1
    while high < full and g[high] + floor[high] != g_high:
        high += 1
    for k in range(full, m):
        x = g[k] + move * (np.float64(K_low[k]) - np.float64(K_high[k]))
        g[k] = x
        if x < g_low:
            g_low = x
            low = k
        if x + floor[k] > g_high:
            g_high = x + floor[k]
            high = k
    return low, high
