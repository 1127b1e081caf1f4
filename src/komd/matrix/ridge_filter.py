"""The ridge filter of a kernel, K (K + μI)⁻¹: large eigenvalues are evened out, small ones fade (docs/guide/maths.md).

The filter is I − μ (K + μI)⁻¹, and the inverse is taken by sweeping blocks of the matrix one after another, in place:
as many operations as a Cholesky inversion, nearly all of them in matrix products of moderate size. LAPACK is not
called, because a large catalogue could overflow its 32-bit integers. The result has the same bits for any number of
threads, and the computation can be interrupted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.errors import InputError, SolverError, argument
from komd.matrix.dense import DenseMatrix
from komd.memory import budget, readable
from komd.progress import progress

__all__ = ["filter_ridge", "inverse_scratch", "invert", "largest_eigenvalue", "ridge_fits", "ridge_precision"]

_BLOCK = 512  # rows swept together: products are large enough for BLAS, and a thread's part fits the cache
_ALLOWED = 1e-3  # largest error of an entry in single precision, relative to a diagonal of 1
_POWERS = 30


def ridge_precision(items: int, chosen: int, memory: str | int | None = None) -> type[np.float32] | type[np.float64]:
    """The precision in which a filter of so many items fits the budget; InputError, with the numbers, if none does."""
    room = budget(memory)
    result, copy = 4 * items * items, 8 * chosen * chosen  # K itself; in double precision its copy
    double, single = (result + inverse_scratch(chosen, precision) for precision in (np.float64, np.float32))
    if double + copy <= room:
        return np.float64
    if single <= room:
        return np.float32
    raise InputError(
        f"a filtered kernel between {items:,} items is dense: {readable(single)} at least "
        f"({readable(double + copy)} in double precision), and the budget is {readable(room)}; raise "
        f"{argument('memory')}, leave out the rarest items, or use a filter of low rank (rank=256)"
    )


def ridge_fits(items: int, chosen: int, memory: str | int | None = None) -> bool:
    """Whether the filter fits the budget in any precision."""
    try:
        ridge_precision(items, chosen, memory)
    except InputError:
        return False
    return True


def filter_ridge(
    K: DenseMatrix,
    mu: float,
    *,
    precision: type[np.float32] | type[np.float64] = np.float64,
    threads: int | None = None,
) -> None:
    """Replace K by K (K + μI)⁻¹, scaled to a mean diagonal of 1, in place.

    Items are in order of descending popularity. The last ones, which nobody chose, have a zero diagonal: their rows and
    columns stay zero. The mean is over the others. In single precision an entry is off by about ε κ / t, where ε is
    1.2e-7, κ the condition of K + μI and t the mean diagonal before the scaling; above 1e-3 it is refused.
    """
    values = K.values
    chosen = int(np.count_nonzero(values.diagonal()))
    if not chosen:
        return
    top = values[:chosen, :chosen]
    A = top if precision is np.float32 else top.astype(np.float64)
    condition = 1.0 + largest_eigenvalue(top) / mu if precision is np.float32 else 1.0
    A[np.diag_indices(chosen)] += mu
    if not invert(A, label="filter", threads=threads):
        raise SolverError(
            "K + μI could not be inverted: to this precision it is not positive definite; use a larger ridge"
        )
    diagonal = 1.0 - mu * A.diagonal().astype(np.float64)
    mean = float(diagonal.mean())
    error = float(np.finfo(precision).eps) * condition / mean
    if precision is np.float32 and error > _ALLOWED:
        raise SolverError(
            f"the filter needs double precision: with ridge={mu:g} the condition is {condition:.3g}, which leaves "
            f"single precision an error of about {error:.1g}; raise {argument('memory')} to "
            f"{readable(4 * K.items**2 + 8 * chosen**2)} or more, or use a larger ridge"
        )
    _write(A, -mu / mean, top, threads)
    np.fill_diagonal(top, diagonal / mean)


def inverse_scratch(items: int, precision: type[np.floating]) -> int:
    """Bytes that `invert` needs beside the matrix: two columns of blocks, and a product for each thread."""
    return np.dtype(precision).itemsize * 4 * min(_BLOCK, items) * items


def invert(A: NDArray[np.floating], *, label: str, threads: int | None = None) -> bool:
    """Replace the upper triangle of a positive definite matrix by that of its inverse; the lower part is undefined.

    False if A is not positive definite to this precision. BLAS is used only for products of blocks, each on
    one thread: the result does not depend on the number of threads, and Ctrl-C waits for one block at most.

    Sweeping a block k turns A_kk into −D, D = A_kk⁻¹, row and column k into A_ik D, and all the rest into
    A_ij − A_ik D A_kj. When every block has been swept, A is minus its inverse; only i ≤ j is ever touched.
    """
    from threadpoolctl import threadpool_limits

    m = len(A)
    pieces = pool.blocks(m, _BLOCK)
    column, swept = np.empty((2, m, min(m, _BLOCK)), A.dtype)
    with progress(label, len(pieces)) as advance, threadpool_limits(1, user_api="blas"):
        for first, last in pieces:
            C, B = column[:, : last - first], swept[:, : last - first]
            C[:first] = A[:first, first:last]
            C[last:] = A[first:last, last:].T
            C[first:last] = 0.0
            square = A[first:last, first:last].astype(np.float64)
            D = _inverse(np.triu(square) + np.triu(square, 1).T)
            if D is None:
                return False
            np.matmul(C, D.astype(A.dtype), out=B)

            def update(
                block: tuple[int, int], B: NDArray[np.floating] = B, C: NDArray[np.floating] = C
            ) -> None:  # defaults, because the next iteration changes these variables
                a, b = block
                A[a:b, a:] -= B[a:b] @ C[a:].T

            pool.for_each(update, pieces, threads=threads)
            A[:first, first:last] = B[:first]
            A[first:last, last:] = B[last:].T
            A[first:last, first:last] = -D
            advance(1)
    for a, b in pieces:
        np.negative(A[a:b, a:], out=A[a:b, a:])
    return True


def largest_eigenvalue(K: NDArray[np.floating]) -> float:
    """A tight upper bound: for K ≥ 0 and any x > 0, no eigenvalue exceeds max (Kx)_i / x_i (Collatz)."""
    x = np.ones(len(K), K.dtype)
    best = np.inf
    for _ in range(_POWERS):
        y = K @ x
        now = float((y / x).max())
        if now > 0.999 * best:
            return min(now, best)
        best = now
        x = np.maximum(y / y.max(), np.finfo(K.dtype).tiny * 1e6)
    return best


def _inverse(A: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The inverse of a small matrix, by Cholesky; None if it is not positive definite."""
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(A, lower=0, clean=1)
    if not failed:
        factor, failed = dpotri(factor, lower=0)
    if failed:
        return None
    upper: NDArray[np.float64] = np.triu(factor)
    return upper + np.triu(upper, 1).T


def _write(A: NDArray[np.floating], factor: float, out: NDArray[np.float32], threads: int | None) -> None:
    """out = factor · A, from A's upper triangle, mirrored; `out` may be A."""

    def part(block: tuple[int, int]) -> None:
        a, b = block
        strip = A[a:b, a:] * A.dtype.type(factor)
        square = strip[:, : b - a]
        square[:] = np.triu(square) + np.triu(square, 1).T
        out[a:b, a:] = strip
        out[b:, a:b] = strip[:, b - a :].T

    pool.for_each(part, pool.blocks(len(A), _BLOCK), threads=threads)
