"""Which filter of the spectrum earns its place: families of them, chosen on one inner fold and compared on others.

    python -m experiments.filters                        # all data sets: about half an hour on two cores
    python -m experiments.filters --sets lastfm,ml-1m

Every family has a small grid. Its best setting on an inner fold of seed 0 is measured on the first inner folds of three
other seeds, and compared there with K as it is, user by user. Folds are inside the training part of the first round (of
Yelp2018: inside its training file); no test part is used. Results are kept in `experiments/work/filters.json`; the page
is `docs/results/filters.md`.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import komd
from benchmarks.markdown import markdown
from experiments.places import RESULTS, data_folder, keep, kept, load, short
from komd.evaluation.bootstrap import paired_interval
from komd.tuning.inner_fold import InnerFold
from komd.tuning.tune import inner_folds

SETS = ("yelp2018", "lastfm", "book-crossing", "delicious", "ml-1m", "netflix")
METRICS = {"yelp2018": "ndcg@20"}  # as published results have it
METRIC = "ndcg@100"
SEEDS = (1, 2, 3)
COMMON = "kernel='linear', user_damping=0.75, negatives_weight=0, regularization="
LAMBDAS = (0.3, 1.0, 3.0, 10.0)
BETAS, RANKS = (0.0, 0.15, 0.3), (64, 256)
FAMILIES: dict[str, list[str]] = {
    "K as it is": [""],
    "ridge": [f"ridge={mu}, rank={{rank}}" for mu in (10, 30, 100)],
    "head": [f"ridge=1e-6, head={a}, rank={{rank}}" for a in (1, 2, 4)],
    "flat": [f"ridge={mu}, head={a}, rank={{rank}}" for mu in (10, 30, 100) for a in (1, 2, 4)],
    "low": [f"head={a}, rank={{rank}}" for a in (1, 2, 4)],
}
TARGETS = (-0.2, -0.1, 0.1, 0.2)

Values = NDArray[np.float64]


def grid(family: str) -> list[str]:
    """The settings of a family, those that share eigenvectors one after another."""
    texts = FAMILIES[family]
    return list(
        dict.fromkeys(
            f"CFKOMD({COMMON}1.0, popularity={beta}{', ' if text else ''}{text.format(rank=rank)})"
            for beta in BETAS
            for rank in RANKS
            for text in texts
        )
    )


def data_of(name: str) -> komd.Interactions | None:
    """The data that inner folds are made of."""
    if name == "yelp2018":
        file = data_folder() / name / "train.txt.gz"
        return komd.read(file, user=0, item=1, separator=" ", header=False) if file.exists() else None
    data = load(name)
    return None if data is None else next(komd.split.folds(data, folds=5, half="random", rng=0))[0]


def fold_of(data: komd.Interactions, metric: str, seed: int) -> InnerFold:
    return inner_folds(data, metric, 5, 1, "random", seed, True, None, None)[0]


def values_of(fold: InnerFold, text: str) -> tuple[Values, Any]:
    """The metric of each test user, and the users."""
    found = komd.evaluate(fold.fitted(komd.model_from_text(text)), fold.test, metrics=[fold.metric])
    return found[fold.metric].values, found.users


def measure(name: str, data: komd.Interactions, results: dict[str, Any]) -> None:
    metric = METRICS.get(name, METRIC)
    mine = results.setdefault(name, {"metric": metric, "tried": {}, "reported": {}})
    fold = fold_of(data, metric, 0)

    def tried(text: str) -> float:
        if text not in mine["tried"]:
            mine["tried"][text] = float(np.nanmean(values_of(fold, text)[0]))
            print(f"{name}: {text}: {mine['tried'][text]:.4f}", flush=True)
            keep("filters", results)
        return float(mine["tried"][text])

    order = sorted((text for family in FAMILIES for text in grid(family)), key=_spectrum)
    for text in order:
        tried(text)
    best = {family: max(grid(family), key=tried) for family in FAMILIES}
    filtered = max((best[family] for family in FAMILIES), key=tried)
    with_target = [f"{filtered[:-1]}, target={tau})" for tau in TARGETS]
    best["the best of these, and a target factor"] = max(with_target, key=tried)
    mine["best"] = best
    for seed in SEEDS:
        if str(seed) not in mine["reported"]:
            mine["reported"][str(seed)] = _reported(fold_of(data, metric, seed), best, filtered)
            keep("filters", results)


def _spectrum(text: str) -> tuple[str, str]:
    """What the eigenvectors depend on."""
    return text.split("popularity=")[1].split(",")[0], text.split("rank=")[-1] if "rank=" in text else ""


def _reported(fold: InnerFold, best: dict[str, str], filtered: str) -> dict[str, Any]:
    """Of each family, and of λ by the length of histories: mean, and difference to K as it is with its interval."""
    found = {family: values_of(fold, text)[0] for family, text in best.items()}
    by_lambda, users = [], None
    for lam in LAMBDAS:
        values, users = values_of(fold, filtered.replace(f"{COMMON}1.0", f"{COMMON}{lam}"))
        by_lambda.append(values)
    assert users is not None
    lengths = fold.train.activity[fold.train.users.find(users)]
    scale = np.sqrt(np.maximum(lengths, 1) / 20)
    by_length = []
    for lam in LAMBDAS:
        nearest = np.abs(np.log(lam * scale)[:, None] - np.log(LAMBDAS)).argmin(axis=1)
        by_length.append(np.array(by_lambda)[nearest, np.arange(len(nearest))])
    base, same = found["K as it is"], max(by_lambda, key=np.nanmean)  # each at its best
    found["the best filter, λ by length"] = max(by_length, key=np.nanmean)
    rng = np.random.default_rng(0)
    return {
        "users": len(base),
        "families": {
            family: [float(np.nanmean(values)), *paired_interval(values, base, rng)] for family, values in found.items()
        },
        "λ by length": paired_interval(found["the best filter, λ by length"], same, np.random.default_rng(0)),
        "target": paired_interval(
            found["the best of these, and a target factor"],
            by_lambda[LAMBDAS.index(1.0)],
            np.random.default_rng(0),
        ),
    }


def write() -> None:
    """docs/results/filters.md from all that is kept."""
    results = kept("filters")
    names = [name for name in SETS if results.get(name, {}).get("reported")]
    lines = [HEAD]
    for name in names:
        mine = results[name]
        seeds = list(mine["reported"].values())
        rows = []
        for family in seeds[0]["families"]:
            cells = [each["families"][family] for each in seeds]
            differences = "; ".join(_difference(*cell[1:]) for cell in cells) if family != "K as it is" else "–"
            setting = mine["best"].get(family, "")
            rows.append(
                [family, short(float(np.mean([cell[0] for cell in cells]))), differences, f"`{_free(setting)}`"]
            )
        rows[-1][-1] = "λ_u = λ √(m_u / 20)"
        users = ", ".join(f"{each['users']:,}" for each in seeds)
        lines.append(f"\n## {name}: {mine['metric']} of {users} users\n\n")
        head = ["family", "mean of three folds", "difference to K as it is, on each", "setting chosen on another fold"]
        lines.append(markdown(head, rows))
        for label, words in (
            ("target", "The target factor, against the best filter without"),
            ("λ by length", "λ by the length of histories, against the same λ for all"),
        ):
            lines.append(f"\n{words}: ")
            lines.append("; ".join(_difference(*each[label]) for each in seeds) + ".\n")
    (RESULTS / "filters.md").write_text("".join(lines), encoding="utf-8")


def _free(text: str) -> str:
    """What is not common to all settings."""
    return text.removeprefix(f"CFKOMD({COMMON}1.0, ").removesuffix(")")


def _difference(mean: float, low: float, high: float) -> str:
    return f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]"


HEAD = """# Filters of the spectrum, compared

Written by `python -m experiments.filters`. Families of filters of the leading eigenvectors of K
([maths.md](../guide/maths.md), "The head"): *ridge* (μ), *head* (all leading directions count alike: μ → 0 and a head),
*flat* (μ and a head), *low* (a head alone). Linear kernel, γ = ¾, λ = 1, θ = 0; β, the rank, μ and a are chosen from a
small grid on one inner fold (random half, seed 0), and measured on the first inner folds of three other seeds, where
differences to K as it is (β chosen likewise) have 95 % bootstrap intervals over users. Folds are inside the training
part of the first round, of Yelp2018 inside its training file; no test part is used. Two more things were tried on top
of the best family: a target factor τ, and λ √(m_u / 20) for a user of m_u items (rounded to the nearest of 0.3, 1, 3,
10), against the same λ for all, both with the best λ of these on the fold they are measured on.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--page", action="store_true", help="only write the page, from what is kept")
    options = parser.parse_args()
    for name in () if options.page else options.sets.split(","):
        data = data_of(name)
        if data is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", komd.FilterWarning)
                measure(name, data, kept("filters"))
    write()


if __name__ == "__main__":
    main()
