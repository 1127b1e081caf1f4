"""A comparison as one HTML page: nothing is loaded from elsewhere, nothing is run, light and dark, on any screen."""

from __future__ import annotations

import math
import re
from html import escape

from komd.evaluation import plots
from komd.evaluation.comparison import Comparison, Row
from komd.evaluation.report import costs, number
from komd.evaluation.significance import LEVEL

__all__ = ["page"]

# Okabe and Ito's colours, which most colour-blind people tell apart; lighter ones on dark. Marks differ in shape too.
_STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e; --rule: #d4d9df;
  --first: #0072b2; --second: #b34700; --third: #00785a; --tint: #e3f0f9; --warn: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1c2026; --ink: #e8eaed; --soft: #a3adb8; --rule: #3a424c;
    --first: #56b4e9; --second: #e69f00; --third: #2fc79b; --tint: #17344a; --warn: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 84rem; margin: 0 auto; padding: 1.5rem clamp(.75rem, 3vw, 2rem) 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; }
.lead, figcaption, footer, .note { color: var(--soft); }
dl {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr));
  gap: .6rem 1.5rem; margin: 1.25rem 0;
}
dt { font-size: .8rem; color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; border: 1px solid var(--rule); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .4rem .75rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--card); font-weight: 600; vertical-align: bottom; }
th:nth-child(1), td.n { color: var(--soft); padding-right: 0; width: 1%; }
th:nth-child(2), tbody th { text-align: left; }
tbody th {
  font: .92em/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  white-space: normal; overflow-wrap: break-word; min-width: 10rem;
}
td small { color: var(--soft); font-size: .88em; }
td.best, td.tied { background: var(--tint); }
td.best b, td.tied b { color: var(--first); }
td.failed { text-align: left; white-space: normal; color: var(--warn); overflow-wrap: anywhere; }
td.failed div { min-width: 9rem; max-width: min(52rem, 48vw); }
.mark { display: inline-block; width: 1.1em; margin-left: .15em; text-align: center; }
.plots {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: 1.25rem; align-items: start;
}
figure { margin: 0; padding: .75rem; background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; }
figure svg { display: block; width: 100%; height: auto; max-width: 40rem; margin: 0 auto; }
.all { grid-column: 1 / -1; }
.all svg { max-width: none; }
.broad { display: none !important; }
@media (min-width: 56rem) { .broad { display: block !important; } .slim { display: none !important; } }
figure svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
figcaption { font-size: .88rem; margin-top: .5rem; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .92em; }
footer { margin-top: 2.5rem; font-size: .85rem; }
@media print { .wide { overflow: visible; } figure { break-inside: avoid; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser itself sees to it that nothing is loaded or run
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
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>komd compare: {escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{_facts(found)}
<h2>Results</h2>
<div class="wide" tabindex="0">
{_table(found)}
</div>
<p class="note">Mean ± standard deviation over {found.question.folds} folds. ★ is the best of a column; ≈ is what
a paired t-test over the {found.test_users:,} test users cannot tell from it (p &gt; {LEVEL:g} after Holm’s correction
for the number of models). Seconds are the median of a fold. Memory is the peak of the model’s own process.</p>
{_figures(found, good)}
<footer>Made by komd compare. {escape("; ".join(f"{name} {value}" for name, value in found.versions.items()))};
{found.threads} thread{"s" if found.threads != 1 else ""}.</footer>
</main>
</body>
</html>
"""


def _facts(found: Comparison) -> str:
    asked = found.question
    facts = {
        "Data": f"{found.users:,} users, {found.items:,} items, {found.interactions:,} pairs",
        "Folds": f"{asked.folds} groups of users, tested in turn",
        "Test users": f"{found.test_users:,} with at least {max(2, asked.min_activity)} items",
        "Held out": f"{asked.half}: {_HALVES.get(asked.half, asked.half)}",
        "Seed (rng)": str(asked.rng),
        "Equal scores (ties)": f"{asked.ties}: {_TIES.get(asked.ties, asked.ties)}",
        "Measures": ", ".join(asked.metrics),
    }
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>\n" for name, value in facts.items())
    return f"<dl>\n{pairs}</dl>"


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
            "<p class=\"note\">No plots: matplotlib is not installed. <code>pip install 'komd[plots]'</code>, then run "
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
    figures = "\n".join(
        f'<figure class="{width}">\n{svg}\n<figcaption>{words}</figcaption>\n</figure>' for width, svg, words in drawn
    )
    return f'<h2>Plots</h2>\n<div class="plots">\n{figures}\n</div>'
