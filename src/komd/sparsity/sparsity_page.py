"""Analyses as one HTML page, with plots: tails on logarithmic axes, densities of several data sets with estimates."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from komd import html, notebook_html, svg
from komd.matrix.density import percent
from komd.memory import readable
from komd.sparsity.longtail import Tail
from komd.sparsity.sparsity_report import COLUMNS, COSTS, TAILS, cells, cost_rows, tail_rows
from komd.sparsity.verdict import about_tail, times
from komd.svg import FAINT, FIRST, INK, SECOND, THIRD, drawn, legend_above, plain_log_ticks, shortened

if TYPE_CHECKING:
    from komd.sparsity.analysis import Analysis

__all__ = ["draw_densities", "in_notebook", "page"]

_WIDTH, _HEIGHT = 4.9, 3.7  # inches
_MARKS = {  # estimate: marker, colour
    "d(K)": ("^", SECOND),
    "degree-aware": ("s", THIRD),
    "saturating": ("D", FIRST),
}
_ESTIMATE: dict[str, Any] = {"markersize": 7.5, "markerfacecolor": "none", "markeredgewidth": 1.8}


def page(found: Sequence[Analysis]) -> str:
    """The page as text."""
    heading = f"The kernels of {len(found)} data sets" if len(found) != 1 else f"The kernel of {found[0].name}"
    lead = "How full K will be, why, and what it will cost, before it is computed."
    parts = []
    if len(found) > 1:
        parts.append(f"<h2>Side by side</h2>\n{_table(COLUMNS, [cells(each) for each in found], left=(0, 9))}")
        if svg.available() and any(each.kernel.value > 0 for each in found):
            caption = (
                "The bar is the density of K. d(K) is the paper’s estimate, from the size alone; degree-aware and "
                "saturating use both tails."
            )
            both = html.by_width(*(_density_plot(found, wide=wide) for wide in (True, False)))
            parts.append(html.figures([("all", both, caption)]))
    if not svg.available():
        parts.append(html.no_plots())
    parts += [_section(each, place) for place, each in enumerate(found)]
    spent = sum(each.seconds for each in found)
    footer = f"Made by komd analyze. komd {metadata.version('komd')}; {spent:.1f} s of analysis."
    return html.page(f"komd analyze: {heading}", heading, lead, "\n".join(parts), footer)


def in_notebook(found: Sequence[Analysis]) -> str:
    """For Jupyter: one data set in full, several as the table of their densities."""
    if len(found) == 1:
        return notebook_html.fragment(
            "How full K will be, why, and what it will cost", _section(found[0], 0, own_ids=True)
        )
    rows = [[notebook_html.cell(text) for text in cells(each)] for each in found[: notebook_html.ROWS]]
    more = f"{len(found) - len(rows):,} more data sets" if len(found) > len(rows) else ""
    table = notebook_html.grid(COLUMNS, rows, left=(0, 9))
    return notebook_html.fragment(f"The kernels of {len(found)} data sets", table, notebook_html.note(more))


def _section(found: Analysis, place: int, *, own_ids: bool = False) -> str:
    facts = {
        "Data": f"{found.users:,} users, {found.items:,} items, {found.pairs:,} pairs",
        "Density of R": percent(found.density),
        "Density of K": str(found.kernel),
        "d(K), the paper’s": percent(found.expected["d(K)"]),
        "Degree-aware": percent(found.expected["degree-aware"]),
        "Saturating": percent(found.expected["saturating"]),
        "The item tail": times(found.effects.items),
        "The user tail": times(found.effects.users),
    }
    sentences = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in found.verdict)
    plots = []
    if svg.available():
        for side, tail in (("popularity", found.popularity), ("activity", found.activity)):
            if tail.curve:
                words = f"{side.capitalize()}. {about_tail(tail)}"
                plots.append(("", _tail_plot(tail, f"{side}-{place}"), escape(words)))
    figures = html.figures(plots) if plots else ""
    if own_ids:
        figures = notebook_html.plots(figures)
    return f"""<h2>{escape(found.name)}</h2>
{sentences}
{html.facts(facts)}
{figures}
<h3>Tails</h3>
{_table(TAILS, tail_rows(found), left=(0,))}
<h3>What K will cost here</h3>
{_table(COSTS, cost_rows(found), left=(0, 3))}
<p class="note">Budget {escape(readable(found.budget))}. The planner, from degrees: {escape(found.reason)}</p>"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: tuple[int, ...]) -> str:
    """A table; columns in `left` are aligned to the left."""

    def cell(tag: str, k: int, text: str, scope: str = "") -> str:
        return f"<{tag}{scope}{' class=words' if k in left else ''}>{escape(text)}</{tag}>"

    top = "".join(cell("th", k, name, ' scope="col"') for k, name in enumerate(head))
    body = "\n".join(
        "<tr>"
        + "".join(
            cell("th" if k == 0 else "td", k, text, ' scope="row"' if k == 0 else "") for k, text in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return html.framed_table(top, body, ' class="plain"')


def _tail_plot(tail: Tail, mark: str) -> str:
    """Counts by rank with both fits, as SVG; `mark` is unique on the page."""
    title = f"Counts of {tail.noun}s by rank, on logarithmic axes, with the fitted power laws"
    return drawn(lambda figure: _draw_tail(figure.add_subplot(), tail), _WIDTH, _HEIGHT, mark, title)


def _draw_tail(axes: Any, tail: Tail) -> None:
    """Dots: counts by rank. Dashed: the paper's least-squares line. Solid: maximum likelihood, from x_min on."""
    other = "users" if tail.noun == "item" else "items"
    rank, count = (np.array(side, np.float64) for side in zip(*tail.curve, strict=True))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(True)
    axes.plot(rank, count, "o", color=INK, markersize=3.2, markeredgewidth=0, label=f"{tail.noun}s", zorder=2)
    if tail.line is not None:
        ends = np.array([rank[0], rank[-1]])
        words = f"least squares: slope {tail.line.slope:.2f}, R² {tail.line.r2:.2f}"
        height = tail.line.factor * ends**tail.line.slope
        axes.plot(ends, height, color=SECOND, linestyle=(0, (5, 3)), linewidth=1.8, label=words, zorder=3)
    if tail.fit is not None:
        x = np.geomspace(tail.fit.x_min, max(tail.most, tail.fit.x_min + 1), 80)
        words = f"likelihood: exponent {tail.fit.exponent:.2f}, from {tail.fit.x_min:,}"
        above = tail.fit.expected_above(x)
        axes.plot(above, x, color=FIRST, linewidth=2.0, label=words, zorder=4)
    axes.set_xlim(0.8, max(2.0, 1.3 * rank[-1]))
    axes.set_ylim(0.7, max(2.0, 2.0 * count[0]))
    plain_log_ticks(axes.xaxis)
    plain_log_ticks(axes.yaxis)
    axes.set_xlabel(f"rank of the {tail.noun} (1 has the most {other})")
    axes.set_ylabel(f"{other} of the {tail.noun}")
    legend_above(axes, columns=1, fontsize=10, gap=0.25)


def _density_plot(found: Sequence[Analysis], *, wide: bool) -> str:
    """Densities of K with their estimates, a line for each data set, as SVG."""
    title = "Density of K and its estimates, one line a data set, logarithmic axis"
    size = (9.2, 0.42 * len(found) + 1.15) if wide else (_WIDTH, 0.46 * len(found) + 1.4)
    mark = "wide" if wide else "narrow"
    return drawn(lambda figure: draw_densities(figure.add_subplot(), found, 4 if wide else 2), *size, mark, title)


def draw_densities(axes: Any, found: Sequence[Analysis], columns: int = 4) -> None:
    """A line for each data set: the density of K as a bar, the estimates as marks around it."""
    shown = [each for each in found if each.kernel.value > 0]
    axes.set_xscale("log")
    axes.grid(True, axis="x")
    least = 100 * min([1.0, *(min(each.kernel.value, *each.expected.values()) for each in shown)])
    axes.set_xlim(least / 2.2, 160)
    for place, each in enumerate(shown):
        axes.plot([100 * each.kernel.value] * 2, [place - 0.32, place + 0.32], color=INK, linewidth=3.2, zorder=3)
        ends = [100 * value for value in (each.kernel.value, *each.expected.values())]
        axes.plot([min(ends), max(ends)], [place, place], color=FAINT, linewidth=1.4, zorder=1)
        for name, (marker, colour) in _MARKS.items():
            axes.plot(100 * each.expected[name], place, marker, color=colour, zorder=4, **_ESTIMATE)
    axes.set_yticks(range(len(shown)), [f"{shortened(each.name, 28)}  {percent(each.kernel.value)}" for each in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelsize=10.5)
    axes.spines["left"].set_visible(False)
    plain_log_ticks(axes.xaxis)
    axes.set_xlabel("density of K, per cent (logarithmic axis)")
    from matplotlib.lines import Line2D

    bar: dict[str, Any] = {"color": INK, "linestyle": "none", "marker": "|", "markersize": 11, "markeredgewidth": 3.2}
    handles = [Line2D([], [], label="K, counted", **bar)]
    for name, (marker, colour) in _MARKS.items():
        handles.append(Line2D([], [], color=colour, linestyle="none", marker=marker, label=name, **_ESTIMATE))
    legend_above(axes, handles, columns=columns, fontsize=10.5, gap=1.4)
