"""Tables of texts, aligned for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from komd.plain_text import printable

__all__ = ["aligned", "markdown_cell", "markdown_table"]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of a column under each other: the first column to the left, the others to the right.

    >>> aligned([["model", "auc"], ["EASE", "0.91"]])
    ['model   auc', 'EASE   0.91']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.ljust, *[str.rjust] * (len(widths) - 1)]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows
    ]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: tuple[int, ...] = (0,)) -> list[str]:
    """Lines of a Markdown table; columns in `left` are aligned to the left, the others to the right.

    >>> markdown_table(["model", "auc"], [["EASE", "0.91"]])
    ['| model | auc |', '| --- | ---: |', '| EASE | 0.91 |']
    """
    rule = ["---" if k in left else "---:" for k in range(len(head))]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *(map(markdown_cell, row) for row in rows))]


def markdown_cell(text: str) -> str:
    """Text that stays inside its cell."""
    return printable(text).replace("|", "\\|")
