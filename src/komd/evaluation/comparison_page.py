"""A comparison as one HTML page."""

from __future__ import annotations

import math
import re
from html import escape

from komd import html, notebook_html, svg
from komd.evaluation import comparison_plots as plots
from komd.evaluation.comparison import Comparison, Row
from komd.evaluation.comparison_report import caption, costs, number
from komd.evaluation.significance import LEVEL

__all__ = ["in_notebook", "page"]

_HALVES = {
    "random": "a random half of a tested user's items",
    "given": "the later half in the order of the data",
    "time": "the later half in time",
    "rolling": "windows in time, after all that trains",
}
_TIES = {
    "half": "count one half in AUC",
    "strict": "count as wrong in AUC",
    "appearance": "in AUC go to the item that appears first in the training part",
}


def page(found: Comparison) -> str:
    """The page as text."""
    good = [row for row in found.rows if row.failed is None]
    title = f"{len(found.rows)} models compared" if len(found.rows) != 1 else "One model measured"
    lost = len(found.rows) - len(good)
    lead = f"{found.data}{f'. {lost} of {len(found.rows)} models failed: the table says why.' if lost else ''}"
    body = f"""{_facts(found)}
<h2>Results</h2>
{_table(found)}
<p class="note">Mean ± standard deviation over {found.protocol.folds} folds. ★ is the best of a column; ≈ is what
a paired t-test over the {found.test_users:,} test users cannot tell from it (p &gt; {LEVEL:g} after Holm’s correction
for the number of models). Seconds are the median of a fold. Memory is the peak of the model’s own process.</p>
{_figures(found, good)}"""
    versions = "; ".join(f"{name} {value}" for name, value in found.versions.items())
    footer = f"Made by komd compare. {versions}; {found.threads} thread{'s' if found.threads != 1 else ''}."
    return html.page(f"komd compare: {title}", title, lead, body, footer)


def in_notebook(found: Comparison) -> str:
    """The table, and the first metric as a plot, for Jupyter."""
    good = [row for row in found.rows if row.failed is None]
    first = _first_metric(found, good)
    drawn = "" if first is None or not svg.available() else plots.metric_plot(found, first)
    words = f"{first}, mean and standard deviation over folds" if first else ""
    figure = notebook_html.plots(html.figures([("", drawn, escape(words))])) if drawn else ""
    legend = (
        "Mean ± standard deviation over folds. ★ best; ≈ tied with it (paired t-test over users, Holm, "
        f"p > {LEVEL:g}). Seconds: median of a fold."
    )
    title = f"{len(found.rows)} models compared" if len(found.rows) != 1 else "One model measured"
    shown = (_table(found, ' class="models"'), notebook_html.note(legend), notebook_html.note(caption(found)))
    return notebook_html.fragment(title, *shown, figure)


def _facts(found: Comparison) -> str:
    protocol = found.protocol
    facts = {
        "Data": f"{found.users:,} users, {found.items:,} items, {found.interactions:,} pairs",
        "Folds": f"{protocol.folds} groups of users, tested in turn",
        "Test users": f"{found.test_users:,} with at least {max(2, protocol.min_activity)} items",
        "Held out": f"{protocol.half}: {_HALVES.get(protocol.half, protocol.half)}",
        "Seed (rng)": str(protocol.rng),
        "Equal scores (ties)": f"{protocol.ties}: {_TIES.get(protocol.ties, protocol.ties)}",
        "Metrics": ", ".join(protocol.metrics),
    }
    return html.facts(facts)


def _table(found: Comparison, attributes: str = "") -> str:
    heads = [*found.metrics, "fit, s", "rank, s", "memory"]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("#", "model", *heads))
    rows = "\n".join(_row(found, k, row) for k, row in enumerate(found.rows, 1))
    return html.framed_table(head, rows, attributes)


def _row(found: Comparison, place: int, row: Row) -> str:
    start = f'<tr><td class="n">{place}</td><th scope="row">{_breakable(row.model)}</th>'
    if row.failed is not None:
        words = f"<div>failed: {escape(row.failed)}</div>"
        return f'{start}<td class="failed" colspan="{len(found.metrics) + 3}">{words}</td></tr>'
    cells = []
    for name in found.metrics:
        score = row.scores[name]
        mark = {"best": "★", "tied": "≈"}.get(score.mark, "")
        mean = f"<b>{number(score.mean)}</b>" if score.mark else number(score.mean)
        cells.append(
            f'<td class="{score.mark or "worse"}">{mean} <small>± {number(score.std)}</small>'
            f'<span class="mark">{mark}</span></td>'
        )
    return start + "".join(cells) + "".join(f"<td>{escape(each)}</td>" for each in costs(row)) + "</tr>"


def _breakable(model: str) -> str:
    """A model's text that a browser may wrap after the opening bracket."""
    return "<wbr>".join(escape(part) for part in re.split(r"(?<=\()", model))


def _figures(found: Comparison, good: list[Row]) -> str:
    if not good:
        return '<p class="note">No plots: every model failed.</p>'
    if not svg.available():
        return html.no_plots(": nothing is computed twice")
    first = _first_metric(found, good)
    timed = ("", plots.time_plot(found), "Seconds of a fold: to learn, to rank and measure, and both together.")
    if first is None:  # every metric is undefined
        drawn = [timed]
    else:
        name = escape(first)
        scatter = html.by_width(*(plots.scatter_plot(found, first, wide=wide) for wide in (True, False)))
        drawn = [
            ("", plots.metric_plot(found, first), f"{name} with one standard deviation over folds to either side."),
            timed,
            ("all", scatter, f"{name} against time: up and to the left is better. Numbers are rows of the table."),
        ]
    return f"<h2>Plots</h2>\n{html.figures(drawn)}"


def _first_metric(found: Comparison, good: list[Row]) -> str | None:
    """The first metric that some model has a value of."""
    return next((m for m in found.metrics if any(not math.isnan(row.scores[m].mean) for row in good)), None)
