"""Variants of MSDW and of its AUC on FilmTrust's folds, with dense arrays: which of them gives the printed figures?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from experiments.authors_folds import Fold

Floats = NDArray[np.float64]
ALPHAS = ("0", ".25", ".5", ".75", "1")


def asymmetric(R: Floats, alpha: float) -> Floats:
    """w(i, j) = n_ij / (n_i^(1−α) n_j^α): i of the history, j the candidate."""
    n = R.T @ R
    d = np.diag(n)
    return np.asarray(n / (d[:, None] ** (1 - alpha) * d[None] ** alpha))


def nearest(W: Floats, k: int) -> Floats:
    """Each row with its k largest entries off the diagonal."""
    W = W - np.diag(np.diag(W))
    return np.asarray(np.where(np.sort(W, axis=1)[:, -min(k, len(W))][:, None] <= W, W, 0.0))


def area(scores: Floats, tested: NDArray[np.intp], others: NDArray[np.intp], ties: str) -> float:
    """AUC of one user; items are numbered in the order of the training file."""
    t, x = scores[tested][:, None], scores[others][None]
    won = (t > x).sum() + {
        "first": ((t == x) & (tested[:, None] < others)).sum(),
        "last": ((t == x) & (tested[:, None] > others)).sum(),
        "strict": 0,
    }[ties]
    return float(won / (len(tested) * len(others)))


SCORES: dict[str, Callable[[Floats, float], Floats]] = {
    "as the paper defines it": lambda R, a: R @ asymmetric(R, a),
    "locality 2": lambda R, a: R @ asymmetric(R, a) ** 2,
    "locality 3": lambda R, a: R @ asymmetric(R, a) ** 3,
    "locality ½": lambda R, a: R @ asymmetric(R, a) ** 0.5,
    "50 nearest items": lambda R, a: R @ nearest(asymmetric(R, a), 50),
    "200 nearest items": lambda R, a: R @ nearest(asymmetric(R, a), 200),
    "similar users instead of items": lambda R, a: asymmetric(R.T, a).T @ R,
    "mean over the history": lambda R, a: R @ asymmetric(R, a) / R.sum(axis=1, keepdims=True),
}


def measured(fold: Fold) -> dict[str, dict[str, float]]:
    """Variant → α → AUC."""
    number = {item: k for k, item in enumerate(fold.order)}
    R = np.zeros((fold.train.shape[0], len(number)))
    columns = [number[item] for item in fold.train.items.take(fold.train.indices).to_pylist()]
    R[fold.train.rows, columns] = 1
    users = fold.train.users.find(fold.test.users.values)
    tests = [np.array([number[i] for i in fold.test.history(u)]) for u in fold.test.users.values.to_pylist()]
    found: dict[str, dict[str, float]] = {}
    for alpha in ALPHAS:
        plain: Floats = np.zeros(0)
        for variant, score in SCORES.items():
            S = score(R, float(alpha))
            plain = S if not plain.size else plain
            found.setdefault(variant, {})[alpha] = _mean(R, S, users, tests, "first")
        for ties, words in (("last", "ties to the later item"), ("strict", "ties wrong")):
            found.setdefault(words, {})[alpha] = _mean(R, plain, users, tests, ties)
        found.setdefault("training items among the others", {})[alpha] = _mean(0 * R, plain, users, tests, "first")
        found.setdefault("all pairs of all users together", {})[alpha] = _mean(R, plain, users, tests, "first", True)
    return found


def _mean(
    R: Floats, S: Floats, users: NDArray[np.int32], tests: list[NDArray[np.intp]], ties: str, pooled: bool = False
) -> float:
    values, weights = [], []
    for u, tested in zip(users, tests, strict=True):
        fresh = tested[R[u, tested] == 0]
        others = np.setdiff1d(np.flatnonzero(R[u] == 0), tested)
        if len(fresh) and len(others):
            values.append(area(S[u], fresh, others, ties))
            weights.append(len(fresh) * len(others) if pooled else 1)
    return float(np.average(values, weights=weights))
