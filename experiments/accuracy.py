"""Every model at its best, compared: settings chosen on one round, reported on others.

    python -m experiments.accuracy                                     # everything; hours on two cores
    python -m experiments.accuracy --sets filmtrust --models CFKOMD,EASE --protocols random

Three protocols:

random, given   5 rounds of the paper's protocol (`komd.split.folds`, `rng=0`; the tested half is drawn, or is the later
                one in the order of the file). Settings are chosen on the first round (fitted to its training part,
                measured on its test users) and reported on the other four. Rounds test different users: no user who is
                reported was measured in choosing, which is checked before any search.
time            pairs after the moment by which 80 % had come are the test, for users who were there before it. Settings
                are chosen in the training part, cut again in the same way.

Models are compared by nDCG@100 and by AUC (ties one half), with the setting chosen for each. Results are kept in
`experiments/work/accuracy/`: rerun to resume. The page is `docs/results/accuracy.md` (`accuracy_page.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import komd
from experiments.accuracy_search import COMPARED, TRIALS, chosen, search
from experiments.places import WORK, load
from komd import files, threads

SETS = ("filmtrust", "ml-100k", "ciao", "lastfm", "delicious", "ml-1m", "book-crossing", "netflix")
TIMED = ("ml-100k", "ciao")  # with dates
MODELS = ("CFKOMD", "MSDW", "RP3Beta", "EASE", "SLIM", "WRMF", "BPR")
PROTOCOLS = ("random", "time", "given")
REPORTED = (*COMPARED, "recall@20", "coverage@10", "popularity@10")
RULE = "CFKOMD.recommended"
WITHOUT = {
    "γ": {"user_damping": 0.0},
    "β": {"popularity": 0.0},
    "filter": {"ridge": None, "rank": None, "head": 0.0},
    "head": {"head": 0.0},
    "prior": {"prior": 0.0},
    "θ < 1": {"negatives_weight": 1.0},
}
"""The stages of the recommended kernel, each removed in turn."""


class Parts(NamedTuple):
    """What settings are chosen on, and what is reported: pairs of training and test data."""

    choosing: tuple[komd.Interactions, komd.Interactions]
    reported: list[tuple[komd.Interactions, komd.Interactions]]


def parts(data: komd.Interactions, protocol: str) -> Parts:
    """The data of a protocol."""
    if protocol == "time":
        train, test = _cut(data)
        return Parts(_cut(train), [(train, test)])
    first, *others = komd.split.folds(data, folds=5, half=protocol, rng=0)
    return Parts(first, others)


def _cut(data: komd.Interactions) -> tuple[komd.Interactions, komd.Interactions]:
    """The first 80 % of all pairs in time, and what users who have some of them did later."""
    train, test = komd.split.temporal(data, at=0.8)
    return train, test.keep((train.activity > 0)[test.rows])


def refuse_leak(parts: Parts) -> None:
    """Refuse to choose settings by a pair that is reported."""
    targets = parts.choosing[1]
    m = targets.shape[1]
    measured = targets.rows.astype(np.int64) * m + targets.indices
    for _, test in parts.reported:
        leaked = int(np.isin(test.rows.astype(np.int64) * m + test.indices, measured).sum())
        if leaked:
            raise komd.InputError(f"{leaked:,} of {test.pairs:,} reported pairs would be measured in choosing settings")


def order_of(data: komd.Interactions) -> dict[str, float]:
    """Of neighbouring pairs of a user, as the data give them: how often the item's id and its popularity rise."""
    together = data.rows[1:] == data.rows[:-1]
    rises = {"id": np.diff(data.indices), "popularity": np.diff(data.popularity[data.indices])}
    return {name: float((steps[together] > 0).mean()) for name, steps in rises.items()}


def folder_of(name: str, protocol: str) -> Path:
    return WORK / "accuracy" / f"{name}-{protocol}"


def run(sets: tuple[str, ...], models: tuple[str, ...], protocols: tuple[str, ...], trials: int = TRIALS) -> None:
    """Choose and report what is not there yet."""
    for protocol in protocols:
        for name in sets:
            data = load(name) if protocol != "time" or name in TIMED else None
            if data is not None:
                _run_one(name, protocol, parts(data, protocol), models, trials)


def _run_one(name: str, protocol: str, found: Parts, models: tuple[str, ...], trials: int) -> None:
    refuse_leak(found)
    folder = folder_of(name, protocol)
    folder.mkdir(parents=True, exist_ok=True)
    users = [int(np.count_nonzero(test.activity)) for _, test in found.reported]
    about = {"users": users, "cores": threads.count(), "order": order_of(found.choosing[0])}
    files.write_text(folder / "about.json", json.dumps(about) + "\n")
    for text in ablated(found.choosing[0]).values() if protocol == "random" else [rule_text(found.choosing[0])]:
        report(text, found, folder)
    files.write_text(folder / "rule.json", json.dumps(ablated(found.choosing[0]), ensure_ascii=False, indent=1) + "\n")
    for model in models:
        tried = search(model, *found.choosing, folder / f"{model}.json", trials)
        for text in {chosen(tried, metric) for metric in COMPARED} - {None}:
            assert text is not None
            report(text, found, folder)


def rule_text(train: komd.Interactions) -> str:
    return komd.CFKOMD.recommended(train).text


def ablated(train: komd.Interactions) -> dict[str, str]:
    """The recommended kernel, and the same without each of its stages: label → text."""
    rule = komd.CFKOMD.recommended(train)
    out = {RULE: rule.text}
    for label, off in WITHOUT.items():
        changed = rule.clone().set_params(**off)
        if changed.text != rule.text:  # else the rule does without it already
            out[label] = changed.text
    return out


def report(text: str, found: Parts, folder: Path) -> dict[str, Any]:
    """One setting on every reported round: the mean of each metric over all test users, and their values."""
    file = kept_file(folder, text)
    if file.exists():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    begun = time.monotonic()
    rounds = []
    for train, test in found.reported:
        rounds.append(komd.evaluate(komd.model_from_text(text).fit(train), test, metrics=REPORTED))
    values = {metric: np.concatenate([each[metric].values for each in rounds]) for metric in REPORTED}
    means = {metric: [each[metric].mean for each in rounds] for metric in REPORTED}
    np.savez_compressed(file.with_suffix(".npz"), **{metric: values[metric] for metric in COMPARED})
    result = {"text": text, "means": means, "seconds": round(time.monotonic() - begun, 1)}
    files.write_text(file, json.dumps(result, indent=1) + "\n")
    shown = {metric: round(float(np.mean(means[metric])), 4) for metric in REPORTED}
    print(f"{folder.name}: {text}: {shown}", flush=True)
    return result


def kept_file(folder: Path, text: str) -> Path:
    return folder / f"reported-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def main() -> None:
    from experiments.accuracy_page import write

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each model's search")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept, and run nothing")
    given = parser.parse_args()
    if not given.page:
        run(*(tuple(getattr(given, k).split(",")) for k in ("sets", "models", "protocols")), given.trials)
    write()


if __name__ == "__main__":
    main()
