"""Stochastic gradient steps on an item-item matrix: BPR's criterion, one sampled triple at a time."""

from __future__ import annotations

import numpy as np
from numba import uint64

from komd._core.compile import compiled
from komd._core.splitmix import next_word

__all__ = ["draw", "rank_pairs"]


@compiled
def draw(state: np.ndarray, below: int) -> np.int64:
    """A number from 0 to below - 1, by splitmix64.

    The remainder of 64 random bits: off from uniform by less than below / 2^64.
    Twin: tests/reference.py::splitmix64.
    """
    return np.int64(next_word(state) % uint64(below))


@compiled
def rank_pairs(
    C: np.ndarray,
    users: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    rate: float,
    lam_i: float,
    lam_j: float,
    steps: int,
    state: np.ndarray,
) -> float:
    """`steps` gradient steps on C (items x items, candidate by row); returns the mean of -ln sigma(x_uij) met.

    Each draws with replacement a pair (u, i) of the data (`users[p]`, `indices[p]`), then an item j not in u's row,
    which is sorted; users with every item are skipped: there is no such j. The step is derived in models/bprknn.py:

        e = rate * sigma(-x_uij),   C[i, l] += e - rate lam_i C[i, l]  (l != i),   C[j, l] -= e + rate lam_j C[j, l]

    for the items l of u's row. Twin: tests/reference.py::bpr_steps.
    """
    m = C.shape[0]
    loss = 0.0
    counted = 0
    keep_i = np.float32(1.0 - rate * lam_i)
    keep_j = np.float32(1.0 - rate * lam_j)
    for _ in range(steps):
        p = draw(state, indices.shape[0])
        u = users[p]
        i = indices[p]
        row = indices[indptr[u] : indptr[u + 1]]
        if row.shape[0] == m:
            continue
        while True:
            j = draw(state, m)
            low = 0
            high = row.shape[0]
            while low < high:
                middle = (low + high) >> 1
                if row[middle] < j:
                    low = middle + 1
                else:
                    high = middle
            if low == row.shape[0] or row[low] != j:
                break
        C_i = C[i]
        C_j = C[j]
        x = 0.0
        for l in row:
            x += C_i[np.uint32(l)] - C_j[np.uint32(l)]  # C[i, i] is zero and stays zero
        # sigma(-x) and ln(1 + e^-x) without overflow on either side
        t = np.exp(-abs(x))
        slope = (1.0 if x < 0.0 else t) / (1.0 + t)
        loss += np.log1p(t) + max(0.0, -x)
        counted += 1
        e = np.float32(rate * slope)
        for l in row:
            C_i[np.uint32(l)] = keep_i * C_i[np.uint32(l)] + e
            C_j[np.uint32(l)] = keep_j * C_j[np.uint32(l)] - e
        C_i[i] = 0.0
    return loss / counted if counted else 0.0
