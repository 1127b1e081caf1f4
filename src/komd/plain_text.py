"""Values as text that every reader accepts: one printable line, JSON without NaN and infinities, tables of texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

__all__ = ["aligned", "id_text", "json_text", "markdown_cell", "markdown_table", "printable"]


def printable(value: object) -> str:
    """A value as one line of text without control codes: ids, names and reasons come from anywhere.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_text(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON that every parser reads: NaN and infinities become null; ids that JSON does not know become text.

    >>> json_text({"mean": float("nan"), "id": b"7f"})
    '{"mean": null, "id": "3766"}'
    """
    return json.dumps(_finite(value), indent=indent, default=id_text, ensure_ascii=ascii_only, allow_nan=False)


def id_text(value: object) -> str:
    """An id as text; bytes as hexadecimal digits, which `Ids.parse` reads back."""
    return value.hex() if isinstance(value, bytes) else str(value)


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


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
