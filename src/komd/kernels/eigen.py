"""The leading eigenvectors of an item-item matrix, in a few passes over it (docs/maths.md, "The filter of low rank").

A block of vectors is multiplied by K again and again, and all that comes of it spans a space (Krylov's) in which K is
approximated from below (Nyström's). Each pass reads K once, row by row, so K may be streamed; Lanczos with single
vectors would read it once for each (`python -m benchmarks.filter` compares the two).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.kernels.matrix import DenseMatrix, ItemMatrix, SparseMatrix
from komd.kernels.streamed import StreamedMatrix
from komd.progress import progress

__all__ = ["PRODUCTS", "VECTORS", "Spectrum", "leading", "multiply"]

_PASSES = 8  # more bring the vectors nearer, at the price of reading K again
_NARROW = 2  # the block is so many times narrower than what is asked for
PRODUCTS = _PASSES / _NARROW + 1  # with vectors, for each that is asked for
VECTORS = (_PASSES + 1) / _NARROW + 2  # held at once while they are looked for, for each that is asked for
_ROWS = 1024  # of a dense product done by a thread in one go
_ENTRIES = 1 << 20  # of compressed rows multiplied by a thread in one go
_NOTHING = 1e-5  # beside the largest: what single precision cannot tell from zero

Advance = Callable[[float], None]
Vectors = NDArray[np.float32]
Small = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues, falling, with their vectors u_k (items x rank, orthonormal), and how near they are to exact.

    R = K − Σ λ_k u_k u_k' is positive semi-definite. `residuals` are the lengths of R u_k, `spread` their largest sum
    (the norm of R U), and `inside` that of U'R U: all 0 if the vectors are exact. `whole`: there are no others.
    """

    values: Small
    vectors: Vectors
    residuals: Small
    spread: float
    inside: float
    whole: bool

    @property
    def last(self) -> float:
        """What no eigenvalue left out should exceed: the least one kept, with its residual. 0 if none was left out."""
        return 0.0 if self.whole or not len(self.values) else float(self.values[-1] + self.residuals[-1])


def leading(K: ItemMatrix, rank: int, chosen: int, *, threads: int | None = None) -> Spectrum:
    """The `rank` largest eigenvalues of K, of whose items the first `chosen` are not zero.

    The block begins with the same numbers always, so the answer is the same whenever it is asked for.
    """
    width = min(chosen, -(-rank // _NARROW))
    block = np.zeros((K.items, width), np.float32)
    block[:chosen] = np.random.default_rng(0).standard_normal((chosen, width), dtype=np.float32)
    with progress("eigenvectors", (_PASSES + 1) * K.items) as advance:
        return _approximated(K, rank, chosen, _orthonormal(block, threads)[0], threads, advance)


def _approximated(
    K: ItemMatrix, rank: int, chosen: int, block: Vectors, threads: int | None, advance: Advance
) -> Spectrum:
    basis, H, whole = _krylov(K, block, chosen, threads, advance)
    # Nyström: K Q = Q⁺ H, and A = K Q (Q'K Q)⁻¹ Q'K = Q⁺ (H T⁻¹ H') Q⁺' is never above K. A = U diag(λ) U'.
    inner = H[: H.shape[1]]
    gamma, E = np.linalg.eigh((inner + inner.T) / 2)
    kept = gamma > _NOTHING * float(gamma.max(initial=0.0))
    half = H @ (E[:, kept] / np.sqrt(gamma[kept]))
    values, Z = np.linalg.eigh(half @ half.T)
    order = np.argsort(-values)
    order = order[values[order] > _NOTHING * float(values.max(initial=0.0))]
    whole = whole and len(order) <= rank
    order = order[:rank]
    values, Z = values[order], Z[:, order]
    U = np.zeros((K.items, len(order)), np.float32)
    first = 0
    for Q in basis:
        U += _times(Q, Z[first : first + Q.shape[1]], threads)
        first += Q.shape[1]
    R = multiply(K, U, threads=threads, advance=advance)
    R -= U * values.astype(np.float32)
    gram = _inner(R, R, threads)
    spread = float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0))) if len(values) else 0.0
    inside = float(np.linalg.norm(_inner(U, R, threads)))
    return Spectrum(values, U, np.sqrt(np.maximum(np.diag(gram), 0.0)), spread, inside, whole)


def _krylov(
    K: ItemMatrix, block: Vectors, chosen: int, threads: int | None, advance: Advance
) -> tuple[list[Vectors], Small, bool]:
    """Orthonormal blocks Q⁺ and H, with K Q = Q⁺ H, where Q is Q⁺ without its last block.

    And whether K takes the space into itself: then Q is all of Q⁺.
    """
    basis, columns = [block], []
    for _ in range(_PASSES):
        Y = multiply(K, basis[-1], threads=threads, advance=advance)
        size = float(np.linalg.norm(Y)) / max(1.0, np.sqrt(Y.shape[1]))
        parts = [np.zeros((Q.shape[1], Y.shape[1])) for Q in basis]
        room = chosen - sum(Q.shape[1] for Q in basis)
        coefficients = np.eye(Y.shape[1])
        for least in (_NOTHING * size, 0.5):  # once more at length 1: what hardly stands out then was rounding
            for k, Q in enumerate(basis):
                along = _inner(Q, Y, threads, np.float32)
                Y -= _times(Q, along, threads, np.float32)
                parts[k] += along @ coefficients
            Y, there = _orthonormal(Y, threads, least=least, most=room)
            coefficients = there @ coefficients
        columns.append([*parts, coefficients])
        if not Y.shape[1]:
            return basis, _assembled(basis, columns), True
        basis.append(Y)
    return basis, _assembled(basis, columns), False


def _assembled(basis: list[Vectors], columns: list[list[Small]]) -> Small:
    ends = np.concatenate([[0], np.cumsum([Q.shape[1] for Q in basis])])
    H = np.zeros((int(ends[-1]), int(ends[len(columns)])))
    for j, parts in enumerate(columns):
        for k, part in enumerate(parts[: len(basis)]):
            H[ends[k] : ends[k + 1], ends[j] : ends[j + 1]] = part
    return H


def multiply(K: ItemMatrix, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
    """K X; `advance` is told of the rows that are done."""
    from komd._core.lowrank import multiply_rows

    out = np.empty_like(X)
    if isinstance(K, DenseMatrix):
        values = K.values

        def part(block: tuple[int, int]) -> None:
            a, b = block
            np.matmul(values[a:b], X, out=out[a:b])

        pieces = pool.blocks(K.items, _ROWS)
    elif isinstance(K, SparseMatrix):
        indptr, indices, entries = K.indptr, K.indices, K.values

        def part(block: tuple[int, int]) -> None:
            a, b = block
            multiply_rows(indptr[a : b + 1], indices, entries, X, out[a:b])

        pieces = pool.even_blocks(np.diff(indptr) + 1, _ENTRIES)
    else:
        assert isinstance(K, StreamedMatrix)
        streamed = K

        def part(block: tuple[int, int]) -> None:
            a, b = block
            multiply_rows(*streamed.block(a, b, streamed.counter()), X, out[a:b])

        streamed.prepare()
        pieces = streamed.row_blocks()
    for (first, last), _ in zip(pieces, pool.run(part, pieces, threads=threads), strict=True):
        if advance:
            advance(last - first)
    return out


def _orthonormal(
    Y: Vectors, threads: int | None, *, least: float = 0.0, most: int | None = None
) -> tuple[Vectors, Small]:
    """An orthonormal basis Q of what the columns span, without directions shorter than `least`; and Q'Y."""
    whole = np.eye(Y.shape[1])
    for _ in range(2):  # the second time for what the squares of the first have lost
        gram = _inner(Y, Y, threads)
        values, E = np.linalg.eigh((gram + gram.T) / 2)
        kept = np.flatnonzero(values > max(least**2, _NOTHING**2 * float(values.max(initial=0.0))))
        kept = kept[len(kept) - min(len(kept), most if most is not None else len(kept)) :]
        lengths = np.sqrt(values[kept])
        whole = (E[:, kept] * lengths).T @ whole
        Y, least = _times(Y, E[:, kept] / lengths, threads), 0.0
    return Y, whole


def _inner(A: Vectors, B: Vectors, threads: int | None, number: type[np.floating] = np.float64) -> Small:
    """A'B, block by block of the rows and these summed in their order: the same for any number of threads."""

    def part(block: tuple[int, int]) -> NDArray[np.floating]:
        a, b = block
        out: NDArray[np.floating] = A[a:b].T.astype(number, copy=False) @ B[a:b].astype(number, copy=False)
        return out

    total = np.zeros((A.shape[1], B.shape[1]))
    for piece in pool.run(part, pool.blocks(len(A), _ROWS), threads=threads):
        total += piece
    return total


def _times(A: Vectors, small: Small, threads: int | None, number: type[np.floating] = np.float64) -> Vectors:
    """A times a small matrix, rounded to single precision at the end."""
    out, small = np.empty((len(A), small.shape[1]), np.float32), small.astype(number, copy=False)

    def part(block: tuple[int, int]) -> None:
        a, b = block
        out[a:b] = A[a:b].astype(number, copy=False) @ small

    for _ in pool.run(part, pool.blocks(len(A), _ROWS), threads=threads):
        pass
    return out
