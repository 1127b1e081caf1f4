"""The plots of a comparison. Narrow, with model names above their marks, so that a phone shows them in full size."""

from __future__ import annotations

import math
import statistics
from typing import Any

from komd.evaluation.comparison import Comparison, Row
from komd.svg import FAINT, FIRST, SECOND, THIRD, drawn, legend_above, plain_log_ticks, shortened

__all__ = ["metric_plot", "scatter_plot", "time_plot"]

_WIDTH = 4.9  # inches
_LINE = 0.40  # inches for a model
_POINT = {"color": FIRST, "markersize": 6.5, "markeredgewidth": 1.4}
_SIDES = ((7, 0), (-7, 0), (0, 7), (0, -7), (5, 5), (5, -5), (-5, 5), (-5, -5))  # of a point, for its label
_NAME = 46  # characters of a model's name in a plot


def metric_plot(found: Comparison, metric: str) -> str:
    """Mean and standard deviation over folds of one metric, a line for each model."""
    rows = [row for row in _numbered(found) if not math.isnan(row[1].scores[metric].mean)]

    def draw(figure: Any) -> None:
        axes = _rows(figure, rows)
        for place, (_, row) in enumerate(rows):
            score = row.scores[metric]
            filled = FIRST if score.mark else "none"
            bar: dict[str, Any] = {"fmt": "o", "elinewidth": 1.4, "capsize": 3} | _POINT
            axes.errorbar(score.mean, place, xerr=score.std, markerfacecolor=filled, **bar)
        axes.set_xlabel(f"{metric}: mean ± standard deviation over {found.protocol.folds} folds")
        _legend(axes, [("o", FIRST, True, "best, or tied with it"), ("o", FIRST, False, "worse")])

    return drawn(draw, _WIDTH, _LINE * len(rows) + 1.0, "metric", f"{metric} of every model, with error bars")


def time_plot(found: Comparison) -> str:
    """Seconds to fit, to rank, and both together, on a logarithmic axis."""
    rows = _numbered(found)

    def draw(figure: Any) -> None:
        axes = _rows(figure, rows)
        axes.set_xscale("log")
        for place, (_, row) in enumerate(rows):
            parts = (("^", SECOND, row.fit_seconds), ("s", THIRD, row.rank_seconds))
            total = _total(row)
            axes.plot([min(p[2] for p in parts), total], [place, place], color=FAINT, linewidth=1.2, zorder=1)
            for marker, colour, value in parts:
                axes.plot(value, place, marker, color=colour, markersize=5, markerfacecolor="none", zorder=2)
            axes.plot(total, place, "o", color=FIRST, markersize=6.5, zorder=3)
        _log_seconds(axes, [s for _, row in rows for s in (row.fit_seconds, row.rank_seconds, _total(row))])
        axes.set_xlabel("seconds a fold (median, logarithmic axis)")
        marks = [("^", SECOND, False, "fit"), ("s", THIRD, False, "rank"), ("o", FIRST, True, "fit + rank")]
        _legend(axes, marks)

    return drawn(
        draw, _WIDTH, _LINE * len(rows) + 1.0, "time", "seconds to fit and to rank, of every model, logarithmic axis"
    )


def scatter_plot(found: Comparison, metric: str, *, wide: bool) -> str:
    """A metric against time, labelled with names where they fit, else with the numbers of the table's rows.

    Models far below the others are drawn as triangles on the lower edge: the axis would not show the others apart.
    """
    rows = [row for row in _numbered(found) if not math.isnan(row[1].scores[metric].mean)]
    width, height = (9.2, 4.9) if wide else (_WIDTH, 5.0)

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.grid(True)
        real = [(_total(row), row.scores[metric].mean) for _, row in rows]
        floor = _floor([y for _, y in real])
        points = [(x, max(y, floor)) for x, y in real]
        front = _front(real)
        axes.plot(*zip(*front, strict=True), color=SECOND, linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
        for (_, row), (x, y), (_, at) in zip(rows, real, points, strict=True):
            filled = FIRST if row.scores[metric].mark else "none"
            marker = "o" if y == at else "v"
            axes.plot(x, at, marker, markerfacecolor=filled, zorder=3, **_POINT)
        axes.margins(0.12, 0.1)
        _log_seconds(axes, [x for x, _ in points])
        bottom, top = min(y for _, y in points), max(y for _, y in points)
        room = 0.08 * (top - bottom) or 0.01
        axes.set_ylim(bottom - room, top + room)
        axes.set_xlabel("fit + rank, seconds a fold (logarithmic axis)")
        axes.set_ylabel(metric)
        marks = [("o", FIRST, True, "best, or tied"), ("o", FIRST, False, "worse")]
        marks += [("v", FIRST, False, "far below")] if points != real else []
        _legend(axes, [*marks, ("--", SECOND, True, "none is faster and better")], 4 if wide else 2)
        figure.canvas.draw()
        first = [k for k, point in enumerate(real) if point in front]
        order = first + [k for k in range(len(points)) if k not in first]
        most = 44 if wide else 22
        names = [
            f"{number} {_short(row.model, most)}{'' if y == at else f': {y:.3f}'}"
            for (number, row), (_, y), (_, at) in zip(rows, real, points, strict=True)
        ]
        _place_labels(axes, [(rows[k][0], names[k], points[k]) for k in order], points)

    title = f"{metric} against the seconds of fitting and ranking, one point a model"
    return drawn(draw, width, height, "wide" if wide else "narrow", title)


def _floor(values: list[float]) -> float:
    """The lower end of the axis: four times as far below the best as the median is, or the lowest value."""
    best, middle = max(values), statistics.median(values)
    return max(min(values), best - 4.0 * (best - middle)) if best > middle else min(values)


def _numbered(found: Comparison) -> list[tuple[int, Row]]:
    """The rows of models that did not fail, with their numbers in the table."""
    return [(k, row) for k, row in enumerate(found.rows, 1) if row.failed is None]


def _total(row: Row) -> float:
    return row.fit_seconds + row.rank_seconds


def _rows(figure: Any, rows: list[tuple[int, Row]]) -> Any:
    """Axes with a line for each model, its name above the line."""
    axes = figure.add_subplot()
    axes.set_ylim(len(rows) - 0.4, -0.85)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    for place, (number, row) in enumerate(rows):
        axes.axhline(place, color=FAINT, linewidth=0.5, zorder=0)
        name = f"{number}  {_short(row.model, _NAME)}"
        axes.text(0.0, place - 0.36, name, transform=axes.get_yaxis_transform(), va="center", fontsize=10)
    return axes


def _log_seconds(axes: Any, values: list[float]) -> None:
    """A logarithmic axis around these values: ticks at decades, or at 1-2-5 where there are few."""
    low, high = min(values), max(values)
    axes.set_xlim(low / 1.5, high * 1.5)
    plain_log_ticks(axes.xaxis, (1.0, 2.0, 5.0) if math.log10(high / low) < 1.6 else (1.0,))


def _legend(axes: Any, marks: list[tuple[str, str, bool, str]], columns: int = 4) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=colour,
            marker="" if marker == "--" else marker,
            linestyle=(0, (4, 3)) if marker == "--" else "none",
            linewidth=1.2,
            markersize=6,
            markerfacecolor=colour if filled else "none",
            label=label,
        )
        for marker, colour, filled, label in marks
    ]
    legend_above(axes, handles, columns=columns, fontsize=9.5, gap=1.0)


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The Pareto front: from the fastest on, the points that are better than all faster ones."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


def _place_labels(
    axes: Any, labels: list[tuple[int, str, tuple[float, float]]], points: list[tuple[float, float]]
) -> None:
    """Names beside their points where they overlap nothing; the row's number where the name does not fit."""
    from matplotlib.transforms import Bbox

    renderer = axes.figure.canvas.get_renderer() if hasattr(axes.figure.canvas, "get_renderer") else None
    frame = axes.get_window_extent(renderer)
    scale = axes.figure.dpi / 72
    occupied = []
    for point in points:
        x, y = axes.transData.transform(point)
        occupied.append(Bbox.from_bounds(x - 4 * scale, y - 4 * scale, 8 * scale, 8 * scale))
    for number, name, point in labels:
        for words in (name, str(number)):
            if _placed(axes, words, point, occupied, frame, renderer):
                break


def _placed(axes: Any, words: str, point: tuple[float, float], occupied: list[Any], frame: Any, renderer: Any) -> bool:
    for dx, dy in _SIDES:
        aligned = {
            "ha": ("center", "left", "right")[(dx > 0) - (dx < 0)],
            "va": ("center", "bottom", "top")[(dy > 0) - (dy < 0)],
        }
        label = axes.annotate(words, point, (dx, dy), textcoords="offset points", fontsize=9.5, zorder=4, **aligned)
        box = label.get_window_extent(renderer)
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        if inside and not any(box.overlaps(other) for other in occupied):
            occupied.append(box)
            return True
        label.remove()
    return False


def _short(model: str, most: int) -> str:
    return shortened(model.removesuffix("()"), most)
