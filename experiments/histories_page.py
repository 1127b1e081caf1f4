"""docs/results/histories.md, from what is kept. Every sentence about a result is made from its figures."""

from __future__ import annotations

import json

import komd
from benchmarks.markdown import markdown, wrapped
from experiments import places
from experiments.histories_search import CHOSEN_BY, FOUND_DISLIKES, LIKED_FIRST, METRICS, MORE_PLAYED, Record
from experiments.places import short

NAMES = {"recall@20": "recall@20", "ndcg@100": "nDCG@100", "auc": "AUC"}
NAMES |= {FOUND_DISLIKES: "dislikes in 20", LIKED_FIRST: "liked first", MORE_PLAYED: "nDCG@100 of the more played"}
TITLES = {"time": "Times", "plays": "Weights", "dislikes": "Dislikes"}
THINGS = {"time": "a half-life", "plays": "weights", "dislikes": "dislikes among the negatives"}
ORDER = ("ml-100k-later", "ciao-later", "ml-100k-halves", "ciao-halves", "lastfm-plays", "msd-plays", "msd-hidden")
ORDER += ("ml-100k-dislikes", "ml-1m-dislikes")
VARIED = {"time": "half_life", "plays": "weighting", "dislikes": "dislikes_weight"}


def cases() -> list[tuple[str, Record]]:
    """What is kept and reported, in the order of the page."""
    found = []
    for file in (places.WORK / "histories").glob("*.json"):
        results = dict(json.loads(file.read_text(encoding="utf-8")))
        if results.get("rows"):
            found.append((file.stem, results))
    return sorted(found, key=lambda each: (list(TITLES).index(each[1]["part"]), ORDER.index(each[0])))


def difference(cell: Record) -> str:
    """A difference and its interval, bold if the interval excludes 0.

    >>> difference({"difference": [0.01, 0.002, 0.018]})
    '**+.0100 [+.0020, +.0180]**'
    """
    mean, low, high = map(_signed, cell["difference"])
    text = f"{mean} [{low}, {high}]"
    return f"**{text}**" if side(cell) else text


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("0.", ".", 1)


def side(cell: Record) -> int:
    """1 if the interval of the difference is above 0, -1 if below, 0 if it contains 0."""
    _, low, high = cell["difference"]
    return 1 if low > 0 else -1 if high < 0 else 0


def listed(words: list[str]) -> str:
    """Words as a sentence has them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def verdict(cells: dict[str, Record]) -> str:
    """What the intervals of all differences say, in words."""
    out = []
    for sign, words in ((1, "higher"), (-1, "lower")):
        some = [
            f"{NAMES[metric]} ({difference(cell).strip('*')})" for metric, cell in cells.items() if side(cell) == sign
        ]
        if some:
            out.append(f"{words} in {listed(some)}")
    unsure = [f"{NAMES[metric]} ({_signed(cell['difference'][0])})" for metric, cell in cells.items() if not side(cell)]
    if unsure:
        out.append(f"no difference beyond chance in {listed(unsure)}")
    return "; ".join(out)


def families(rows: dict[str, Record]) -> dict[str, list[str]]:
    """Each contender that others are compared with, and those others."""
    out: dict[str, list[str]] = {}
    for label, row in rows.items():
        if row["against"] is not None and not row["blind"]:
            out.setdefault(row["against"], []).append(label)
    return out


def preferred(results: Record, group: str) -> list[str]:
    """For each family: what the choosing rounds prefer, and how that did on the reported users."""
    rows, thing = results["rows"], THINGS[results["part"]]
    out = []
    for base, others in families(rows).items():
        best = max(others, key=lambda label: rows[label]["inner"])
        inner = f"{short(rows[best]['inner'])} with, {short(rows[base]['inner'])} without"
        found = verdict(rows[best][group])
        if rows[best]["inner"] > rows[base]["inner"]:
            words = f"the choosing rounds prefer {thing} ({inner}): `{_setting(results, best)}`. On the reported users"
        else:
            words = (
                f"the choosing rounds prefer to do without {thing} ({inner}): a search would choose none. The best "
                f"setting with (`{_setting(results, best)}`), on the reported users"
            )
        out.append(f"*{base}*: {words}: {found}.")
    return out


def _setting(results: Record, label: str) -> str:
    """The varied parameters of a chosen setting."""
    params = komd.model_from_text(results["rows"][label]["text"]).get_params()
    names = [VARIED[results["part"]], *(["weighted_kernel"] if params.get("weighted_kernel") else [])]
    return ", ".join(f"{name}={params[name]!r}" for name in names)


def counted(part: str, found: list[tuple[str, Record]], group: str) -> str:
    """How often it was higher, lower, or neither, by the metric that settings are chosen by."""
    compared = {
        (name, row["text"], row["against"]): side(row[group][CHOSEN_BY])  # the same setting counts once
        for name, results in found
        for others in families(results["rows"]).values()
        for row in (results["rows"][label] for label in others)
    }
    sides = list(compared.values())
    higher, lower, unsure = (sides.count(sign) for sign in (1, -1, 0))
    words = (
        f"In {len(sides)} comparisons with and without {THINGS[part]}, nDCG@100 is higher with in {higher} and lower"
    )
    return f"{words} in {lower} (the interval excludes 0); in {unsure} the interval contains 0."


def overview(found: list[tuple[str, Record]], group: str) -> str:
    """Differences of nDCG@100: a row for each contender, a column for each case."""
    labels = list(
        dict.fromkeys(label for _, results in found for label, row in results["rows"].items() if row["against"])
    )
    rows = [
        [label, *(difference(r["rows"][label][group][CHOSEN_BY]) if label in r["rows"] else "" for _, r in found)]
        for label in labels
    ]
    return markdown(["difference of nDCG@100", *(results["title"] for _, results in found)], rows)


def table(results: Record, group: str) -> str:
    """Means and differences of all contenders."""
    rows = []
    for label, row in results["rows"].items():
        cells = []
        for cell in row[group].values():
            cells.append(f"{short(cell['mean'])}" + (f" {difference(cell)}" if "difference" in cell else ""))
        rows.append([label, *cells])
    first = next(iter(results["rows"].values()))
    return markdown(["", *(NAMES[metric] for metric in first[group])], rows)


def chosen(results: Record) -> str:
    """What was chosen, and by what."""
    rows = [
        [label, str(row["trials"]), short(row["inner"]), f"`{row['text']}`"] for label, row in results["rows"].items()
    ]
    return markdown(["", "settings tried", "nDCG@100 in choosing", "setting chosen"], rows)


def by_value(results: Record, base: str) -> dict[str, float]:
    """The best nDCG@100 in choosing for each value of what is varied, of all that is compared with `base`."""
    name, best = VARIED[results["part"]], {}
    for label in families(results["rows"])[base]:
        for text, inner in results["rows"][label]["tried"].items():
            params = komd.model_from_text(text).get_params()
            value = f"{params[name]}{' in K too' if params.get('weighted_kernel') else ''}"
            best[value] = max(best.get(value, 0.0), inner)
    return best


def profile(results: Record) -> list[str]:
    """Of each family, in words: the best nDCG@100 in choosing for each value of what is varied."""
    name, out = VARIED[results["part"]], []
    for base in families(results["rows"]):
        words = "; ".join(f"{value} {short(inner)}" for value, inner in by_value(results, base).items())
        without = short(results["rows"][base]["inner"])
        out.append(f"*{base}*, nDCG@100 in choosing, the best for each `{name}`: without {without}; {words}.")
    return out


def never_worse(part: str, found: list[tuple[str, Record]]) -> str:
    """The values that are in choosing at least as good as none, in every family of CF-KOMD that tries them."""
    tried: dict[str, list[bool]] = {}
    for _, results in found:
        for base in families(results["rows"]):
            if base.startswith("WRMF"):
                continue
            for value, inner in by_value(results, base).items():
                tried.setdefault(value, []).append(inner >= results["rows"][base]["inner"])
    families_tried = max(map(len, tried.values()))
    good = [value for value, wins in tried.items() if all(wins) and len(wins) == families_tried]
    name, verb = VARIED[part], "are" if len(good) > 1 else "is"
    words = f"of `{name}`, {listed(good)} {verb}" if good else f"no value of `{name}` is"
    return f"In choosing, {words} at least as good as none in all {families_tried} families of CF-KOMD."


def check(found: dict[str, Record]) -> str:
    """Whether all three metrics are above the same model without, on ML-100K cut in time."""
    results = found.get("ml-100k-later")
    if results is None:
        return ""
    out, told = [], set()
    for label, row in results["rows"].items():
        if row["against"] is None or row["text"] in told:
            continue
        told.add(row["text"])
        for group, who in (("all", "all test users"), ("known", "those with a history")):
            cells = row[group]
            below = [NAMES[metric] for metric in METRICS if cells[metric]["difference"][0] <= 0]
            sure = [NAMES[metric] for metric in METRICS if side(cells[metric]) > 0]
            holds = (
                "all three metrics are above the same model without" if not below else f"not above in {listed(below)}"
            )
            surely = f"the interval excludes 0 for {listed(sure)}" if sure else "no interval excludes 0"
            figures = ", ".join(f"{NAMES[metric]} {difference(cells[metric]).strip('*')}" for metric in METRICS)
            out.append(_bullet(f"*{label}* (`{_setting(results, label)}`), {who}: {holds}; {surely}: {figures}."))
    return f"\n{CHECK}\n" + "".join(out)


def _bullet(words: str) -> str:
    return wrapped(f"- {words}").rstrip("\n").replace("\n", "\n  ") + "\n"


def write() -> None:
    """The page."""
    found = cases()
    lines = [HEAD, f"\n{LOOKED}"]
    for part, title in TITLES.items():
        mine = [(name, results) for name, results in found if results["part"] == part]
        if not mine:
            continue
        group = "known" if part == "time" else "all"
        words = wrapped(f"{counted(part, mine, group)} {never_worse(part, mine)}")
        lines.append(f"\n## {title}\n\n{ABOUT[part]}\n{words}\n{overview(mine, group)}")
        if part == "time":
            lines.append(check(dict(mine)))
        for _, results in mine:
            lines.append(_section(results, group))
    (places.RESULTS / "histories.md").write_text("".join(lines), encoding="utf-8")


def _section(results: Record, group: str) -> str:
    users = results["users"]
    who = f"{users['tested']:,} test users, {users['with a history']:,} of them with a history."
    lines = [f"\n### {results['title']}\n\n", wrapped(f"{results['words']} {who}"), "\n"]
    lines += [_bullet(words) for words in preferred(results, group)]
    if group == "known" and users["tested"] != users["with a history"]:
        lines.append(
            f"\nUsers with a history:\n\n{table(results, 'known')}\nAll test users:\n\n{table(results, 'all')}"
        )
    else:
        lines.append(f"\n{table(results, group)}")
    lines.append(f"\n{chosen(results)}\n")
    lines.append("\n".join(wrapped(words) for words in profile(results)))
    return "".join(lines)


HEAD = """# Weights, times and dislikes: what they are worth

Written by `python -m experiments.histories`. The same models with and without a half-life, weights or dislikes: means
over test users of recall@20, nDCG@100 and AUC (ties one half), and the difference "with − without" with its 95 % paired
bootstrap interval over users; **bold**: the interval excludes 0. Every setting (λ and the other parameters, the
half-life, the weighting, ω) is chosen by nDCG@100 on rounds from which no figure is reported; each section names them.
Of equal settings the first is taken. There are many comparisons below: of twenty intervals that should contain 0, one
will not.
"""
LOOKED = """*Weights* (but for the hidden halves of MSD) and *dislikes* were run twice. After the first run, with its
figures in sight, the grid of λ for weights was extended from 0.1 to 0.01 and that of WRMF's α from 40 to 100, where
choices had been at the edge (WRMF's λ from 5, 20, 50, 200 became 10, 50, 200), and the measures *more played* and
*liked first* and the rows of fixed ω were added. Of what is chosen that changed λ on LastFM without weights (0.1
before; differences of nDCG@100 to it were +.0000 [-.0003, +.0003] for log, +.0002 [-.0001, +.0005] for sqrt), and WRMF
on MSD.
"""
CHECK = """The check of the design: with the half-life found inside the training part of ML-100K, are recall@20,
nDCG@100 and AUC all above the same model without? The setting *as in the design* (γ = ½, β = 0.2, μ = 10, λ = 1,
θ = 0) had been measured on this test part before: over all test users, without .1237, .3302 and .8104, with 30 days
.1298, .3338 and .8142. No other setting had been.
"""
TIME = """A half-life multiplies what an item counts by 2^(−age / half-life), ages being counted from the user's last
event. Users without a history are recommended what is popular, by every model, so a half-life can matter only to the
others: differences are of those with a history. *Half-life*: the other settings are held as they were chosen without;
*half-life and λ* (for WRMF, α): these are chosen together. All pairs count as choices, whatever the rating. CF-KOMD
tries more settings than WRMF on ML-100K, and fewer on Ciao: the comparison is of each with itself.
"""
PLAYS = """Weights are play counts. λ is chosen for each variant anew, since weights change what it means
(λ_i = λ / h_i). Other parameters of CF-KOMD are those of `CFKOMD.recommended`, which were chosen for data without
weights. WRMF has confidences 1 + α h, and values of α divided by the median of h, so that the median pair counts alike.
Held-out items count alike in the first three columns; in the last only the more played half of each user's does.
"""
DISLIKES = """Liked from 4 stars, disliked up to 2; what is between is left out. *Masked*: what a user dislikes is not
recommended. *Unknown*: the same model and setting, trained without the dislikes, so that they compete with the held-out
items. *Among the negatives*: masked, and with ω > 0 their mean is subtracted, in the problem and in the score.
Parameters are those of `CFKOMD.recommended`, with θ (and ω) from a grid. Two measures are of test users' dislikes that
were held out as well: *dislikes in 20*, the share of them among 20 recommended items (less is better), and *liked
first*, how often a held-out liked item has a higher score than a held-out dislike of the same user. WRMF cannot use
dislikes: they are masked, and no more.
"""
ABOUT = {"time": TIME, "plays": PLAYS, "dislikes": DISLIKES}
