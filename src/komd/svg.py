"""Plots as inline SVG: text stays text, and colours follow the page (`html.py`), light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

__all__ = [
    "FAINT",
    "FIRST",
    "INK",
    "SECOND",
    "THIRD",
    "available",
    "drawn",
    "legend_above",
    "plain_log_ticks",
    "renamed",
    "shortened",
    "standalone",
]

# Placeholders, which nothing else uses: in the SVG each becomes a colour of the page's style sheet.
INK, FAINT, FIRST, SECOND, THIRD = "#010203", "#010204", "#010205", "#010206", "#010207"
_COLOURS = {
    INK: "var(--ink)",
    FAINT: "var(--rule)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
}
_ON_WHITE = {INK: "#1b1f24", FAINT: "#d4d9df", FIRST: "#0072b2", SECOND: "#b34700", THIRD: "#00785a"}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "komd",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "text.parse_math": False,
}


def available() -> bool:
    """Whether matplotlib is installed."""
    import importlib.util

    return importlib.util.find_spec("matplotlib") is not None


def drawn(draw: Callable[[Any], None], width: float, height: float, mark: str, title: str) -> str:
    """What `draw` draws on a figure of so many inches, as an SVG element of a page that fits its container.

    `mark` makes the ids of this plot different from those of others on the page.
    """
    from html import escape

    svg = _saved(draw, width, height, transparent=True)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = renamed(svg, mark)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for colour, name in _COLOURS.items():
        svg = svg.replace(colour, name)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg {view.group() if view else ""} role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg"'
    head += ' xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1).strip()


def renamed(svg: str, mark: str) -> str:
    """The same with all ids, and the references to them, begun by a mark."""
    return re.sub(r'\b(id|clip-path|xlink:href)="(url\()?(#?)([^")]+)', rf'\1="\2\g<3>{mark}-\4', svg)


def standalone(draw: Callable[[Any], None], width: float, height: float) -> str:
    """The same as a file of its own, on white."""
    svg = _saved(draw, width, height, transparent=False)
    for colour, shown in _ON_WHITE.items():
        svg = svg.replace(colour, shown)
    return svg


def legend_above(axes: Any, handles: list[Any] | None = None, *, columns: int, fontsize: float, gap: float) -> None:
    """A legend without a frame above the plot; `gap` is the space between its columns, or between its lines if one."""
    spacing = (
        {"handletextpad": 0.3, "columnspacing": gap} if columns > 1 else {"handlelength": 1.8, "labelspacing": gap}
    )
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=fontsize,
        borderaxespad=0.2,
        borderpad=0.0,
        **spacing,
    )


def plain_log_ticks(axis: Any, subs: tuple[float, ...] = (1.0,)) -> None:
    """Ticks of a logarithmic axis at these multiples of every decade, as plain numbers: 0.1, 1, 100, 10,000."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters.

    >>> shortened("Netflix", 28), shortened("MovieLens", 6)
    ('Netflix', 'Movie…')
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _saved(draw: Callable[[Any], None], width: float, height: float, *, transparent: bool) -> str:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=transparent, metadata={"Date": None})
    return file.getvalue()
