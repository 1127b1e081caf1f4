"""The first lines of a text file, plain or gzipped: enough to recognise its layout and to estimate its rows."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from komd.errors import InputError

__all__ = ["LINE_END", "FirstLines", "first_lines", "mixed_ends"]

LINE_END = re.compile(r"\r\n|\n|\r")
_SIZE = 1 << 16  # bytes read, or more until there are two lines
_LONGEST = 1 << 24  # bytes that the first two lines may have
_PACKED = 1 << 18  # bytes of a gzipped file by which its compression is measured
_GZIP = b"\x1f\x8b"
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"BZh": "bz2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class FirstLines(NamedTuple):
    """Complete lines from the first that is not blank."""

    text: str
    complete: bool  # whether this is all of the file
    blank_lines: int  # before the text
    gzipped: bool
    rows: int  # of the file, about


def first_lines(path: Path) -> FirstLines:
    """The beginning of a file; refuses what is not text in UTF-8 with one kind of line ends."""
    head, complete, packed = _head(path)
    if head.startswith(_UTF16) or b"\0" in head:
        raise InputError(f"{path} is not text (it holds zero bytes); give CSV, TSV or Parquet, in UTF-8")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=complete)
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text; convert it, for example with iconv") from None
    ends = set(LINE_END.findall(text if complete else text[:-1]))
    if len(ends) > 1:
        raise InputError(f"{path} mixes {mixed_ends(ends)}")
    size = path.stat().st_size * (packed or 1.0)
    rows = int(size * max(1, text.count("\n")) / max(1, len(text.encode())))
    if not complete:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]  # the last line may be cut in the middle
    filled = text.lstrip(" \t\r\n")
    if not filled:
        raise InputError(f"{path} is empty")
    before = len(text) - len(filled)
    start = max(text.rfind("\n", 0, before), text.rfind("\r", 0, before)) + 1
    return FirstLines(text[start:], complete, len(LINE_END.findall(text[:start])), packed > 0, rows)


def mixed_ends(ends: set[str]) -> str:
    """What is wrong with lines that end in several ways, and what to do."""
    named = " and ".join(sorted(repr(end).strip("'") for end in ends)) or r"such as \n and \r\n"
    return f"line ends ({named}): give it one kind, for example with dos2unix"


def _head(path: Path) -> tuple[bytes, bool, float]:
    """The first bytes, whether they are all there are, and how far the file is packed (0: not gzipped)."""
    with path.open("rb") as file:
        start = file.read(8)
    gzipped = start.startswith(_GZIP)
    for magic, kind in _ARCHIVES.items():
        if start.startswith(magic):
            raise InputError(f"{path} is {kind}: unpack it, or compress it with gzip instead")
    try:
        with gzip.open(path, "rb") if gzipped else path.open("rb") as file:
            wanted = _SIZE
            head = file.read(wanted + 1)
            while len(head) > wanted and not re.search(rb"[^\s][\r\n]+[^\r\n]+[\r\n]", head):
                if wanted >= _LONGEST:
                    raise InputError(f"{path} has no two lines in its first {_LONGEST >> 20} MB: this is no table")
                wanted *= 2
                head += file.read(wanted + 1 - len(head))
        return head, len(head) <= wanted, _packed(path) if gzipped else 0.0
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a complete gzip file: {error}") from None


def _packed(path: Path) -> float:
    """How many bytes of text one byte of a gzipped file stands for, near its beginning."""
    with path.open("rb") as file:
        rest = file.read(_PACKED)
    read, plain = len(rest), 0
    while rest.startswith(_GZIP):  # there may be several parts, one after another
        part = zlib.decompressobj(wbits=31)
        plain += len(part.decompress(rest))
        rest = part.unused_data
    return max(1, plain) / max(1, read - len(rest))
