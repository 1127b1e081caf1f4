"""One tail at a time: generated data of fixed size and density in which one property is changed.

Longer item tails should empty K, longer user tails should fill it (the paper's third contribution), and tastes, which
no estimate from degrees can see, should empty it again. Writes docs/results/figures/sparsity-tails.svg.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import komd
from benchmarks.markdown import markdown
from experiments.places import RESULTS, keep
from komd.matrix.density import exact_density
from komd.matrix.expected_density import estimate_density, paper_density, saturating_density

USERS, ITEMS, PAIRS = 4000, 2000, 40_000
TASTES = 20
LEVELS = {
    "items": (0.0, 0.25, 0.5, 0.75, 1.0, 1.25),
    "users": (0.0, 0.4, 0.8, 1.2, 1.6, 2.0),
    "tastes": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
}
AXES = {
    "items": "exponent of popularity by rank",
    "users": "standard deviation of log activity",
    "tastes": "share of choices inside one's taste",
}
TITLES = {"items": "only the item tail", "users": "only the user tail", "tastes": "only tastes"}
SEEDS = 3


def made(items: float = 0.0, users: float = 0.0, tastes: float = 0.0, *, seed: int = 0) -> komd.Interactions:
    """Data with these two tails and this clustering, always USERS × ITEMS with PAIRS pairs.

    A user's items are drawn without replacement with probability proportional to popularity; with clustering, items
    outside the user's taste weigh 1 − `tastes` times as much, those inside correspondingly more.
    """
    random = np.random.default_rng(seed)
    wanted = np.exp(users * random.standard_normal(USERS))
    activity = spread(wanted, PAIRS, ITEMS // 2)
    weight = np.arange(1, ITEMS + 1, dtype=np.float64) ** -items
    taste = np.arange(ITEMS) % TASTES
    chosen = np.zeros((USERS, ITEMS), bool)
    for v in range(USERS):
        own = taste == v % TASTES
        wish = weight * np.where(own, 1 - tastes + tastes * TASTES, max(1 - tastes, 1e-9))
        keys = np.log(random.random(ITEMS)) / wish  # the largest keys: a draw without replacement by these weights
        chosen[v, np.argpartition(keys, -activity[v])[-activity[v] :]] = True
    return komd.Interactions.of(scipy.sparse.csr_array(chosen))


def spread(wanted: np.ndarray[Any, Any], total: int, most: int) -> np.ndarray[Any, Any]:
    """Whole numbers from 1 to `most` that sum to `total`, as nearly in proportion to `wanted` as possible."""
    low, high = 0.0, float(total) * total / wanted.min() / len(wanted)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(middle * wanted, 1, most).sum() < total else (low, middle)
    exact = np.clip(high * wanted, 1, most)
    whole = np.floor(exact).astype(np.int64)
    rest = total - int(whole.sum())
    order = np.argsort(whole - exact, kind="stable")  # the largest remainders first
    whole[order[:rest]] += 1
    return whole


def densities(data: komd.Interactions) -> dict[str, float]:
    """In per cent."""
    popularity, activity = data.popularity, data.activity
    return {
        "K": 100 * exact_density(data.indptr, data.indices, data.shape[1]).value,
        "d(K)": 100 * paper_density(*data.shape, data.pairs),
        "degree-aware": 100 * estimate_density(popularity, activity),
        "saturating": 100 * saturating_density(popularity, activity),
    }


def run() -> dict[str, Any]:
    results: dict[str, Any] = {}
    for what, levels in LEVELS.items():
        results[what] = []
        for level in levels:
            found = [densities(made(**{what: level}, seed=seed)) for seed in range(SEEDS)]
            means = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
            results[what].append({"level": level, **means})
        keep("sparsity_tails", results)
    figure(results)
    return results


def figure(results: dict[str, Any]) -> None:
    from komd.svg import FIRST, INK, SECOND, THIRD, standalone

    lines = {
        "d(K)": {"color": SECOND, "linestyle": (0, (5, 3)), "marker": "^"},
        "degree-aware": {"color": THIRD, "linestyle": (0, (1, 1.5)), "marker": "s"},
        "saturating": {"color": FIRST, "linestyle": "-", "marker": "D"},
    }

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(results), sharey=True)
        for place, (axes, (what, found)) in enumerate(zip(panels, results.items(), strict=True)):
            x = [each["level"] for each in found]
            for name, style in lines.items():
                y = [each[name] for each in found]
                axes.plot(
                    x,
                    y,
                    label=name,
                    markersize=6.5,
                    markerfacecolor="none",
                    markeredgewidth=1.6,
                    linewidth=1.8,
                    **style,
                )
            axes.plot(x, [each["K"] for each in found], "o", color=INK, markersize=6.5, label="K, counted", zorder=4)
            axes.set_yscale("log")
            axes.grid(True)
            axes.set_title(TITLES[what], fontsize=12.5)
            axes.set_xlabel(AXES[what], fontsize=11)
            axes.tick_params(labelsize=11)
            if place == 0:
                axes.set_ylabel("density of K, per cent", fontsize=11.5)
        panels[0].set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        panels[0].set_ylim(1.7, 110)
        for axes in panels:
            axes.minorticks_off()
        handles, labels = panels[0].get_legend_handles_labels()
        order = [3, 0, 1, 2]
        figure.legend(
            [handles[k] for k in order], [labels[k] for k in order], loc="outside upper left", ncols=4, frameon=False,
            fontsize=11.5,
        )  # fmt: skip

    (RESULTS / "figures").mkdir(parents=True, exist_ok=True)
    (RESULTS / "figures" / "sparsity-tails.svg").write_text(standalone(draw, 11.0, 4.3), encoding="utf-8")


def table(results: dict[str, Any]) -> str:
    rows = [
        [
            TITLES[what],
            f"{each['level']:g}",
            *(f"{each[name]:.3g} %" for name in ("K", "d(K)", "degree-aware", "saturating")),
        ]
        for what, found in results.items()
        for each in found
    ]
    return markdown(["changed", "x", "K", "d(K)", "degree-aware", "saturating"], rows)


if __name__ == "__main__":
    print(table(run()))
