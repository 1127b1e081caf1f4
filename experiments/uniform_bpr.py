"""BPR as LibRec takes its steps: other items drawn evenly, 100 steps a user in each iteration, no biases."""

from __future__ import annotations

import numba
import numpy as np

import komd
from komd.engine.catalogue import Catalogue

_STEPS = 100  # a user and iteration
_START = 0.1  # standard deviation of the factors at the start


class UniformBPR(komd.BPR):
    """`komd.BPR` with LibRec's sampling; factors start from a normal distribution."""

    def learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        rng = np.random.default_rng(self.rng)
        users, items = len(catalogue.users), len(catalogue.order)
        self._X, self._Y = (_START * rng.standard_normal((n, self.factors)) for n in (users, items))
        rows = catalogue.histories
        seeds = rng.integers(0, 2**31, self.iterations)
        for seed in seeds:
            _steps(rows.indptr, rows.indices, self._X, self._Y, self.learning_rate, self.regularization, int(seed))


@numba.njit(cache=False)
def _steps(
    indptr: np.ndarray, indices: np.ndarray, X: np.ndarray, Y: np.ndarray, rate: float, penalty: float, seed: int
) -> None:
    """One iteration: `_STEPS` gradient steps a user, on (u, i, j) with i of u's items and j of the others.

    The draws are from Numba's generator, which is seeded for each iteration.
    """
    np.random.seed(seed)  # noqa: NPY002
    users, items = X.shape[0], Y.shape[0]
    for _ in range(_STEPS * users):
        u = np.random.randint(users)  # noqa: NPY002
        mine = indices[indptr[u] : indptr[u + 1]]
        if mine.shape[0] == 0 or mine.shape[0] == items:
            continue
        i = mine[np.random.randint(mine.shape[0])]  # noqa: NPY002
        j = np.random.randint(items)  # noqa: NPY002
        while mine[min(np.searchsorted(mine, j), mine.shape[0] - 1)] == j:
            j = np.random.randint(items)  # noqa: NPY002
        apart = 0.0
        for f in range(X.shape[1]):
            apart += X[u, f] * (Y[i, f] - Y[j, f])
        pull = 1.0 / (1.0 + np.exp(apart))
        for f in range(X.shape[1]):
            x, a, b = X[u, f], Y[i, f], Y[j, f]
            X[u, f] += rate * (pull * (a - b) - penalty * x)
            Y[i, f] += rate * (pull * x - penalty * a)
            Y[j, f] += rate * (-pull * x - penalty * b)
