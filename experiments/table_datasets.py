"""Table "Brief description of the used datasets": the paper's sizes and those of the copies at hand."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import markdown
from experiments import paper
from experiments.places import keep, load


def run() -> dict[str, Any]:
    results = {}
    for name in paper.SIZES:
        data = load(name)
        if data is not None:
            results[name] = {"users": data.shape[0], "items": data.shape[1], "pairs": data.pairs}
    keep("datasets", results)
    return results


def table(results: dict[str, Any]) -> str:
    rows = []
    for name, printed in paper.SIZES.items():
        ours = results.get(name)
        here = [f"{ours[k]:,}" for k in ("users", "items", "pairs")] if ours else ["absent", "", ""]
        share = f"{100 * ours['pairs'] / printed.pairs:.1f} %" if ours else ""
        rows.append([paper.TITLES[name], *(f"{n:,}" for n in printed), *here, share])
    return markdown(
        ["data set", "users (paper)", "items", "pairs", "users (here)", "items", "pairs", "of the pairs"], rows
    )


if __name__ == "__main__":
    print(table(run()))
