"""What the tuner's cache saves: `python -m benchmarks.tuning`.

The training part of MovieLens 1M's first round (generated data of its shape where it is not there) is tuned for
nDCG@100 with two inner folds. Then every tenth of the same trials is repeated on the same folds without the cache.
Writes benchmarks/tuning.json, from which docs/guide/tuning.md quotes.
"""

from __future__ import annotations

import argparse
import json
import time

import komd
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine, movielens
from komd.memory import budget
from komd.tuning.tune import inner_folds

METRIC, ROUNDS = "ndcg@100", 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--every", type=int, default=10, help="repeat every n-th trial without the cache")
    asked = parser.parse_args()
    name, data = movielens()
    train, _ = next(komd.split.folds(data, rng=0))
    start = time.perf_counter()
    found = komd.tune("CFKOMD", train, metric=METRIC, rounds=ROUNDS, budget=asked.budget)
    seconds = time.perf_counter() - start
    some = [trial for trial in found.trials if trial.values][:: asked.every]
    again, apart = 0.0, 0.0
    folds = inner_folds(train, METRIC, 5, ROUNDS, "random", 0, False, None, budget(None))
    for trial in some:
        model = komd.model_from_text(trial.text)
        start = time.perf_counter()
        values = [fold.measure(model) for fold in folds[: len(trial.values)]]
        again += time.perf_counter() - start
        apart = max(apart, *(abs(a - b) for a, b in zip(values, trial.values, strict=True)))
    reused = sum(trial.seconds for trial in some)
    matrices = {
        tuple(trial.params[p] for p in ("kernel", "user_damping", "popularity", "ridge")) for trial in found.trials
    }
    result = {
        "machine": machine(),
        "data": name,
        "budget": asked.budget,
        "settings": len(found.trials),
        "matrices": len(matrices),
        "seconds": seconds,
        "compared": len(some),
        "with_reuse": reused,
        "without": again,
        "ratio": again / reused,
        "largest_difference": apart,
        "best": found.text,
    }
    keep(ROOT / "benchmarks" / "tuning.json", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
