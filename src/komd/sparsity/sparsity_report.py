"""An analysis as text, as rich tables and as Markdown: the same figures everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from komd.matrix.cost import seconds
from komd.matrix.density import percent
from komd.memory import readable
from komd.plain_text import aligned, markdown_cell, markdown_table, printable
from komd.sparsity.longtail import Tail
from komd.sparsity.verdict import about_tail

if TYPE_CHECKING:
    from rich.table import Table

    from komd.sparsity.analysis import Analysis

__all__ = ["COLUMNS", "cells", "cost_rows", "markdown", "rich_table", "section", "table_text", "tail_rows", "text"]

COLUMNS = ("data set", "users", "items", "pairs", "R", "K", "d(K)", "degree-aware", "saturating", "storage")
COSTS = ("K held", "memory", "time", "")
TAILS = ("tail", "least", "median", "most", "Gini", "top 1 %", "top 10 %", "slope", "R²", "exponent", "from", "KS")


def cells(found: Analysis) -> list[str]:
    """A row of the table of densities; that of a sampled K with the half width of its interval."""
    kernel = found.kernel
    margin = "" if kernel.exact else f" ± {100 * (kernel.high - kernel.low) / 2:.2g}"
    return [
        printable(found.name),
        f"{found.users:,}",
        f"{found.items:,}",
        f"{found.pairs:,}",
        percent(found.density),
        percent(kernel.value) + margin,
        *(percent(found.expected[name]) for name in ("d(K)", "degree-aware", "saturating")),
        found.chosen or "none fits",
    ]


def tail_rows(found: Analysis) -> list[list[str]]:
    """A row for each tail."""
    return [_tail_cells("users an item", found.popularity), _tail_cells("items a user", found.activity)]


def _tail_cells(name: str, tail: Tail) -> list[str]:
    line, fit = tail.line, tail.fit
    return [
        name,
        f"{tail.least:,}",
        f"{tail.median:,g}",
        f"{tail.most:,}",
        f"{tail.gini:.2f}",
        f"{100 * tail.top1:.3g} %",
        f"{100 * tail.top10:.3g} %",
        *([f"{line.slope:.2f}", f"{line.r2:.2f}"] if line else ["–"] * 2),
        *([f"{fit.exponent:.2f} ± {fit.error:.2f}", f"{fit.x_min:,}", f"{fit.ks:.3f}"] if fit else ["–"] * 3),
    ]


def cost_rows(found: Analysis) -> list[list[str]]:
    """A row for each way to hold K: storage, memory, time, whether it is chosen or does not fit."""
    return [
        [
            cost.storage,
            readable(cost.bytes),
            seconds(cost.seconds),
            "chosen" if cost.storage == found.chosen else "" if cost.fits else "does not fit",
        ]
        for cost in found.costs
    ]


def text(found: Analysis) -> str:
    """One data set in plain text."""
    lines = [
        f"{printable(found.name)}: {found.users:,} users × {found.items:,} items, {found.pairs:,} pairs",
        "",
        f"density of R   {percent(found.density)}",
        f"density of K   {found.kernel}",
        *(f"  {name:<12} {percent(value)}" for name, value in found.expected.items()),
        "",
        *aligned([TAILS, *tail_rows(found)]),
        "",
        *aligned([COSTS, *cost_rows(found)]),
        "",
        *found.verdict,
    ]
    return "\n".join(line.rstrip() for line in lines)


def table_text(found: Sequence[Analysis]) -> str:
    """The table of densities in plain text."""
    return "\n".join(aligned([COLUMNS, *(cells(each) for each in found)]))


def rich_table(found: Sequence[Analysis]) -> Table:
    """The table of densities for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in COLUMNS:
        name = column in ("data set", "storage")
        made.add_column(Text(column), justify="left" if name else "right", no_wrap=not name, overflow="fold")
    for each in found:
        line = [Text(cell) for cell in cells(each)]
        line[5].stylize("bold")
        made.add_row(*line)
    return made


def markdown(found: Sequence[Analysis]) -> str:
    """The table of densities, then a section for each data set."""
    head = markdown_table(COLUMNS, [cells(each) for each in found], left=(0, 9))
    explained = (
        "R and K: densities; ± is half of the 95 % interval where K was sampled. d(K) is the paper's estimate, from the"
        " size alone; the other two use both tails (degree-aware: items may be chosen twice; saturating: once)."
    )
    return "\n".join(["# How full the kernel is", "", *head, "", explained, "", *(section(each) for each in found)])


def section(found: Analysis) -> str:
    """One data set in Markdown."""
    densities = markdown_table(
        ("density of", "is"),
        [
            ["R", percent(found.density)],
            ["K", str(found.kernel)],
            *([f"K, {name}", percent(value)] for name, value in found.expected.items()),
        ],
    )
    return "\n".join(
        [
            f"## {markdown_cell(found.name)}",
            "",
            f"{found.users:,} users × {found.items:,} items, {found.pairs:,} pairs.",
            "",
            *(f"- {sentence}" for sentence in found.verdict),
            "",
            *densities,
            "",
            *markdown_table(TAILS, tail_rows(found)),
            "",
            f"Popularity: {about_tail(found.popularity)}",
            "",
            f"Activity: {about_tail(found.activity)}",
            "",
            *markdown_table(COSTS, cost_rows(found), left=(0, 3)),
            "",
            f"Budget {readable(found.budget)}. The planner, from degrees: {markdown_cell(found.reason)}",
            "",
        ]
    )
