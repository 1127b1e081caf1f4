"""What weights of interactions cost, in K and in users' problems: `python -m benchmarks.weighted_counting`.

On MovieLens 1M (generated data of its shape where it is not there) K is counted three times side by side, in one run:
every user counts 1, users are damped (γ = ½), and pairs have weights (damped too; random numbers of plays). Reported
are, for each way of reading K, the best seconds of each and their ratio to the plain counts, on one thread: K built
dense and sparse, and a streamed K read by rows (its sums), in strips, and gathered for every tenth user. The three have
the same pattern and the same number of additions; weighted ones read 4 bytes more for each.

Then the ten best are ranked for every tenth user, with the same K: every item counts 1, weights count by their
logarithm, and as they are. Writes benchmarks/weighted.json and docs/results/performance.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import komd
from benchmarks import page
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine, movielens, side_by_side
from komd.engine.histories import Histories
from komd.kernels.functions import Tanimoto
from komd.kernels.stages import Stages
from komd.matrix.build import build

EVERY = 10
STAGES = {
    "plain": Stages(Tanimoto()),
    "users damped": Stages(Tanimoto(), 0.5),
    "pairs weighted": Stages(Tanimoto(), 0.5, weighting="log"),
}


def jobs(stages: Stages, histories: Histories, items: int, values: Any) -> dict[str, Callable[[], Any]]:
    """Each way of reading K as a function to be timed."""
    rows = histories.rows
    streamed: Any = build(stages, rows, items, storage="streamed", values=values)
    streamed.prepare()
    some = histories.take(np.arange(0, len(histories), EVERY, dtype=np.int32)).rows
    everything = np.arange(items, dtype=np.int32)

    def strips() -> None:
        for _ in streamed.row_strips(everything, threads=1):
            pass

    return {
        "dense": lambda: build(stages, rows, items, storage="dense", values=values, threads=1),
        "sparse": lambda: build(stages, rows, items, storage="sparse", values=values, threads=1),
        "streamed, rows": lambda: streamed.sums(1),
        "streamed, strips": strips,
        "streamed, gathered": lambda: streamed.gather(some, None, own=True, threads=1),
    }


def measure(data: komd.Interactions) -> dict[str, dict[str, float]]:
    """Best seconds, by the way of reading K and the way of counting."""
    histories = komd.Popularity().fit(data).catalogue.histories
    plays = np.random.default_rng(0).geometric(0.3, len(histories.indices))
    values = np.log2(1.0 + plays).astype(np.float32)
    made = {name: jobs(stages, histories, data.shape[1], values) for name, stages in STAGES.items()}
    return {way: side_by_side({name: ways[way] for name, ways in made.items()}) for way in made["plain"]}


def ranking(data: komd.Interactions) -> dict[str, float]:
    """Best seconds of ranking every tenth user, by what weights do in the users' problems."""
    plays = np.random.default_rng(0).geometric(0.02, data.pairs).astype(np.float32)
    weighted, users = data.with_weights(plays), list(data.users)[::EVERY]
    models = {kind: komd.CFKOMD(kernel="linear", weighting=kind).fit(weighted) for kind in ("none", "log", "linear")}
    return side_by_side({kind: lambda m=model: m.recommend(users, n=10, threads=1) for kind, model in models.items()})


def main() -> None:
    name, data = movielens()
    found = {"data": name, "machine": machine(), "counting": measure(data), "ranking": ranking(data)}
    keep(ROOT / "benchmarks" / "weighted.json", found)
    page.write()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
