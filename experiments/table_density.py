"""Table "Analysis of the sparsity of the linear kernel": how full K is, against two estimates.

d(K) is the paper's, from the density of R alone; the degree-aware estimate keeps both tails (docs/guide/sparsity.md).
"""

from __future__ import annotations

from typing import Any

import komd
from benchmarks.markdown import markdown
from experiments import paper
from experiments.places import keep, load
from komd.matrix.density import exact_density
from komd.matrix.expected_density import estimate_density, paper_density

STAND_INS = {"ml-10m": "ml-1m"}  # where the paper's own is absent


def densities(data: komd.Interactions) -> dict[str, float]:
    """In percent: of R, of K (exactly), d(K), and the degree-aware estimate."""
    return {
        "R": 100 * data.density,
        "K": 100 * exact_density(data.indptr, data.indices, data.shape[1]).value,
        "d": 100 * paper_density(*data.shape, data.pairs),
        "degrees": 100 * estimate_density(data.popularity, data.activity),
    }


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
