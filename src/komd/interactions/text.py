"""How a text file is laid out: its separator, whether it has a header, the names of its columns.

The rules look at the first lines only, and each can be overruled by an argument of `read`:

- the separator is a tab or `::` if that cuts every line into the same number (two or more) of fields; or
  else the one of `,` `;` `|` that cuts them into most; or else a space;
- the first line is a header if a column is asked for by name; or if it holds no number and a recognised
  name of a user column, or recognised names of two kinds; or if it holds no number where some column
  holds nothing but numbers further down.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from komd.errors import InputError
from komd.interactions.columns import role

__all__ = ["Layout", "sniff"]

_HEAD = 1 << 16  # bytes looked at
_PACKED = 1 << 18  # the same of a gzipped file, to see how far it is packed
_LINES = 200
_QUOTED = {",", ";"}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPELLED = {"\\t": "\t", "tab": "\t", "space": " "}
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"BZh": "bz2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class Layout(NamedTuple):
    """What it takes to read a text file."""

    separator: str
    quote: str  # empty: quotes are characters like others
    header: bool
    columns: list[str]  # names, or "column 0", "column 1", … without a header
    gzipped: bool
    rows: int  # about how many, for progress


def sniff(path: Path, *, header: bool | None, separator: str | None, by_name: bool) -> Layout:
    """Look at the first lines of a text file, plain or gzipped."""
    text, whole, packed = _head(path)
    lines = re.split(r"\r\n|\n|\r", text)
    if not whole and len(lines) > 1:
        lines.pop()  # cut off in the middle
    lines = [line for line in lines if line.strip()][:_LINES]
    if not lines:
        raise InputError(f"{path} is empty")
    if separator is None:
        separator = _separator(lines)
    else:
        separator = _SPELLED.get(separator, separator)
        if not 1 <= len(separator) <= 4 or separator in '\r\n"':
            raise InputError(f"separator must be one to four characters such as ',' or '::', got {separator!r}")
    if separator is None or len(_fields(lines[0], separator)) < 2:
        by = "" if separator is None else f" when separated by {separator!r}"
        raise InputError(f"{path} has one column{by}; users and items need two (choose with separator=)")
    rows = [_fields(line, separator) for line in lines]
    if header is None:
        header = by_name or _is_header(rows)
    width = Counter(map(len, rows)).most_common(1)[0][0] if not header else len(rows[0])
    columns = [name.strip() for name in rows[0]] if header else [f"column {k}" for k in range(width)]
    quote = '"' if separator in _QUOTED else ""
    size = path.stat().st_size * (packed or 1.0)
    about = int(size * max(1, text.count("\n")) / len(text.encode()))
    return Layout(separator, quote, header, columns, packed > 0, about)


def _head(path: Path) -> tuple[str, bool, float]:
    """The first bytes as text, whether they are all there is, and how far the file is packed (0: not gzipped)."""
    with path.open("rb") as file:
        start = file.read(8)
    gzipped = start.startswith(b"\x1f\x8b")
    for magic, kind in _ARCHIVES.items():
        if start.startswith(magic):
            raise InputError(f"{path} is {kind}: unpack it, or compress it with gzip instead")
    try:
        with gzip.open(path, "rb") if gzipped else path.open("rb") as file:
            head = file.read(_HEAD + 1)
        packed = _packed(path) if gzipped else 0.0
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from None
    whole = len(head) <= _HEAD
    if b"\0" in head:
        raise InputError(f"{path} is not text (it holds zero bytes); give CSV, TSV or Parquet, in UTF-8")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=whole)
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text; convert it, for example with iconv") from None
    return text, whole, packed


def _packed(path: Path) -> float:
    """How many bytes of text one byte of a gzipped file stands for, near its beginning."""
    with path.open("rb") as file:
        rest = file.read(_PACKED)
    read, plain = len(rest), 0
    while rest.startswith(b"\x1f\x8b"):  # there may be several parts, one after another
        part = zlib.decompressobj(wbits=31)
        plain += len(part.decompress(rest))
        rest = part.unused_data
    return max(1, plain) / (read - len(rest))


def _fields(line: str, separator: str) -> list[str]:
    if separator in _QUOTED:
        try:
            return next(csv.reader([line], delimiter=separator, strict=True))
        except csv.Error:  # a quoted field that goes on in the next line
            return line.split(separator)
    if separator == " ":
        line = line.rstrip(" ")
    return line.split(separator)


def _separator(lines: list[str]) -> str | None:
    # A candidate must cut most lines alike: a damaged line is then reported by its number, not hidden.
    alike: dict[str, tuple[float, int]] = {}
    for candidate in ("\t", "::", ",", ";", "|", " "):
        width, times = Counter(len(_fields(line, candidate)) for line in lines).most_common(1)[0]
        if width >= 2 and 2 * times > len(lines):
            alike[candidate] = (times / len(lines), width)
    for group in (["\t"], ["::"], [",", ";", "|"], [" "]):
        present = [candidate for candidate in group if candidate in alike]
        if present:
            return max(present, key=lambda candidate: alike[candidate])
    return None


def _is_header(rows: list[list[str]]) -> bool:
    first, later = [field.strip() for field in rows[0]], rows[1:]
    if any(_NUMBER.fullmatch(field) for field in first):
        return False
    roles = {role(field) for field in first} - {None}
    if "user" in roles or len(roles) > 1:
        return True
    full = [row for row in later if len(row) == len(first)]
    return bool(full) and any(all(_NUMBER.fullmatch(row[k].strip()) for row in full) for k in range(len(first)))
