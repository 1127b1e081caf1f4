"""What goes into the store of live histories and what comes out of it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Forgot",
    "NewEvent",
    "PendingChanges",
    "StoreChanges",
    "StoredAvailability",
    "StoredChange",
    "StoredEvent",
    "StoredHistory",
]


class NewEvent(NamedTuple):
    """An event to store: `kind` is "chosen", "disliked" or "withdrawn"; times are milliseconds since 1970."""

    user: str
    item: str
    kind: str = "chosen"
    weight: float | None = None
    time: int | None = None
    """When it happened; None: when it is stored."""


class StoredEvent(NamedTuple):
    """What the events of one user and one item came to."""

    item: str
    at: int
    """When the last event that said something new was stored (milliseconds since 1970)."""
    kind: str
    weight: float | None
    """The last weight that was given."""
    time: int
    """When it happened last (milliseconds since 1970)."""


class StoredHistory(NamedTuple):
    """What the store knows of a user."""

    events: list[StoredEvent]
    """One for each item, in the order they were stored."""
    forgotten: bool
    """Whether what a model knows of this user must not be used."""


class StoredChange(NamedTuple):
    """What the events of a pair came to by the last commit that changed it."""

    user: str
    item: str
    kind: str
    weight: float | None
    time: int
    """When it happened last (milliseconds since 1970)."""


class StoreChanges(NamedTuple):
    """What commits changed, of one state of the store.

    Users who were forgotten come first: events of theirs that are listed here were stored later. What a later commit
    deleted or changed again is not listed.
    """

    seq: int
    """The number of the commit up to which this is complete: the next changes are those after it."""
    events: list[StoredChange]
    """In the order of their commits; of one commit by user and item."""
    forgotten: list[str]
    """The marks (`EventStore.mark`) of users who were forgotten."""
    more: bool
    """Whether there were later commits."""


class PendingChanges(NamedTuple):
    """How much `StoreChanges` after a number would have."""

    seq: int
    """The number of the last commit."""
    events: int
    oldest: int | None
    """When the first of the events was stored (milliseconds since 1970); None if there are none."""
    forgotten: int


class Forgot(NamedTuple):
    """What forgetting a user did."""

    events: int
    """How many events of theirs there were."""
    seq: int
    """The number of the commit."""


class StoredAvailability(NamedTuple):
    """Whether an item is available, as it was posted last."""

    item: str
    available: bool
    seq: int
    """The number of the commit that changed it."""
