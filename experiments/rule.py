"""The evidence behind `CFKOMD.recommended`: a few settings on an inner fold of every data set.

    python -m experiments.rule                       # all data sets: some ten minutes on two cores
    python -m experiments.rule --sets filmtrust,ciao

The training part of the first round (5 groups of users, random half, `rng=0`) is split as the tuner does; candidates
are measured on the first inner fold. The test part of the round is never used. Results are kept in
`experiments/work/rule.json`; the page is `docs/results/rule.md`.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import komd
from benchmarks.markdown import markdown
from experiments.accuracy import SETS
from experiments.places import RESULTS, keep, kept, load, short
from komd.tuning.tune import inner_folds

METRICS = ("ndcg@100", "auc")
LARGE = 8_000  # items from which the filters tried are of rank 96: exact ones take minutes

PLAIN = "regularization=2, user_damping=0.5"
FILTERED = "regularization=1, user_damping=0.5"
CANDIDATES = {
    **{f"β = {beta:g}": f"CFKOMD({PLAIN}, popularity={beta})" for beta in (0.0, 0.2, 0.4, 0.6, 0.8)},
    "μ = 40, β = 0.2, θ = ¼, a = ½ (rank 96)": (
        f"CFKOMD({FILTERED}, popularity=0.2, negatives_weight=0.25, ridge=40, rank=96, head=0.5)"
    ),
    "linear, γ = ¾, μ = 30, β = 0.15, θ = 0, a = 2 (rank 256)": (
        "CFKOMD(kernel='linear', regularization=1, user_damping=0.75, popularity=0.15, negatives_weight=0, ridge=30, "
        "rank=256, head=2)"
    ),
    "β = 0.2, c = .003": f"CFKOMD({PLAIN}, popularity=0.2, prior=0.003)",
    "β = 0.6, c = .003": f"CFKOMD({PLAIN}, popularity=0.6, prior=0.003)",
    **{
        f"μ = {mu}, β = 0.2, θ = ¼": f"CFKOMD({FILTERED}, popularity=0.2, negatives_weight=0.25, ridge={mu})"
        for mu in (10, 40)
    },
    **{
        f"μ = {mu}, β = 0.3, θ = ½, c = {c:g}": (
            f"CFKOMD({FILTERED}, popularity=0.3, negatives_weight=0.5, prior={c}, ridge={mu})"
        )
        for mu in (10, 40)
        for c in (0.001, 0.003, 0.01)
    },
}


def measure(name: str, data: komd.Interactions, results: dict[str, Any]) -> None:
    """Every candidate that is not there yet, and the rule, on one inner fold."""
    train, _ = next(komd.split.folds(data, folds=5, half="random", rng=0))
    fold = inner_folds(train, METRICS[0], 5, 1, "random", 0, True, None, None)[0]
    chosen, active = (int(np.count_nonzero(counts)) for counts in (fold.train.popularity, fold.train.activity))
    tried = results.setdefault(name, {})
    tried["data"] = {"users per item": fold.train.pairs / chosen, "items per user": fold.train.pairs / active}
    texts = {label: _sized(text, chosen) for label, text in CANDIDATES.items()}
    texts["the rule"] = komd.CFKOMD.recommended(fold.train).text
    for text in texts.values():
        if text not in tried:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", komd.FilterWarning)
                found = komd.evaluate(fold.fitted(komd.model_from_text(text)), fold.test, metrics=METRICS)
            tried[text] = {metric: round(found[metric].mean, 4) for metric in METRICS}
            print(f"{name}: {text}: {tried[text]}", flush=True)
            keep("rule", results)
    results.setdefault("texts", {})[name] = texts
    keep("rule", results)


def _sized(text: str, chosen: int) -> str:
    return text[:-1] + ", rank=96)" if "ridge" in text and "rank" not in text and chosen > LARGE else text


def write() -> None:
    """docs/results/rule.md from all that is kept."""
    results = kept("rule")
    names = [name for name in SETS if name in results.get("texts", {})]
    lines = [HEAD]
    facts = [[name, *(f"{value:.1f}" for value in results[name]["data"].values())] for name in names]
    rules = [f"`{results['texts'][name]['the rule']}`" for name in names]
    head = ["data", "users per item", "items per user", "the rule chooses"]
    lines.append(markdown(head, [[*fact, rule] for fact, rule in zip(facts, rules, strict=True)]))
    for metric in METRICS:
        best = {name: max(results[name][text][metric] for text in results["texts"][name].values()) for name in names}
        rows = []
        for label in [*CANDIDATES, "the rule"]:
            values = {name: results[name][results["texts"][name][label]][metric] for name in names}
            rows.append([label, *(_cell(value, value == best[name]) for name, value in values.items())])
        lines.append(f"\n## {metric}\n\n{markdown(['setting', *names], rows)}")
    (RESULTS / "rule.md").write_text("".join(lines), encoding="utf-8")


def _cell(value: float, best: bool) -> str:
    return f"**{short(value)}**" if best else short(value)


HEAD = """# What suits which data: the evidence behind `CFKOMD.recommended`

Written by `python -m experiments.rule`. One inner fold of the training part of the paper's first round (random half,
`rng=0`, ties one half); the test part of that round is never used. γ = ½ where nothing else is said. Without μ: λ = 2,
θ = 1 and no filter; with μ: λ = 1 and a ridge filter, exact up to 8,000 items and of rank 96 above; a is the head's. c
is the prior's, with δ = ½. **Bold**: the best of its column.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    for name in parser.parse_args().sets.split(","):
        data = load(name)
        if data is not None:
            measure(name, data, kept("rule"))
    write()


if __name__ == "__main__":
    main()
