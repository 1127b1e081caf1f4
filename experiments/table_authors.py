"""Table "AUC results of our framework against state-of-the-art methods" on the authors' own folds, cell by cell.

Every result is kept at once in `experiments/work/authors.json`, by data set, row and fold: rerun to resume. Remove the
file after a change of komd that affects it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import komd
from benchmarks.markdown import markdown
from experiments import paper
from experiments.authors_folds import DATA, FOLDS, RULES, Fold, cut_area, folds, half_tested, measured
from experiments.count_polynomial import CountPolynomial
from experiments.places import keep, kept
from experiments.uniform_bpr import UniformBPR

NEAR = 0.0015
CUT = 10  # items of a list that the rivals' AUC is thought to be of
RIVALS = ("WRMF", "BPR")
PAPERS_WRMF: dict[str, Any] = {"factors": 100, "iterations": 30, "regularization": 0.001, "alpha": 1}
PAPERS_STEPS: dict[str, Any] = {"iterations": 30, "learning_rate": 0.001, "regularization": 0.001}
Maker = Callable[[], Any]


def _cfk(kernel: Any) -> Maker:
    return lambda: komd.CFKOMD(kernel=kernel, regularization=0.01, negatives="mean")


def _msdw(alpha: float) -> Maker:
    return lambda: komd.MSDW(alpha=alpha)


ROWS: dict[str, Maker] = {
    **{
        f"MSDW α={label}": _msdw(alpha)
        for label, alpha in (("0", 0), (".25", 0.25), (".5", 0.5), (".75", 0.75), ("1", 1))
    },
    "ECF-OMD": lambda: komd.ECFOMD(regularization=0.01),
    **{
        f"CF-K polynomial c={label}": _cfk(CountPolynomial(degree=2, c=c))
        for label, c in ((".5", 0.5), ("1", 1), ("2", 2), ("4", 4))
    },
    "CF-K Tanimoto": _cfk("tanimoto"),
    "WRMF": lambda: komd.WRMF(**PAPERS_WRMF),
    # The paper names no number of factors: 10 is what LibRec, which it used, ships with.
    "BPR": lambda: UniformBPR(factors=10, **PAPERS_STEPS),
}


def run(names: tuple[str, ...] = DATA) -> dict[str, Any]:
    results = kept("authors")
    for name in names:
        for k, fold in enumerate(folds(name)):
            rows = results.setdefault(name, {}).setdefault("rows", {})
            facts = {"cold": fold.cold, "repeated": fold.repeated, "lost": sum(fold.lost.values())}
            facts |= {"users": fold.test.shape[0], "pairs": fold.test.pairs, "least": least_ratings(fold)}
            results[name].setdefault("folds", {})[str(k)] = facts | (half_tested(k) if name == "ml-1m" else {})
            for label, make in ROWS.items():
                if str(k) in rows.setdefault(label, {}):
                    continue
                rows[label][str(k)] = one_cell(label, make, fold)
                keep("authors", results)
                print(f"{name}, fold {k}, {label}: {rows[label][str(k)]['first']:.4f}", flush=True)
            keep("authors", results)
        if name in results:
            print(table(name, results[name]["rows"]), flush=True)
    return results


def one_cell(label: str, make: Maker, fold: Fold) -> dict[str, float]:
    """A row on one fold: AUC by all rules, of the first ten for rivals, and seconds in one thread."""
    start = time.perf_counter()
    model = make().fit(fold.train, threads=1)
    fitted = time.perf_counter()
    komd.evaluate(model, fold.test, metrics=["auc"], threads=1)
    ranked = time.perf_counter()
    found = measured(model, fold) | {"fit": fitted - start, "rank": ranked - fitted}
    if label in RIVALS:
        found["cut"] = cut_area(model, fold, CUT)
    return found


def least_ratings(fold: Fold) -> int:
    """The fewest ratings, trained and tested, of a test user."""
    trained = dict(zip(fold.train.users.values.to_pylist(), fold.train.activity.tolist(), strict=True))
    tested = zip(fold.test.users.values.to_pylist(), fold.test.activity.tolist(), strict=True)
    return min(int(trained.get(user, 0) + t) for user, t in tested)


def mean(rounds: dict[str, dict[str, float]], what: str) -> float:
    return float(np.mean([each[what] for each in rounds.values()]))


def std(rounds: dict[str, dict[str, float]], what: str) -> float:
    return float(np.std([each[what] for each in rounds.values()]))


def reading_of(label: str) -> str:
    """The measure that stands for the printed one: the authors' rules, for the rivals AUC of the first ten."""
    return "cut" if label in RIVALS else "first"


def gap(name: str, label: str, rounds: dict[str, dict[str, float]]) -> float:
    """Ours − printed."""
    return mean(rounds, reading_of(label)) - paper.AUC[label][name].mean


def table(name: str, rows: dict[str, Any]) -> str:
    lines = []
    for label in ROWS:
        printed, rounds = paper.AUC[label][name], rows.get(label, {})
        line = [label, f"{printed.mean:.3f} ± {printed.std:.4g}"]
        if len(rounds) < FOLDS:
            lines.append([*line, f"{len(rounds)} of {FOLDS} folds run", *[""] * 4])
            continue
        ours = f"{mean(rounds, 'first'):.4f} ± {std(rounds, 'first'):.4f}"
        apart = mean(rounds, "first") - printed.mean
        near = f"{apart:+.4f}" if abs(apart) <= NEAR else f"**{apart:+.4f}**"
        rules = [f"{mean(rounds, rule):.4f}" for rule in RULES[1:]]
        cut = f"{mean(rounds, 'cut'):.4f} ± {std(rounds, 'cut'):.4f}" if label in RIVALS else ""
        lines.append([*line, ours, near, *rules, cut])
    return markdown(
        ["method", "paper", "authors' rules", "difference", "ties one half", "ties wrong", f"AUC of the first {CUT}"],
        lines,
    )


if __name__ == "__main__":
    run()
