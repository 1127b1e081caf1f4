"""Values as text that every reader accepts: one printable line, or JSON without NaN and infinities."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

__all__ = ["id_text", "json_text", "printable"]


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


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
