"""Results as one file: CSV, Parquet or JSON, by the suffix of its name, put in place by an atomic replace."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from komd import files
from komd.cli import output as show
from komd.errors import InputError
from komd.plain_text import id_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_file", "check_folder", "write", "write_result"]

_SUFFIXES = (".csv", ".parquet", ".json")


def check_file(path: Path, suffixes: tuple[str, ...] = _SUFFIXES) -> None:
    """Refuse, before any work is done, a file that cannot be written."""
    if path.suffix.lower() not in suffixes:
        raise InputError(f"cannot write {path}: the name must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission to write in {path.parent}")


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a file where a folder is to be written."""
    if path is not None and path.exists() and not path.is_dir():
        raise InputError(f"{option} must be a folder, and {path} is a file")


def write_result(tables: Iterable[pa.Table], path: Path, facts: Mapping[str, object], *, as_json: bool) -> None:
    """Write a file and say so: in one line, or as JSON with the facts, which may be known only after the last table."""
    from komd.memory import readable

    rows, size = write(tables, path)
    if as_json:
        show.json_document({**facts, "path": str(path), "rows": rows, "bytes": size})
    else:
        print(f"wrote {rows:,} rows to {path} ({readable(size)})")


def write(tables: Iterable[pa.Table], path: Path) -> tuple[int, int]:
    """Write tables as one file; returns its rows and bytes."""
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
    for piece in itertools.chain(show.json_rows(tables), "\n"):
        file.write(piece.encode())
