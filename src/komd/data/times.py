"""Times as they are read: numbers and their unit, dates and timestamps, one kind in all rows of all tables.

Whole numbers stay as they are. Their unit is the one asked for, or else the one in which every one of them is a moment
from 1990 to 2100; if there is none, they have an order and no more. Numbers with a fraction, dates and timestamps
become microseconds since 1970. A time without an offset from UTC is UTC, also beside others that have one.
"""

from __future__ import annotations

import datetime
import time as clock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.interactions import TIME_UNITS
from komd.data.keys import is_text
from komd.data.numeric_columns import all_numbers, first_not, stripped
from komd.errors import InputError, TimeWarning, argument, nearest

__all__ = ["TimeReader", "microseconds_at", "recognised_unit"]

_FIRST, _END = 631_152_000, 4_102_444_800  # 1990 and 2100, in seconds since 1970
_RECOGNISED = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # units in a second; the ranges do not overlap
_BOUNDS = np.array([edge * per for per in _RECOGNISED.values() for edge in (_FIRST, _END)], np.int64)
_UNITS = [None, *(unit for name in _RECOGNISED for unit in (name, None))]  # between the bounds
_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_DAY = 86_400_000_000  # in microseconds
_LARGEST = 2**63 - 1
_ZONED = r"[Tt ][0-9]{2}[0-9:.]*([Zz]|[+-][0-9]{2}:?([0-9]{2})?)$"
_US, _US_UTC = pa.timestamp("us"), pa.timestamp("us", tz="UTC")


def recognised_unit(value: float) -> str | None:
    """The unit in which a number is a moment from 1990 to 2100, if any.

    >>> recognised_unit(978_300_760), recognised_unit(978_300_760_000), recognised_unit(5)
    ('s', 'ms', None)
    """
    return _UNITS[int(np.searchsorted(_BOUNDS, value, side="right"))]


def microseconds_at(moment: Any) -> int | None:
    """A date, a datetime or ISO text in microseconds since 1970, UTC unless it says otherwise; None for anything else.

    >>> microseconds_at("1970-01-02"), microseconds_at(datetime.date(1970, 1, 1)), microseconds_at("soon")
    (86400000000, 0, None)
    """
    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment.strip())
        except ValueError:
            return None
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    if not isinstance(moment, datetime.date | np.datetime64) or moment != moment:  # NaT is not itself
        return None
    return int(np.array([moment], "datetime64[us]").astype(np.int64)[0])


class TimeReader:
    """Reads times batch by batch, in the order of the tables."""

    def __init__(self, time_unit: str | None) -> None:
        if time_unit is not None and time_unit not in TIME_UNITS:
            raise InputError(f"unknown time_unit {time_unit!r}: {nearest(str(time_unit), TIME_UNITS)}")
        self._asked = time_unit
        self._dates: bool | None = None  # whether times are dates or timestamps; all must agree
        self._unit: str | None = None  # which the numbers look like
        self._other = False  # whether some numbers look like no moment
        self._fraction: str | None = None  # where the first number with a fraction is

    def parse(self, column: pa.Array, name: str, row: int) -> NDArray[Any]:
        """The times of a batch of rows: int64, or float64 if some have a fraction. `row` are the rows before."""
        if column.null_count or (pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py()):
            at = int(np.argmax(pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)))
            raise InputError(
                f"{name} has no time in row {row + 1 + at:,}; remove such rows, or read without {argument('time')}"
            )
        values, dates = _parsed(stripped(column), name, row)
        if self._dates is not None and self._dates != dates:
            raise InputError(f"{name}: some times are numbers, others dates (around row {row + 1:,})")
        self._dates = dates
        if dates:
            if self._asked is not None:
                raise InputError(
                    f"{argument('time_unit')} is for numbers, but {name} has dates, which need no unit: leave it out"
                )
            return values
        if values.dtype.kind == "f" and self._fraction is None:
            at = int(np.argmax(values % 1 != 0))
            self._fraction = f"{name} has {values[at]} in row {row + 1 + at:,}"
        if self._asked is None:
            self._recognise(values, name, row)
        else:
            self._check_size(values, name, row)
        return values

    def finish(self, parts: list[NDArray[Any]], name: str) -> tuple[NDArray[np.int64], str | None, TimeWarning | None]:
        """All times, their unit, and what to tell the caller; `name` stands for all tables."""
        unit = "us" if self._dates else self._asked or (None if self._other else self._unit)
        if self._fraction is not None:
            if unit is None:
                raise InputError(
                    f"times must be whole numbers, dates or timestamps unless their unit is known, but "
                    f"{self._fraction} (say what the numbers are with {argument('time_unit')}, or choose with "
                    f"{argument('time')})"
                )
            parts, unit = [_in_microseconds(part, unit) for part in parts], "us"
        times: NDArray[np.int64] = np.concatenate(parts)
        return times, unit, None if unit is None else self._future(times, unit, name)

    def _recognise(self, values: NDArray[Any], name: str, row: int) -> None:
        """Find the unit by the size of numbers; refuse a mixture."""
        ends = np.searchsorted(_BOUNDS, [values.min(), values.max()], side="right")
        places = ends[:1] if ends[0] == ends[1] else np.searchsorted(_BOUNDS, values, side="right")
        for place in places[np.sort(np.unique(places, return_index=True)[1])]:  # distinct, in the order of rows
            unit = _UNITS[place]
            if unit is None:
                self._other = True
            elif self._unit is None:
                self._unit = unit
            elif unit != self._unit:
                at = int(np.argmax(places == place))
                raise InputError(
                    f"{name}: some times look like {_WORDS[self._unit]}, others like {_WORDS[unit]}; the first other "
                    f"is {values[at]} in row {row + 1 + at:,}: bring them to one unit, or say with "
                    f"{argument('time_unit')} which one it is"
                )

    def _check_size(self, values: NDArray[Any], name: str, row: int) -> None:
        """Refuse times that are beyond microseconds in 64 bits."""
        assert self._asked is not None
        wrong = np.abs(values.astype(np.float64)) * max(TIME_UNITS[self._asked], 1) > 0.999 * _LARGEST
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"{name} has the time {values[at]} in row {row + 1 + at:,}, which is no moment with "
                f"{argument('time_unit', self._asked)}: give another unit"
            )

    def _future(self, times: NDArray[np.int64], unit: str, name: str) -> TimeWarning | None:
        """A warning if times lie more than a day in the future."""
        per = TIME_UNITS[unit]
        limit = int(clock.time() * 1e6) + _DAY
        late = times > (limit * 1000 if per == 0 else limit // per)
        count = int(np.count_nonzero(late))
        if count == 0:
            return None
        latest = int(times.max()) * per if per else int(times.max()) // 1000
        day = np.datetime64(latest, "us").astype("datetime64[D]")
        why = "" if self._dates else f"; wrong unit? ({argument('time_unit')})"
        return TimeWarning(f"{name}: {count:,} times lie in the future, the latest {day}{why}")


def _parsed(column: pa.Array, name: str, row: int) -> tuple[NDArray[Any], bool]:
    """Times as int64 or float64, and whether they were dates, which are microseconds now."""
    if pa.types.is_temporal(column.type):
        moments = _cast(column, pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)
        if moments is not None:
            return moments, True
    else:
        whole = _cast(column, pa.int64())
        if whole is not None:
            return whole, False
        if not is_text(column.type) or all_numbers(column):
            numbers = _cast(column, pa.float64(), safe=False)
            if numbers is not None and np.isfinite(numbers).all():
                return numbers, False
        elif (moments := _moments_in_text(column)) is not None:
            return moments, True
    dated = is_text(column.type) and _moments_in_text(column[:1]) is not None
    value, at = first_not(column, *((_US, _US_UTC) if dated else (pa.int64(),)))
    raise InputError(
        f"times must be whole numbers, dates or timestamps, but {name} has {value!r} in row {row + at:,} "
        f"(choose with {argument('time')})"
    )


def _moments_in_text(column: pa.Array) -> NDArray[np.int64] | None:
    """Dates and timestamps written as text in microseconds since 1970, or None if some are neither."""
    for kind in (_US, _US_UTC):  # all without an offset, or all with one
        moments = _cast(column, kind, safe=False)
        if moments is not None:
            return moments
    zoned = pc.match_substring_regex(column, _ZONED)
    nothing = pa.scalar(None, column.type)
    try:
        with_offset = pc.if_else(zoned, column, nothing).cast(_US_UTC, safe=False).cast(pa.int64())
        without = pc.if_else(zoned, nothing, column).cast(_US, safe=False).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    both: NDArray[np.int64] = pc.coalesce(with_offset, without).to_numpy(zero_copy_only=False)
    return both


def _cast(column: pa.Array, kind: pa.DataType, *, safe: bool = True) -> NDArray[Any] | None:
    """The values of a column as this type (timestamps then as int64), or None if it cannot be."""
    try:
        found = column.cast(kind, safe=safe)
        if pa.types.is_timestamp(kind):
            found = found.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    values: NDArray[Any] = found.to_numpy(zero_copy_only=False)
    return values


def _in_microseconds(times: NDArray[Any], unit: str) -> NDArray[np.int64]:
    """Numbers of this unit, with or without a fraction, as whole microseconds."""
    per = TIME_UNITS[unit]
    if times.dtype.kind == "i":
        whole: NDArray[np.int64] = times * per if per else times // 1000
        return whole
    return np.rint(times * per if per else times / 1000).astype(np.int64)
