"""Sources of rows behind one interface: text and Parquet files, relations, frames, lists and arrays of pairs."""

from __future__ import annotations

import glob
import operator
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from komd.data.columns import ColumnRequest
from komd.data.first_lines import mixed_ends
from komd.data.text_layout import Layout, sniff
from komd.errors import InputError, argument

__all__ = [
    "BATCH",
    "SourceTable",
    "array_table",
    "arrow_array",
    "batch_of",
    "expand",
    "explained",
    "file_table",
    "frame_table",
    "identifier",
    "lazy_table",
    "pairs_table",
    "quoted",
    "relation_table",
]

BATCH = 1 << 16  # rows: small enough for a batch's dictionary of ids to stay in cache


@dataclass
class SourceTable:
    """Rows that can be fetched batch by batch, in their order."""

    name: str  # in messages
    columns: list[str]
    fetch: Callable[[list[int]], Iterator[pa.RecordBatch]]  # the columns at these positions
    named: bool = True  # whether `columns` are names of the source's own
    text: bool = False  # whether ids are text in which digits may stand for integers
    quote: str = ""  # what encloses fields of text, and what a quote inside is written with
    escape: str = ""
    uuids: set[int] = field(default_factory=set)  # positions of UUIDs that come as text
    rows: int = 0  # about how many, for progress; 0 when unknown


def expand(source: Any) -> list[Path]:
    """The files that a path, a pattern or a list of them stands for."""
    if isinstance(source, list | tuple):
        if not source:
            raise InputError("an empty list of paths: there is nothing to read")
        if len(source) == 2 and not any(map(_is_path, source)):
            raise InputError(f"no such files: {', '.join(source)} (for one pair, give [{tuple(source)!r}])")
        return [path for each in source for path in expand(each)]
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"a list to read must hold paths or pairs, got {source!r}")
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a file or a pattern such as '{path / '*.parquet'}'")
    if path.exists():
        return [path]
    if glob.has_magic(str(source)):
        found = [Path(each) for each in sorted(glob.glob(str(source), recursive=True))]  # noqa: PTH207
        found = [each for each in found if not each.is_dir()]
        if not found:
            raise InputError(f"no file matches {str(source)!r}")
        return found
    words = str(source).split()
    hint = (
        f" (for SQL, say where with {argument('database')})"
        if len(words) > 3 and words[0].lower() in ("select", "from", "with")
        else ""
    )
    raise InputError(f"no such file: {path}{hint}")


def relation_table(relation: Any, name: str, rows: int = 0) -> SourceTable:
    """A DuckDB relation."""
    columns = list(relation.columns)

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        # The same column may be asked for twice, and names may need quotes: new names settle both.
        chosen = ", ".join(f"{identifier(columns[p])} AS c{k}" for k, p in enumerate(positions))
        yield from _batches(relation.project(chosen), name)

    uuids = {k for k, kind in enumerate(relation.types) if str(kind) == "UUID"}
    return SourceTable(name, columns, fetch, uuids=uuids, rows=rows)


def _is_path(each: Any) -> bool:
    return not isinstance(each, str) or glob.has_magic(each) or os.path.lexists(each)


def file_table(
    connection: Any, path: Path, columns: ColumnRequest, header: bool | None, separator: str | None
) -> SourceTable:
    """A text or Parquet file, told apart by its first bytes."""
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    with explained(f"cannot read {path}"), path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq"):
        with explained(f"{path} is not a Parquet file that can be read"):
            source = f"read_parquet({quoted(_literal(path))}, hive_partitioning=false)"
            relation = connection.sql(f"SELECT * FROM {source}")
            rows = connection.sql(f"SELECT num_rows FROM parquet_file_metadata({quoted(_literal(path))})")
            return relation_table(relation, str(path), int(rows.fetchall()[0][0]))
    layout = sniff(path, header=header, separator=separator, by_name=columns.by_name, chosen=columns.chosen)
    query = _text_query(path, layout)

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        chosen = ", ".join(f"c{p} AS k{k}" for k, p in enumerate(positions))
        with explained(str(path)):
            relation = connection.sql(f"SELECT {chosen} FROM {query}")
        yield from _batches(relation, str(path))

    named, quote, escape, rows = layout.header, layout.quote, layout.escape, layout.rows
    return SourceTable(str(path), layout.columns, fetch, named, text=True, quote=quote, escape=escape, rows=rows)


def frame_table(frame: Any) -> SourceTable:
    """Anything that gives an Arrow stream."""
    name = f"the {type(frame).__module__.split('.')[0]} {type(frame).__name__}"
    names = [str(name) for name in getattr(frame, "columns", ()) if isinstance(name, str | int)]
    repeated = next((each for k, each in enumerate(names) if each in names[:k]), None)
    if repeated is not None:
        raise InputError(f"{name} has several columns named {repeated!r}; rename or drop all but one")
    with explained(f"{name} is not a table that can be read", Exception):  # the frame's own code runs here
        reader = pa.RecordBatchReader.from_stream(frame)
    # pandas appends an index that is not plain as a column of this name
    shown = [k for k, column in enumerate(reader.schema.names) if not column.startswith("__index_level_")]

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        with explained(name):
            for batch in reader:
                chosen = batch_of([batch.column(shown[p]) for p in positions])
                for start in range(0, chosen.num_rows, BATCH):
                    yield chosen.slice(start, BATCH)

    return SourceTable(name, [reader.schema.names[k] for k in shown], fetch, rows=operator.length_hint(frame))


def lazy_table(frame: Any) -> SourceTable:
    """A polars LazyFrame: only the columns that are read are computed."""
    name = "the polars LazyFrame"
    with explained(f"{name} cannot be computed", Exception):
        columns = list(frame.collect_schema().names())

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        with explained(f"{name} cannot be computed", Exception):
            frame_read = frame.select(list(dict.fromkeys(columns[p] for p in positions))).collect()
        table = frame_table(frame_read)
        yield from table.fetch([table.columns.index(columns[p]) for p in positions])

    return SourceTable(name, columns, fetch)


def pairs_table(pairs: Sequence[Any], columns: ColumnRequest) -> SourceTable:
    """A list of pairs (user, item)."""
    widths = {len(pair) if isinstance(pair, list | tuple | np.ndarray) else 0 for pair in pairs}
    width = len(pairs[0])
    if len(widths) > 1:
        row = next(k for k, pair in enumerate(pairs) if not isinstance(pair, list | tuple) or len(pair) != width)
        raise InputError(
            f"all rows of a list of pairs must have the same length: the first is {pairs[0]!r}, "
            f"row {row + 1:,} is {pairs[row]!r}"
        )
    return _columns_table([list(column) for column in zip(*pairs, strict=True)], "the list of pairs", columns)


def array_table(array: np.ndarray[Any, Any], columns: ColumnRequest) -> SourceTable:
    """A numpy array of pairs: two columns, or one of records with names."""
    name = "the numpy array"
    if array.dtype.names and array.ndim == 1:
        return _columns_table([array[field] for field in array.dtype.names], name, columns, list(array.dtype.names))
    if array.ndim != 2:
        raise InputError(f"a numpy array of pairs has two dimensions, got shape {array.shape}")
    return _columns_table(list(array.T), name, columns)


def _columns_table(values: list[Any], name: str, columns: ColumnRequest, names: list[str] | None = None) -> SourceTable:
    """Columns in memory. Without names there must be two beside those asked for: nothing says what others hold."""
    if names is None and len(values) not in (2, 2 + columns.beside_ids) and not columns.chosen:
        raise InputError(
            f"{name} has {len(values)} columns, and pairs have two: choose with {argument('user', 0)}, "
            f"{argument('item', 1)}, or give scipy.sparse.csr_array(matrix) for a matrix of users × items"
        )

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(values[0]), BATCH):
            yield batch_of([arrow_array(values[p][start : start + BATCH], name) for p in positions])

    shown = names or [f"column {k}" for k in range(len(values))]
    return SourceTable(name, shown, fetch, named=names is not None, rows=len(values[0]))


def batch_of(arrays: list[pa.Array]) -> pa.RecordBatch:
    """Columns whose names do not matter."""
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{k}" for k in range(len(arrays))])


def arrow_array(values: Any, name: str) -> pa.Array:
    """The values of one column as an Arrow array; numbers among text become text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(value).__name__ for value in values})
        if set(kinds) <= {"str", "int", "NoneType"}:
            return pa.array([None if value is None else str(value) for value in values])
        raise InputError(f"{name} has a column of {' and '.join(kinds)}: one kind of ids is needed") from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{name} cannot be read: {error}") from error


def _batches(relation: Any, name: str) -> Iterator[pa.RecordBatch]:
    # to_arrow_reader is what newer DuckDB calls it
    open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    with explained(name):
        yield from open_reader(BATCH)


def _text_query(path: Path, layout: Layout) -> str:
    columns = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(layout.columns)))
    return (
        f"read_csv({quoted(_literal(path))}, auto_detect=false, header={str(layout.header).lower()}, "
        f"delim={quoted(layout.separator)}, quote={quoted(layout.quote)}, escape={quoted(layout.escape)}, "
        f"skip={layout.skip}, nullstr='', columns={{{columns}}}, compression='{'gzip' if layout.gzipped else 'none'}')"
    )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(path: Path) -> str:
    """A path for DuckDB, which would read it as a pattern."""
    return glob.escape(str(path))


@contextmanager
def explained(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of DuckDB, Arrow and the system, and of `kinds`, into an `InputError` of one line."""
    import duckdb

    try:
        yield
    except InputError:
        raise
    except (duckdb.Error, pa.ArrowException, OSError, UnicodeError, *kinds) as error:
        raise InputError(_reason(what, str(error) or type(error).__name__)) from error


def _reason(what: str, message: str) -> str:
    if "state machine reached an invalid state" in message:
        return f"{what} mixes {mixed_ends(set())}"
    line = re.search(r"CSV Error on Line: (\d+)", message)
    if line is None:
        first = next((text.strip() for text in message.splitlines() if text.strip()), "unknown error")
        return f"{what}: {first}"
    at = f"{what}, line {line.group(1)}"
    fields = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if fields is not None:
        return f"{at}: expected {fields.group(1)} columns, found {fields.group(2)}"
    if "unicode" in message or "utf-8" in message:
        return f"{at}: not UTF-8 text; convert it, for example with iconv"
    if "unterminated quote" in message:
        return f"{at}: a quote that is opened is not closed"
    told = [text.strip() for text in message.splitlines()[1:] if not text.startswith(("Original Line", "Possible"))]
    return f"{at}: {next((text for text in told if text), 'cannot be read')}"
