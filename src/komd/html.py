"""Reports as pages: one HTML file that loads and runs nothing, light or dark, on any screen width."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from komd.errors import InputError
from komd.files import write_text

__all__ = ["by_width", "facts", "figures", "framed_table", "no_plots", "page", "write_report"]

# Okabe and Ito's colours, safe for colour-blind readers; lighter ones on dark. Marks differ in shape too.
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
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
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
table.plain tbody th { font: inherit; white-space: nowrap; min-width: 0; }
table.plain tr > * { text-align: right; color: inherit; padding-right: .75rem; width: auto; }
table.plain tr > .words { text-align: left; }
td small { color: var(--soft); font-size: .88em; }
td.best, td.tied { background: var(--tint); }
td.best b, td.tied b { color: var(--first); }
td.failed { text-align: left; white-space: normal; color: var(--warn); overflow-wrap: anywhere; }
td.failed div { min-width: 9rem; max-width: min(52rem, 48vw); }
.mark { display: inline-block; width: 1.1em; margin-left: .15em; text-align: center; }
.wide + .plots { margin-top: 1.25rem; }
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
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser enforces that nothing is loaded or run


def page(title: str, heading: str, lead: str, body: str, footer: str) -> str:
    """The page; `body` is HTML, everything else plain text."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(heading)}</h1>
<p class="lead">{escape(lead)}</p>
{body}
<footer>{escape(footer)}</footer>
</main>
</body>
</html>
"""


def facts(known: Mapping[str, str]) -> str:
    """Names with their values, in columns."""
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>\n" for name, value in known.items())
    return f"<dl>\n{pairs}</dl>"


def figures(drawn: list[tuple[str, str, str]]) -> str:
    """Plots side by side: (class: "" or "all" for the full width, SVG, caption as HTML) each."""
    each = "\n".join(
        f'<figure class="{width}">\n{svg}\n<figcaption>{words}</figcaption>\n</figure>' for width, svg, words in drawn
    )
    return f'<div class="plots">\n{each}\n</div>'


def framed_table(head: str, rows: str, attributes: str = "") -> str:
    """A table that scrolls sideways on a narrow screen, from the HTML of its head cells and of its rows."""
    return (
        f'<div class="wide" tabindex="0">\n<table{attributes}>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def by_width(wide: str, narrow: str) -> str:
    """Two versions of a plot, of which the page shows the one for the screen's width."""
    return f'<div class="broad">{wide}</div>\n<div class="slim">{narrow}</div>'


def no_plots(after: str = "") -> str:
    """A note in place of plots."""
    return (
        '<p class="note">No plots: matplotlib is not installed. <code>pip install matplotlib</code>, then run '
        f"the same command again{after}.</p>"
    )


def write_report(folder: str | Path, json: str, markdown: str, html: str) -> Path:
    """Write results.json, results.md and index.html to a folder; returns the path of the page."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise InputError(f"the report needs a folder, and {path} is a file")
    path.mkdir(parents=True, exist_ok=True)
    for name, text in {"results.json": f"{json}\n", "results.md": markdown, "index.html": html}.items():
        write_text(path / name, text)
    return path / "index.html"
