"""Readings of the AUC on sparse data: whether they explain why FilmTrust and Ciao differ from the paper.

half      equal scores count one half (komd's rule, and that of docs/results/reproduction.md elsewhere)
strict    equal scores count as wrong (the paper's printed formula)
numbered  equal scores are ranked by the number of the item, higher first (what sorting by score and reversing
          the list does; the opposite order gives 2 · half − numbered)
known     as `half`, but only items chosen by some user in training are tested or are candidates
"""

from __future__ import annotations

from typing import Any

import numpy as np

import komd
from benchmarks.markdown import markdown
from experiments import paper
from experiments.places import keep, kept, load
from experiments.table_auc import FOLDS, HALVES, ROWS, SEED

DATA = ("filmtrust", "ciao")
METHODS = ("MSDW α=0", "MSDW α=.5", "MSDW α=1", "ECF-OMD", "CF-K Tanimoto")
READINGS = {
    "half": "ties one half",
    "strict": "ties wrong",
    "numbered": "ties by item number",
    "known": "ties one half, known items only",
}
BLOCK = 100  # users ranked over all items at a time


def read_in_all_ways(text: str, train: komd.Interactions, test: komd.Interactions) -> dict[str, float]:
    """Reading → AUC of one model in one round."""
    model = komd.model_from_text(text).fit(train)
    found = {ties: komd.evaluate(model, test, metrics=["auc"], ties=ties)["auc"].mean for ties in ("half", "strict")}
    found["numbered"] = ties_by_number(model, test)
    known = np.flatnonzero(train.popularity > 0)
    model = komd.model_from_text(text).fit(train.to_csr()[:, known])
    found["known"] = komd.evaluate(model, test.to_csr()[:, known], metrics=["auc"])["auc"].mean
    return {reading: float(value) for reading, value in found.items()}


def ties_by_number(model: Any, test: komd.Interactions) -> float:
    """AUC where of two items with the same score the one with the higher number stands first."""
    areas = []
    chosen = model.catalogue.popularity[model.catalogue.inside] > 0
    tested = np.flatnonzero(test.activity)
    for start in range(0, len(tested), BLOCK):
        some = tested[start : start + BLOCK]
        everything = test.items.values.to_pylist()  # those that nobody chose must be asked for
        table = model.recommend(test.users.take(some).to_pylist(), n=test.shape[1], items=everything).to_arrow()
        whose = test.users.find(table["user_id"].combine_chunks())
        numbers = test.items.find(table["item_id"].combine_chunks())
        scores = np.where(chosen[numbers], table["score"].to_numpy(), -np.inf)
        for user in some:
            rows = np.flatnonzero(whose == user)
            wanted = np.isin(numbers[rows], test.indices[test.indptr[user] : test.indptr[user + 1]])
            right = wanted[np.lexsort((numbers[rows], scores[rows]))]  # from the last place to the first
            below = np.cumsum(~right)
            areas.append(below[right].mean() / below[-1])
    return float(np.mean(areas))


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
                rows = {method: read_in_all_ways(ROWS[method], train, test) for method in METHODS}
                cold = float((train.popularity[test.indices] == 0).mean())
                rounds.append({"rows": rows, "cold": cold, "rising": rising(data)})
                keep("ties", results)
            print(f"{name}, {half} half\n{table(name, rounds)}", flush=True)
    return results


def rising(data: komd.Interactions) -> float:
    """The share of neighbours in users' rows, in the order of the file, whose item numbers rise."""
    same = data.rows[1:] == data.rows[:-1]
    return float((np.diff(data.indices)[same] > 0).mean())


def means(rounds: list[dict[str, Any]], method: str) -> dict[str, float]:
    """Reading → mean AUC over the rounds."""
    return {reading: float(np.mean([r["rows"][method][reading] for r in rounds])) for reading in READINGS}


def table(name: str, rounds: list[dict[str, Any]]) -> str:
    rows = []
    for method in METHODS:
        found = means(rounds, method)
        rows.append([method, f"{paper.AUC[method][name].mean:.3f}", *(f"{found[reading]:.3f}" for reading in READINGS)])
    return markdown(["method", "paper", *READINGS.values()], rows)


if __name__ == "__main__":
    run()
