"""What goes into the store of live histories and what comes out of it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Forgot",
    "LoggedEvent",
    "NewEvent",
    "PendingChanges",
    "ReportKey",
    "StoreChanges",
    "StoredAvailability",
    "StoredChange",
    "StoredEvent",
    "StoredHistory",
    "WithdrawnEvent",
]


class NewEvent(NamedTuple):
    """An event to store; times are milliseconds since 1970.

    `kind` is "chosen", "disliked" or "withdrawn"; or "ignored", which is logged and says nothing of the pair.
    """

    user: str
    item: str
    kind: str = "chosen"
    weight: float | None = None
    time: int | None = None
    """When it happened; None: when it is stored."""
    type: str | None = None
    least: float | None = None
    """What a choice weighs at least by its type, where no weight is given."""
    event_id: str | None = None
    """As the client has it; None: it is derived from the other fields."""
    recommendation: str | None = None
    """The verified id of the recommendation that it goes back to."""


class LoggedEvent(NamedTuple):
    """A posted event that was not withdrawn."""

    event_id: str
    user: str
    item: str
    kind: str
    type: str | None
    weight: float | None
    least: float | None
    time: int | None
    """When it happened (milliseconds since 1970); None: it does not change when the pair happened last."""
    at: int
    """When it was stored."""
    recommendation: str | None


class StoredEvent(NamedTuple):
    """What the events of one user and one item came to."""

    item: str
    at: int
    """When what the events came to last changed (milliseconds since 1970)."""
    kind: str
    weight: float | None
    """The last weight that was given."""
    time: int
    """When it happened last (milliseconds since 1970)."""
    least: float | None = None
    """What it weighs at least where no weight was given: the largest that the types of its events say."""


class StoredHistory(NamedTuple):
    """What the store knows of a user."""

    events: list[StoredEvent]
    """One for each item, in the order they were stored."""
    forgotten: bool
    """Whether what a model knows of this user must not be used."""


class StoredChange(NamedTuple):
    """What the events of a pair came to by the last commit that changed it.

    The kind is "none" where all events of the pair were withdrawn: what the model itself knows of it holds.
    """

    user: str
    item: str
    kind: str
    weight: float | None
    time: int
    """When it happened last (milliseconds since 1970)."""
    least: float | None = None
    """As in `StoredEvent`."""


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


class WithdrawnEvent(NamedTuple):
    """One event was withdrawn."""

    user: str
    item: str
    seq: int
    """The number of the commit."""


class ReportKey(NamedTuple):
    """What is counted in reports."""

    day: int
    """Of the recommendation: days since 1970, UTC."""
    release: str
    """The version of the model in the folder."""
    arm: int
    name: str


class StoredAvailability(NamedTuple):
    """Whether an item is available, as it was posted last."""

    item: str
    available: bool
    seq: int
    """The number of the commit that changed it."""
