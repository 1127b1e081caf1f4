"""What exact updates cost beside a refit: `python -m benchmarks.updates [--users N]`.

On MovieLens 1M (generated data of its shape where it is not there) 10,000 pairs, drawn at random, are left out of the
fit and then added by 10,000 calls of `update`, one pair each; the model is read once at the end, and once after each of
some of them. Then batches of several sizes are added and removed, beside a refit. Every updated model is compared with
the refit, array by array. With users damped (γ = ½), an event changes the weight of its user, and so the rows of K of
all their items.

On data of the size and shape of the Million Song Dataset (`--users` for less), K streamed, 1 % of the pairs are added
as one batch. Both sides begin with files and end with a list of one user: a refit reads all pairs and fits; an update
reads the batch and takes it in. Writes benchmarks/updates.json and docs/results/performance.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

import komd
from benchmarks import page
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine, movielens
from komd.engine.updates import Updatable

SINGLE, READ = 10_000, 100
BATCHES = (1, 10, 100, 1000, 10_000)
ROUNDS = 5
DAMPING = (0.0, 0.5)
LARGE = ("ECFOMD(storage='streamed')", "MSDW(alpha=0.15, locality=3, storage='streamed')")


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What it gives, and how many seconds it takes, once."""
    start = time.perf_counter()
    found = work(*arguments)
    return found, time.perf_counter() - start


def same(model: Updatable, other: Updatable) -> bool:
    """Whether two models have the same arrays."""
    found, expected = model.view().learned_arrays(), other.view().learned_arrays()
    rows = [each.catalogue.histories.indices for each in (model, other)]
    return np.array_equal(*rows) and all(np.array_equal(found[name], array) for name, array in expected.items())


def single(data: komd.Interactions, damping: float) -> dict[str, Any]:
    """Pairs that come one by one."""
    rng = np.random.default_rng(0)
    chosen = rng.permutation(data.pairs)[: min(SINGLE, data.pairs // 3)]
    left = np.ones(data.pairs, bool)
    left[chosen] = False
    table = data.to_arrow().take(chosen)
    events = list(zip(*(table.column(k).to_pylist() for k in (0, 1)), strict=True))
    make = komd.CFKOMD(user_damping=damping)
    refitted: Any = make.clone().fit(data)
    model: Any = make.clone().fit(data.keep(left))
    model.update(added=events[:1]).refresh()  # what is compiled, is compiled now

    def one_by_one() -> None:
        for event in events[1:]:
            model.update(added=[event])

    asked, taken = timed(one_by_one)[1], timed(model.refresh)[1]
    found = {
        "events": len(events),
        "calls": asked,
        "taken_in": taken,
        "rate": (len(events) - 1) / (asked + taken),
        "same": same(model, refitted),
    }

    def read_after_each() -> None:
        for event in events[:READ]:
            model.update(removed=[event]).recommend(event[0])

    found["read_after_each"] = timed(read_after_each)[1] / READ
    model.update(added=events[:READ]).refresh()
    found["batches"] = {}
    for size in [size for size in BATCHES if size <= len(events)]:
        best = {"update": np.inf, "refit": np.inf}
        for _ in range(ROUNDS):
            for added, removed in ((None, events[:size]), (events[:size], None)):
                best["update"] = min(best["update"], timed(_updated, model, added, removed)[1])
            best["refit"] = min(best["refit"], timed(make.clone().fit, data)[1])
        found["batches"][size] = best | {"same": same(model, refitted)}
    return found


def _updated(model: Any, added: Any, removed: Any) -> Any:
    return model.update(added, removed).refresh()


def large(users: int | None) -> dict[str, Any]:
    """A batch of 1 % of the pairs at the size of the Million Song Dataset."""
    data = komd.generate_like("msd", rng=0, **({} if users is None else {"users": users}))
    rng = np.random.default_rng(0)
    came = np.zeros(data.pairs, bool)
    came[rng.choice(data.pairs, data.pairs // 100, replace=False)] = True
    user, out = data.users[5], {"pairs": data.pairs, "batch": int(came.sum()), "shape": list(data.shape), "models": {}}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.parquet" for name in ("all", "batch")}
        before = data.keep(~came)
        parquet.write_table(data.to_arrow(), files["all"])
        parquet.write_table(data.keep(came).to_arrow(), files["batch"])
        del data
        for text in LARGE:
            out["models"][text] = _large_model(text, before, files, user)
    return out


def _large_model(text: str, before: komd.Interactions, files: dict[str, Path], user: Any) -> dict[str, Any]:
    best = dict.fromkeys(("update", "taken_in", "refit", "fit"), np.inf)
    model: Any = komd.model_from_text(text).fit(before)
    model.recommend(user)
    equal = True
    for _ in range(3):
        read, spent = timed(komd.read, files["all"])
        fitted, fit = timed(komd.model_from_text(text).fit, read)
        fit += timed(fitted.recommend, user)[1]
        best["refit"], best["fit"] = min(best["refit"], spent + fit), min(best["fit"], fit)
        del read
        gc.collect()
        batch, spent = timed(komd.read, files["batch"])
        taken = timed(_updated, model, batch, None)[1] + timed(model.recommend, user)[1]
        best["update"], best["taken_in"] = min(best["update"], spent + taken), min(best["taken_in"], taken)
        equal &= same(model, fitted)
        del fitted
        _updated(model, None, batch).recommend(user)
    return best | {"same": equal}


def main() -> None:
    parser = argparse.ArgumentParser(description="Exact updates beside a refit.")
    parser.add_argument("--users", type=int, help="users of the large data set; 1.2 million by default")
    asked = parser.parse_args()
    name, data = movielens()
    found = {"data": name, "machine": machine(), "single": {str(g): single(data, g) for g in DAMPING}}
    found["large"] = large(asked.users)
    keep(ROOT / "benchmarks" / "updates.json", found)
    page.write()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
