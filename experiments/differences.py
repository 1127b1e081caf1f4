"""Words about the differences to the paper, made from the measured figures: what is near, what is not, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from experiments import paper

NEAR = 0.01
RIVALS = ("WRMF", "BPR")
Results = dict[str, Any]


def cells(auc: Results, half: str, name: str | None = None) -> dict[tuple[str, str], tuple[float, float]]:
    """(data set, method) → (ours, ours − paper), for every cell of the paper's table that was measured."""
    return {
        (data, method): (row["auc"][0], row["auc"][0] - paper.AUC[method][data].mean)
        for data, halves in auc.items()
        if name in (None, data)
        for method, row in halves.get(half, {}).items()
        if method in paper.AUC and "failed" not in row
    }


def summary(auc: Results) -> str:
    """How the table compares, in a few lines."""
    lines = []
    for half in ("random", "given"):
        found = {cell: gap for cell, (_, gap) in cells(auc, half).items()}
        if not found:
            continue
        own = [gap for (_, method), gap in found.items() if method not in RIVALS]
        near = sum(abs(gap) <= NEAR for gap in found.values())
        worse = {cell: gap for cell, gap in found.items() if gap < -NEAR}
        lines.append(
            f"- **{half} half**: {near} of {len(found)} cells lie within {NEAR} of the paper, "
            f"{sum(gap > NEAR for gap in found.values())} above, {len(worse)} below. Over the item-based methods the "
            f"mean absolute difference is {np.mean(np.abs(own)):.3f}. The largest: {_largest(found)}."
        )
        if worse:
            lines.append(f"  Where ours is worse by more than {NEAR}: {_listed(worse)}.")
    return "\n".join(lines) + "\n"


def _largest(found: dict[tuple[str, str], float], n: int = 3) -> str:
    return _listed(dict(sorted(found.items(), key=lambda each: -abs(each[1]))[:n]))


def _listed(found: dict[tuple[str, str], float]) -> str:
    ordered = sorted(found.items(), key=lambda each: -abs(each[1]))
    return ", ".join(f"{paper.TITLES[data]} {method} ({gap:+.3f})" for (data, method), gap in ordered)


def about(name: str, results: Results) -> str:
    """What is to be said under the table of one data set."""
    auc = results["auc"]
    own = {
        half: {m: gap for (_, m), (_, gap) in cells(auc, half, name).items() if m not in RIVALS}
        for half in auc.get(name, {})
    }
    said = [_halves(own), _best(name, auc), *_own_words(name, results), *_rivals(name, results)]
    return "\n".join(f"- {sentence}" for sentence in said if sentence) + "\n"


def _halves(own: dict[str, dict[str, float]]) -> str:
    mean = {half: float(np.mean(list(gaps.values()))) for half, gaps in own.items() if gaps}
    if len(mean) < 2:
        return ""
    nearest = min(own, key=lambda half: float(np.mean(np.abs(list(own[half].values())))))
    told = ", ".join(f"{gap:+.3f} with the {half} half" for half, gap in mean.items())
    return (
        f"The paper does not say which half is tested. The item-based rows differ from it by {told} on average; "
        f"the {nearest} half is the nearer one (mean absolute difference "
        f"{np.mean(np.abs(list(own[nearest].values()))):.3f})."
    )


def _best(name: str, auc: Results) -> str:
    ours = {m: value for (_, m), (value, _) in cells(auc, "random", name).items()}
    if not ours:
        return ""
    printed = {m: figures[name].mean for m, figures in paper.AUC.items() if m in ours}
    theirs, here = max(printed, key=printed.__getitem__), max(ours, key=ours.__getitem__)
    same = "here too" if theirs == here else f"here {here} ({ours[here]:.3f}; {theirs} has {ours[theirs]:.3f})"
    best = f"The paper's best row is {theirs} ({printed[theirs]:.3f}), {same}."
    if len(set(printed.values())) < 2 or len(set(ours.values())) < 2:
        return best
    ranks = rank_correlation(list(printed.values()), [ours[m] for m in printed])
    return (
        f"{best} The order of the {len(printed)} methods agrees with the paper's to a rank correlation of {ranks:.2f} "
        "(Spearman's, equal figures sharing their mean rank)."
    )


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's, equal figures sharing their mean rank: printed to three digits, many are equal.

    >>> rank_correlation([0.9, 0.9, 0.8], [0.91, 0.92, 0.8])
    0.866...
    """
    return float(spearmanr(a, b).statistic)


def _movielens(name: str, results: Results) -> list[str]:
    return ["On the authors' own halves (above) the item-based rows agree: what differs here is which half is tested."]


def _netflix(name: str, results: Results) -> list[str]:
    size, printed = results["datasets"].get(name), paper.SIZES[name]
    if not size:
        return []
    return [
        f"The data is thinned: {size['pairs']:,} of about {printed.pairs:,} pairs "
        f"({100 * size['pairs'] / printed.pairs:.0f} %) of {size['users']:,} users instead of {printed.users:,}. "
        "Histories are half as long, so figures below the paper's are to be expected; these cells test the order of "
        "the methods more than their level."
    ]


def _rivals(name: str, results: Results) -> list[str]:
    rows = results["auc"].get(name, {}).get("random", {})
    said = []
    for rival in RIVALS:
        plain, tuned = rows.get(rival, {}), rows.get(f"{rival}, tuned", {})
        if "auc" not in plain or "auc" not in tuned:
            continue
        printed = paper.AUC[rival][name].mean
        said.append(
            f"{rival} with the paper's settings has {plain['auc'][0]:.3f} (paper {printed:.3f}); lightly tuned "
            f"(`{tuned['text']}`) {tuned['auc'][0]:.3f}, {tuned['auc'][0] - printed:+.3f} against the paper."
        )
    wrmf, crowd = (rows.get(label, {}).get("auc", [1.0])[0] for label in ("WRMF", "Popularity"))
    if wrmf < paper.AUC["WRMF"][name].mean - 5 * NEAR:
        said.append(
            "λ = 0.001 hardly regularizes WRMF's 100 factors"
            + (f": it ranks worse than popularity alone ({crowd:.3f}). " if wrmf < crowd < 1 else ". ")
            + "The printed figure is an AUC of short lists (above) and cannot be compared."
        )
    items = rows.get("BPR on items", {})
    if "auc" in items and "auc" in rows.get("BPR, tuned", {}) and "auc" in rows.get("ECF-OMD", {}):
        said.append(
            f"BPR's criterion on items with other items drawn evenly (`{items['text']}`) has {items['auc'][0]:.3f}, "
            f"{items['auc'][0] - rows['BPR, tuned']['auc'][0]:+.3f} against the tuned factors of implicit, which draws "
            f"them by popularity, and {items['auc'][0] - rows['ECF-OMD']['auc'][0]:+.3f} against ECF-OMD."
        )
    return said


def _own_words(name: str, results: Results) -> list[str]:
    return _OWN_WORDS[name](name, results) if name in _OWN_WORDS else []


_OWN_WORDS = {"ml-1m": _movielens, "netflix": _netflix}
