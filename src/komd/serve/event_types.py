"""The types of events: what each says of the pair, and how much it counts.

A type has a kind (the item was chosen, is disliked, or neither) and perhaps a weight. Common types are known without a
configuration; others are declared in it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from komd.errors import InputError, nearest

__all__ = ["EVENT_TYPES", "KINDS", "EventType", "event_type"]

KINDS = ("chosen", "disliked", "ignored")
"""What an event of a type can mean. An ignored one is counted in reports, and is no part of a history."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class EventType(NamedTuple):
    """What events of one type mean."""

    kind: str = "chosen"
    weight: float | None = None
    """How much a choice counts at least if the event gives no weight; None: the type says nothing about it."""


EVENT_TYPES = {
    "view": EventType(),
    "like": EventType(),
    "purchase": EventType(),
    "dislike": EventType("disliked"),
}
"""The types that every service knows."""


def event_type(name: str, said: Any) -> EventType:
    """The type that a configuration declares: by a weight, by a kind, or by a table of both.

    >>> event_type("view", 0.2), event_type("skip", "disliked")
    (EventType(kind='chosen', weight=0.2), EventType(kind='disliked', weight=None))
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"a type of events has a name of up to 32 characters a-z, 0-9, _ and -, got {name!r}")
    parts = {"kind": said} if isinstance(said, str) else said if isinstance(said, dict) else {"weight": said}
    if unknown := set(parts) - {"kind", "weight"}:
        raise InputError(
            f"events.{name} has an unknown part {min(unknown)!r}: {nearest(min(unknown), EventType._fields)}"
        )
    kind, weight = parts.get("kind", "chosen"), parts.get("weight")
    if kind not in KINDS:
        raise InputError(f"events.{name} is {kind!r}: {nearest(str(kind), KINDS)}")
    if weight is not None:
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1e30:
            raise InputError(f"events.{name} has a weight of {weight!r}; a weight is a number > 0, at most 1e30")
        if kind != "chosen":
            raise InputError(f"events.{name} is {kind} and has a weight; only a choice has one")
    return EventType(kind, None if weight is None else float(weight))
