"""Write docs/results/accuracy.md from what `experiments.accuracy` has kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import markdown
from experiments.accuracy import MODELS, PROTOCOLS, RULE, SETS, WITHOUT, folder_of, kept_file
from experiments.accuracy_search import COMPARED, chosen
from experiments.accuracy_words import CHOICES, HEAD, REASONS
from experiments.places import RESULTS, short
from komd.evaluation.bootstrap import paired_interval
from komd.tuning.search_space import INACTIVE

OURS = "CFKOMD"
RESAMPLES = 2000


class Reported(NamedTuple):
    """One setting on the reported rounds: means over the rounds, and every test user's value of what is compared."""

    text: str
    means: dict[str, float]
    values: dict[str, NDArray[np.float64]]
    seconds: float


class Difference(NamedTuple):
    """CF-KOMD less another model: the mean over users, and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def word(self) -> str:
        return "ahead" if self.low > 0 else "**behind**" if self.high < 0 else "tied"

    def __str__(self) -> str:
        return f"{_signed(self.mean)} [{_signed(self.low)}, {_signed(self.high)}]"


class Results(NamedTuple):
    """All that is kept of one data set under one protocol."""

    name: str
    protocol: str
    users: int
    order: dict[str, float]
    searches: dict[str, dict[str, Any]]
    rule: dict[str, str]
    reported: dict[str, Reported]

    def best(self, model: str, metric: str) -> Reported | None:
        """The setting of a model that was chosen for a metric, as reported."""
        if model == RULE:
            return self.reported.get(self.rule.get(RULE, ""))
        text = chosen(self.searches.get(model, {}).get("trials", []), metric)
        return self.reported.get(text) if text else None

    def difference(self, model: str, metric: str) -> Difference | None:
        """CF-KOMD less this model, each with the setting chosen for this metric."""
        ours, other = self.best(OURS, metric), self.best(model, metric)
        return compared(ours, other, metric) if ours and other else None


def compared(first: Reported, second: Reported, metric: str) -> Difference:
    rng = np.random.default_rng(0)
    return Difference(*paired_interval(first.values[metric], second.values[metric], rng, RESAMPLES))


def kept(name: str, protocol: str) -> Results | None:
    """What there is; None if nothing."""
    folder = folder_of(name, protocol)
    if not (folder / "about.json").exists():
        return None
    searches = {model: _json(folder / f"{model}.json") for model in MODELS if (folder / f"{model}.json").exists()}
    rule = _json(folder / "rule.json") if (folder / "rule.json").exists() else {}
    texts = {*rule.values(), *(chosen(each["trials"], metric) for each in searches.values() for metric in COMPARED)}
    reported = {}
    for text in texts - {None}:
        assert text is not None
        file = kept_file(folder, text)
        if file.exists():
            found = _json(file)
            means = {metric: float(np.mean(values)) for metric, values in found["means"].items()}
            values = dict(np.load(file.with_suffix(".npz")))
            reported[text] = Reported(text, means, values, found["seconds"])
    about = _json(folder / "about.json")
    return Results(name, protocol, sum(about["users"]), about.get("order", {}), searches, rule, reported)


def _json(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def page(found: list[Results]) -> str:
    tables = [f"\n## {each.name}, {_protocol(each.protocol)}\n\n{_table(each)}{_settings(each)}" for each in found]
    return "".join(
        [HEAD, _verdicts(found), _behind(found), _ablation(found), CHOICES, _ranges(found), _edges(found), *tables]
    )


def _protocol(protocol: str) -> str:
    return "a cut in time" if protocol == "time" else f"{protocol} half"


def _verdicts(found: list[Results]) -> str:
    """For each table and metric: CF-KOMD beside the best rival."""
    rows = []
    for each in found:
        for metric in COMPARED:
            ours = each.best(OURS, metric)
            rivals = {model: each.best(model, metric) for model in MODELS if model != OURS}
            there = {model: result for model, result in rivals.items() if result}
            if ours is None or not there:
                continue
            rival = max(there, key=lambda model: there[model].means[metric])
            difference = compared(ours, there[rival], metric)
            cells = [each.name, each.protocol, metric, short(ours.means[metric]), rival]
            rows.append([*cells, short(there[rival].means[metric]), str(difference), difference.word])
    words = [row[-1] for row in rows]
    count = f"{words.count('ahead')} times ahead, {words.count('tied')} tied, {words.count('**behind**')} behind."
    head = ["data", "protocol", "metric", OURS, "best rival", "", "difference [95 %]", "CF-KOMD is"]
    return f"{markdown(head, rows)}\nOf {len(rows)} comparisons with the best rival CF-KOMD is {count}\n"


def _behind(found: list[Results]) -> str:
    """Every comparison that CF-KOMD loses to any rival, and what that rival has."""
    lines = []
    for model, reason in REASONS.items():
        lost = []
        for each in found:
            for metric in COMPARED:
                difference = each.difference(model, metric)
                if difference and difference.high < 0:
                    lost.append(f"{each.name} ({each.protocol}, {metric}, {_signed(difference.mean)})")
        if lost:
            lines.append(f"- **{model}**: {', '.join(lost)}. A likely reason: {reason}.\n")
    words = "Where a rival is ahead of CF-KOMD, its interval below zero (reasons are conjectures):"
    return f"\n{words}\n\n{''.join(lines)}" if lines else ""


def _table(each: Results) -> str:
    rows = []
    for model in (OURS, RULE, *(model for model in MODELS if model != OURS)):
        cells = [model]
        for metric in COMPARED:
            result, difference = each.best(model, metric), each.difference(model, metric)
            value = short(result.means[metric]) if result else "not run"
            cells += [value, f"{difference} {difference.word}" if difference and model != OURS else ""]
        top = each.best(model, COMPARED[0])
        lists = ("recall@20", "coverage@10", "popularity@10")
        cells += [short(top.means[metric]) for metric in lists] if top else ["", "", ""]
        rows.append([*cells, "a rule" if model == RULE else _effort(each.searches.get(model))])
    head = ["model", COMPARED[0], "CF-KOMD − it", "auc", "CF-KOMD − it", "recall@20", "coverage@10", "popularity@10"]
    told = f"{each.users:,} test users."
    if each.protocol == "given":
        told += (
            f" Of neighbouring rows of a user in the file, {100 * each.order['id']:.0f} % rise in the item's id and "
            f"{100 * each.order['popularity']:.0f} % in its popularity."
        )
    return f"{told}\n\n{markdown([*head, 'trials'], rows)}"


def _effort(search: dict[str, Any] | None) -> str:
    if search is None:
        return ""
    trials = search["trials"]
    size = int(np.prod([len(values) for values in search["ranges"].values()]))
    failed = sum(not record["means"] for record in trials)
    whole = ", the whole grid" if len(trials) == size else ""
    told = f"{len(trials)}{whole}, {sum(record['seconds'] for record in trials):.0f} s"
    return told + (f", {failed} failed" if failed else "")


def _settings(each: Results) -> str:
    lines = []
    for model in (*MODELS, RULE):
        texts = {metric: result.text for metric in COMPARED if (result := each.best(model, metric))}
        if len(set(texts.values())) == 1:
            lines.append(f"- `{texts[COMPARED[0]]}`" + (" (recommended)" if model == RULE else ""))
        else:
            lines += [f"- for {metric}: `{text}`" for metric, text in texts.items()]
    return "\n<details><summary>Settings</summary>\n\n" + "\n".join(lines) + "\n\n</details>\n"


def _ablation(found: list[Results]) -> str:
    """The recommended kernel without each of its stages, and what that loses."""
    parts = ["\n## What each stage of the recommended kernel adds\n\n", ABLATION]
    for metric in COMPARED:
        rows = []
        for each in found:
            rule = each.reported.get(each.rule.get(RULE, ""))
            if each.protocol != "random" or rule is None:
                continue
            cells = [each.name, short(rule.means[metric])]
            for label in WITHOUT:
                other = each.reported.get(each.rule.get(label, ""))
                cells.append(str(compared(rule, other, metric)) if other else "not used")
            rows.append(cells)
        parts.append(f"{metric}:\n\n{markdown(['data', 'recommended', *WITHOUT], rows)}\n")
    return "".join(parts)


ABLATION = """`CFKOMD.recommended` on the reported rounds of the random half, and what it gains over the same kernel
without one stage (difference over users with its 95 % interval; negative where the stage does harm): user damping γ,
popularity β, the spectral filter (ridge and head), its head alone, the prior, and θ < 1 (the rest of the negatives'
weight).

"""


def _ranges(found: list[Results]) -> str:
    """The values that were searched, for each model; where they differ between data sets, each."""
    rows = []
    for model in MODELS:
        seen: dict[str, list[str]] = {}
        for each in found:
            if model in each.searches:
                ranges = each.searches[model]["ranges"]
                text = "; ".join(f"{name}: {', '.join(values)}" for name, values in ranges.items())
                seen.setdefault(text, []).append(f"{each.name} ({each.protocol})")
        usual = max(seen, key=lambda text: len(seen[text]), default="")
        for text, where in seen.items():
            rows.append([model, text, "all others" if text == usual and len(seen) > 1 else _listed(where, found)])
    return f"\n## What was searched\n\n{markdown(['model', 'values', 'on'], rows)}"


def _listed(where: list[str], found: list[Results]) -> str:
    return "all" if len(where) == len(found) else ", ".join(where)


def _edges(found: list[Results]) -> str:
    """Chosen values at an end of their range, where a wider one might do better."""
    rows = []
    for model in MODELS:
        at: dict[str, list[str]] = {}
        for each in found:
            search = each.searches.get(model, {"trials": [], "ranges": {}})
            for metric in COMPARED:
                text = chosen(search["trials"], metric)
                record = next((record for record in search["trials"] if record["text"] == text), {"params": {}})
                for name, value in record["params"].items():
                    values, others = search["ranges"][name], INACTIVE.get(name, {})
                    if others and all(record["params"].get(other) == str(off) for other, off in others.items()):
                        continue  # without effect
                    if len(values) > 2 and value in (values[0], values[-1]) and value not in NATURAL.get(name, ()):
                        at.setdefault(f"{name} = {value}", []).append(each.name)
        rows += [[model, name, str(len(where)), ", ".join(dict.fromkeys(where))] for name, where in at.items()]
    head = ["model", "value", "times", "on"]
    words = "\nChosen values at an end of their range, where a wider one might do better (ends that nothing can lie"
    return f"{words} beyond, such as no filter, are left out):\n\n{markdown(head, rows)}"


NATURAL = {
    "kernel": ("linear", "Polynomial(degree=3, c=0.5)"),
    "user_damping": ("0.0",),
    "popularity": ("0.0",),
    "ridge": ("None",),
    "head": ("0.0",),
    "prior": ("0.0",),
    "negatives_weight": ("0.0", "1.0"),
    "alpha": ("0.0",),
    "beta": ("0.0",),
    "l1": ("0.0",),
}
"""Ends of a range beyond which there is nothing to try."""


def _signed(value: float) -> str:
    """A difference as tables have it.

    >>> _signed(-0.0123)
    '−.0123'
    """
    return ("−" if value < 0 else "+") + short(abs(value))


def write() -> None:
    found = [result for protocol in PROTOCOLS for name in SETS if (result := kept(name, protocol))]
    (RESULTS / "accuracy.md").write_text(page(found), encoding="utf-8")
    print("wrote docs/results/accuracy.md")
