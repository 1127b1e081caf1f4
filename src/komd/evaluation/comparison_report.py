"""A comparison as text, as a rich table and as Markdown: the same figures everywhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from komd.evaluation.comparison import Comparison, MetricSummary, Row
from komd.evaluation.significance import LEVEL
from komd.memory import readable
from komd.plain_text import aligned, markdown_table, printable

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["MARKS", "caption", "costs", "legend", "markdown", "number", "rich_table", "text"]

_NAMES = 20  # characters that the names of models need in a terminal
MARKS = {"best": "*", "tied": "≈", "": " "}
COSTS = ("fit s", "rank s", "memory")
"""Columns after the metrics: median seconds of a fold, and the peak memory of the model's process."""


def number(value: float) -> str:
    """A metric's value as it is shown everywhere."""
    return "–" if math.isnan(value) else f"{value:.4f}"


def costs(row: Row) -> tuple[str, str, str]:
    """Seconds to fit, seconds to rank, peak memory."""
    fit, rank = (f"{value:.3f}" if value < 10 else f"{value:.1f}" for value in (row.fit_seconds, row.rank_seconds))
    return fit, rank, readable(row.peak_memory)


def caption(found: Comparison) -> str:
    """What was compared, in one line."""
    protocol = found.protocol
    return (
        f"{found.data}; {protocol.folds} folds, half {protocol.half}, rng {protocol.rng}, ties {protocol.ties}; "
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
    lines = [header]
    for row in (row for row in found.rows if row.failed is None):
        scores = (row.scores[name] for name in found.metrics)
        cells = (f"{number(s.mean)} ± {number(s.std)} {MARKS[s.mark]}" for s in scores)
        lines.append([printable(row.model), *cells, *costs(row)])
    shown = aligned(lines)
    shown += [f"{row.model}  failed: {printable(row.failed)}" for row in found.rows if row.failed is not None]
    return "\n".join([caption(found), "", *shown, "", legend()])


def rich_table(found: Comparison, width: int) -> Group:
    """The table for a terminal of this width: the best and what is tied with it bold; below, what failed.

    Standard deviations are left out if the names of the models do not fit beside them.
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
    rows = []
    for row in found.rows:
        if row.failed is not None:
            cells = [f"failed: {row.failed}", *[""] * (len(header) - 2)]
        else:
            cells = [_markdown_score(row.scores[metric]) for metric in found.metrics] + [*costs(row)]
        rows.append([f"`{row.model}`", *cells])
    explained = (
        f"Mean ± standard deviation over folds. **Bold**: the best, and (≈) what is tied with it "
        f"(paired t-test over users, Holm, p > {LEVEL:g}). Seconds: median of a fold. komd {found.versions['komd']}."
    )
    return "\n".join([f"{caption(found)}.", "", *markdown_table(header, rows), "", explained, ""])


def _markdown_score(score: MetricSummary) -> str:
    mean = f"**{number(score.mean)}**" if score.mark else number(score.mean)
    return f"{mean} ± {number(score.std)}{' ≈' if score.mark == 'tied' else ''}"
