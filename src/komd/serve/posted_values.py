"""Weights and times as they are posted.

A time is ISO 8601 text (UTC unless it says otherwise) or whole milliseconds since 1970; inside it is milliseconds.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

__all__ = ["Moment", "Weight"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LEAST = 10**11  # of milliseconds as a number: a smaller one is likely to be seconds (10^11 seconds are the year 5138)
_MOST = 253_402_300_799_999  # milliseconds: the end of the year 9999
_TEXT = 64  # characters of a time
_FORMS = 'ISO 8601 text such as "2026-03-01T12:00:00Z" or whole milliseconds since 1970'


def _milliseconds(value: Any) -> int:
    """
    >>> _milliseconds("1970-01-02T01:00:00+01:00"), _milliseconds("1970-01-02"), _milliseconds(1_767_225_600_000)
    (86400000, 86400000, 1767225600000)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < _LEAST:
            raise ValueError(f"a time is {_FORMS}; this number is below 10^11 and looks like seconds")
        if value > _MOST:
            raise ValueError(f"a time is {_FORMS}; this number is after the year 9999")
        return value
    if isinstance(value, str) and len(value) <= _TEXT:
        try:
            moment = datetime.datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=datetime.UTC)
            return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            pass
    raise ValueError(f"a time is {_FORMS}")


Moment = Annotated[
    int,
    BeforeValidator(_milliseconds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time", "maxLength": _TEXT},
                {"type": "integer", "minimum": _LEAST, "maximum": _MOST},
            ]
        }
    ),
]
"""A time as it may be sent."""

Weight = Annotated[float, Field(strict=True, gt=0, le=1e30, allow_inf_nan=False)]
"""A weight as it may be sent: neither text nor a boolean."""
