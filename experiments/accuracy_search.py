"""How settings are chosen for docs/results/accuracy.md: as many trials for every model, or its whole grid.

Optuna's estimator proposes one trial to raise nDCG@100, the next to raise AUC, and so on; every trial is measured by
both, so one search serves both comparisons. Searches are seeded: rerun, they make the same trials.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import komd
from komd import files
from komd.tuning.inner_fold import InnerFold
from komd.tuning.optuna_search import OptunaSearch
from komd.tuning.search_space import SearchParameter, affordable, free_parameters
from komd.tuning.tuning_result import Trial

COMPARED = ("ndcg@100", "auc")
"""What models are compared by, each with its own chosen setting; declared before anything was run."""

TRIALS = 30
ITERATIONS = {1_000_000: (10, 20, 40), 200_000: (15, 30, 60, 100)}
"""Of BPR, by the pairs from which more of them would take hours: each costs a gradient step for every pair."""
NOT_BINARY = ("weighting", "weighted_kernel", "half_life", "dislikes_weight")
"""Parameters that are not searched: every pair counts 1 here (`experiments.histories` measures what they are worth)."""
LONGEST_FILTER = 60.0  # seconds that a filter of CF-KOMD may take
CACHE = 2 << 30  # bytes of matrices that CF-KOMD's trials share

Record = dict[str, Any]


def space(model: komd.Recommender, train: komd.Interactions) -> tuple[SearchParameter, ...]:
    """The parameters that are searched and their values: those of `komd tune`, less what would take hours here."""
    parameters = []
    for parameter in free_parameters(model):
        if parameter.name in NOT_BINARY:
            continue
        if type(model).__name__ == "EASE":  # every second value of the library's: the whole grid is tried
            parameter = replace(parameter, values=parameter.values[::2])
        if type(model).__name__ == "BPR" and parameter.name == "iterations":
            few = (values for pairs, values in ITERATIONS.items() if train.pairs > pairs)
            parameter = replace(parameter, values=next(few, parameter.values))
        parameters.append(parameter)
    return affordable(model, tuple(parameters), train, 10 * LONGEST_FILTER, None, lambda line: None)


def search(
    name: str, train: komd.Interactions, test: komd.Interactions, file: Path, trials: int = TRIALS
) -> list[Record]:
    """The trials of one model, fitted to `train` and measured on `test`; written to `file` one by one."""
    base = komd.model_from_text(name)
    parameters = space(base, train)
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    ranges = {parameter.name: [str(value) for value in parameter.values] for parameter in parameters}
    # Of an earlier run, the trials that are still in these ranges.
    done: list[Record] = [
        record
        for record in kept.get("trials", [])
        if record["params"].keys() == ranges.keys()
        and all(value in ranges[name] for name, value in record["params"].items())
    ]
    fold = InnerFold(train, test, COMPARED[0], room=CACHE)
    while len(done) < trials:
        metric = COMPARED[len(done) % len(COMPARED)]
        proposal = OptunaSearch(base, parameters, 0, [_seen(record, metric) for record in done]).ask()
        if proposal is None:  # the whole grid has been tried
            break
        record = _measured(proposal.model, proposal.params, fold)
        done.append(record)
        files.write_text(file, json.dumps({"model": name, "ranges": ranges, "trials": done}, indent=1) + "\n")
        print(f"{file.parent.name} {len(done)}: {record['text']} {record['means'] or record['reason']}", flush=True)
    return done


def _measured(model: komd.Recommender, params: dict[str, str], fold: InnerFold) -> Record:
    begun = time.monotonic()
    means, reason = {}, ""
    try:
        found = komd.evaluate(fold.fitted(model), fold.test, metrics=COMPARED)
        means = {metric: found[metric].mean for metric in COMPARED}
    except komd.KomdError as error:
        reason = str(error)
    seconds = round(time.monotonic() - begun, 2)
    return {"text": model.text, "params": params, "means": means, "seconds": seconds, "reason": reason}


def _seen(record: Record, metric: str) -> Trial:
    """A trial as the search for one metric sees it."""
    values = [record["means"][metric]] if record["means"] else []
    state = "complete" if values else "failed"
    return Trial(record["text"], record["params"], values, record["seconds"], state, record["reason"])


def chosen(trials: list[Record], metric: str) -> str | None:
    """The text of the best trial, the first of equals; None if none could be measured."""
    measured = [record for record in trials if record["means"]]
    return max(measured, key=lambda record: record["means"][metric])["text"] if measured else None
