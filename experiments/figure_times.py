"""Figure "Execution time took by the tested methods": seconds to fit and rank a round, from `table_auc`."""

from __future__ import annotations

from typing import Any

from experiments import paper
from experiments.places import RESULTS, kept


def seconds(auc: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Data set → method → median seconds of a round (random half), without the rows that failed."""
    return {
        name: {label: row["fit"] + row["rank"] for label, row in halves["random"].items() if "failed" not in row}
        for name, halves in auc.items()
        if "random" in halves
    }


def run() -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "komd"
    from matplotlib import pyplot

    times = seconds(kept("auc"))
    if not times:
        print("no times yet: python -m experiments.table_auc measures them")
        return
    labels = list(dict.fromkeys(label for rows in times.values() for label in rows))
    figure, axis = pyplot.subplots(figsize=(11, 4.5), layout="constrained")
    width = 0.8 / len(times)
    for k, (name, rows) in enumerate(times.items()):
        places = [x + k * width for x, label in enumerate(labels) if label in rows]
        axis.bar(places, [rows[label] for label in labels if label in rows], width, label=paper.TITLES[name])
    axis.set_yscale("log")
    axis.set_ylabel("seconds a round (fit + rank)")
    axis.set_xticks([x + 0.4 - width / 2 for x in range(len(labels))], labels, rotation=40, ha="right")
    axis.legend(ncols=len(times), loc="upper left")
    axis.grid(axis="y", alpha=0.3)
    (RESULTS / "figures").mkdir(parents=True, exist_ok=True)
    figure.savefig(RESULTS / "figures" / "times.svg", metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    run()
