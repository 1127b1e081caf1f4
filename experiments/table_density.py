"""Table "Analysis of the sparsity of the linear kernel": how full K is, against two estimates.

d(K) is the paper's, from the density of R alone. The degree-aware estimate keeps both tails: items with d_i and d_j
users share d_i d_j Σ_v a_v (a_v − 1) / N² of them on average (a_v: items of user v; N: pairs), none with probability
exp(−that).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import komd
from experiments import paper
from experiments.places import keep, load, markdown

BLOCK = 2048  # items at a time: K is never whole
STAND_INS = {"ml-10m": "ml-1m"}  # where the paper's own is absent


def densities(data: komd.Interactions) -> dict[str, float]:
    """In percent: of R, of K (exactly), d(K), and the degree-aware estimate."""
    users, items = data.shape
    X = data.to_csr()
    columns = X.tocsc()
    # int counts would do as well; float32 ones never cancel, so every stored entry is a true non-zero
    filled = sum(int((columns[:, j : j + BLOCK].T @ X).nnz) for j in range(0, items, BLOCK))
    empty = int(np.count_nonzero(data.popularity == 0))  # items nobody has: their diagonal is not there
    uniform = -np.expm1(users * np.log1p(-(data.density**2)))
    return {
        "R": 100 * data.density,
        "K": 100 * filled / items**2,
        "d": 100 * (items + (items**2 - items) * float(uniform)) / items**2,
        "degrees": 100 * (items - empty + _pairs_by_degree(data)) / items**2,
    }


def _pairs_by_degree(data: komd.Interactions) -> float:
    """Expected non-zeros of K off the diagonal, by pairs of distinct degrees."""
    activity = data.activity.astype(np.float64)
    shared = float((activity * (activity - 1)).sum()) / data.pairs**2
    degrees, counts = np.unique(data.popularity, return_counts=True)
    chance = -np.expm1(-shared * np.outer(degrees, degrees).astype(np.float64))
    return float(counts @ chance @ counts - counts @ np.diag(chance))


def run() -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in paper.DENSITY:
        data, used = load(name), name
        if data is None and name in STAND_INS:
            used = STAND_INS[name]
            data = load(used)
        if data is not None:
            results[name] = densities(data) | {"used": used, "pairs": data.pairs}
            keep("density", results)
    return results


def table(results: dict[str, Any]) -> str:
    rows = []
    for name, printed in paper.DENSITY.items():
        ours = results.get(name)
        title = paper.TITLES[name]
        if ours and ours["used"] != name:
            title += f" (here {paper.TITLES[ours['used']]})"
        here = [f"{ours[k]:.3g} %" for k in ("R", "K", "d", "degrees")] if ours else ["absent", "", "", ""]
        rows.append([title, *(f"{value:g} %" for value in printed), *here])
    head = ["data set", "R (paper)", "K", "d(K)", "R (here)", "K", "d(K)", "degree-aware"]
    return markdown(head, rows)


if __name__ == "__main__":
    print(table(run()))
