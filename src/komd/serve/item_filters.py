"""Conditions on the columns of the table of items: one grammar for the configuration and for requests.

    {"genre": "Comedy"}                       equals
    {"genre": ["Comedy", "Drama"]}            any of
    {"genre": {"not": ["Horror"]}}            none of
    {"year": {"min": 1990, "max": 1999}}      a number in a range; either end may be left out
    {"genre": "Comedy", "year": {"min": 1990}}      all of several columns

A text equals the values with exactly these letters, a number those that are this number. `item_attributes.py` says what
the values of an item are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from komd.errors import InputError

__all__ = ["CONDITIONS_SCHEMA", "ColumnCondition", "FilterError", "ItemConditions", "conditions_of", "named_filters"]

_COLUMNS = 20
_VALUES = 1000  # of all columns together
_CHARACTERS = 500  # of a value or a column's name

Value: TypeAlias = str | float


class FilterError(InputError):
    """A condition names what the service does not have: a column, or a filter."""


class ColumnCondition(NamedTuple):
    """What the values of one column must be. All parts that are given must hold."""

    column: str
    any_of: tuple[Value, ...] | None
    none_of: tuple[Value, ...]
    least: float | None
    most: float | None


ItemConditions: TypeAlias = tuple[ColumnCondition, ...]
"""Conditions that all must hold, in the order of their columns: equal ones compare equal, and may be keys."""


_VALUE_SCHEMA = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": _CHARACTERS}, {"type": "number"}]}
_VALUES_SCHEMA = {"anyOf": [*_VALUE_SCHEMA["anyOf"], {"type": "array", "items": _VALUE_SCHEMA, "maxItems": _VALUES}]}
_PARTS_SCHEMA = {
    "type": "object",
    "properties": {"min": {"type": "number"}, "max": {"type": "number"}, "not": _VALUES_SCHEMA},
    "additionalProperties": False,
    "minProperties": 1,
}
CONDITIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "maxProperties": _COLUMNS,
    "additionalProperties": {"anyOf": [*_VALUES_SCHEMA["anyOf"], _PARTS_SCHEMA]},
}
"""The grammar as a JSON schema, for the description of the API."""


def named_filters(said: Mapping[str, Any]) -> dict[str, ItemConditions]:
    """The filters of a configuration, by name."""
    found = {}
    for name, conditions in said.items():
        try:
            found[name] = conditions_of(conditions)
        except InputError as error:
            raise InputError(f"filters.{name}: {error}") from None
        if not found[name]:
            raise InputError(f'filters.{name} has no condition; write one, as genre = ["Comedy", "Drama"]')
    return found


def conditions_of(said: Any) -> ItemConditions:
    """Conditions as they are written. InputError says what is wrong with them.

    >>> conditions_of({"year": {"min": 1990}, "genre": "Comedy"})[0]
    ColumnCondition(column='genre', any_of=('Comedy',), none_of=(), least=None, most=None)
    """
    if not isinstance(said, Mapping):
        raise InputError('conditions are columns and what they must be, as {"genre": "Comedy"}')
    if len(said) > _COLUMNS:
        raise InputError(f"conditions on {len(said)} columns; at most {_COLUMNS} are allowed")
    found = tuple(_condition(column, said[column]) for column in sorted(said, key=str))
    count = sum(len(one.any_of or ()) + len(one.none_of) for one in found)
    if count > _VALUES:
        raise InputError(f"conditions with {count:,} values; at most {_VALUES:,} are allowed")
    return found


def _condition(column: Any, said: Any) -> ColumnCondition:
    if not isinstance(column, str) or not 0 < len(column) <= _CHARACTERS:
        raise InputError(f"the name of a column is text of 1 to {_CHARACTERS} characters")
    if not isinstance(said, Mapping):
        return ColumnCondition(column, _values(column, said), (), None, None)
    unknown = [key for key in said if key not in ("min", "max", "not")]
    if unknown or not said:
        came = repr(str(unknown[0])[:50]) if unknown else "nothing"
        raise InputError(f"{column}: an object has min, max or not, got {came}")
    least, most = (_number(f"{column}.{end}", said[end]) if end in said else None for end in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise InputError(f"{column}: min {least:g} is above max {most:g}")
    none_of = _values(f"{column}.not", said["not"]) if "not" in said else ()
    return ColumnCondition(column, None, none_of, least, most)


def _values(place: str, said: Any) -> tuple[Value, ...]:
    """Distinct values; one may stand without a list."""
    listed = said if isinstance(said, list | tuple) else [said]
    return tuple(dict.fromkeys(_value(place, value) for value in listed))


def _value(place: str, said: Any) -> Value:
    if not isinstance(said, str):
        return _number(place, said, "text or a number")
    text = said.strip()
    if not 0 < len(text) <= _CHARACTERS:
        raise InputError(f"{place}: a value is text of 1 to {_CHARACTERS} characters")
    if "|" in text:
        raise InputError(f"{place}: | separates the values of an item, so no value has one; list them instead")
    return text


def _number(place: str, said: Any, words: str = "a number") -> float:
    if isinstance(said, int | float) and not isinstance(said, bool):
        try:
            number = float(said)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        raise InputError(f"{place}: the number is not finite")
    raise InputError(f"{place}: expected {words}, got {_kind(said)}")


def _kind(said: Any) -> str:
    """
    >>> _kind(True), _kind(None), _kind({"a": 1})
    ("true (write it as text, as it stands in the table: 'true')", 'null', 'an object')
    """
    if isinstance(said, bool):
        word = str(said).lower()
        return f"{word} (write it as text, as it stands in the table: {word!r})"
    if said is None:
        return "null"
    if isinstance(said, str):
        return "text"
    return "an object" if isinstance(said, Mapping) else "a list" if isinstance(said, list) else type(said).__name__
