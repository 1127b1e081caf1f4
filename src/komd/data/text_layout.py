"""How a text file is laid out: its separator, its quotes, whether it has a header, the names of its columns.

The rules use the first lines only, and an argument of `read` overrules each of them:

- the separator is a tab or `::` if that cuts most lines into the same number (two or more) of fields; or
  else the one of `,` `;` `|` that cuts them into most; or else a space;
- with `,` and `;` double quotes enclose a field. With other separators, and for single quotes, they do so only
  where all of a column is quoted (except numbers), or exactly the values that need it (`"a<tab>b"`); otherwise a
  quote is an ordinary character;
- the first line is a header if a column is asked for by name; or if it holds recognised names of two kinds, or
  of a user column; or if it holds no number where some column holds nothing but numbers further down. It is
  a row if it holds a number, or an id that occurs again in its column, or one of the same form (`i7`, `i12`).
  Where none of this tells, `read` asks for `header=`.

What cannot be rows of pairs is refused: a table with one column for each item, or mixed line ends.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from komd.data.columns import MELT, listing, role
from komd.data.first_lines import LINE_END, first_lines
from komd.errors import InputError, argument

__all__ = ["Layout", "sniff"]

_LINES = 1000
_SEPARATORS = ("\t", "::", ",", ";", "|", " ")
_QUOTED = {",", ";"}  # separators with which double quotes always count
_BLANKS = {"\t": " ", " ": "\t"}  # blanks that may surround a field
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_YES_NO = re.compile(r"[01](\.0*)?|true|false", re.IGNORECASE)
_SPELLED = {"\\t": "\t", "tab": "\t", "space": " "}

Rows = list[list["Field"]]


class Layout(NamedTuple):
    """What is needed to read a text file."""

    separator: str
    quote: str  # empty: quotes are ordinary characters
    escape: str  # what a quote inside quotes is written with
    header: bool
    skip: int  # blank lines at the beginning
    columns: list[str]  # names, or "column 0", "column 1", … without a header
    gzipped: bool
    rows: int  # about how many, for progress


class Field(NamedTuple):
    """One field of a row."""

    text: str
    quoted: bool = False


class _Cut(NamedTuple):
    """The first lines, split into fields in one way."""

    separator: str
    quote: str
    escape: str
    rows: Rows

    @property
    def widths(self) -> Counter[int]:
        return Counter(map(len, self.rows))


def sniff(path: Path, *, header: bool | None, separator: str | None, by_name: bool, chosen: bool = False) -> Layout:
    """The layout of a text file, plain or gzipped, from its first lines.

    `by_name`: a column is asked for by name. `chosen`: the columns of users and items are both asked for.
    """
    head = first_lines(path)
    cut = (
        _found(head.text, head.complete)
        if separator is None
        else _cut_by(head.text, _spelled(separator), head.complete)
    )
    if cut is None or len(cut.rows[0]) < 2:
        by = "" if cut is None or separator is None else f" when separated by {cut.separator!r}"
        raise InputError(f"{path} has one column{by}; users and items need two (choose with {argument('separator')})")
    plain = [[field.text.strip() for field in row] for row in cut.rows]
    closed = all(row[-1] == "" for row in plain)  # with a separator at the end of each line
    filled = [row[:-1] for row in plain] if closed else plain
    if not chosen and _is_wide(filled):
        raise InputError(f"{path} looks like a table with one column for each item: {MELT}")
    if header is None:
        header = by_name or _is_header(plain, path)
    width = cut.widths.most_common(1)[0][0] if not header else len(plain[0])
    columns = list(plain[0]) if header else [f"column {k}" for k in range(width)]
    if header and _has_row_names(filled):
        columns.insert(0, "")
    return Layout(cut.separator, cut.quote, cut.escape, header, head.blank_lines, columns, head.gzipped, head.rows)


def _spelled(separator: str) -> str:
    separator = _SPELLED.get(separator, separator)
    if not 1 <= len(separator) <= 4 or any(mark in separator for mark in "\r\n\"'"):
        raise InputError(f"separator must be one to four characters such as ',' or '::', got {separator!r}")
    return separator


def _found(body: str, complete: bool) -> _Cut | None:
    # A candidate must cut most lines alike: a damaged line is then reported by its number, not hidden.
    alike: dict[str, tuple[float, int]] = {}
    cuts = {separator: _cut_by(body, separator, complete) for separator in _SEPARATORS if separator in body}
    for separator, cut in cuts.items():
        width, times = cut.widths.most_common(1)[0]
        if width >= 2 and 2 * times > len(cut.rows):
            alike[separator] = (times / len(cut.rows), width)
    for group in (["\t"], ["::"], [",", ";", "|"], [" "]):
        present = [separator for separator in group if separator in alike]
        if present:
            return cuts[max(present, key=lambda separator: alike[separator])]
    return None


def _cut_by(body: str, separator: str, complete: bool) -> _Cut:
    """The first lines cut by this separator, with the quotes that count there."""
    lines = [line for line in LINE_END.split(body) if line.strip()][:_LINES]
    lines = [line.rstrip(" ") for line in lines] if separator == " " else lines
    plain = [[Field(text) for text in line.split(separator)] for line in lines]
    even = len(set(map(len, plain))) == 1
    for quote, escape in (('"', '"'), ('"', "\\"), ("'", "'"), ("'", "\\")):
        if quote not in body:
            continue
        rows = _rows(body, separator, quote, escape, complete)
        always = quote == '"' and separator in _QUOTED
        if rows and (always or _quotes_count(rows, separator, quote, even)):
            return _Cut(separator, quote, escape, rows)
    quote = '"' if separator in _QUOTED else ""  # a row that cannot be read is reported with its number
    return _Cut(separator, quote, quote, plain)


def _rows(body: str, separator: str, quote: str, escape: str, complete: bool) -> Rows:
    """The rows of a text with quotes; none at all if a quoted field does not end before a separator."""
    blanks = _BLANKS.get(separator, " \t")
    inner = f"(?:[^{quote}]|{quote}{quote})*" if escape == quote else rf"(?:[^{quote}\\]|\\.)*"
    quoted = re.compile(f"[{blanks}]*{quote}({inner}){quote}[{blanks}]*(?={re.escape(separator)}|[\r\n]|$)", re.DOTALL)
    opened = re.compile(f"[{blanks}]*{quote}")
    cut_off = re.compile(rf"[{blanks}]*{quote}{inner}\Z", re.DOTALL)
    unquoted = re.compile(f"(?:(?!{re.escape(separator)})[^\r\n])*")
    rows: Rows = []
    row: list[Field] = []
    at = 0
    while at < len(body) and len(rows) < _LINES:
        match = quoted.match(body, at)
        if match:
            row.append(Field(match[1].replace(escape + quote, quote), True))
        elif opened.match(body, at):
            return rows if not complete and cut_off.match(body, at) else []
        else:
            match = unquoted.match(body, at)
            assert match is not None  # it also matches the empty text
            row.append(Field(match[0]))
        at = match.end()
        if body.startswith(separator, at):
            at += len(separator)
            if at < len(body) and body[at] not in "\r\n":
                continue
            if separator != " ":  # a blank at the end of a line separates nothing
                row.append(Field(""))
        end = LINE_END.match(body, at)
        at = end.end() if end else len(body)
        if len(row) > 1 or row[0].text.strip():
            rows.append(row)
        row = []
    return rows


def _quotes_count(rows: Rows, separator: str, quote: str, even: bool) -> bool:
    """Whether quotes were put around fields on purpose: around all of a column, or where they are needed.

    `even`: split without regard to quotes, all lines have the same number of fields; then no field spans several lines.
    """
    columns: dict[int, list[Field]] = {}
    for row in rows[1:] or rows:
        for k, field in enumerate(row):
            if field.quoted or not _is_bare(field.text.strip()):
                columns.setdefault(k, []).append(field)
    full = {k for k, fields in columns.items() if all(field.quoted for field in fields)}
    some = [field for k, fields in columns.items() if k not in full for field in fields if field.quoted]
    heads = [field for field in rows[0] if field.quoted] if len(rows) > 1 else []
    named = len(heads) == len(rows[0]) or any(separator in field.text for field in heads)
    if even and any(field.quoted and LINE_END.search(field.text) for row in rows for field in row):
        return False
    needed = all(separator in field.text or quote in field.text or LINE_END.search(field.text) for field in some)
    return needed and bool(full or some or named)


def _is_bare(text: str) -> bool:
    """Whether a writer that quotes text leaves this unquoted: a number, or nothing."""
    return text in ("", "NA") or _NUMBER.fullmatch(text) is not None


def _is_wide(rows: list[list[str]]) -> bool:
    """Whether this is a table of 0 and 1 with one column for each item, with or without a line of item ids."""
    first = rows[0]
    later = [row for row in rows[1:] if len(row) == len(first) and row != first]
    if len(first) < 3:
        return False
    if first[0] == "" or role(first[0]) == "user":
        return all(_NUMBER.fullmatch(field) for field in first[1:])
    unknown = all(role(field) in (None, "index") for field in first)
    return unknown and all(field == "" or _YES_NO.fullmatch(field) for row in later or [first] for field in row[1:])


def _is_header(rows: list[list[str]], path: Path) -> bool:
    first = rows[0]
    later = [row for row in rows[1:] if row != first]  # a header may be repeated further down
    later = [row for row in later if len(row) == len(first)] or later
    roles = {role(field) for field in first} - {None}
    numbers = any(_NUMBER.fullmatch(field) for field in first)
    if {"user", "item"} <= roles or (not numbers and ("user" in roles or len(roles) > 1)):
        return True
    if numbers:
        return False
    columns = [[row[k] for row in later if k < len(row)] for k in range(len(first))]
    if any(_is_like(field, column) for field, column in zip(first, columns, strict=True)):
        return False
    if any(column and all(_NUMBER.fullmatch(field) for field in column) for column in columns):
        return True
    raise InputError(
        f"{path}: the first line ({listing(first)}) may be a header or a row; "
        f"say which with {argument('header', True)} or {argument('header', False)}"
    )


def _is_like(field: str, column: list[str]) -> bool:
    """Whether a field is an id like those in its column: one of them, or of the same form."""
    if not field or not column:
        return False
    if field in column:
        return True
    if not any(mark.isdigit() for mark in field):
        return False
    shape = re.sub(r"\d+", "0", field)
    code = len(field) >= 8 and all(len(other) == len(field) for other in column)
    return code or any(re.sub(r"\d+", "0", other) == shape for other in column)


def _has_row_names(rows: list[list[str]]) -> bool:
    """Whether the rows begin with names that the header leaves out, as R's write.table writes them."""
    later = rows[1:]
    return (
        bool(later)
        and all(len(row) == len(rows[0]) + 1 for row in later)
        and len({row[0] for row in later}) == len(later)
        and any(row[-1] for row in later)
    )
