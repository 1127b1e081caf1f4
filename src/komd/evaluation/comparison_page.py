"""A comparison as one HTML page: nothing is loaded from elsewhere, nothing is run, light and dark, on any screen."""

from __future__ import annotations

import math
import re
from html import escape

from komd.evaluation import comparison_plots as plots
from komd.evaluation.comparison import Comparison, Row
from komd.evaluation.comparison_report import costs, number
from komd.evaluation.significance import LEVEL
from komd.html import facts, figures
from komd.html import page as whole

__all__ = ["page"]

_HALVES = {
    "random": "a random half of a tested user's items",
    "given": "the later half in the order of the data",
    "time": "the later half in time",
}
_TIES = {"half": "count one half in AUC", "strict": "count as wrong in AUC"}


def page(found: Comparison) -> str:
    """The page as text."""
    good = [row for row in found.rows if row.failed is None]
    title = f"{len(found.rows)} models compared" if len(found.rows) != 1 else "One model measured"
    lost = len(found.rows) - len(good)
    lead = f"{found.data}{f'. {lost} of {len(found.rows)} models failed: the table says why.' if lost else ''}"
    body = f"""{_facts(found)}
<h2>Results</h2>
<div class="wide" tabindex="0">
{_table(found)}
</div>
<p class="note">Mean ± standard deviation over {found.question.folds} folds. ★ is the best of a column; ≈ is what
a paired t-test over the {found.test_users:,} test users cannot tell from it (p &gt; {LEVEL:g} after Holm’s correction
for the number of models). Seconds are the median of a fold. Memory is the peak of the model’s own process.</p>
{_figures(found, good)}"""
    versions = "; ".join(f"{name} {value}" for name, value in found.versions.items())
    footer = f"Made by komd compare. {versions}; {found.threads} thread{'s' if found.threads != 1 else ''}."
    return whole(f"komd compare: {title}", title, lead, body, footer)


def _facts(found: Comparison) -> str:
    asked = found.question
    known = {
        "Data": f"{found.users:,} users, {found.items:,} items, {found.interactions:,} pairs",
        "Folds": f"{asked.folds} groups of users, tested in turn",
        "Test users": f"{found.test_users:,} with at least {max(2, asked.min_activity)} items",
        "Held out": f"{asked.half}: {_HALVES.get(asked.half, asked.half)}",
        "Seed (rng)": str(asked.rng),
        "Equal scores (ties)": f"{asked.ties}: {_TIES.get(asked.ties, asked.ties)}",
        "Measures": ", ".join(asked.metrics),
    }
    return facts(known)


def _table(found: Comparison) -> str:
    heads = [*found.metrics, "fit, s", "rank, s", "memory"]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("#", "model", *heads))
    rows = "\n".join(_row(found, k, row) for k, row in enumerate(found.rows, 1))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


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
    """A model's text that may be broken where a reader would break it."""
    return "<wbr>".join(escape(part) for part in re.split(r"(?<=\()", model))


def _figures(found: Comparison, good: list[Row]) -> str:
    if not good:
        return '<p class="note">No plots: no model has figures.</p>'
    if not plots.available():
        return (
            '<p class="note">No plots: matplotlib is not installed. <code>pip install matplotlib</code>, then run '
            "the same command again: nothing is computed twice.</p>"
        )
    first = next((m for m in found.metrics if any(not math.isnan(row.scores[m].mean) for row in good)), None)
    timed = ("", plots.time_plot(found), "Seconds of a fold: to learn, to rank and measure, and both together.")
    if first is None:  # nothing but undefined measures
        drawn = [timed]
    else:
        name = escape(first)
        scatter = (
            f'<div class="broad">{plots.scatter_plot(found, first, wide=True)}</div>\n'
            f'<div class="slim">{plots.scatter_plot(found, first, wide=False)}</div>'
        )
        drawn = [
            ("", plots.metric_plot(found, first), f"{name} with one standard deviation over folds to either side."),
            timed,
            ("all", scatter, f"{name} against time: up and to the left is better. Numbers are rows of the table."),
        ]
    return f"<h2>Plots</h2>\n{figures(drawn)}"
