"""Write docs/results/reproduction.md from what the other experiments have kept in `experiments/work/`."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.markdown import markdown, wrapped
from experiments import (
    authors_page,
    claims_page,
    differences,
    figure_longtails,
    paper,
    table_auc,
    table_datasets,
    table_density,
    table_msd,
)
from experiments.places import RESULTS, kept

PARTS = ("datasets", "density", "longtails", "auc", "tuning", "authors", "readings", "claims", "msd")


def page(results: dict[str, dict[str, Any]], machine: str) -> str:
    """The page; a part without results says how to get them."""
    sections = [
        _head(machine),
        authors_page.section(results),
        _auc(results),
        claims_page.section(results["claims"]),
    ]
    return "\n".join(
        [*sections, _times(results), _datasets(results), _density(results), _longtails(results), _msd(results)]
    )


def _head(machine: str) -> str:
    return f"""# The paper's experiments, run again

Written by `python -m experiments` (or `make experiments`); every figure comes from that run, and the words about
differences are generated from the figures. [experiments/README.md](../../experiments/README.md) maps each table and
figure to its command. `±` is the standard deviation over the rounds, in ours and in the paper's.

First the authors' own folds, measured by their rules; then the protocol as the paper prints it. Difference = ours −
paper, positive where ours is better. Machine: {machine}.
"""


def _missing(command: str) -> str:
    return f"Not measured yet: `python -m experiments.{command}`.\n"


def _datasets(results: dict[str, Any]) -> str:
    body = table_datasets.table(results["datasets"]) if results["datasets"] else _missing("table_datasets")
    return f"""## The data

{body}
Repeated pairs count once here. The paper's counts of Ciao and FilmTrust are rows of the files. Netflix is a thinned
copy, MSD a corner; MovieLens 1M comes without timestamps.
"""


def _auc(results: dict[str, Any]) -> str:
    title = "## The protocol as printed"
    if not results["auc"]:
        return f"{title}\n\n{_missing('table_auc')}"
    words = f"""Users in {table_auc.FOLDS} random groups (`rng={table_auc.SEED}`); in each round those of one group with
        at least 5 items give half of them to the test, all else trains. "Random half" draws the tested half, "given
        half" takes the later one in the order of the file. AUC over all items not in the history, ties count one half;
        items that nobody chose in the training part rank last. Bold: the best row, and those that the paired test of
        `komd.compare` cannot tell from it ("tied"). CF-K has the polynomial of cosines, degree 2, and the exact q."""
    parts = [f"{title}\n\n{wrapped(words)}\n{differences.summary(results['auc'])}"]
    for name in paper.DATA:
        title = paper.TITLES[name] + (" (half of it)" if name == "netflix" else "")
        if name not in results["auc"]:
            parts.append(f"### {title}\n\n{_missing('table_auc')}")
            continue
        halves = results["auc"][name]
        parts.append(
            f"### {title}\n\n{table_auc.table(name, halves)}\n{differences.about(name, results)}{_left(name, halves)}"
        )
    parts.append(_settings(results))
    return "\n".join(parts)


def _left(name: str, halves: dict[str, Any]) -> str:
    rows = halves.get("random", {})
    wanted = [
        *table_auc.ROWS,
        *table_auc.CONTEXT,
        *table_auc.SLOW,
        *(f"{rival}, tuned" for rival in differences.RIVALS),
    ]
    left = [label for label in wanted if label not in rows]
    if not left:
        return ""
    return (
        f"- Not run: {', '.join(left)} (minutes a round; `python -m experiments --only rivals` runs all but those in "
        "`table_auc.LEFT_OUT`).\n"
    )


def _settings(results: dict[str, Any]) -> str:
    texts = "\n".join(
        f"- {label}: `{text}`" for label, text in (table_auc.ROWS | table_auc.CONTEXT | table_auc.SLOW).items()
    )
    return f"""### Settings

{texts}

WRMF and BPR are [implicit](https://github.com/benfred/implicit)'s. LibRec's BPR takes 100 steps a user in each
iteration and draws the other item evenly; implicit's takes as many steps as there are pairs and draws it by
popularity. The paper does not give BPR's number of factors: 10 is what LibRec ships with. WRMF's learning rate has no
meaning for alternating least squares.{_edges(results["tuning"])}
{_grid(results["tuning"])}"""


def _grid(tuned: dict[str, Any]) -> str:
    rows = [
        [paper.TITLES[name], f"`{text}`" + (" **chosen**" if score == max(scores.values()) else ""), f"{score:.4f}"]
        for name, rivals in tuned.items()
        for scores in rivals.values()
        for text, score in scores.items()
    ]
    if not rows:
        return ""
    grid = markdown(["data set", "setting", "AUC on the inner test"], rows)
    return f"""
The tuned rows come from a small grid, chosen on an inner split of the first training part, never on tested pairs.

<details><summary>What tuning tried</summary>

{grid}
</details>
"""


def _edges(tuned: dict[str, Any]) -> str:
    """Where the chosen setting has the strongest regularization tried, a wider grid might do better: say so."""
    edge = []
    for name, rivals in tuned.items():
        for rival, scores in rivals.items():
            strength = {
                text: float(re.findall(r"regularization=([0-9.]+)", text)[0]) for text in scores if "regul" in text
            }
            best = max(scores, key=scores.__getitem__)
            if len(set(strength.values())) > 1 and strength.get(best) == max(strength.values()):
                edge.append(f"{rival} on {paper.TITLES[name]}")
    if not edge:
        return ""
    return f"\n\nThe strongest regularization tried was the best for {', '.join(edge)}: a wider grid might do better."


def _times(results: dict[str, Any]) -> str:
    if not results["auc"]:
        return f"## Times\n\n{_missing('figure_times')}"
    return """## Times

![Seconds to fit and rank one round, by method and data set](figures/times.svg)

Medians over the rounds of the random half, on a logarithmic axis; the paper's figure is in minutes on a laptop of
2012, with WRMF past 7 hours on Netflix and Ciao. Ranking is of the test users of one round, including all measures.
"""


def _density(results: dict[str, Any]) -> str:
    found = results["density"]
    if not found:
        return f"## How full the kernel is\n\n{_missing('table_density')}"
    off = {name: (row["d"] / row["K"], row["degrees"] / row["K"]) for name, row in found.items()}
    furthest = max(off, key=lambda name: max(off[name][0], 1 / off[name][0]))
    worst = max(max(ratio, 1 / ratio) for _, ratio in off.values())
    apart = max(off[furthest][0], 1 / off[furthest][0])
    return f"""## How full the kernel is

{table_density.table(found)}
K is counted exactly, by blocks of items. The paper's d(K) assumes equally active users and is furthest off on
{paper.TITLES[furthest]}, {apart:.0f} times; the estimate that keeps the degrees of both sides is within {worst:.1f}
times everywhere. Book-Crossing is a subset of active users (hence far denser than the paper's), Netflix is thinned,
Delicious is 93 % of the full set, and MovieLens 1M stands in for 10M where that is absent.
"""


def _longtails(results: dict[str, Any]) -> str:
    found = results["longtails"]
    if not found:
        return f"## Long tails\n\n{_missing('figure_longtails')}"
    rows = [
        [paper.TITLES[name], *(f"{tails[what][k]:.2f}" for what in ("popularity", "activity") for k in ("slope", "r2"))]
        for name, tails in found.items()
    ]
    straight = [paper.TITLES[n] for n, tails in found.items() if tails["activity"]["r2"] >= 0.95]
    pictures = "\n".join(
        f"![Popularity and activity in {paper.TITLES[n]}](figures/longtail-{n}.svg)"
        for n in figure_longtails.DATA
        if n in found
    )
    body = markdown(["data set", "slope of popularity", "R²", "slope of activity", "R²"], rows)
    return f"""## Long tails

{body}
Counts by rank with the least-squares line through their logarithms. The paper finds a power law among users in Ciao
and Book-Crossing only; here activity is a straight line (R² ≥ .95) in {" and ".join(straight) or "none"}.

{pictures}
"""


def _msd(results: dict[str, Any]) -> str:
    found = results["msd"]
    if not found:
        return f"## MSD, a corner\n\n{_missing('table_msd')}"
    train, test = found["train"], found["test"]
    best = {metric: max(found["rows"], key=lambda m: found["rows"][m][metric]) for metric in table_msd.METRICS}
    return f"""## MSD, a corner

**This is not the challenge.** The paper trains on 48 million pairs of 1.2 million users; available here is a
corner with {train["pairs"]:,} pairs of {train["users"]:,} users (visible halves included) and {test["users"]:,}
test users. The levels cannot be compared, only the order of the methods.

{table_msd.table(found)}
{100 * found["cold"]:.0f} % of the hidden pairs are with songs nobody in the corner has listened to, which no method
can rank. Best mAP@500 here: {best["map@500"]} (the paper: MSDW); best AUC: {best["auc"]} (the paper: MSDW). MSDW
leaves most items of such a sparse corner tied at 0, as the last column shows. λ_p is the table's 0.1;
the paper's text says 0.01.
"""


def write() -> None:
    from benchmarks.measure import machine

    results = {name: kept(name) for name in PARTS}
    (RESULTS / "reproduction.md").write_text(page(results, machine()), encoding="utf-8")
    print("wrote docs/results/reproduction.md")


if __name__ == "__main__":
    write()
