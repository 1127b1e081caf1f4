"""Figures of popularity and activity: how often each item was chosen, how much each user chose, on logarithmic axes.

The line is the power law that fits all points best by least squares of the logarithms, as in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import paper
from experiments.places import RESULTS, keep, load
from komd.sparsity.longtail import least_squares

DATA = ("book-crossing", "ciao", "delicious", "filmtrust", "lastfm", "ml-1m", "netflix")


def run() -> dict[str, Any]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "komd"
    from matplotlib import pyplot

    results: dict[str, Any] = {}
    for name in DATA:
        data = load(name)
        if data is None:
            continue
        figure, axes = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
        results[name] = {}
        for axis, what, noun, counts in (
            (axes[0], "popularity", "item", data.popularity),
            (axes[1], "activity", "user", data.activity),
        ):
            line = least_squares(counts)
            ranked = np.sort(counts[counts > 0])[::-1]
            shown = np.unique(np.geomspace(1, len(ranked), 250).astype(int))
            axis.loglog(shown, ranked[shown - 1], ".", color="0.35", markersize=3)
            axis.set(xlabel=f"{noun}, by rank", ylabel="pairs")
            if line is None:
                continue
            axis.loglog(shown, line.factor * shown**line.slope, color="tab:blue", linewidth=1.2)
            axis.set(title=f"{what}: slope {line.slope:.2f}, R² {line.r2:.2f}")
            axis.set_ylim(bottom=0.7)
            results[name][what] = {"slope": line.slope, "r2": line.r2}
        figure.suptitle(paper.TITLES[name])
        (RESULTS / "figures").mkdir(parents=True, exist_ok=True)
        figure.savefig(RESULTS / "figures" / f"longtail-{name}.svg", metadata={"Date": None})
        pyplot.close(figure)
        keep("longtails", results)
    return results


if __name__ == "__main__":
    for name, tails in run().items():
        print(name, *(f"{what}: slope {tail['slope']:.2f}, R² {tail['r2']:.2f}" for what, tail in tails.items()))
