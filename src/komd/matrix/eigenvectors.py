"""The leading eigenvectors of an item-item matrix, in a few passes (docs/guide/maths.md, "The filter of low rank").

A block of vectors is multiplied by K repeatedly. The products span a Krylov space, in which K is approximated from
below (Nyström's method). Each pass reads K once, row by row, so K may be streamed; Lanczos with single vectors would
read it once for each (`python -m benchmarks.filter` compares the two).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from komd import threads as pool
from komd.matrix.item_matrix import Advance
from komd.memory import budget
from komd.progress import progress

__all__ = ["PRODUCTS", "VECTORS", "Operator", "Spectrum", "leading", "low_rank_fits"]

_PASSES = 8  # each further pass makes the vectors more accurate and reads K once more
_NARROW = 2  # the block has so many times fewer vectors than are requested
PRODUCTS = _PASSES / _NARROW + 1  # products with vectors, for each requested eigenvector
VECTORS = (_PASSES + 1) / _NARROW + 2  # vectors held at once, for each requested eigenvector
_ROWS = 1024  # rows of a dense product computed by a thread at a time
_STARTS = 16  # random vectors from which the largest eigenvalue left out is bounded
_FAILURE = 1e-9  # the probability that the bound is too low
_CAPTURED = 1e-6  # of the trace: a smaller rest is zero in single precision
_NOTHING = 1e-5  # relative to the largest: smaller values are zero in single precision

Product = Callable[["Vectors"], "Vectors"]
Vectors = NDArray[np.float32]
Small = NDArray[np.float64]


class Operator(Protocol):
    """A symmetric matrix between items that can be multiplied by vectors."""

    @property
    def items(self) -> int:
        """The number of rows."""

    def diagonal(self) -> NDArray[np.float32]:
        """Its diagonal."""

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        """Its product with vectors; `advance` is called with the number of rows that are done."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues, descending, with their vectors u_k (items x rank, orthonormal), and bounds on their error.

    R = K − Σ λ_k u_k u_k' is positive semi-definite. `residuals` are the lengths of R u_k, `spread` is the norm of R U,
    `inside` that of U'R U (Frobenius) and `inside_trace` its trace: all 0 if the vectors are exact.
    `beyond` bounds the largest eigenvalue of P K P, P the projection beside the u_k, from above (`_beyond`), and
    `beyond_found` from below; the latter is 0 if nothing was left out.
    `trace` and `largest_diagonal` are those of K.
    """

    values: Small
    vectors: Vectors
    residuals: Small
    spread: float
    inside: float
    inside_trace: float
    beyond: float
    beyond_found: float
    trace: float
    largest_diagonal: float

    @property
    def last(self) -> float:
        """The smallest eigenvalue kept, with its residual; 0 if nothing was left out."""
        return float(self.values[-1] + self.residuals[-1]) if self.beyond_found > 0 else 0.0


def low_rank_fits(items: int, rank: int, memory: str | int | None = None) -> bool:
    """Whether so many eigenvectors can be found within half of the budget; the other half is K's."""
    return VECTORS * 4 * rank * items <= budget(memory) / 2


def leading(K: Operator, rank: int, chosen: int, *, threads: int | None = None) -> Spectrum:
    """The `rank` largest eigenvalues of K, of whose items the first `chosen` are not zero.

    The random vectors come from a fixed seed, so the answer is reproducible.
    """
    rng = np.random.default_rng(0)
    diagonal = K.diagonal().astype(np.float64)
    trace = float(diagonal.sum())
    # Threaded BLAS and LAPACK round differently for each number of threads, and their threads would compete with the
    # pool.
    with threadpool_limits(1, user_api="blas"), progress("eigenvectors", (2 * _PASSES + 1) * K.items) as advance:
        product = partial(K.multiply, threads=threads, advance=advance)
        start = _orthonormal(_random(rng, K.items, min(chosen, -(-rank // _NARROW)), chosen), threads)[0]
        basis, H = _krylov(product, start, chosen, trace, rng, threads)
        values, Z = _nystrom(H, rank)
        U = np.zeros((K.items, len(values)), np.float32)
        first = 0
        for Q in basis:
            U += _times(Q, Z[first : first + Q.shape[1]], threads)
            first += Q.shape[1]
        del basis  # to free memory for what follows
        R = product(U)
        R -= U * values.astype(np.float32)
        gram, among = _inner(R, R, threads), _inner(U, R, threads)
        del R
        left, slack = trace - float(values.sum() + np.trace(among)), _CAPTURED * trace
        found, bound = _beyond(product, U, left, slack, chosen, rng, threads)
        spread = float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0))) if len(values) else 0.0
    return Spectrum(
        values,
        U,
        residuals=np.sqrt(np.maximum(np.diag(gram), 0.0)),
        spread=spread,
        inside=float(np.linalg.norm(among)),
        inside_trace=float(np.trace(among)),
        beyond=bound,
        beyond_found=found,
        trace=trace,
        largest_diagonal=float(diagonal.max(initial=0.0)),
    )


def _nystrom(H: Small, rank: int) -> tuple[Small, Small]:
    """Nyström: K Q = Q⁺ H, and A = K Q (Q'K Q)⁻¹ Q'K = Q⁺ (H T⁻¹ H') Q⁺' is never above K. The largest λ, Z of A."""
    inner = H[: H.shape[1]]
    gamma, E = np.linalg.eigh((inner + inner.T) / 2)
    kept = gamma > _NOTHING * float(gamma.max(initial=0.0))
    half = H @ (E[:, kept] / np.sqrt(gamma[kept]))
    values, Z = np.linalg.eigh(half @ half.T)
    order = np.argsort(-values)
    order = order[values[order] > _NOTHING * float(values.max(initial=0.0))][:rank]
    return values[order], Z[:, order]


def _beyond(
    product: Product, U: Vectors, trace: float, slack: float, chosen: int, rng: np.random.Generator, threads: int | None
) -> tuple[float, float]:
    """The largest eigenvalue of P K P, P the projection beside the columns of U: from below, and a bound from above.

    Lanczos from `_STARTS` random vectors at once. From a single one, after k steps, it falls short of the largest
    eigenvalue by a share of more than ε with a probability of at most 1.648 √n exp(−√ε (2k − 1)) (Kuczyński and
    Woźniakowski, 1992); that all of them do has the product of these, here `_FAILURE`. What the space found leaves of
    `trace`, that of P K P, bounds the rest of it for certain.
    """

    def beside(X: Vectors) -> Vectors:
        return X - _times(U, _inner(U, X, threads), threads)

    if trace <= slack:
        return 0.0, slack
    start = beside(_random(rng, len(U), min(chosen, _STARTS), chosen))
    _, H = _krylov(lambda X: beside(product(beside(X))), _orthonormal(start, threads)[0], chosen, trace, rng, threads)
    inner = H[: H.shape[1]]
    found = float(np.linalg.eigvalsh((inner + inner.T) / 2)[-1])
    certain = found + max(trace - float(np.trace(inner)), 0.0)
    short = math.log(1.648 * math.sqrt(chosen) / _FAILURE ** (1.0 / _STARTS)) / (2 * _PASSES - 1)
    return found, min(certain, found / (1.0 - short**2) if short < 1 else math.inf) + slack


def _krylov(
    product: Product, block: Vectors, chosen: int, trace: float, rng: np.random.Generator, threads: int | None
) -> tuple[list[Vectors], Small]:
    """Orthonormal blocks Q⁺ and H, with K Q = Q⁺ H, where Q is Q⁺ without its last block.

    Where multiplying leaves fewer new directions than a block has (K has few different eigenvalues, as when items form
    cliques), random ones fill the block up: so further eigenvectors of a multiple eigenvalue are found. It ends early,
    with Q = Q⁺, if Q captures the whole trace of K, or all directions.
    """
    basis, columns = [block], []
    captured = 0.0
    for _ in range(_PASSES):
        Y = product(basis[-1])
        size = float(np.linalg.norm(Y)) / max(1.0, np.sqrt(Y.shape[1]))
        parts = [np.zeros((Q.shape[1], Y.shape[1])) for Q in basis]
        room = chosen - sum(Q.shape[1] for Q in basis)
        coefficients = np.eye(Y.shape[1])
        for least in (_NOTHING * size, 0.5):  # once more at length 1: short directions were rounding errors
            for k, Q in enumerate(basis):
                along = _inner(Q, Y, threads, np.float32)
                Y -= _times(Q, along, threads, np.float32)
                parts[k] += along @ coefficients
            Y, there = _orthonormal(Y, threads, least=least, most=room)
            coefficients = there @ coefficients
        columns.append([*parts, coefficients])
        captured += float(np.trace(parts[-1]))
        if captured >= (1.0 - _CAPTURED) * trace:
            break
        missing = min(block.shape[1], room) - Y.shape[1]
        if missing > 0:
            fresh = _random(rng, len(block), missing, chosen)
            for _ in range(2):
                for Q in (*basis, Y):
                    fresh -= _times(Q, _inner(Q, fresh, threads), threads)
                fresh = _orthonormal(fresh, threads)[0]
            Y = np.concatenate([Y, fresh], axis=1)
        if not Y.shape[1]:
            break
        basis.append(Y)
    return basis, _assembled(basis, columns)


def _random(rng: np.random.Generator, items: int, width: int, chosen: int) -> Vectors:
    """Random vectors on the first `chosen` items."""
    out = np.zeros((items, width), np.float32)
    out[:chosen] = rng.standard_normal((chosen, width), dtype=np.float32)
    return out


def _assembled(basis: list[Vectors], columns: list[list[Small]]) -> Small:
    ends = np.concatenate([[0], np.cumsum([Q.shape[1] for Q in basis])])
    H = np.zeros((int(ends[-1]), int(ends[len(columns)])))
    for j, parts in enumerate(columns):
        for k, part in enumerate(parts[: len(basis)]):  # random directions that fill a block have no coefficients
            H[ends[k] : ends[k] + len(part), ends[j] : ends[j + 1]] = part
    return H


def _orthonormal(
    Y: Vectors, threads: int | None, *, least: float = 0.0, most: int | None = None
) -> tuple[Vectors, Small]:
    """An orthonormal basis Q of what the columns span, without directions shorter than `least`; and Q'Y."""
    whole = np.eye(Y.shape[1])
    for _ in range(2):  # the second time restores the precision that Y'Y lost
        gram = _inner(Y, Y, threads)
        values, E = np.linalg.eigh((gram + gram.T) / 2)
        kept = np.flatnonzero(values > max(least**2, _NOTHING**2 * float(values.max(initial=0.0))))
        kept = kept[len(kept) - min(len(kept), most if most is not None else len(kept)) :]
        lengths = np.sqrt(values[kept])
        whole = (E[:, kept] * lengths).T @ whole
        Y, least = _times(Y, E[:, kept] / lengths, threads), 0.0
    return Y, whole


def _inner(A: Vectors, B: Vectors, threads: int | None, number: type[np.floating] = np.float64) -> Small:
    """A'B, in blocks of rows that are summed in order: the same for any number of threads."""

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

    pool.for_each(part, pool.blocks(len(A), _ROWS), threads=threads)
    return out
