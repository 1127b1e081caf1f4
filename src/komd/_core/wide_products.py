"""Products of K with many vectors in double precision, which take most of the time of CF-OMD.

A panel of K, some rows by 16 columns, is converted to double precision once and multiplied by several vectors at a
time, whose sums stay in registers. LLVM does not do that by itself, so the loop is written in LLVM IR. Every
sum takes its terms in ascending order: it has the same bits whatever vectors are multiplied beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from komd._core.compile import compiled, inner
from komd._core.llvm_vectors import LONG, load, loop, many_registers, multiply_add, splat, store

__all__ = ["multiply_symmetric"]

_LANES = 8
_VECTORS = 2  # vectors of lanes, side by side in a panel
_WIDTH = _LANES * _VECTORS
_ROWS = 128  # rows of a panel: it fits the innermost cache
_PANELS = 8  # panels converted together, so that K is read in long pieces of its rows

_Vector = ir.VectorType(ir.DoubleType(), _LANES)


# Vectors multiplied at a time: their sums fit the registers.
_TOGETHER = 8 if many_registers() else 2


@compiled
def multiply_symmetric(K: np.ndarray, X: np.ndarray, out: np.ndarray) -> None:
    """out[u] = K X[u] for every row u of X (float64), K symmetric: terms in ascending order.

    Twin: a matrix product in tests/_core/test_wide_products.py.
    """
    m = K.shape[0]
    users = X.shape[0]
    panels = np.empty((_PANELS, _ROWS * _WIDTH))
    out[:] = 0.0
    whole = m - m % _WIDTH
    for top in range(0, m, _ROWS):
        height = min(_ROWS, m - top)
        for first in range(0, whole, _PANELS * _WIDTH):
            wide = min(_PANELS, (whole - first) // _WIDTH)
            for i in range(height):
                row = K[top + i, first : first + wide * _WIDTH]
                for n in range(wide):
                    for j in range(_WIDTH):
                        panels[n, i * _WIDTH + j] = np.float64(row[n * _WIDTH + j])
            for n in range(wide):
                left = first + n * _WIDTH
                u = 0
                while u + _TOGETHER <= users:
                    _multiply_many(panels[n], height, X, u, top, out, left)
                    u += _TOGETHER
                while u < users:
                    _multiply_one(panels[n], height, X, u, top, out, left)
                    u += 1
    _last_columns(K, X, out, whole)


@inner
def _last_columns(K: np.ndarray, X: np.ndarray, out: np.ndarray, first: int) -> None:
    """The last columns, which are too few for a panel."""
    for u in range(X.shape[0]):
        for j in range(first, K.shape[0]):
            total = 0.0
            for i in range(K.shape[0]):
                total += X[u, i] * np.float64(K[j, i])
            out[u, j] = total


def _multiplied(together: int) -> Any:
    """A compiled function: out[u + k, left:][:16] += Σ_i X[u + k, top + i] panel[i], for k < `together`."""

    def typed(typing: Any, panel: Any, height: Any, X: Any, u: Any, top: Any, out: Any, left: Any) -> Any:
        return types.void(panel, types.int64, X, types.int64, types.int64, out, types.int64), _emitter(together)

    return intrinsic(typed)


def _emitter(together: int) -> Callable[..., Any]:
    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        panel, X, out = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 2, 5))
        height, u, top, left = (arguments[k] for k in (1, 3, 4, 6))
        add_product = multiply_add(builder, _Vector)

        def row(of: Any, k: int, column: Any) -> Any:
            columns = builder.extract_value(of.shape, 1)
            number = builder.add(u, ir.Constant(LONG, k))
            return builder.gep(of.data, [builder.add(builder.mul(number, columns), column)])

        def at(pointer: Any, number: int) -> Any:
            return builder.gep(pointer, [LONG(number * _LANES)])

        def add_row(i: Any, sums: list[Any]) -> list[Any]:
            base = builder.gep(panel.data, [builder.mul(i, LONG(_WIDTH))])
            columns = [load(builder, at(base, v), _Vector) for v in range(_VECTORS)]
            factors = [splat(builder, builder.load(builder.gep(row, [i])), _LANES) for row in given]
            products = [(factor, column) for factor in factors for column in columns]
            return [add_product(*terms, total) for terms, total in zip(products, sums, strict=True)]

        given = [row(X, k, top) for k in range(together)]
        results = [at(row(out, k, left), v) for k in range(together) for v in range(_VECTORS)]
        sums = [load(builder, result, _Vector) for result in results]
        for total, result in zip(loop(builder, LONG(0), height, 1, sums, add_row), results, strict=True):
            store(builder, total, result)
        return context.get_dummy_value()

    return emit


_multiply_many, _multiply_one = _multiplied(_TOGETHER), _multiplied(1)
