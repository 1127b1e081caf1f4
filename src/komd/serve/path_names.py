"""Paths in messages by their names alone: where files lie is told neither in responses nor in the log."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

__all__ = ["NamesOnlyFormatter", "names_only"]

# A path between quotes may have spaces. A path without quotes ends at the first; it begins a word, as addresses do not.
_QUOTED = re.compile(r"""(['"])((?:[A-Za-z]:)?[/\\][^'"\n]*)\1""")
_BARE = re.compile(r"""(?<![\w:/.\\-])(?:[A-Za-z]:)?[/\\][^\s'"/\\]+[/\\][^\s'"]*""")


def names_only(text: str, *known: Path | None) -> str:
    """A text with the last part of each absolute path in place of the path; the `known` ones may contain spaces.

    >>> names_only("no model at /srv/models/shop.komd: [Errno 2] No such file: '/srv/models/shop.komd/manifest.json'")
    "no model at shop.komd: [Errno 2] No such file: 'manifest.json'"
    >>> names_only("no model at /srv/my models/shop.komd", Path("/srv/my models/shop.komd"))
    'no model at shop.komd'
    >>> names_only("see https://shop.example/a/b; half/life and 3/4 stay")
    'see https://shop.example/a/b; half/life and 3/4 stay'
    """
    folders = {str(folder) for path in known if path for folder in (path.absolute().parent, path.resolve().parent)}
    for folder in sorted(folders, key=len, reverse=True):  # one may be inside another
        text = text.replace(f"{folder}/", "").replace(f"{folder}\\", "")
    text = _QUOTED.sub(lambda found: f"{found[1]}{_name(found[2])}{found[1]}", text)
    return _BARE.sub(lambda found: _name(found[0]), text)


class NamesOnlyFormatter(logging.Formatter):
    """Log lines whose errors and tracebacks have no folders. Other words, such as the path of a request, stay."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        if isinstance(record.args, tuple):
            said = (names_only(str(each)) if isinstance(each, BaseException) else each for each in record.args)
            record.args = tuple(said)
        return super().format(record)

    def formatException(self, ei: Any) -> str:
        """A traceback, with the names of its modules."""
        return names_only(super().formatException(ei))


def _name(path: str) -> str:
    """
    >>> _name("/srv/shop.komd:"), _name("/srv/folder/")
    ('shop.komd:', 'folder')
    """
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
