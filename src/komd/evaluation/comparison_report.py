"""A comparison as text, as a rich table, as Markdown and as JSON: the same figures everywhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from komd.evaluation.comparison import Comparison, Row
from komd.evaluation.significance import LEVEL
from komd.memory import readable
from komd.plain_text import printable

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["MARKS", "caption", "costs", "legend", "markdown", "number", "rich_table", "text"]

_NAMES = 20  # characters that the names of models need in a terminal
MARKS = {"best": "*", "tied": "≈", "": " "}
COSTS = ("fit s", "rank s", "memory")
"""Columns after the measures: median seconds of a fold, and the peak memory of the model's process."""


def number(value: float) -> str:
    """A measure as it is shown everywhere."""
    return "–" if math.isnan(value) else f"{value:.4f}"


def costs(row: Row) -> tuple[str, str, str]:
    """Seconds to fit, seconds to rank, peak memory."""
    return _seconds(row.fit_seconds), _seconds(row.rank_seconds), readable(row.peak_memory)


def caption(found: Comparison) -> str:
    """What was compared, in one line."""
    asked = found.question
    return (
        f"{found.data}; {asked.folds} folds, half {asked.half}, rng {asked.rng}, ties {asked.ties}; "
        f"{found.test_users:,} test users"
    )


def legend() -> str:
    """What the marks mean."""
    return (
        f"mean ± standard deviation over folds; {MARKS['best']} best, {MARKS['tied']} tied with the best "
        f"(paired t-test over users, Holm, p > {LEVEL:g}); seconds: median of a fold"
    )


def text(found: Comparison) -> str:
    """The table in plain text."""
    header = ["model", *(f"{name}  " for name in found.metrics), *COSTS]
    lines = [header, *(_cells(found, row) for row in found.rows if row.failed is None)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    shown = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    shown += [f"{row.model}  failed: {printable(row.failed)}" for row in found.rows if row.failed is not None]
    return "\n".join([caption(found), "", *shown, "", legend()])


def rich_table(found: Comparison, width: int) -> Group:
    """The table for a terminal of this width: the best and what is tied with it bold; below, what failed.

    Deviations are left out where the names of the models would have no room beside them.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    roomy = width >= _NAMES + len(found.metrics) * 17 + 26
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("model", overflow="fold")
    for name in (*found.metrics, *COSTS):
        made.add_column(Text(f"{name}  " if name in found.metrics else name), justify="right", no_wrap=True)
    for row in (row for row in found.rows if row.failed is None):
        cells = [Text(printable(row.model))]
        for score in (row.scores[name] for name in found.metrics):
            style = {"best": "bold green", "tied": "bold"}.get(score.mark, "")
            words = Text(number(score.mean), style=style)
            if roomy:
                words.append(f" ±{number(score.std).removeprefix('0')}", style="dim" if not style else "not bold")
            cells.append(words.append(f" {MARKS[score.mark]}"))
        made.add_row(*cells, *(Text(each) for each in costs(row)))
    failures = [
        Text.assemble(printable(row.model), (" failed: ", "bold red"), printable(row.failed))
        for row in found.rows
        if row.failed is not None
    ]
    return Group(*([made] if made.row_count else []), *failures, *([Text()] if failures else []))


def markdown(found: Comparison) -> str:
    """The table in Markdown: the best and what is tied with it bold, the latter with ≈."""
    header = ["model", *found.metrics, *COSTS]
    lines = [f"| {' | '.join(header)} |", f"| --- {'| ---: ' * (len(header) - 1)}|"]
    for row in found.rows:
        name = f"`{_cell(row.model)}`"
        if row.failed is None:
            cells = []
            for metric in found.metrics:
                this = row.scores[metric]
                mean = f"**{number(this.mean)}**" if this.mark else number(this.mean)
                cells.append(f"{mean} ± {number(this.std)}{' ≈' if this.mark == 'tied' else ''}")
            lines.append(f"| {' | '.join([name, *cells, *costs(row)])} |")
        else:
            lines.append(f"| {name} | failed: {_cell(row.failed)} {'| ' * (len(header) - 2)}|")
    explained = (
        f"Mean ± standard deviation over folds. **Bold**: the best, and (≈) what is tied with it "
        f"(paired t-test over users, Holm, p > {LEVEL:g}). Seconds: median of a fold. komd {found.versions['komd']}."
    )
    return "\n".join([f"{caption(found)}.", "", *lines, "", explained, ""])


def _cells(found: Comparison, row: Row) -> list[str]:
    scores = (row.scores[name] for name in found.metrics)
    shown = (f"{number(s.mean)} ± {number(s.std)} {MARKS[s.mark]}" for s in scores)
    return [printable(row.model), *shown, *costs(row)]


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _cell(value: str) -> str:
    return printable(value).replace("|", "\\|")
