"""What moves the cells that differ from the paper, measured on the authors' folds.

polynomials  of cosines and of counts, by degree; the regularization with and without division by f(1)
rivals       WRMF and BPR by number of factors, and AUC of the first 5, 10 and 20 items of a list
msdw         variants of MSDW on FilmTrust, where three printed cells are lower than ours
"""

from __future__ import annotations

from typing import Any

import komd
from benchmarks.markdown import markdown
from experiments import msdw_variants, paper
from experiments.authors_folds import DATA, FOLDS, areas, cut_area, folds
from experiments.count_polynomial import CountPolynomial
from experiments.places import keep, kept
from experiments.table_authors import PAPERS_STEPS, PAPERS_WRMF, mean
from experiments.uniform_bpr import UniformBPR
from komd.kernels import Polynomial

C = (0.5, 1, 2, 4)
LABELS = ("CF-K polynomial c=.5", "CF-K polynomial c=1", "CF-K polynomial c=2", "CF-K polynomial c=4")
DEGREES = (2, 3, 4, 5)
DEPTHS = (5, 10, 20)


def value_at_one(degree: int, c: float) -> float:
    """f(1) of the reduced polynomial of cosines, by which komd divides it: λ for K is λ/f(1) for K/f(1).

    >>> value_at_one(2, 1)
    3
    """
    return (1 + c) ** degree - c**degree


def polynomials() -> dict[str, dict[float, Any]]:
    """Reading → c → model."""
    found: dict[str, dict[float, Any]] = {
        f"cosines, degree {d}": {c: (Polynomial(degree=d, c=c), 0.01) for c in C} for d in DEGREES
    }
    found["cosines, degree 2, λ/f(1)"] = {c: (Polynomial(degree=2, c=c), 0.01 / value_at_one(2, c)) for c in C}
    found |= {f"counts, degree {d}": {c: (CountPolynomial(degree=d, c=c), 0.01) for c in C} for d in DEGREES[:2]}
    return {
        reading: {
            c: komd.CFKOMD(kernel=kernel, regularization=lam, negatives="mean") for c, (kernel, lam) in models.items()
        }
        for reading, models in found.items()
    }


def rivals() -> dict[str, Any]:
    return {
        "WRMF, 100 factors": komd.WRMF(**PAPERS_WRMF),
        "WRMF, 10 factors": komd.WRMF(**PAPERS_WRMF | {"factors": 10}),
        "BPR, 10 factors": UniformBPR(factors=10, **PAPERS_STEPS),
        "BPR, 100 factors": UniformBPR(factors=100, **PAPERS_STEPS),
        "BPR, 10 factors, rate 0.01": UniformBPR(factors=10, **PAPERS_STEPS | {"learning_rate": 0.01}),
        "BPR of implicit, 10 factors": komd.BPR(factors=10, **PAPERS_STEPS),
        "Popularity": komd.Popularity(),
    }


def run(names: tuple[str, ...] = DATA) -> dict[str, Any]:
    results = kept("readings")
    for name in names:
        for k, fold in enumerate(folds(name)):
            found = results.setdefault(name, {})
            for label, model in rivals().items():
                if str(k) not in (rounds := found.setdefault("rivals", {}).setdefault(label, {})):
                    model.fit(fold.train, threads=1)
                    rounds[str(k)] = {"auc": areas(model, fold, "half")[0]} | {
                        f"auc@{n}": cut_area(model, fold, n) for n in DEPTHS
                    }
                    keep("readings", results)
            for reading, models in polynomials().items():
                for c, model in models.items():
                    kinds = found.setdefault("polynomials", {}).setdefault(reading, {})
                    if str(k) not in (rounds := kinds.setdefault(str(c), {})):
                        model.fit(fold.train, threads=1)
                        rounds[str(k)] = dict(zip(("first", "dropped"), areas(model, fold, fold.order), strict=True))
                        keep("readings", results)
            if name == "filmtrust" and str(k) not in (rounds := found.setdefault("msdw", {})):
                rounds[str(k)] = msdw_variants.measured(fold)
                keep("readings", results)
            print(f"{name}, fold {k}: readings measured", flush=True)
    return results


def worst(name: str, found: dict[str, Any], reading: str) -> float:
    """The largest distance of a reading's four polynomial cells from the printed ones."""
    return max(
        abs(mean(found[reading][str(c)], "first") - paper.AUC[label][name].mean)
        for c, label in zip(C, LABELS, strict=True)
    )


def polynomial_table(results: dict[str, Any]) -> str:
    lines = []
    for name, found in results.items():
        printed = " ".join(f"{paper.AUC[label][name].mean:.3f}" for label in LABELS)
        lines.append([paper.TITLES[name], "printed", printed, ""])
        for reading, by_c in found.get("polynomials", {}).items():
            if any(len(by_c.get(str(c), {})) < FOLDS for c in C):
                continue
            ours = " ".join(f"{mean(by_c[str(c)], 'first'):.4f}" for c in C)
            lines.append([paper.TITLES[name], reading, ours, f"{worst(name, found['polynomials'], reading):.4f}"])
    return markdown(["data set", "polynomial of", "AUC at c = .5, 1, 2, 4", "furthest from print"], lines)


def rival_table(results: dict[str, Any]) -> str:
    lines = []
    for name, found in results.items():
        for label, rounds in found.get("rivals", {}).items():
            if len(rounds) < FOLDS:
                continue
            printed = paper.AUC.get(label.replace(",", " ").split()[0], {}).get(name)
            ours = [f"{mean(rounds, what):.4f}" for what in ("auc", *(f"auc@{n}" for n in DEPTHS))]
            lines.append([paper.TITLES[name], label, f"{printed.mean:.3f}" if printed else "", *ours])
    head = ["data set", "rival", "paper", "AUC, ties one half", *(f"AUC of the first {n}" for n in DEPTHS)]
    return markdown(head, lines)


def msdw_table(rounds: dict[str, Any]) -> str:
    lines = [["printed", *(f"{paper.AUC[f'MSDW α={a}']['filmtrust'].mean:.3f}" for a in msdw_variants.ALPHAS)]]
    for variant in next(iter(rounds.values())):
        values = [mean({k: each[variant] for k, each in rounds.items()}, a) for a in msdw_variants.ALPHAS]
        lines.append([variant, *(f"{value:.4f}" for value in values)])
    return markdown(["variant", *(f"α={a}" for a in msdw_variants.ALPHAS)], lines)


if __name__ == "__main__":
    run()
