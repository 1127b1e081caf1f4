"""Sources of rows, all alike to `read`: text and Parquet files, SQL, relations and frames."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from komd.errors import InputError
from komd.interactions.columns import Columns
from komd.interactions.text import Layout, sniff

__all__ = ["Table", "connect", "expand", "file_table", "frame_table", "query_table", "relation_table"]

_BATCH = 1 << 16  # rows: small enough for a batch's dictionary of ids to stay in cache


@dataclass
class Table:
    """Rows that can be fetched batch by batch, in their order."""

    name: str  # in messages
    columns: list[str]
    fetch: Callable[[list[int]], Iterator[pa.RecordBatch]]  # the columns at these positions
    named: bool = True  # whether `columns` are names of the source's own
    text: bool = False  # whether ids are text in which digits may stand for integers
    uuids: set[int] = field(default_factory=set)  # positions of UUIDs that come as text
    rows: int = 0  # about how many, for progress; 0 when nobody knows


def expand(source: Any) -> list[Path]:
    """The files that a path, a pattern or a list of them stands for."""
    if isinstance(source, list | tuple):
        if not source:
            raise InputError("an empty list of paths: there is nothing to read")
        return [path for each in source for path in expand(each)]
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"a list to read must hold paths, got {source!r}")
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
        " (for SQL, say where with database=)"
        if len(words) > 3 and words[0].lower() in ("select", "from", "with")
        else ""
    )
    raise InputError(f"no such file: {path}{hint}")


def connect(database: Any = None, *, memory: int | None = None) -> Any:
    """A DuckDB connection: the caller's own, or one to a file or other source, opened to read only."""
    import duckdb

    if isinstance(database, duckdb.DuckDBPyConnection):
        return database
    if database is not None and not isinstance(database, str | os.PathLike):
        raise InputError(f"database must be a DuckDB file, a connection or ':memory:', got {database!r}")
    name = None if database is None else os.fspath(database)
    within = name is None or name == ":memory:"
    if name is not None and not within and not Path(name).exists() and not re.match(r"[A-Za-z]\w+:", name):
        raise InputError(f"no such database: {name}")
    with _explained(f"cannot open database {name}"):
        direct = name is not None and not within and _is_duckdb(Path(name))
        connection = duckdb.connect(name, read_only=True) if direct else duckdb.connect()
        connection.execute("SET enable_progress_bar = false")
        # no Python variable of ours may be taken for a table
        connection.execute("SET python_enable_replacements = false")
        if memory is not None:
            connection.execute(f"SET memory_limit = '{memory}B'")
        if name is not None and not within and not direct:
            connection.execute(f"ATTACH {_quoted(name)} AS komd_source (READ_ONLY)")
            connection.execute("USE komd_source")
        return connection


def query_table(connection: Any, query: str) -> Table:
    """The result of a SELECT."""
    with _explained("the query failed"):
        relation = connection.sql(query)
    if relation is None:
        raise InputError(f"the query gives no rows to read; it must be a SELECT: {query!r}")
    return relation_table(relation, "the query")


def relation_table(relation: Any, name: str, rows: int = 0) -> Table:
    """A DuckDB relation."""
    columns = list(relation.columns)

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        # The same column may serve twice, and names may need quotes: both are settled by new names.
        chosen = ", ".join(f"{_identifier(columns[p])} AS c{k}" for k, p in enumerate(positions))
        yield from _batches(relation.project(chosen), name)

    uuids = {k for k, kind in enumerate(relation.types) if str(kind) == "UUID"}
    return Table(name, columns, fetch, uuids=uuids, rows=rows)


def file_table(connection: Any, path: Path, columns: Columns, header: bool | None, separator: str | None) -> Table:
    """A text or Parquet file; which of them, its first bytes tell."""
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    with _explained(f"cannot read {path}"), path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq"):
        with _explained(f"{path} is not a Parquet file that can be read"):
            source = f"read_parquet({_quoted(_literal(path))}, hive_partitioning=false)"
            relation = connection.sql(f"SELECT * FROM {source}")
            rows = connection.sql(f"SELECT num_rows FROM parquet_file_metadata({_quoted(_literal(path))})")
            return relation_table(relation, str(path), int(rows.fetchall()[0][0]))
    layout = sniff(path, header=header, separator=separator, by_name=columns.by_name)
    query = _text_query(path, layout)

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        chosen = ", ".join(f"c{p} AS k{k}" for k, p in enumerate(positions))
        with _explained(str(path)):
            relation = connection.sql(f"SELECT {chosen} FROM {query}")
        yield from _batches(relation, str(path))

    return Table(str(path), layout.columns, fetch, named=layout.header, text=True, rows=layout.rows)


def frame_table(frame: Any) -> Table:
    """Anything that gives an Arrow stream."""
    name = f"the {type(frame).__module__.split('.')[0]} {type(frame).__name__}"
    with _explained(f"{name} is not a table that can be read"):
        reader = pa.RecordBatchReader.from_stream(frame)
    # pandas appends an index that is not plain as a column of this name
    shown = [k for k, column in enumerate(reader.schema.names) if not column.startswith("__index_level_")]

    def fetch(positions: list[int]) -> Iterator[pa.RecordBatch]:
        with _explained(name):
            for batch in reader:
                chosen = pa.RecordBatch.from_arrays(
                    [batch.column(shown[p]) for p in positions],
                    names=[f"c{k}" for k in range(len(positions))],
                )
                for start in range(0, chosen.num_rows, _BATCH):
                    yield chosen.slice(start, _BATCH)

    return Table(name, [reader.schema.names[k] for k in shown], fetch, rows=_length(frame))


def _length(frame: Any) -> int:
    try:
        return len(frame)
    except TypeError:
        return 0


def _batches(relation: Any, name: str) -> Iterator[pa.RecordBatch]:
    # to_arrow_reader is what newer DuckDB calls it
    open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    with _explained(name):
        yield from open_reader(_BATCH)


def _text_query(path: Path, layout: Layout) -> str:
    columns = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(layout.columns)))
    return (
        f"read_csv({_quoted(_literal(path))}, auto_detect=false, header={str(layout.header).lower()}, "
        f"delim={_quoted(layout.separator)}, quote={_quoted(layout.quote)}, escape={_quoted(layout.quote)}, "
        f"nullstr='', columns={{{columns}}}, compression='{'gzip' if layout.gzipped else 'none'}')"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(path: Path) -> str:
    """A path as DuckDB is to take it: not as a pattern."""
    return glob.escape(str(path))


def _is_duckdb(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(12)[8:12] == b"DUCK"
    except OSError:
        return False


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what DuckDB, Arrow or the system say into one line of ours."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(_reason(what, str(error))) from error


def _reason(what: str, message: str) -> str:
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
