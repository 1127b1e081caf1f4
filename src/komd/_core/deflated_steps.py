"""Steps of CF-OMD that treat the leading eigenvectors of K exactly, and the rest of K as a multiple of I.

K = U U' + R, where U has few columns and R is small beside λ_n. With R replaced by σ I between the negatives, their
weights can be eliminated. This leaves a small problem on the history and a linear system of the size of U's columns
(docs/guide/maths.md, "Solving CF-OMD"). The gradient is exact, and so is the answer; only the number of steps
depends on R. Each user is solved alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.simplex import ALPHA, LAM, G, Q
from komd._core.two_simplexes import (
    TwoSimplexProblem,
    TwoSimplexScratch,
    TwoSimplexState,
    scratch_for,
    solve_one_side,
    solve_positives,
    times_rows,
)

__all__ = ["DeflatedScratch", "Deflation", "deflated_scratch", "start_users", "step_deflated"]

_SETS = 12  # corrections of the set of negatives with weight in one step, at most
_FIRST = 1e-6  # gap to which the first weights of the history are solved
_FINER = 1e-3  # times the last gap: the gap to which a step solves the weights of the history
_LEAST = 1e-15  # a smaller gap is rounding


class Deflation(NamedTuple):
    """The approximation of K by U U' + σ I."""

    U: np.ndarray
    """items x rank, float32: eigenvectors times the roots of their eigenvalues."""
    U_columns: np.ndarray
    """The transpose of U, contiguous."""
    gram: np.ndarray
    """U'U."""
    sums: np.ndarray
    """U'1."""
    S: np.ndarray
    """Row sums of K."""
    tau: float
    """λ_n + σ."""
    share: float
    """Factor of R = K - U U' between items of a history, once the negatives are eliminated."""


class DeflatedScratch(NamedTuple):
    """Buffers of one thread."""

    sides: TwoSimplexScratch
    free: np.ndarray
    """Which items are negatives with weight."""
    working: np.ndarray
    """Places of the history's items that may have weight."""
    B: np.ndarray
    """U_F'U_F, its upper triangle."""
    C: np.ndarray
    """Cholesky's upper factor: C'C = I + (B - b b'/n) / τ."""
    lines: np.ndarray
    """b = U_F'1, and the right-hand side, of as many entries as U has columns."""
    U_W: np.ndarray
    T: np.ndarray


def deflated_scratch(longest: int, items: int, rank: int) -> DeflatedScratch:
    """Scratch buffers for histories of at most `longest` items."""
    return DeflatedScratch(
        sides=scratch_for(longest, items),
        free=np.empty(items, np.bool_),
        working=np.empty(longest, np.int32),
        B=np.empty((rank, rank)),
        C=np.empty((rank, rank)),
        lines=np.empty((2, rank)),
        U_W=np.empty(rank * longest),
        T=np.empty(rank * longest),
    )


@compiled
def start_users(
    problem: TwoSimplexProblem, deflation: Deflation, state: TwoSimplexState, scratch: DeflatedScratch
) -> None:
    """Start from ECF-OMD's answer: equal weights on the negatives, the best p for them. Fills p, Ka, Kp and scores."""
    m = deflation.S.shape[0]
    for u in range(problem.indptr.shape[0] - 1):
        h = problem.indices[problem.indptr[u] : problem.indptr[u + 1]]
        p = state.p[problem.indptr[u] : problem.indptr[u + 1]]
        Ka, Kp = state.Ka[u], state.Kp[u]
        ones = scratch.sides.simplex.lines[ALPHA, : h.shape[0]]
        ones[:] = 1.0
        times_rows(problem.K, h, ones, Kp)
        for j in range(m):
            Ka[j] = (deflation.S[j] - Kp[j]) / (m - h.shape[0])
        solve_positives(problem, u, Ka, Ka, 0.0, p, _FIRST, scratch.sides)
        times_rows(problem.K, h, p, Kp)
        for j in range(m):
            state.scores[u, j] = Kp[j] - Ka[j]


@compiled
def step_deflated(
    problem: TwoSimplexProblem, deflation: Deflation, state: TwoSimplexState, scratch: DeflatedScratch
) -> None:
    """One step for every user, from exact K a and K p. Leaves the new p, a and K p; the caller computes K a.

    Twin: tests/reference.py::solve_two_simplexes, by the answer reached.
    """
    for u in range(problem.indptr.shape[0] - 1):
        h = problem.indices[problem.indptr[u] : problem.indptr[u + 1]]
        p = state.p[problem.indptr[u] : problem.indptr[u + 1]]
        a, Ka, Kp = state.a[u], state.Ka[u], state.Kp[u]
        target, free = scratch.sides.V, scratch.free
        for j in range(a.shape[0]):
            free[j] = a[j] > 0.0  # never an item of the history
        number = _sum_free(deflation, scratch)
        _factor(deflation.tau, number, scratch)
        _aim(problem.lam_n, deflation.tau, a, Ka, Kp, target)
        _solve_system(deflation, a, target, number, scratch)
        _step_positives(problem, deflation, u, p, Ka, Kp, state.gap[u], scratch)
        times_rows(problem.K, h, p, Kp)
        _aim(problem.lam_n, deflation.tau, a, Ka, Kp, target)
        for i in h:
            target[i] = -np.inf
        _step_negatives(deflation, a, target, number, scratch)


@inner
def _aim(lam_n: float, tau: float, a: np.ndarray, Ka: np.ndarray, Kp: np.ndarray, target: np.ndarray) -> None:
    """The end of a step along the negative gradient, ignoring U and the constraints."""
    for j in range(a.shape[0]):
        target[j] = a[j] - ((Ka[j] - Kp[j]) + lam_n * a[j]) / tau


@compiled
def _sum_free(deflation: Deflation, scratch: DeflatedScratch) -> int:
    """Fill B and b, from the free negatives or from all others, whichever are fewer; returns how many are free."""
    free, B, b = scratch.free, scratch.B, scratch.lines[0]
    number = 0
    for j in range(free.shape[0]):
        number += free[j]
    few = number <= free.shape[0] - number
    if few:
        B[:] = 0.0
        b[:] = 0.0
    else:
        B[:] = deflation.gram
        b[:] = deflation.sums
    sign = 1.0 if few else -1.0
    waiting = np.empty(4, np.int64)
    found = 0
    for j in range(free.shape[0]):
        if free[j] == few:
            waiting[found] = j
            found += 1
            if found == 4:
                _add_four(deflation.U, waiting, sign, B, b)
                found = 0
    for j in waiting[:found]:
        _add_item(deflation.U[j], sign, B, b)
    return number


@inner
def _add_four(U: np.ndarray, items: np.ndarray, sign: float, B: np.ndarray, b: np.ndarray) -> None:
    """`_add_item` of four items, whose rows share the loads and stores of B."""
    w, x, y, z = U[items[0]], U[items[1]], U[items[2]], U[items[3]]
    for k in range(w.shape[0]):
        w_k, x_k, y_k, z_k = sign * w[k], sign * x[k], sign * y[k], sign * z[k]
        b[k] += (w_k + x_k) + (y_k + z_k)
        B_k = B[k]
        for n in range(k, w.shape[0]):
            B_k[n] += (w_k * w[n] + x_k * x[n]) + (y_k * y[n] + z_k * z[n])


@inner
def _add_item(row: np.ndarray, sign: float, B: np.ndarray, b: np.ndarray) -> None:
    """B += ± row row' in the upper triangle, b += ± row."""
    for k in range(row.shape[0]):
        x = sign * row[k]
        b[k] += x
        B_k = B[k]
        for n in range(k, row.shape[0]):
            B_k[n] += x * row[n]


@inner
def _factor(tau: float, number: int, scratch: DeflatedScratch) -> None:
    """C'C = I + (B - b b'/n) / τ, whose eigenvalues are at least 1."""
    B, C, b = scratch.B, scratch.C, scratch.lines[0]
    rank = C.shape[0]
    for i in range(rank):
        for k in range(i, rank):
            C[i, k] = (B[i, k] - b[i] * b[k] / number) / tau
        C[i, i] += 1.0
    for k in range(rank):
        C_k = C[k]
        inverse = 1.0 / np.sqrt(max(C_k[k], 0.5))
        for i in range(k, rank):
            C_k[i] *= inverse
        for i in range(k + 1, rank):
            x = C_k[i]
            C_i = C[i]
            for n in range(i, rank):
                C_i[n] -= x * C_k[n]


@inner
def _solve_system(
    deflation: Deflation, a: np.ndarray, target: np.ndarray, number: int, scratch: DeflatedScratch
) -> float:
    """Solve for y, in place of the right-hand side, with the current set of free negatives; returns ν / τ."""
    C, b, y = scratch.C, scratch.lines[0], scratch.lines[1]
    excess = -1.0
    for j in range(a.shape[0]):
        if scratch.free[j]:
            excess += target[j]
    weights = scratch.sides.reached
    for j in range(a.shape[0]):
        weights[j] = (target[j] - excess / number if scratch.free[j] else 0.0) - a[j]
    _sum_rows(deflation.U, weights, y)
    rank = y.shape[0]
    for i in range(rank):
        y[i] /= C[i, i]
        for k in range(i + 1, rank):
            y[k] -= C[i, k] * y[i]
    for i in range(rank - 1, -1, -1):
        for k in range(i + 1, rank):
            y[i] -= C[i, k] * y[k]
        y[i] /= C[i, i]
    along = 0.0
    for k in range(rank):
        along += b[k] * y[k]
    level: float = (excess - along / deflation.tau) / number
    return level


@inner
def _sum_rows(U: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """out = Σ_j weights_j U[j], four rows at a time."""
    out[:] = 0.0
    whole = U.shape[0] - U.shape[0] % 4
    for j in range(0, whole, 4):
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        u0, u1, u2, u3 = U[j], U[j + 1], U[j + 2], U[j + 3]
        for k in range(out.shape[0]):
            out[k] += ((w0 * u0[k] + w1 * u1[k]) + w2 * u2[k]) + w3 * u3[k]
    for j in range(whole, U.shape[0]):
        for k in range(out.shape[0]):
            out[k] += weights[j] * U[j, k]


@inner
def _step_negatives(
    deflation: Deflation, a: np.ndarray, target: np.ndarray, number: int, scratch: DeflatedScratch
) -> None:
    """Set a to the best for the new p: the set of free negatives is corrected until it agrees with the weights."""
    free, tau = scratch.free, deflation.tau
    y, t = scratch.lines[1], scratch.sides.reached
    for _ in range(_SETS):
        level = _solve_system(deflation, a, target, number, scratch)
        for j in range(t.shape[0]):
            t[j] = target[j] - level
        _subtract_columns(deflation.U_columns, y, 1.0 / tau, t)
        changed = 0
        for j in range(t.shape[0]):
            if (t[j] > 0.0) != free[j]:
                changed += 1
                free[j] = not free[j]
                number += 1 if free[j] else -1
                _add_item(deflation.U[j], 1.0 if free[j] else -1.0, scratch.B, scratch.lines[0])
        if changed == 0:
            break
        _factor(tau, number, scratch)
    total = 0.0
    for j in range(t.shape[0]):
        a[j] = max(t[j], 0.0)
        total += a[j]
    for j in range(t.shape[0]):
        a[j] /= total


@inner
def _subtract_columns(columns: np.ndarray, y: np.ndarray, scale: float, t: np.ndarray) -> None:
    """t -= scale * Σ_k y_k columns[k], four at a time: a quarter of the loads and stores of t."""
    k = 0
    while k + 4 <= y.shape[0]:
        y0, y1, y2, y3 = scale * y[k], scale * y[k + 1], scale * y[k + 2], scale * y[k + 3]
        c0, c1, c2, c3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        for j in range(t.shape[0]):
            t[j] -= ((y0 * c0[j] + y1 * c1[j]) + y2 * c2[j]) + y3 * c3[j]
        k += 4
    while k < y.shape[0]:
        y0 = scale * y[k]
        c0 = columns[k]
        for j in range(t.shape[0]):
            t[j] -= y0 * c0[j]
        k += 1


@inner
def _step_positives(
    problem: TwoSimplexProblem,
    deflation: Deflation,
    u: int,
    p: np.ndarray,
    Ka: np.ndarray,
    Kp: np.ndarray,
    gap: float,
    scratch: DeflatedScratch,
) -> None:
    """Set p to the best, the negatives eliminated: S = share (K - U U') + U (C'C)⁻¹ U' takes the place of K."""
    h = problem.indices[problem.indptr[u] : problem.indptr[u + 1]]
    lam_p = problem.lam_p[problem.indptr[u] : problem.indptr[u + 1]]
    working, lines, y = scratch.working, scratch.sides.simplex.lines, scratch.lines[1]
    highest = -np.inf
    for i in range(h.shape[0]):
        if p[i] > 0.0:
            highest = max(highest, Kp[h[i]] - Ka[h[i]] + lam_p[i] * p[i])
    size = 0
    for i in range(h.shape[0]):
        if p[i] > 0.0 or Kp[h[i]] - Ka[h[i]] < highest:
            working[size] = i
            size += 1
    g, q, lam, alpha = lines[G, :size], lines[Q, :size], lines[LAM, :size], lines[ALPHA, :size]
    rank = y.shape[0]
    U_W, T = scratch.U_W[: rank * size].reshape(rank, size), scratch.T[: rank * size].reshape(rank, size)
    for x in range(size):
        i = working[x]
        row = deflation.U[h[i]]
        g[x] = Kp[h[i]] - Ka[h[i]] + lam_p[i] * p[i]
        lam[x], alpha[x] = lam_p[i], p[i]
        for k in range(rank):
            U_W[k, x] = row[k]
    for k in range(rank):
        for x in range(size):
            T[k, x] = U_W[k, x]
            g[x] -= y[k] * U_W[k, x]
        for n in range(k):
            z = scratch.C[n, k]
            for x in range(size):
                T[k, x] -= z * T[n, x]
        z = 1.0 / scratch.C[k, k]
        for x in range(size):
            T[k, x] *= z
    S = scratch.sides.K_u[: size * size].reshape(size, size)
    for x in range(size):
        row = problem.K[h[working[x]]]
        sums = q[: x + 1]  # q is free until S is known
        for z in range(x + 1):
            sums[z] = deflation.share * row[h[working[z]]]
        k = 0
        while k + 2 <= rank:
            t0, u0, T_0, U_0 = T[k, x], deflation.share * U_W[k, x], T[k], U_W[k]
            t1, u1, T_1, U_1 = T[k + 1, x], deflation.share * U_W[k + 1, x], T[k + 1], U_W[k + 1]
            for z in range(x + 1):
                sums[z] += (t0 * T_0[z] - u0 * U_0[z]) + (t1 * T_1[z] - u1 * U_1[z])
            k += 2
        if k < rank:
            t0, u0, T_0, U_0 = T[k, x], deflation.share * U_W[k, x], T[k], U_W[k]
            for z in range(x + 1):
                sums[z] += t0 * T_0[z] - u0 * U_0[z]
        for z in range(x + 1):
            S[x, z] = sums[z]
            S[z, x] = sums[z]
    for x in range(size):
        total = 0.0
        for z in range(size):
            total += S[x, z] * alpha[z]
        q[x] = (total + lam[x] * alpha[x]) - g[x]
    solve_one_side(S, q, g, lam, alpha, max(min(_FIRST, _FINER * gap), _LEAST), scratch.sides.simplex)
    total = 0.0
    for x in range(size):
        total += alpha[x]
    for x in range(size):
        p[working[x]] = alpha[x] / total
