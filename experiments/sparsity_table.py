"""The density of K on every real data set at hand: counted, sampled, and by three formulas."""

from __future__ import annotations

import time
from typing import Any

import komd
from benchmarks.markdown import markdown
from experiments import paper
from experiments.places import RESULTS, data_folder, keep, load
from komd.matrix.density import exact_density, sampled_density, work_of
from komd.sparsity.analysis import Analysis, analyze

DATA = ("delicious", "lastfm", "ciao", "msd", "filmtrust", "book-crossing", "netflix", "ml-100k", "ml-1m")
NAMES = {"ml-100k": "MovieLens 100K", "netflix": "Netflix (half)", "msd": "MSD (a corner)"}
SAMPLE = 10  # the sample may take this fraction (one part in …) of the work of a full count


def title(name: str) -> str:
    return NAMES.get(name) or paper.TITLES[name]


def interactions(name: str) -> komd.Interactions | None:
    """The data set; of MSD's corner the training part alone, where it is there."""
    corner = data_folder() / "msd" / "10000.txt"
    if name == "msd" and corner.exists():
        return komd.read(corner, user=0, item=1, header=False, separator="\t")
    return load(name)


def run() -> dict[str, Any]:
    results: dict[str, Any] = {}
    analyses: list[Analysis] = []
    for name in DATA:
        data = interactions(name)
        if data is None:
            continue
        found = analyze(data, name=title(name))
        rows = data.indptr, data.indices, data.shape[1]
        start = time.perf_counter()
        exact_density(*rows)
        counted = time.perf_counter() - start
        start = time.perf_counter()
        sample = sampled_density(*rows, work=work_of(data.activity) // SAMPLE, rng=0)
        sampled = time.perf_counter() - start
        analyses.append(found)
        results[name] = {
            "users": found.users,
            "items": found.items,
            "pairs": found.pairs,
            "R": found.density,
            "K": found.kernel.value,
            "sample": [sample.value, sample.low, sample.high, sample.rows],
            "expected": found.expected,
            "effects": {"items": found.effects.items, "users": found.effects.users},
            "seconds": {"counted": counted, "sampled": sampled},
        }
        keep("sparsity_table", results)
    if analyses:
        figure(analyses)
    return results


def figure(found: list[Analysis]) -> None:
    from komd.sparsity.sparsity_page import draw_densities
    from komd.svg import standalone

    (RESULTS / "figures").mkdir(parents=True, exist_ok=True)
    picture = standalone(lambda f: draw_densities(f.add_subplot(), found), 9.2, 0.42 * len(found) + 1.15)
    (RESULTS / "figures" / "sparsity-densities.svg").write_text(picture, encoding="utf-8")


def table(results: dict[str, Any]) -> str:
    rows = []
    for name, row in results.items():
        value, low, high, looked = row["sample"]
        sampled = f"{_percent(value)} ({_percent(low)} to {_percent(high)}), {looked:,} rows"
        estimates = [f"{_percent(each)} ({each / row['K']:.2f})" for each in row["expected"].values()]
        rows.append([title(name), _percent(row["R"]), f"**{_percent(row['K'])}**", *estimates, sampled])
    return markdown(["data set", "R", "K", "d(K)", "degree-aware", "saturating", "sampled"], rows)


def effects_table(results: dict[str, Any]) -> str:
    rows = []
    for name, row in results.items():
        factors = (row["effects"]["items"], row["effects"]["users"], row["K"] / row["expected"]["saturating"])
        rows.append([title(name), *(f"× {factor:.2f}" if factor < 9.95 else f"× {factor:.0f}" for factor in factors)])
    return markdown(["data set", "item tail", "user tail", "unexplained"], rows)


def worst(results: dict[str, Any], name: str) -> tuple[float, str]:
    """How many times an estimate misses the truth at most, and where."""
    off = {data: row["expected"][name] / row["K"] for data, row in results.items()}
    where = max(off, key=lambda data: max(off[data], 1 / off[data]))
    return max(off[where], 1 / off[where]), title(where)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %" if share < 0.1 else f"{100 * share:.5g} %"


if __name__ == "__main__":
    print(table(run()))
