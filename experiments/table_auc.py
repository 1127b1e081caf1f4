"""Table "AUC results of our framework against state-of-the-art methods", for two ways to halve what a user chose.

Every row of the paper with the paper's settings, and methods of today for context. `run(slow=True)` adds, for the
random half, WRMF and BPR with settings chosen by `tuning`, and methods that take minutes a round. Finished rounds are
kept in `experiments/work/auc/`: rerun to resume.
"""

from __future__ import annotations

from typing import Any

import komd
from benchmarks.markdown import markdown
from experiments import paper
from experiments.places import WORK, keep, kept, load
from experiments.tuning import PAPERS_BPR, tuned

HALVES = ("random", "given")
METRICS = ("auc", "ndcg@100")
FOLDS = 5
SEED = 0
TIME_LIMIT = 1200.0  # seconds a row may take, all rounds together

ROWS = {
    **{
        f"MSDW α={name}": f"MSDW(alpha={alpha})"
        for name, alpha in zip(("0", ".25", ".5", ".75", "1"), (0, 0.25, 0.5, 0.75, 1), strict=True)
    },
    "ECF-OMD": "ECFOMD(regularization=0.01)",
    **{
        f"CF-K polynomial c={name}": f"CFKOMD(kernel=Polynomial(degree=2, c={c}), regularization=0.01)"
        for name, c in ((".5", 0.5), ("1", 1), ("2", 2), ("4", 4))
    },
    "CF-K Tanimoto": "CFKOMD(kernel=Tanimoto(), regularization=0.01)",
    "WRMF": "WRMF(factors=100, iterations=30, regularization=0.001, alpha=1)",
    # The paper names no number of factors for BPR: LibRec, which it used, ships with 10.
    "BPR": PAPERS_BPR,
}
CONTEXT = {"RP3β": "RP3Beta(alpha=0.6, beta=0.6)", "Popularity": "Popularity()"}
# BPR on items is BPR's criterion with other items drawn evenly, as in BPR's own paper.
SLOW = {"EASE": "EASE(regularization=1000)", "BPR on items": "BPRKNN()"}
# Minutes a round: EASE inverts a matrix of 16,121² on Ciao; WRMF has 90,736 users on Netflix.
LEFT_OUT = {("ciao", "EASE"), ("netflix", "BPR on items"), ("netflix", "WRMF")}


def rows_of(name: str, data: komd.Interactions, slow: bool) -> dict[str, str]:
    """Label → text of the model, for one data set."""
    rows = ROWS | CONTEXT
    if slow:
        rows |= {f"{rival}, tuned": text for rival, text in tuned(name, data).items()} | SLOW
    return {label: text for label, text in rows.items() if (name, label) not in LEFT_OUT}


def run(names: tuple[str, ...] = ("filmtrust", "ciao", "ml-1m", "netflix"), *, slow: bool = False) -> dict[str, Any]:
    results = kept("auc")
    for name in names:
        data = load(name)
        if data is None:
            continue
        for half in HALVES:  # the tuned rows were tuned on the random half
            rows = rows_of(name, data, slow and half == "random")
            results.setdefault(name, {})[half] = measured(data, rows, half, f"{name}-{half}")
            keep("auc", results)
            print(table(name, results[name]), flush=True)
    return results


def measured(data: komd.Interactions, rows: dict[str, str], half: str, folder: str) -> dict[str, Any]:
    """Label → means and deviations over the rounds, median seconds of a round; or why the row failed."""
    found = komd.compare(
        data,
        list(rows.values()),
        metrics=METRICS,
        folds=FOLDS,
        half=half,
        rng=SEED,
        time_limit=TIME_LIMIT,
        keep=WORK / "auc" / folder,
    )
    results: dict[str, Any] = {}
    for label, text in rows.items():
        row = found[repr(komd.model_from_text(text))]
        if row.failed is not None:
            results[label] = {"text": text, "failed": row.failed}
            continue
        scores = {metric: [row[metric].mean, row[metric].std] for metric in METRICS}
        seconds = {"fit": row.fit_seconds, "rank": row.rank_seconds}
        results[label] = {"text": text, "mark": row["auc"].mark} | scores | seconds
    return results


def table(name: str, halves: dict[str, Any]) -> str:
    """The paper's figure, ours and the difference, for each half."""
    labels = list(dict.fromkeys(label for rows in halves.values() for label in rows))
    lines = []
    for label in labels:
        printed = paper.AUC.get(label.removesuffix(", tuned"), {}).get(name)
        line = [label, f"{printed.mean:.3f} ± {printed.std:.4g}" if printed else ""]
        for rows in halves.values():
            line += _cells(rows.get(label), printed)
        lines.append(line)
    head = ["method", "paper"]
    for half in halves:
        head += [f"{half} half", "difference", "nDCG@100"]
    return markdown(head, lines)


def _cells(row: dict[str, Any] | None, printed: paper.Figure | None) -> list[str]:
    if row is None:
        return ["not run", "", ""]
    if "failed" in row:
        return [row["failed"], "", ""]
    difference = f"{row['auc'][0] - printed.mean:+.3f}" if printed else ""
    ours = f"{row['auc'][0]:.3f}"
    ours = f"**{ours}**" if row["mark"] == "best" else f"**{ours}** tied" if row["mark"] == "tied" else ours
    return [f"{ours} ± {row['auc'][1]:.4f}", difference, f"{row['ndcg@100'][0]:.3f}"]


if __name__ == "__main__":
    run()
