"""docs/results/history.md and its figure, from benchmarks/history.jsonl: `python -m benchmarks.page_history`."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.history import Run, runs
from benchmarks.markdown import markdown
from benchmarks.measure import ROOT
from benchmarks.ratios import BENCHMARKS

__all__ = ["figure", "page", "write"]

RESULTS = ROOT / "docs" / "results"
FIGURE = "figures/history.svg"
COLUMNS = 2
SHOWN = 12  # the last runs of a benchmark that the figure has room for

HEAD = f"""# Benchmarks over time

Written by every benchmark (`make bench`, `make bench-msd` and the others), from `benchmarks/history.jsonl`, which has
one line per kept run; `make bench-history` writes it again.

A ratio is komd's time (or memory) divided by the peer's in the same run: **less is better**, below 1 komd is ahead.
Ratios can be compared between machines, seconds cannot. Runs beside other work on the same machine are noisy: look at
trends, not at single steps. A commit with a plus had changes that were not committed yet. Runs before the history was
kept are listed under the commit that brought their figures into the project.

![A panel for each benchmark: its ratios, run by run, on a logarithmic scale]({FIGURE})
"""


def by_benchmark(found: list[Run]) -> dict[str, list[Run]]:
    """The runs of each benchmark, in the order of the page."""
    lists = {name: [run for run in found if run["benchmark"] == name] for name in BENCHMARKS}
    return {name: some for name, some in lists.items() if some}


def page(found: list[Run] | None = None) -> str:
    """The text; of the project's history unless other runs are given."""
    parts = [HEAD]
    for name, some in by_benchmark(runs() if found is None else found).items():
        title, known = BENCHMARKS[name]
        last = some[-1]
        rows = []
        for ratio in known:
            values = [run["ratios"][ratio] for run in some if ratio in run["ratios"]]
            if values:
                cells = [
                    f"{value:.3g}" for value in (values[0], values[-2] if len(values) > 1 else math.nan, values[-1])
                ]
                rows.append([ratio, *(cell.replace("nan", "") for cell in cells), f"{values[-1] / values[0]:.2f}×"])
        number = "1 run" if len(some) == 1 else f"{len(some)} runs"
        words = f"{number}; the last on {last['date'][:10]} at `{last['commit']}`, {last['machine']}.\n"
        table = markdown(["komd / peer", "first", "one before", "last", "last / first"], rows)
        parts += [f"## {title}\n", words, table]
    return "\n".join(parts)


def figure(found: list[Run]) -> str:
    """The panels, as SVG."""
    from komd import svg

    lists = by_benchmark(found)
    lines = math.ceil(len(lists) / COLUMNS)
    colours = [svg.FIRST, svg.SECOND, svg.THIRD]

    def draw(fig: Any) -> None:
        axes = fig.subplots(lines, COLUMNS, squeeze=False).ravel()
        for spare in axes[len(lists) :]:
            spare.set_visible(False)
        for panel, (name, some) in zip(axes, lists.items(), strict=False):
            title, known = BENCHMARKS[name]
            some = some[-SHOWN:]
            for number, ratio in enumerate(known):
                places = [place for place, run in enumerate(some) if ratio in run["ratios"]]
                values = [some[place]["ratios"][ratio] for place in places]
                style = {"color": colours[number % 3], "linestyle": ("-", "--")[number // 3 % 2], "linewidth": 1.6}
                panel.plot(places, values, marker="o", markersize=4, label=ratio, **style)
            panel.set_yscale("log")
            low, high = panel.get_ylim()
            svg.plain_log_ticks(panel.yaxis, (1.0, 2.0, 5.0) if high < 100 * low else (1.0,))
            panel.axhline(1.0, color=svg.INK, linewidth=0.8, linestyle=":")
            panel.grid(axis="y")
            panel.set_xlim(-0.4, max(len(some), 2) - 0.6)
            panel.set_xticks(range(len(some)), [run["commit"] for run in some], rotation=40, ha="right", fontsize=7.5)
            svg.legend_above(panel, columns=1, fontsize=8, gap=0.2)
            panel.set_title(title.replace("`", ""), loc="left", fontsize=10.5, pad=8 + 11.5 * len(known))

    return svg.standalone(draw, 9.6, 3.1 * lines)


def write() -> None:
    """Write the page and its figure."""
    (RESULTS / "history.md").write_text(page(), encoding="utf-8")
    (RESULTS / FIGURE).write_text(figure(runs()), encoding="utf-8")


if __name__ == "__main__":
    write()
