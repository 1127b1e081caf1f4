"""CF-OMD's problem: a distribution over what a user chose and one over what they did not (docs/guide/maths.md).

All users of a block step together, so that each row of K is read once for all of them; but users do not affect each
other's arithmetic, and every sum runs in a fixed order. The answer is the same in any block, to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from komd._core.compile import compiled
from komd._core.simplex import G, Q, SimplexScratch, simplex_scratch, solve_shrinking
from komd._core.uneven_simplex import SPREAD, solve_uneven

__all__ = [
    "TwoSimplexProblem",
    "TwoSimplexScratch",
    "TwoSimplexState",
    "measure_gaps",
    "project_simplex",
    "scratch_for",
    "solve_one_side",
    "solve_positives",
    "state_for",
    "step_users",
    "times_rows",
]

_ROUNDING = 1e-15  # times λ: half gradients are of its size, and gaps below are rounding


class TwoSimplexProblem(NamedTuple):
    """What does not change while a block of users is solved."""

    K: np.ndarray
    """items x items, float32, symmetric."""
    indptr: np.ndarray
    indices: np.ndarray
    """The users' histories, as compressed rows."""
    lam_p: np.ndarray
    """λ_p / h of each item of the histories."""
    lam_n: float
    step: float
    """1 / (2 L), L at least the largest eigenvalue of the centred K."""
    tol: np.ndarray
    """KKT gap to which the weights of each user's history are solved in each iteration."""


class TwoSimplexState(NamedTuple):
    """What changes from step to step; row u of the matrices (users x items, float64) belongs to user u."""

    p: np.ndarray
    """Weights of the histories' items, one after another as in `TwoSimplexProblem.indices`."""
    a: np.ndarray
    """Weights of all other items; 0 at those of the history."""
    a_before: np.ndarray
    Ka: np.ndarray
    """K a."""
    Ka_before: np.ndarray
    Kp: np.ndarray
    """K times the weights of the history, the p of the last step."""
    threshold: np.ndarray
    """Of the last projection: a good start for the next."""
    momentum: np.ndarray
    scores: np.ndarray
    """K p - K a, of the last gaps."""
    change: np.ndarray
    """The largest change of a score since the gaps before."""
    gap: np.ndarray


class TwoSimplexScratch(NamedTuple):
    """Buffers of one thread."""

    K_u: np.ndarray
    V: np.ndarray
    reached: np.ndarray
    simplex: SimplexScratch


def state_for(indptr: np.ndarray, indices: np.ndarray, items: int, p: np.ndarray) -> TwoSimplexState:
    """The first weights: p on the histories, equal ones on all other items. Every user must have items on both sides.

    K a is not computed yet.
    """
    users = len(indptr) - 1
    lengths = np.diff(indptr)
    a = np.repeat(1.0 / (items - lengths)[:, None], items, axis=1)
    a[np.repeat(np.arange(users), lengths), indices] = 0.0
    return TwoSimplexState(
        p=p,
        a=a,
        a_before=a.copy(),
        Ka=np.zeros_like(a),
        Ka_before=np.zeros_like(a),
        Kp=np.zeros_like(a),
        threshold=np.zeros(users),
        momentum=np.ones(users),
        scores=np.zeros_like(a),
        change=np.full(users, np.inf),
        gap=np.full(users, np.inf),
    )


def scratch_for(longest: int, items: int) -> TwoSimplexScratch:
    """Scratch buffers for `step_users`, for histories of at most `longest` items."""
    simplex = simplex_scratch(longest, longest)
    return TwoSimplexScratch(np.empty(longest**2, np.float32), np.empty(items), np.empty(items), simplex)


@compiled
def step_users(problem: TwoSimplexProblem, state: TwoSimplexState, scratch: TwoSimplexScratch) -> None:
    """One iteration for every user: accelerated proximal gradients on `a`, for each of which `p` is solved exactly.

    `state.Ka` arrives as K a and leaves as K a_before: the caller multiplies.
    Twin: tests/reference.py::solve_two_simplexes, by the answer reached.
    """
    for u in range(problem.indptr.shape[0] - 1):
        start, end = problem.indptr[u], problem.indptr[u + 1]
        h, p = problem.indices[start:end], state.p[start:end]
        a, a_before, Ka, Ka_before = state.a[u], state.a_before[u], state.Ka[u], state.Ka_before[u]
        t = state.momentum[u]
        longer = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        beyond = (t - 1.0) / longer  # the gradient is taken at a + beyond (a - a_before)
        solve_positives(problem, u, Ka, Ka_before, beyond, p, problem.tol[u], scratch)
        times_rows(problem.K, h, p, state.Kp[u])
        V, Kp = scratch.V, state.Kp[u]
        shrink = 1.0 / (1.0 + 2.0 * problem.step * problem.lam_n)
        for j in range(V.shape[0]):
            z = a[j] + beyond * (a[j] - a_before[j])
            Kz = Ka[j] + beyond * (Ka[j] - Ka_before[j])
            V[j] = (z - 2.0 * problem.step * (Kz - Kp[j])) * shrink
        for i in h:
            V[i] = -np.inf
        threshold = project_simplex(V, state.threshold[u])
        state.threshold[u] = threshold
        uphill = 0.0
        for j in range(V.shape[0]):
            fresh = max(0.0, V[j] - threshold)
            z = a[j] + beyond * (a[j] - a_before[j])
            uphill += (z - fresh) * (fresh - a[j])
            a_before[j] = a[j]
            a[j] = fresh
            Ka_before[j] = Ka[j]
        state.momentum[u] = 1.0 if uphill > 0.0 else longer


@compiled
def solve_positives(
    problem: TwoSimplexProblem,
    u: int,
    Ka: np.ndarray,
    Ka_before: np.ndarray,
    beyond: float,
    p: np.ndarray,
    tol: float,
    scratch: TwoSimplexScratch,
) -> None:
    """The best p for the other side at a + beyond (a - a_before), starting from the p of the last step.

    Twin: tests/reference.py::solve_simplex.
    """
    h = problem.indices[problem.indptr[u] : problem.indptr[u + 1]]
    lam_p = problem.lam_p[problem.indptr[u] : problem.indptr[u + 1]]
    m_u = h.shape[0]
    K_u = scratch.K_u[: m_u * m_u].reshape(m_u, m_u)
    g, q = scratch.simplex.lines[G, :m_u], scratch.simplex.lines[Q, :m_u]
    for i in range(m_u):
        row = problem.K[h[i]]
        total = 0.0
        for k in range(m_u):
            K_u[i, k] = row[h[k]]
            total += K_u[i, k] * p[k]
        q[i] = Ka[h[i]] + beyond * (Ka[h[i]] - Ka_before[h[i]])
        g[i] = total + lam_p[i] * p[i] - q[i]
    solve_one_side(K_u, q, g, lam_p, p, tol, scratch.simplex)


@compiled
def solve_one_side(
    K_u: np.ndarray, q: np.ndarray, g: np.ndarray, lam: np.ndarray, p: np.ndarray, tol: float, scratch: SimplexScratch
) -> None:
    """CF-KOMD's problem, whether the λ are similar or differ by much. Twin: tests/reference.py::solve_simplex."""
    least = lam.min()
    tol = max(tol, _ROUNDING * least)
    if lam.max() <= SPREAD * least:
        solve_shrinking(K_u, q, g, lam, p, tol, scratch)
    else:
        solve_uneven(K_u, q, g, lam, p, tol, scratch)


@compiled
def times_rows(K: np.ndarray, h: np.ndarray, p: np.ndarray, out: np.ndarray) -> None:
    """out = sum over i of p_i K[h_i], of which four are added at a time. Twin: a product by numpy, in the tests."""
    out[:] = 0.0
    waiting = np.empty(4, np.int64)
    found = 0
    for i in range(h.shape[0]):
        if p[i] != 0.0:
            waiting[found] = i
            found += 1
        if found == 4:
            w, x, y, z = p[waiting[0]], p[waiting[1]], p[waiting[2]], p[waiting[3]]
            K_w, K_x, K_y, K_z = K[h[waiting[0]]], K[h[waiting[1]]], K[h[waiting[2]]], K[h[waiting[3]]]
            for j in range(out.shape[0]):
                out[j] = (((out[j] + w * K_w[j]) + x * K_x[j]) + y * K_y[j]) + z * K_z[j]
            found = 0
    for i in waiting[:found]:
        row = K[h[i]]
        for j in range(out.shape[0]):
            out[j] += p[i] * row[j]


@compiled
def measure_gaps(problem: TwoSimplexProblem, state: TwoSimplexState) -> None:
    """α'∇ − min ∇ on both sides: never less than the distance of the objective from its minimum; and the scores.

    Twin: tests/reference.py::two_simplex_gap.
    """
    for u in range(problem.indptr.shape[0] - 1):
        start, end = problem.indptr[u], problem.indptr[u + 1]
        h, p, lam_p = problem.indices[start:end], state.p[start:end], problem.lam_p[start:end]
        a, Ka, Kp = state.a[u], state.Ka[u], state.Kp[u]
        least_p = np.inf
        for i in range(h.shape[0]):
            least_p = min(least_p, Kp[h[i]] + lam_p[i] * p[i] - Ka[h[i]])
        least_n = np.inf
        place = 0
        for j in range(a.shape[0]):
            if place < h.shape[0] and h[place] == j:
                place += 1
            else:
                least_n = min(least_n, Ka[j] + problem.lam_n * a[j] - Kp[j])
        gap = 0.0
        for i in range(h.shape[0]):
            gap += p[i] * (Kp[h[i]] + lam_p[i] * p[i] - Ka[h[i]] - least_p)
        for j in range(a.shape[0]):  # a is zero at the items of the history
            gap += a[j] * (Ka[j] + problem.lam_n * a[j] - Kp[j] - least_n)
        state.gap[u] = 2.0 * gap
        change = 0.0
        for j in range(a.shape[0]):
            score = Kp[j] - Ka[j]
            change = max(change, abs(score - state.scores[u, j]))
            state.scores[u, j] = score
        state.change[u] = change


@compiled
def project_simplex(v: np.ndarray, t: float) -> float:
    """The t for which max(0, v - t) sums to one; entries of minus infinity take no part.

    The sum is convex and piecewise linear in t: Newton from any start ends after a few passes.
    Twin: tests/reference.py::project_simplex.
    """
    for _ in range(200):
        total = 0.0
        above = 0
        most = -np.inf
        for j in range(v.shape[0]):
            most = max(most, v[j])
            if v[j] > t:
                total += v[j] - t
                above += 1
        if above == 0:
            t = most - 1.0
            continue
        t += (total - 1.0) / above
        if abs(total - 1.0) < 1e-14:
            break
    return t
