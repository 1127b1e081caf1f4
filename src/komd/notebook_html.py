"""Results in Jupyter: HTML fragments without scripts that fit their cell, readable in light and dark themes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape

import pyarrow as pa

from komd.plain_text import printable
from komd.svg import renamed

__all__ = ["ROWS", "bar", "cell", "fragment", "grid", "note", "plots", "table_rows"]

ROWS = 20
"""The most rows of a table that are shown."""

_LONGEST = 120  # characters of an id or a name that are shown
_fragments = itertools.count(1)

# Colours are those of the cell, made fainter: Jupyter, VS Code and Colab each mark a dark theme in their own way.
_STYLE = """
.komd { color: inherit; max-width: 100%; font-size: .95em; line-height: 1.45;
  --ink: currentColor; --rule: rgba(128,128,128,.45); --first: #2b8ac6; --second: #cc6d10; --third: #17946f; }
.komd .title { font-weight: 600; margin: .2em 0 .4em; overflow-wrap: anywhere; }
.komd .note, .komd small, .komd dt, .komd figcaption { opacity: .78; font-size: .9em; }
.komd h2, .komd h3 { font-size: 1.05em; font-weight: 600; margin: 1em 0 .3em; }
.komd p { margin: .35em 0; max-width: 60em; }
.komd .wide { overflow-x: auto; max-width: 100%; border: 0; }
.komd table { border-collapse: collapse; margin: .3em 0; font-size: 1em; width: auto;
  font-variant-numeric: tabular-nums; }
.komd table tr, .komd table tr:nth-child(even), .komd table tr:hover { background: none; }
.komd table th, .komd table td { padding: .25em .8em .25em 0; text-align: right; vertical-align: baseline; border: 0;
  border-bottom: 1px solid rgba(128,128,128,.3); white-space: nowrap; max-width: none; color: inherit;
  background: none; }
.komd table th { font-weight: 600; }
.komd table .words, .komd table.models th:nth-child(2) { text-align: left; white-space: normal;
  overflow-wrap: anywhere; min-width: 6em; }
.komd table tbody th { font-weight: 400; }
.komd .mark { display: inline-block; width: 1.2em; text-align: center; }
.komd td.best, .komd td.tied { font-weight: 600; }
.komd td.failed { text-align: left; white-space: normal; }
.komd .bar { display: inline-block; height: .7em; border-radius: 2px; background: var(--first); }
.komd .bar.less { background: var(--second); }
.komd dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11em, 1fr)); gap: .3em 1.2em;
  margin: .5em 0; }
.komd dd { margin: 0; overflow-wrap: anywhere; }
.komd .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24em), 1fr)); gap: 1em; }
.komd figure { margin: 0; padding: 0; background: none; border: 0; }
.komd figure svg { display: block; width: 100%; height: auto; max-width: 36em; }
.komd .broad { display: none; }
"""


def fragment(title: str, *parts: str) -> str:
    """A result: its title as plain text, and parts that are HTML."""
    body = "\n".join(part for part in parts if part)
    return f'<div class="komd">\n<style>{_STYLE}</style>\n<div class="title">{cell(title)}</div>\n{body}\n</div>'


def cell(value: object) -> str:
    """A value as HTML, escaped, because ids and names come from anywhere; long ones are cut."""
    text = printable(f"{value:.6g}" if isinstance(value, float) else value)
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], left: tuple[int, ...] = (0,)) -> str:
    """A table of cells that are HTML, under plain headings; columns in `left` hold words."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="words"' if place in left else "" for place in range(len(cells)))
        return "".join(f"<{tag}{kind}>{each}</{tag}>" for kind, each in zip(kinds, cells, strict=True))

    top = line("th", [escape(name) for name in head])
    body = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def table_rows(table: pa.Table, columns: Sequence[str], most: int = ROWS) -> list[list[str]]:
    """The first rows of these columns, as cells."""
    shown = table.select(list(columns)).slice(0, most).to_pylist()
    return [[cell(row[name]) for name in columns] for row in shown]


def bar(value: float, largest: float) -> str:
    """A bar whose length is the value relative to the largest; negative values have another colour."""
    share = min(abs(value) / largest, 1.0) if largest > 0 and value == value else 0.0
    return f'<span class="bar{" less" if value < 0 else ""}" style="width:{6 * share:.2f}em"></span>'


def note(text: str) -> str:
    """A line of plain text below a table; nothing if it is empty."""
    return f'<div class="note">{escape(text)}</div>' if text else ""


def plots(html: str) -> str:
    """Plots of a report's page, with ids that are unique in the notebook."""
    return renamed(html, f"komd-{next(_fragments)}")
