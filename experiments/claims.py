"""Three claims of the paper, measured.

wrmf   "changing the value of α does not change the performance" of WRMF
times  ECF-OMD is "almost 5 times faster than MSDW"
tails  "datasets with a very dense kernel tend to have shorter tails"
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

import komd
from benchmarks.markdown import markdown
from experiments import figure_longtails, paper
from experiments.authors_folds import DATA, Fold, areas, cut_area, folds
from experiments.places import keep, kept, load
from experiments.table_authors import CUT, PAPERS_WRMF
from experiments.table_density import densities
from komd.sparsity.longtail import least_squares

ALPHAS = (1, 10, 40)
LAMBDAS = (0.001, 100)  # the paper's, and the one that `tuning` chose most often
REPEATS = 5
ALONE = 40  # users served one at a time


def run(names: tuple[str, ...] = DATA, tails: tuple[str, ...] = figure_longtails.DATA) -> dict[str, Any]:
    results = kept("claims")
    for name in tails:
        if name in results.setdefault("tails", {}):
            continue
        if (data := load(name)) is not None:
            results["tails"][name] = tail_figures(data)
            keep("claims", results)
    first = {name: fold for name in names if (fold := next(folds(name), None)) is not None}
    for name, fold in first.items():
        if name not in results.setdefault("times", {}):
            results["times"][name] = times(fold)
            keep("claims", results)
    for name, fold in first.items():
        cells = results.setdefault("wrmf", {}).setdefault(name, {})
        for lam, alpha in product(LAMBDAS, ALPHAS):
            if f"{lam} {alpha}" not in cells:
                model = komd.WRMF(**PAPERS_WRMF | {"regularization": lam, "alpha": alpha}).fit(fold.train, threads=1)
                cells[f"{lam} {alpha}"] = [areas(model, fold, "half")[0], cut_area(model, fold, CUT)]
                keep("claims", results)
        print(f"{name}: claims measured", flush=True)
    return results


def times(fold: Fold) -> dict[str, float]:
    """Median seconds in one thread: fit, rank all test users, and one user with and without the matrix held."""
    users = fold.test.users.values.to_pylist()[:ALONE]
    found: dict[str, float] = {}
    for label, make in (("MSDW", komd.MSDW), ("ECF-OMD", komd.ECFOMD)):
        model = make()
        found[f"{label} fit"] = _median(partial(model.fit, fold.train, threads=1))
        ranked = _median(partial(komd.evaluate, model, fold.test, metrics=["auc"], threads=1))
        found[f"{label} rank"] = ranked
        for storage in (None, "streamed"):
            each = make(storage=storage).fit(fold.train, threads=1)
            alone = [_median(partial(each.recommend, user, threads=1), 1) for user in users]
            found[f"{label} alone {storage or 'held'}"] = float(np.median(alone))
    return found


def _median(call: Callable[[], object], repeats: int = REPEATS) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def tail_figures(data: komd.Interactions) -> dict[str, float]:
    """Density of K and of the paper's estimate, and for each side the slope and how far the tail is above the line."""
    found = {what: value for what, value in densities(data).items() if what in ("K", "d")}
    for what, counts in (("popularity", data.popularity), ("activity", data.activity)):
        line = least_squares(counts)
        if line is not None:
            found |= {f"{what} slope": line.slope, f"{what} R²": line.r2}
            found[f"{what} tail"] = tail_excess(counts, line.slope, line.factor)
    return found


def tail_excess(counts: NDArray[np.int64], slope: float, factor: float) -> float:
    """How many times the line the last tenth of the ranks is, as a geometric mean: above 1 the tail is over it."""
    ranked = np.sort(counts[counts > 0])[::-1]
    ranks = np.arange(1, len(ranked) + 1)
    last = ranks > 0.9 * len(ranked)
    return float(np.exp(np.mean(np.log(ranked[last] / (factor * ranks[last] ** slope)))))


def correlation(tails: dict[str, dict[str, float]], a: str, b: str) -> float:
    """Spearman's, over the data sets; equal figures share their mean rank."""
    return float(spearmanr([row[a] for row in tails.values()], [row[b] for row in tails.values()]).statistic)


def wrmf_table(found: dict[str, Any]) -> str:
    lines = []
    for name, cells in found.items():
        for lam in LAMBDAS:
            values = [cells.get(f"{lam} {alpha}") for alpha in ALPHAS]
            shown = [f"{v[0]:.4f} / {v[1]:.4f}" if v else "not run" for v in values]
            whole = [v[0] for v in values if v]
            lines.append([paper.TITLES[name], f"{lam:g}", *shown, f"{max(whole) - min(whole):.4f}" if whole else ""])
    return markdown(["data set", "λ", *(f"α={alpha}" for alpha in ALPHAS), "range of AUC"], lines)


def times_table(found: dict[str, Any]) -> str:
    lines = []
    for name, t in found.items():
        together = [t[f"{label} fit"] + t[f"{label} rank"] for label in ("MSDW", "ECF-OMD")]
        lines.append(
            [
                paper.TITLES[name],
                *(f"{t[f'{label} {step}']:.3f}" for label in ("MSDW", "ECF-OMD") for step in ("fit", "rank")),
                f"{together[0] / together[1]:.2f}",
                f"{1000 * t['MSDW alone streamed']:.2f}",
                f"{1000 * t['ECF-OMD alone held']:.2f}",
                f"{t['MSDW alone streamed'] / t['ECF-OMD alone held']:.1f}",
            ]
        )
    head = ["data set", "MSDW fit, s", "rank", "ECF-OMD fit, s", "rank", "MSDW / ECF-OMD"]
    return markdown([*head, "MSDW counting for each user, ms", "ECF-OMD with K held, ms", "ratio"], lines)


def tails_table(found: dict[str, Any]) -> str:
    lines = []
    for name, row in sorted(found.items(), key=lambda each: -each[1]["K"]):
        sides = [f"{row[f'{s} {w}']:.2f}" for s in ("popularity", "activity") for w in ("slope", "R²", "tail")]
        lines.append([paper.TITLES[name], f"{row['K']:.3g} %", f"{row['K'] / row['d']:.2f}", *sides])
    head = [
        "data set",
        "K",
        "K / d(K)",
        "popularity: slope",
        "R²",
        "tail / line",
        "activity: slope",
        "R²",
        "tail / line",
    ]
    return markdown(head, lines)


if __name__ == "__main__":
    run()
