"""One or several analyses as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import metadata
from typing import TYPE_CHECKING

from komd import html, svg
from komd.matrix.density import percent
from komd.memory import readable
from komd.sparsity import sparsity_plots as plots
from komd.sparsity.sparsity_report import COLUMNS, COSTS, TAILS, cells, cost_rows, tail_rows
from komd.sparsity.verdict import about_tail, times

if TYPE_CHECKING:
    from komd.sparsity.analysis import Analysis

__all__ = ["page"]


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
            both = html.by_width(*(plots.density_plot(found, wide=wide) for wide in (True, False)))
            parts.append(html.figures([("all", both, caption)]))
    if not svg.available():
        parts.append(html.no_plots())
    parts += [_section(each, place) for place, each in enumerate(found)]
    spent = sum(each.seconds for each in found)
    footer = f"Made by komd analyze. komd {metadata.version('komd')}; {spent:.1f} s of analysis."
    return html.page(f"komd analyze: {heading}", heading, lead, "\n".join(parts), footer)


def _section(found: Analysis, place: int) -> str:
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
    drawn = []
    if svg.available():
        for side, tail in (("popularity", found.popularity), ("activity", found.activity)):
            if tail.curve:
                words = f"{side.capitalize()}. {about_tail(tail)}"
                drawn.append(("", plots.tail_plot(tail, f"{side}-{place}"), escape(words)))
    figures = html.figures(drawn) if drawn else ""
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
