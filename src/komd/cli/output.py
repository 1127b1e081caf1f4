"""What the commands print and write: tables for people, JSON for machines, files for both.

Ids and names are data: they are shown as plain text, never read as markup or as control codes.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from komd import files
from komd.errors import InputError
from komd.plain_text import id_text, json_text, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from komd.data.interactions import Interactions
    from komd.engine.batch_output import Written
    from komd.engine.results import Explanation, Recommendations, Scores

__all__ = [
    "ROWS",
    "bar",
    "check_output",
    "columns",
    "console",
    "counts",
    "explanation",
    "folder",
    "json_document",
    "note",
    "print_rows",
    "recommendations",
    "row",
    "say",
    "table",
    "write",
]

ROWS = 50  # of recommendations shown
_REASONS = 15  # items of a history shown in an explanation
_BAR = 24  # characters
_WIDTH = 120  # of a table that does not go to a terminal
_BATCH = 10_000  # rows of JSON made at a time
_SUFFIXES = (".csv", ".parquet", ".json")


def console() -> Console:
    """Standard output as rich writes to it."""
    from rich.console import Console

    fixed = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH
    return Console(width=fixed, highlight=False, markup=False, emoji=False)


def say(text: str = "") -> None:
    """A line for people, as it is."""
    print(text)


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


def counts(data: Interactions) -> dict[str, int]:
    """Users, items and interactions; and the pairs that were only seen, if there are any."""
    seen = {"seen": data.seen.pairs} if data.seen else {}
    return {"users": data.shape[0], "items": data.shape[1], "interactions": data.pairs} | seen


def columns(data: Interactions) -> dict[str, object] | None:
    """Which columns were read as what, and which were not used."""
    if data.reading is None:
        return None
    return {"taken": data.reading.taken, "not_used": list(data.reading.unused), "rated_zero": data.reading.zeros}


def recommendations(result: Recommendations, people: int | None = None) -> None:
    """The lists as a table, cut when long. `people` are all there are, when only the first were asked for."""
    rows = _lists(result, "user")
    if not rows:
        say("nothing to recommend: no item is left")
    shown = len(set(map(str, (line["user_id"] for line in rows))))
    if people is not None and people > shown:
        say(f"… and {people - shown:,} more people: -o FILE writes all, --json prints all, --user picks some")
    elif len(result) > len(rows):
        say(f"… and {len(result) - len(rows):,} more rows: -o FILE writes all, --json prints all")
    if result.skipped:
        note(f"{result.skipped:,} unknown ids skipped")


def similar(result: Recommendations) -> None:
    """Lists of similar items as a table, cut when long."""
    rows = _lists(result, "similar to")
    if not rows:
        say("no other item is similar")
    elif len(result) > len(rows):
        say(f"… and {len(result) - len(rows):,} more rows: --json prints all")
    if result.skipped:
        note(f"{result.skipped:,} unknown ids skipped")


def _lists(result: Recommendations, heading: str) -> list[dict[str, Any]]:
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
    return rows


def scores(result: Scores) -> None:
    """Scores of pairs as a table, cut when long."""
    rows = result.table.slice(0, ROWS).to_pylist()
    made = table("user", "item", "score", right=("score",))
    for line in rows:
        row(made, line["user_id"], line["item_id"], f"{line['score']:.4g}")
    if rows:
        console().print(made)
    if len(result) > len(rows):
        say(f"… and {len(result) - len(rows):,} more rows: -o FILE writes all, --json prints all")
    if result.skipped:
        note(f"{result.skipped:,} pairs left out: the model does not know their user or item")


def explanation(result: Explanation) -> None:
    """Contributions as bars, the global term, and their sum."""
    if result.fallback:
        say(f"no history: the score of {printable(result.item)}, {result.score:g}, is its popularity")
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
    """Print one JSON document; ids that JSON does not know become text, what is no number null."""
    print(json_text(value, indent=2, ascii_only=True))


def print_rows(name: str, tables: Iterable[pa.Table], facts: Callable[[], Mapping[str, object]]) -> None:
    """Print one JSON object: the rows of tables as one list under `name`, and the facts, asked for after them."""
    pieces = _json_rows(tables, "  ")
    first = next(pieces)  # what goes wrong goes wrong before anything is printed
    sys.stdout.write(f"{{\n  {json.dumps(name)}: {first}")
    for piece in pieces:
        sys.stdout.write(piece)
    for key, value in facts().items():
        sys.stdout.write(f",\n  {json.dumps(key)}: {json_text(value, ascii_only=True)}")
    sys.stdout.write("\n}\n")


def check_output(path: Path, suffixes: tuple[str, ...] = _SUFFIXES) -> None:
    """Refuse, before any work is done, a file that cannot be written."""
    if path.suffix.lower() not in suffixes:
        raise InputError(f"cannot write {path}: the name must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission to write in {path.parent}")


def folder(written: Written, model: str, as_json: bool) -> None:
    """Say what a folder of recommendations holds now."""
    if as_json:
        json_document({"model": model} | asdict(written) | {"path": str(written.path)})
        return
    before = f" ({written.resumed:,} were there already)" if written.resumed else ""
    say(f"wrote lists of {written.people:,} people to {written.path} in {written.parts:,} parts{before}")
    if written.redone:
        note(f"{written.redone:,} parts that were there matched no checksum and were made again")
    if written.skipped:
        note(f"{written.skipped:,} unknown ids skipped")


def write(tables: Iterable[pa.Table], path: Path) -> tuple[int, int]:
    """Write tables as one CSV, Parquet or JSON file, by the suffix; returns its rows and bytes.

    An old file stays until the new one is whole.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".json": _write_json}
    rows = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for each in tables:
            rows += each.num_rows
            yield each

    try:
        files.write(path, lambda file: writers[path.suffix.lower()](counted(), file))
    except OSError as error:
        raise InputError(f"could not write {path}: {error.strerror or error}") from error
    return rows, path.stat().st_size


def _write_csv(tables: Iterable[pa.Table], file: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import csv

    header = True
    for rows in tables:
        for k, column in enumerate(rows.columns):
            if isinstance(column.type, pa.BaseExtensionType) or pa.types.is_binary(column.type):
                texts = pa.array([id_text(value) for value in column.to_pylist()], pa.string())
                rows = rows.set_column(k, rows.column_names[k], texts)
        csv.write_csv(rows, file, csv.WriteOptions(include_header=header))
        header = False


def _write_parquet(tables: Iterable[pa.Table], file: IO[bytes]) -> None:
    from pyarrow import parquet

    tables = iter(tables)
    first = next(tables)
    with parquet.ParquetWriter(file, first.schema, compression="zstd", write_page_checksum=True) as writer:
        for rows in itertools.chain([first], tables):
            writer.write_table(rows)


def _write_json(tables: Iterable[pa.Table], file: IO[bytes]) -> None:
    for piece in itertools.chain(_json_rows(tables, ""), "\n"):
        file.write(piece.encode())


def _json_rows(tables: Iterable[pa.Table], indent: str) -> Iterator[str]:
    """A list with one row a line, made by pieces: all rows need not fit in memory as Python objects."""
    mark = "["
    for rows in tables:
        for batch in rows.to_batches(max_chunksize=_BATCH):
            for line in batch.to_pylist():
                yield f"{mark}\n{indent}  {json_text(line, ascii_only=True)}"
                mark = ","
    yield "[]" if mark == "[" else f"\n{indent}]"
