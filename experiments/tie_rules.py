"""Three readings of the AUC where data is sparse: why FilmTrust and Ciao differ from the paper, or do not.

half     equal scores count one half (komd's rule, and that of docs/reproduction.md elsewhere)
strict   equal scores count as wrong (the paper's printed formula)
known    as `half`, but only items that somebody has in training stand in the test and among the candidates
"""

from __future__ import annotations

from typing import Any

import numpy as np

import komd
from experiments.places import keep, kept, load, markdown
from experiments.table_auc import FOLDS, HALVES, ROWS, SEED

DATA = ("filmtrust", "ciao")
METHODS = ("MSDW α=0", "MSDW α=.5", "MSDW α=1", "ECF-OMD", "CF-K Tanimoto")
READINGS = ("half", "strict", "known")


def read_three_ways(text: str, train: komd.Interactions, test: komd.Interactions) -> dict[str, float]:
    model = komd.model_from_text(text).fit(train)
    found = {
        ties: float(komd.evaluate(model, test, metrics=["auc"], ties=ties)["auc"].mean) for ties in ("half", "strict")
    }
    known = np.flatnonzero(train.popularity > 0)
    model = komd.model_from_text(text).fit(train.to_csr()[:, known])
    found["known"] = float(komd.evaluate(model, test.to_csr()[:, known], metrics=["auc"])["auc"].mean)
    return found


def run() -> dict[str, Any]:
    results = kept("ties")
    for name in DATA:
        data = load(name)
        if data is None:
            continue
        for half in HALVES:
            rounds: list[dict[str, Any]] = results.setdefault(name, {}).setdefault(half, [])
            for done, (train, test) in enumerate(komd.split.folds(data, folds=FOLDS, half=half, rng=SEED)):
                if done < len(rounds):
                    continue
                rows = {method: read_three_ways(ROWS[method], train, test) for method in METHODS}
                cold = float((train.popularity[test.indices] == 0).mean())
                rounds.append({"rows": rows, "cold": cold})
                keep("ties", results)
            print(f"{name}, {half} half\n{table(name, rounds)}", flush=True)
    return results


def means(rounds: list[dict[str, Any]], method: str) -> dict[str, float]:
    """Reading → mean AUC over the rounds."""
    return {reading: float(np.mean([r["rows"][method][reading] for r in rounds])) for reading in READINGS}


def table(name: str, rounds: list[dict[str, Any]]) -> str:
    from experiments import paper

    rows = []
    for method in METHODS:
        found = means(rounds, method)
        rows.append([method, f"{paper.AUC[method][name].mean:.3f}", *(f"{found[reading]:.3f}" for reading in READINGS)])
    return markdown(["method", "paper", "ties one half", "ties wrong", "ties one half, known items only"], rows)


if __name__ == "__main__":
    run()
