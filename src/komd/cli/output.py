"""What the commands print: lines and tables for readers, JSON for programs.

Ids and names are data: they are shown as plain text, never interpreted as markup or control codes.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from komd.plain_text import json_text, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from komd.data.interactions import Interactions
    from komd.engine.batch_output import Written
    from komd.engine.results import Explanation, Recommendations, Scores

__all__ = [
    "ROWS",
    "SKIPPED_PAIRS",
    "bar",
    "columns",
    "console",
    "counts",
    "explanation",
    "folder",
    "json_document",
    "json_rows",
    "note",
    "note_skipped",
    "print_rows",
    "recommendations",
    "row",
    "scores",
    "similar",
    "table",
]

ROWS = 50  # of a result shown as a table
SKIPPED_PAIRS = "pairs left out: the model does not know their user or item"
_REASONS = 15  # items of a history shown in an explanation
_BAR = 24  # characters
_WIDTH = 120  # of a table that does not go to a terminal
_BATCH = 10_000  # rows of JSON made at a time


def console() -> Console:
    """Standard output as rich writes to it."""
    from rich.console import Console

    fixed = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH
    return Console(width=fixed, highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """A line on stderr, beside the result."""
    print(f"komd: note: {text}", file=sys.stderr)


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = ()) -> Table:
    """An empty rich table; `right` names the columns of numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        number = column in right
        made.add_column(Text(column), justify="right" if number else "left", no_wrap=number, overflow="fold")
    return made


def row(made: Table, *cells: object, style: str | None = None, end_section: bool = False) -> None:
    """Add a row; every cell is plain text."""
    from rich.text import Text

    made.add_row(*(Text(printable(cell)) for cell in cells), style=style, end_section=end_section)


def bar(value: float, largest: float) -> str:
    """A bar whose length is |value| / largest.

    >>> bar(0.5, 1.0) == bar(-0.5, 1.0) == "█" * 12
    True
    """
    eighths = round(8 * _BAR * abs(value) / largest) if largest > 0 else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def counts(data: Interactions) -> dict[str, Any]:
    """Users, items and interactions; pairs that were only seen, dislikes, weights and times, where there are any."""
    facts: dict[str, Any] = {"users": data.shape[0], "items": data.shape[1], "interactions": data.pairs}
    for name, others in (("seen", data.seen), ("dislikes", data.dislikes)):
        if others:
            facts[name] = others.pairs
    if data.weights is not None and data.pairs:
        facts["weights"] = {"least": float(data.weights.min()), "largest": float(data.weights.max())}
    if data.times is not None and data.pairs:
        facts["times"] = {"first": int(data.times.min()), "last": int(data.times.max()), "unit": data.time_unit}
    return facts


def columns(data: Interactions) -> dict[str, object] | None:
    """Which columns were read as what, and which were not used."""
    if data.reading is None:
        return None
    return {"taken": data.reading.taken, "not_used": list(data.reading.unused), "rated_zero": data.reading.zeros}


def recommendations(result: Recommendations, users: int | None = None) -> None:
    """The lists as a table, cut when long. `users` is how many there are, when only the first were asked for."""
    rows = _lists(result, "user", "nothing to recommend: no item is left")
    shown = len({str(line["user_id"]) for line in rows})
    if users is not None and users > shown:
        print(f"… and {users - shown:,} more users: -o FILE writes all, --json prints all, --user picks some")
    else:
        _say_more(len(result), "-o FILE writes all, --json prints all")


def similar(result: Recommendations) -> None:
    """Lists of similar items as a table, cut when long."""
    _lists(result, "similar to", "no other item is similar")
    _say_more(len(result), "--json prints all")


def _lists(result: Recommendations, heading: str, nothing: str) -> list[dict[str, Any]]:
    """Print the first rows of lists as a table, whose first column, `heading`, says whose list it is; returns them."""
    rows: list[dict[str, Any]] = result.table.slice(0, ROWS).to_pylist()
    key = result.table.column_names[0]
    made = table(heading, "rank", "item", "score", right=("rank", "score"))
    for k, line in enumerate(rows):
        first = k == 0 or line[key] != rows[k - 1][key]
        last = k + 1 == len(rows) or rows[k + 1][key] != line[key]
        name = line[key] if first else ""
        row(made, name, line["rank"], line["item_id"], f"{line['score']:.4g}", end_section=last)
    if rows:
        console().print(made)
    else:
        print(nothing)
    note_skipped(result.skipped)
    return rows


def scores(result: Scores) -> None:
    """Scores of pairs as a table, cut when long."""
    rows = result.table.slice(0, ROWS).to_pylist()
    made = table("user", "item", "score", right=("score",))
    for line in rows:
        row(made, line["user_id"], line["item_id"], f"{line['score']:.4g}")
    if rows:
        console().print(made)
    _say_more(len(result), "-o FILE writes all, --json prints all")
    note_skipped(result.skipped, SKIPPED_PAIRS)


def note_skipped(count: int, what: str = "unknown ids skipped") -> None:
    """Say how many ids, or pairs, were skipped, if any."""
    if count:
        note(f"{count:,} {what}")


def _say_more(rows: int, how: str) -> None:
    if rows > ROWS:
        print(f"… and {rows - ROWS:,} more rows: {how}")


def explanation(result: Explanation) -> None:
    """Contributions as bars, the global term, and their sum."""
    if result.fallback:
        print(f"no history: the score of {printable(result.item)}, {result.score:g}, is its popularity")
        return
    lines = result.table.to_pylist()
    kept, rest = lines[:_REASONS], lines[_REASONS:]
    together = math.fsum(line["contribution"] for line in rest)
    largest = max(abs(v) for v in (*(line["contribution"] for line in kept), together, result.global_term))
    made = table(
        "because of", "similarity", "weight", "contribution", "", right=("similarity", "weight", "contribution")
    )
    for k, line in enumerate(kept, 1):
        value = line["contribution"]
        numbers = (f"{line['similarity']:.4f}", f"{line['weight']:.4f}", f"{value:+.4f}")
        row(made, line["item_id"], *numbers, bar(value, largest), end_section=k == len(kept) and not rest)
    if rest:
        words = f"… {len(rest):,} more items together"
        row(made, words, "", "", f"{together:+.4f}", bar(together, largest), end_section=True)
    term = result.global_term
    row(made, "global term: what was not chosen", "", "", f"{term:+.4f}", bar(term, largest), style="dim")
    row(made, f"score of {printable(result.item)}", "", "", f"{result.score:+.4f}", "", style="bold")
    console().print(made)


def json_document(value: object) -> None:
    """Print one JSON document."""
    print(json_text(value, indent=2, ascii_only=True))


def print_rows(name: str, tables: Iterable[pa.Table], facts: Mapping[str, object]) -> None:
    """Print one JSON object: the rows of tables as one list under `name`, and the facts, read after the last row."""
    pieces = json_rows(tables, "  ")
    first = next(pieces)  # an error comes before anything is printed
    sys.stdout.write(f"{{\n  {json.dumps(name)}: {first}")
    for piece in pieces:
        sys.stdout.write(piece)
    for key, value in facts.items():
        sys.stdout.write(f",\n  {json.dumps(key)}: {json_text(value, ascii_only=True)}")
    sys.stdout.write("\n}\n")


def folder(written: Written, model: str, as_json: bool) -> None:
    """Say what a folder of recommendations holds now."""
    if as_json:
        json_document({"model": model} | asdict(written) | {"path": str(written.path)})
        return
    before = f" ({written.resumed:,} were there already)" if written.resumed else ""
    print(f"wrote lists of {written.users:,} users to {written.path} in {written.parts:,} parts{before}")
    if written.redone:
        note(f"{written.redone:,} parts that were there matched no checksum and were made again")
    note_skipped(written.skipped)


def json_rows(tables: Iterable[pa.Table], indent: str = "") -> Iterator[str]:
    """A list with one row per line, piece by piece: all rows need not fit in memory as Python objects."""
    mark = "["
    for rows in tables:
        for batch in rows.to_batches(max_chunksize=_BATCH):
            for line in batch.to_pylist():
                yield f"{mark}\n{indent}  {json_text(line, ascii_only=True)}"
                mark = ","
    yield "[]" if mark == "[" else f"\n{indent}]"
