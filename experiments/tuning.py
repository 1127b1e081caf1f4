"""Settings of WRMF and BPR from a small grid, chosen without the test pairs.

For each data set the training part of the first round (random half, seed 0) is itself cut by the same protocol (seed
1), and the setting of a small grid with the best AUC on that inner test is used for all rounds and both halves.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import komd
from experiments.places import keep, kept

PAPERS_BPR = "BPR(factors=10, iterations=30, learning_rate=0.001, regularization=0.001)"
SMALL = 200_000  # pairs: below, steps are cheap and BPR may take more of them


def grids(pairs: int) -> dict[str, list[str]]:
    """The settings tried, as texts."""
    return {
        "WRMF": [
            f"WRMF(factors={factors}, iterations=15, regularization={regularization}, alpha={alpha})"
            for factors, regularization, alpha in product((16, 64), (10, 100, 500), (1, 10))
        ],
        "BPR": [
            f"BPR(factors=32, iterations={iterations}, learning_rate={rate}, regularization={regularization})"
            for iterations, rate, regularization in product(
                (30, 300) if pairs < SMALL else (30,), (0.01, 0.05), (0.001, 0.05)
            )
        ]
        + [PAPERS_BPR],
    }


def tuned(name: str, data: komd.Interactions) -> dict[str, str]:
    """WRMF and BPR → the text of the setting chosen for this data set. Every result is kept at once."""
    results = kept("tuning")
    tried: dict[str, dict[str, float]] = results.setdefault(name, {})
    inner: tuple[komd.Interactions, komd.Interactions] | None = None
    for rival, texts in grids(data.pairs).items():
        scores = tried.setdefault(rival, {})
        for text in texts:
            if text in scores:
                continue
            if inner is None:
                train, _ = next(komd.split.folds(data, half="random", rng=0))
                inner = next(komd.split.folds(train, half="random", rng=1))
            scores[text] = _auc(text, *inner)
            keep("tuning", results)
            print(f"tuning {name}: {text}: {scores[text]:.4f}", flush=True)
    return {rival: max(scores, key=scores.__getitem__) for rival, scores in tried.items()}


def _auc(text: str, train: komd.Interactions, test: komd.Interactions) -> float:
    model: Any = komd.model_from_text(text).fit(train)
    return float(komd.evaluate(model, test, metrics=["auc"])["auc"].mean)
