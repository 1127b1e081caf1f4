"""The part of docs/results/reproduction.md about the paper's claims, made from the figures of `claims`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.markdown import wrapped
from experiments import claims
from experiments.table_authors import CUT

Results = dict[str, Any]
LITTLE = 0.01  # of AUC
_CRITICAL = {5: 1.0, 6: 0.886, 7: 0.786, 8: 0.738}  # of Spearman's coefficient at 5 %, two-sided


def section(found: Results) -> str:
    """Each claim with its figures."""
    if not found:
        return "## Claims of the paper\n\nNot measured yet: `python -m experiments --only claims`.\n"
    parts = ["## Claims of the paper\n"]
    if found.get("wrmf"):
        parts += [wrapped(_wrmf(found["wrmf"])), claims.wrmf_table(found["wrmf"])]
    if found.get("times"):
        parts += [wrapped(_times(found["times"])), claims.times_table(found["times"])]
    if len(found.get("tails", {})) > 2:
        parts += [wrapped(_tails(found["tails"])), claims.tails_table(found["tails"])]
    return "\n".join(parts)


def _wrmf(found: Results) -> str:
    first, last = claims.ALPHAS[0], claims.ALPHAS[-1]
    ranges = {
        (lam, which): max(
            float(np.ptp([cells[f"{lam} {a}"][which] for a in claims.ALPHAS if f"{lam} {a}" in cells] or [0.0]))
            for cells in found.values()
        )
        for lam in claims.LAMBDAS
        for which in (0, 1)
    }
    lam, tuned = claims.LAMBDAS
    holds = "holds" if max(ranges.values()) <= LITTLE else "does not hold"
    return f"""**"Changing the value of α does not change the performance" of WRMF: {holds} here.** The first of the
        authors' folds, 100 factors, 30 iterations; AUC with ties one half / AUC of the first {CUT}. From α = {first} to
        {last}, at the paper's λ = {lam:g} AUC varies by up to {ranges[lam, 0]:.3f}, and that of the first {CUT} by up
        to {ranges[lam, 1]:.3f}; at λ = {tuned:g} by up to {ranges[tuned, 0]:.3f} and {ranges[tuned, 1]:.3f}."""


def _times(found: Results) -> str:
    together = [(t["MSDW fit"] + t["MSDW rank"]) / (t["ECF-OMD fit"] + t["ECF-OMD rank"]) for t in found.values()]
    alone = [t["MSDW alone streamed"] / t["ECF-OMD alone held"] for t in found.values()]
    same = [t["MSDW alone held"] / t["ECF-OMD alone held"] for t in found.values()]
    return f"""**"ECF-OMD … almost 5 times faster than MSDW".** The first of the authors' folds, one thread, medians of
        {claims.REPEATS} runs. With the item matrix held for both, MSDW takes {min(together):.2f} to {max(together):.2f}
        times as long to fit and rank: it has the same matrix to build and nothing to solve. The paper counts hours per
        test user on MSD and says that ECF-OMD needs more memory to keep its kernel: so its MSDW keeps no matrix, and
        for each test user counts again whom every item of the history shares with all others. For one user at a time,
        MSDW without a matrix takes {min(alone):.1f} to {max(alone):.1f} times as long as ECF-OMD with K held; with the
        matrix held {min(same):.2f} to {max(same):.2f} times. The difference is between holding the matrix and not."""


def _tails(found: Results) -> str:
    sets = len(found)
    r = {what: claims.correlation(found, "K", what) for what in ("popularity slope", "activity slope")}
    above = {side: claims.correlation(found, "K", f"{side} tail") for side in ("popularity", "activity")}
    lifted = {name: {"lift": row["K"] / row["d"], "slope": row["activity slope"]} for name, row in found.items()}
    bound = f" (5 % significance over {sets} sets: ±{_CRITICAL[sets]:.2f})" if sets in _CRITICAL else ""
    return f"""**"Datasets with a very dense kernel tend to have shorter tails".** Rank correlation of K's density over
        {sets} data sets{bound}: with the slope of popularity {r["popularity slope"]:+.2f}, with the slope of activity
        {r["activity slope"]:+.2f} (a positive sign: denser where the line is flatter); with the ratio of the last tenth
        of the ranks to the fitted line {above["popularity"]:+.2f} for popularity, {above["activity"]:+.2f} for activity
        (negative: the tail of dense sets ends below the line, so it is shorter). What the paper concludes from it, that
        a long tail of users fills K: the ratio of K's density to the estimate d(K), which ignores that tail, has a rank
        correlation of {claims.correlation(lifted, "lift", "slope"):+.2f} with the slope of activity (negative: denser
        than estimated where the slope is steeper)."""
