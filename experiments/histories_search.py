"""How settings are chosen and reported for docs/results/histories.md: grids on choosing folds, then other test users.

A contender is a model with a small grid. Its best setting on the choosing folds is measured on the reported rounds,
user by user, and compared there with another contender: the same model without weights, times or dislikes.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import komd
from experiments import places
from komd import files
from komd.evaluation.bootstrap import paired_interval
from komd.tuning.inner_fold import InnerFold

CHOSEN_BY = "ndcg@100"
METRICS = ("recall@20", CHOSEN_BY, "auc")
FOUND_DISLIKES = "dislikes@20"
"""Recall@20 of dislikes that were held out: the share of them that is recommended among 20 items; less is better."""
MORE_PLAYED = "more played"
"""nDCG@100 with the more played half of a user's held-out items as the only targets."""
LIKED_FIRST = "liked first"
"""Of a held-out liked item and a held-out dislike of the same user, how often the liked one has the higher score."""
KNOWN = "items known"
CACHE = 1 << 30  # bytes of matrices that the trials on one fold share

Values = NDArray[np.float64]
Record = dict[str, Any]


class Contender(NamedTuple):
    """A model and the settings that are tried."""

    label: str
    start: str
    """The text of a model; or the label of an earlier contender, whose chosen setting is held."""
    axes: dict[str, tuple[Any, ...]]
    """Parameters and their values; every combination is tried, the last parameter changing first."""
    against: str | None = None
    """The label of the contender that it is compared with."""
    blind: bool = False
    """Trained on data from which the dislikes were removed: they are not even masked."""


class Round(NamedTuple):
    """What trains and what tests."""

    train: komd.Interactions
    test: komd.Interactions
    dislikes: komd.Interactions | None = None
    """Dislikes of test users that do not train."""
    more_played: komd.Interactions | None = None
    """The test items of larger weight."""


class Case(NamedTuple):
    """One comparison: the rounds on which settings are chosen, those that are reported, and who is compared."""

    name: str
    part: str
    title: str
    words: str
    choosing: list[Round]
    reported: list[Round]
    contenders: list[Contender]


def refuse_leak(case: Case) -> None:
    """Refuse to choose settings by a pair that is reported."""
    for a, b in itertools.product(case.choosing, case.reported):
        leaked = int(np.isin(_keys(b.test), _keys(a.test)).sum())
        if leaked:
            raise komd.InputError(f"{case.name}: {leaked:,} reported pairs would be measured in choosing settings")


def _keys(data: komd.Interactions) -> NDArray[np.int64]:
    return data.rows.astype(np.int64) * data.shape[1] + data.indices


def settings(contender: Contender, chosen: dict[str, str]) -> list[str]:
    """The texts that a contender tries."""
    base = komd.model_from_text(chosen.get(contender.start, contender.start))
    names = list(contender.axes)
    combined = itertools.product(*contender.axes.values())
    return list(
        dict.fromkeys(base.clone().set_params(**dict(zip(names, values, strict=True))).text for values in combined)
    )


def file_of(name: str) -> Path:
    return places.WORK / "histories" / f"{name}.json"


def kept(name: str) -> Record:
    file = file_of(name)
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def run(case: Case) -> Record:
    """Choose and report what is not there yet."""
    refuse_leak(case)
    results = kept(case.name)
    results |= {"part": case.part, "title": case.title, "words": case.words}
    results["users"] = _counted(case.reported)
    choosing = _Folds(case.choosing)
    chosen: dict[str, str] = {}
    rows: dict[str, Record] = {}
    tried: dict[str, list[float]] = results.setdefault("tried", {})
    for contender in case.contenders:
        texts = settings(contender, chosen)
        for text in texts:
            key = _key(text, contender)
            if key not in tried:
                tried[key] = choosing.tried(text, contender)
                _keep(case.name, results)
        inner = {text: float(np.mean(tried[_key(text, contender)])) for text in texts}
        best = max(texts, key=inner.__getitem__)
        chosen[contender.label] = best
        rows[contender.label] = {"text": best, "inner": inner[best], "trials": len(texts), "against": contender.against}
        rows[contender.label]["blind"] = contender.blind
        rows[contender.label]["axes"] = {name: list(values) for name, values in contender.axes.items()}
        rows[contender.label]["tried"] = inner
        print(f"{case.name}: {contender.label}: {inner[best]:.4f} {best}", flush=True)
    if {label: row["text"] for label, row in results.get("rows", {}).items()} != chosen:
        _report(case, rows)
        results["rows"] = rows
        _keep(case.name, results)
    return results


def _key(text: str, contender: Contender) -> str:
    return f"blind {text}" if contender.blind else text


def _keep(name: str, results: Record) -> None:
    file_of(name).parent.mkdir(parents=True, exist_ok=True)
    files.write_text(file_of(name), json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _counted(rounds: list[Round]) -> dict[str, int]:
    """Test users, and those of them with a history to learn from."""
    tested = [each.test.activity > 0 for each in rounds]
    known = [mine & (each.train.activity > 0) for mine, each in zip(tested, rounds, strict=True)]
    return {"tested": int(sum(map(np.sum, tested))), "with a history": int(sum(map(np.sum, known)))}


def _report(case: Case, rows: dict[str, Record]) -> None:
    """Means, and differences to what each contender is compared with, over all test users and those with a history."""
    folds = _Folds(case.reported)
    values: dict[str, dict[str, Values]] = {}
    for contender in case.contenders:
        rounds = folds.reported(rows[contender.label]["text"], contender)
        values[contender.label] = {metric: np.concatenate([each[metric] for each in rounds]) for metric in rounds[0]}
    for label, row in rows.items():
        mine, known = values[label], values[label].pop(KNOWN) > 0
        base = values.get(row["against"] or "")
        for group, members in (("all", np.ones(len(known), bool)), ("known", known)):
            row[group] = {}
            for metric in mine:
                some = members if metric in METRICS else slice(None)
                row[group][metric] = {"mean": float(np.nanmean(mine[metric][some]))}
                if base is not None:
                    pair = mine[metric][some], base[metric][some]
                    row[group][metric]["difference"] = paired_interval(*pair, np.random.default_rng(0))


class _Folds:
    """Rounds with the matrices that their trials share; those without dislikes are made when needed."""

    def __init__(self, rounds: list[Round]) -> None:
        self.rounds = rounds
        self._folds: dict[bool, list[InnerFold]] = {}

    def _of(self, blind: bool) -> list[InnerFold]:
        if blind not in self._folds:
            self._folds[blind] = [
                InnerFold(each.train.with_dislikes(None) if blind else each.train, each.test, CHOSEN_BY, room=CACHE)
                for each in self.rounds
            ]
        return self._folds[blind]

    def tried(self, text: str, contender: Contender) -> list[float]:
        """What settings are chosen by, on each round."""
        model = komd.model_from_text(text)
        return [fold.measure(model) for fold in self._of(contender.blind)]

    def reported(self, text: str, contender: Contender) -> list[dict[str, Values]]:
        """On each round all metrics, each of the users who have it, and the lengths of test users' histories."""
        out = []
        for fold, each in zip(self._of(contender.blind), self.rounds, strict=True):
            model = fold.fitted(komd.model_from_text(text))
            found = komd.evaluate(model, each.test, metrics=METRICS)
            mine = {metric: found[metric].values for metric in METRICS}
            if each.dislikes is not None:
                mine[FOUND_DISLIKES] = komd.evaluate(model, each.dislikes, metrics=["recall@20"])["recall@20"].values
                mine[LIKED_FIRST] = _liked_first(model, each.test, each.dislikes)
            if each.more_played is not None:
                mine[MORE_PLAYED] = komd.evaluate(model, each.more_played, metrics=["ndcg@100"])["ndcg@100"].values
            out.append(mine | {KNOWN: each.train.activity[each.train.users.find(found.users)].astype(np.float64)})
        return out


def _liked_first(model: komd.Recommender, liked: komd.Interactions, disliked: komd.Interactions) -> Values:
    """For each user with both: the share of pairs (liked, disliked) in the right order, equal scores counting half."""
    scores = [model.score(part.to_arrow()).to_arrow()["score"].to_numpy() for part in (liked, disliked)]
    out = []
    for user in np.flatnonzero((liked.activity > 0) & (disliked.activity > 0)):
        a, b = (
            mine[part.indptr[user] : part.indptr[user + 1]]
            for mine, part in zip(scores, (liked, disliked), strict=True)
        )
        out.append(float(((a[:, None] > b) + 0.5 * (a[:, None] == b)).mean()))
    return np.array(out)
