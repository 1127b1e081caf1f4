"""Ids as text: JSON, addresses and the store have ids as text, whatever type the ids of a model are.

Each id has exactly one text (7 is "7", never "07"), so a text that is not an id of the model is another user or item,
and stays so when the model changes.
"""

from __future__ import annotations

import bisect
import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.data.ids import Ids
from komd.errors import InputError

__all__ = ["ids_of", "numbers_of", "text_of", "texts_of", "users_beginning"]


def text_of(value: Any) -> str:
    """The text of an id.

    >>> text_of(7), text_of(b"\\x01\\xff")
    ('7', '01ff')
    """
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    return str(value)


def texts_of(values: pa.Array) -> list[str]:
    """The texts of an Arrow array of ids."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(values.to_pylist())
    return [text_of(value) for value in values.to_pylist()]


def numbers_of(ids: Ids, texts: Sequence[str]) -> NDArray[np.int32]:
    """The numbers of the ids with these texts; -1 where there is none."""
    if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
        return ids.find(list(texts), on_unknown="skip")
    if pa.types.is_integer(ids.type):  # the same as below, but faster: it is much of the time of a request
        return ids.find([_whole(text) for text in texts], on_unknown="skip")
    return ids.find([_parsed(ids, text) for text in texts], on_unknown="skip")


def ids_of(ids: Ids, texts: Sequence[str]) -> list[Any]:
    """The ids with these texts, known or not; None for a text that cannot be an id of this kind.

    >>> ids_of(Ids.range(10), ["7", "12", "x7", "07"])
    [7, 12, None, None]
    """
    kind = ids.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(texts)
    made = [_whole(text) if pa.types.is_integer(kind) else _parsed(ids, text) for text in texts]
    return [value if value is not None and _holds(kind, value) else None for value in made]


def _holds(kind: pa.DataType, value: Any) -> bool:
    """Whether a type of ids has this value: an integer may be too large."""
    if pa.types.is_integer(kind):
        return bool(0 <= value < 2**64 if pa.types.is_unsigned_integer(kind) else -(2**63) <= value < 2**63)
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def _whole(text: str) -> int | None:
    """
    >>> _whole("7"), _whole("-7"), _whole("07"), _whole("-0"), _whole("٣"), _whole("7.0")
    (7, -7, None, None, None, None)
    """
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and (digits[0] != "0" or text == "0"):
        return int(text)
    return None


def _parsed(ids: Ids, text: str) -> Any:
    try:
        value = ids.parse(text)
    except (InputError, OverflowError):
        return None
    return value if text_of(value) == text else None


def users_beginning(ids: Ids, prefix: str, n: int) -> list[str]:
    """Up to n ids whose text has this prefix; an id that is neither text nor an integer must be the prefix itself."""
    if not prefix:
        return texts_of(ids.take(np.arange(min(n, len(ids)))))
    if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
        low, high = _count_below(ids, prefix), _count_below(ids, prefix + "\U0010ffff")
        return texts_of(ids.take(np.arange(low, min(high, low + n))))
    exact = numbers_of(ids, [prefix])
    if not pa.types.is_integer(ids.type) or not prefix.isdecimal() or not prefix.isascii() or prefix[0] == "0":
        return texts_of(ids.take(exact[exact >= 0]))
    found: list[NDArray[np.int64]] = []
    low, high = int(prefix), int(prefix) + 1
    while sum(map(len, found)) < n and low <= ids[len(ids) - 1]:
        found.append(np.arange(_count_below(ids, low), _count_below(ids, high)))  # ids of this many digits
        low, high = 10 * low, 10 * high
    return texts_of(ids.take(np.concatenate([np.zeros(0, np.int64), *found])[:n]))


def _count_below(ids: Ids, key: Any) -> int:
    """How many ids are smaller than `key`; the order of texts is that of their code points, as of their bytes."""
    return bisect.bisect_left(range(len(ids)), key, key=ids.__getitem__)
