"""How many pairwise steps a user's problem takes, and how much of a history ends without weight: docs/guide/maths.md.

python -m benchmarks.solver_steps        # MovieLens 1M, every tenth user, ECF-OMD's problem, a KKT gap of 1e-8
"""

from __future__ import annotations

import numpy as np

import komd
from experiments.places import load
from komd._core.simplex import solve_simplex

GAP, EVERY, LAMBDA = 1e-8, 10, 0.01


def measure(data: komd.Interactions) -> tuple[float, float]:
    """Steps of the plain solver for each item of a history, and the share of items without weight; medians of users."""
    model = komd.ECFOMD(regularization=LAMBDA).fit(data)
    histories, m = model.catalogue.histories, data.shape[1]
    steps, idle = [], []
    for user in range(0, len(histories), EVERY):
        h = histories.indices[histories.indptr[user] : histories.indptr[user + 1]]
        if len(h) < 2 or len(h) == m:
            continue
        K = model.matrix.entries(h, h)
        q = (model.S[h] - K.sum(axis=1, dtype=np.float64)) / (m - len(h))
        alpha = np.full(len(h), 1.0 / len(h))
        gradient = K @ alpha + LAMBDA * alpha - q
        taken = solve_simplex(K, gradient, np.full(len(h), LAMBDA), alpha, GAP, 100_000 * len(h), np.empty(len(h)))
        steps.append(taken / len(h))
        idle.append(float((alpha == 0.0).mean()))
    return float(np.median(steps)), float(np.median(idle))


def main() -> None:
    data = load("ml-1m")
    if data is not None:
        steps, idle = measure(data)
        print(f"{steps:.2f} steps for each item of a history; {100 * idle:.0f} % of a history ends without weight")


if __name__ == "__main__":
    main()
