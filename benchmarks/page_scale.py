"""The part of docs/results/performance.md that `make bench-scale` measures, and its figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.markdown import markdown

__all__ = ["figure", "predicted", "section", "slope"]

_ROOM = 0.05  # by which a measured slope may exceed the predicted one
_WORDS = {"users": "users", "items": "items", "activity": "items of a user (mean)"}


def predicted(results: dict[str, Any], line: list[dict[str, Any]]) -> np.ndarray:
    """Seconds if counting grows as Σ a_v² and scoring as the non-zeros touched, mixed as at the first point."""
    first = line[0]
    spent = first["phases"]["seconds"]
    scoring, counting = spent["use"] / results["threads"], spent["gather"] + spent["count"]
    terms = [counting * p["squares"] / first["squares"] + scoring * p["touched"] / first["touched"] for p in line]
    return np.array(terms) * first["seconds"] / terms[0]


def predicted_memory(results: dict[str, Any], line: list[dict[str, Any]]) -> np.ndarray:
    """Bytes: the pairs by user and by item, all users' K₊, the largest strip, the lists."""
    lists = 12.0 * results["ranked_users"] * results["best"]
    return np.array(
        [
            8.0 * p["pairs"] + 16.0 * p["users"] + 4 * p["own_squares"] + 6.0 * p["phases"]["largest_strip"] + lists
            for p in line
        ]
    )


def slope(line: list[dict[str, Any]], doubled: str, values: Any) -> float:
    """Of the straight line through the points on logarithmic axes: 1 doubles with what is doubled."""
    sizes = np.log2([p[doubled] for p in line])
    found = float(np.polyfit(sizes, np.log2(np.asarray(values, np.float64)), 1)[0])
    return 0.0 if abs(found) < 0.005 else found  # shown with two places, never as −0.00


def _slopes(line: list[dict[str, Any]], doubled: str, values: Any) -> str:
    """The slope of all points, and of the last three."""
    return f"{slope(line, doubled, values):.2f} ({slope(line[-3:], doubled, values[-3:]):.2f})"


def section(results: dict[str, Any]) -> str:
    """The text, from scale.json."""
    base, rows, over = results["base"], [], []
    for doubled, line in results["lines"].items():
        seconds, counting = [p["seconds"] for p in line], [p["counting"] for p in line]
        squares, memory = [p["squares"] for p in line], [p["growth"] for p in line]
        first, last, kept = line[0], line[-1], predicted_memory(results, line)
        cells = [
            f"{_WORDS[doubled]}, {first[doubled]:,} to {last[doubled]:,}",
            f"{seconds[0]:.2g} → {seconds[-1]:.2g} s",
        ]
        cells += [_slopes(line, doubled, seconds), _slopes(line, doubled, predicted(results, line))]
        cells.append(_slopes(line, doubled, counting))
        cells += [
            _slopes(line, doubled, [p["squares"] for p in line]),
            f"{first['growth'] / 1e6:.0f} → {last['growth'] / 1e6:.0f} MB",
        ]
        rows.append([*cells, f"{slope(line, doubled, memory):.2f}", f"{slope(line, doubled, kept):.2f}"])
        lines_of = {"fit and rank": (seconds, predicted(results, line)), "counting alone": (counting, squares)}
        for what, (measured, bound) in lines_of.items():
            for part, of in ((slice(None), "all points"), (slice(-3, None), "the last two doublings")):
                found, allowed = (slope(line[part], doubled, values[part]) for values in (measured, bound))
                if found > allowed + _ROOM:
                    over.append((doubled, f"{what} with {doubled} over {of} ({found:.2f}, predicted {allowed:.2f})"))
    head = [
        "doubled",
        "time",
        "slope",
        "predicted",
        "counting alone: slope",
        "of Σ a_v²",
        "memory",
        "slope",
        "predicted",
    ]
    verdict = (
        f"Every slope of time is at most the predicted one (within {_ROOM})."
        if not over
        else f"Steeper than predicted by more than {_ROOM}: {'; '.join(words for _, words in over)}."
    )
    extra = "" if not any(doubled == "items" for doubled, _ in over) else f" {_why(results)}"
    return f"""## How it grows

From one run of `make bench-scale`. Machine: {results["machine"]}. The generated data begin with
{base["users"]:,} users × {base["items"]:,} items and {base["activity"]} items per user; each of the three is doubled
alone. Time is that of fitting `ECFOMD(storage="streamed")` and listing the {results["best"]} best items of
{results["ranked_users"]:,} users on {results["threads"]} threads; memory is what the process took beyond the data and
the libraries. A slope of 1 means: twice the size, twice the time. In brackets the slope of the last two doublings,
where fixed costs matter least.

![Time and memory on logarithmic axes as users, items and activity double, with the predicted lines](figures/scale.svg)

{markdown(head, rows)}
The prediction for time: counting grows as Σ a_v² (a_v: items of user v), scoring as the non-zeros of K that users
touch, in the proportion measured at the first point. For memory: 8 bytes per pair, every ranked user's K₊, the largest
strip, and the lists. {verdict}{extra}
"""


def _why(results: dict[str, Any]) -> str:
    line = results["lines"]["items"]
    first, last = (p["phases"]["work"] for p in (line[0], line[-1]))

    def grew(name: str) -> str:
        return f"{first[name]:.2g} → {last[name]:.2g}"

    return (
        "The rest of the work shows when only items double: every strip of columns visits every user of every item, "
        f"and more items make more strips ({grew('strips')} strips, {grew('visits')} visits, beside {grew('counts')} "
        f"counts); and every score of every user is set and compared ({grew('scores')} scores, beside "
        f"{grew('multiply-adds')} multiply-adds)."
    )


def figure(results: dict[str, Any]) -> str:
    """Time above, memory below; a column for each of the three that double."""
    from komd.svg import standalone

    return standalone(lambda sheet: _draw(sheet, results), 10.5, 6.6)


def _draw(sheet: Any, results: dict[str, Any]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from komd.svg import FIRST, INK, SECOND

    grid = sheet.subplots(2, len(results["lines"]), sharey="row")
    handles: dict[str, Any] = {}

    def plot(axes: Any, x: Any, y: Any, label: str, **style: Any) -> None:
        handles[label] = axes.plot(x, y, linewidth=2.2, **style)[0]

    dashed = {"color": INK, "linestyle": (0, (4, 3)), "zorder": 2}
    for (doubled, line), (upper, lower) in zip(results["lines"].items(), grid.T, strict=True):
        x = [p[doubled] for p in line]
        plot(upper, x, predicted(results, line), "predicted", **dashed)
        whole = {"color": FIRST, "marker": "o", "markersize": 7, "zorder": 4}
        plot(upper, x, [p["seconds"] for p in line], "fit and rank", **whole)
        alone = {"color": SECOND, "marker": "s", "markersize": 6, "zorder": 3}
        plot(upper, x, [p["counting"] for p in line], "counting all of K alone", **alone)
        plot(lower, x, predicted_memory(results, line) / 1e6, "predicted", **dashed)
        plot(lower, x, [p["growth"] / 1e6 for p in line], "fit and rank", **whole)
        upper.set_title("activity doubles" if doubled == "activity" else f"{doubled} double", fontsize=13)
        lower.set_xlabel(_WORDS[doubled], fontsize=12)
        for axes in (upper, lower):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.grid(True)
            axes.set_xticks(x, [f"{v:,}" if v < 1_000 else f"{v / 1000:,.0f}k" for v in x])
            axes.tick_params(labelsize=11)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.10g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
    grid[0, 0].set_ylabel("seconds", fontsize=12)
    grid[1, 0].set_ylabel("MB beyond the data", fontsize=12)
    sheet.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=12,
        handlelength=3,
    )
