"""What users did, as it is posted, withdrawn, shown and counted."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from komd.errors import nearest
from komd.serve.event_records import NewEvent
from komd.serve.event_types import EventType
from komd.serve.posted_values import Moment, Weight
from komd.serve.schemas.schema_parts import LIMITS, Identifier, RequestBody, Text

__all__ = [
    "ArmReport",
    "Entry",
    "EntryEvent",
    "Event",
    "EventWithdrawn",
    "EventsKept",
    "Forgotten",
    "PostedEvents",
    "Report",
    "UserHistory",
    "UserIds",
]


_AHEAD = 86_400_000  # milliseconds that a posted event may be ahead of this machine's clock: a day


class Event(RequestBody):
    """A user chose or dislikes an item, or takes back what was said of it."""

    user_id: Identifier
    item_id: Identifier
    kind: Literal["chosen", "disliked", "withdrawn"] = Field(
        default="chosen",
        description="disliked: it is not part of the history and never recommended. withdrawn: the pair is removed, "
        "also what the model knows of it.",
    )
    weight: Weight | None = Field(
        default=None, description="How much a choice counts, such as a number of plays; 1 if it was never given."
    )
    time: Moment | None = Field(
        default=None,
        description="When it happened: ISO 8601 text (UTC unless it says otherwise) or milliseconds since 1970; now by "
        "default, and at most a day ahead.",
    )
    type: str | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description="What happened: view, like, purchase, dislike, or a type of the service's configuration. It "
        "implies the kind, and a least weight if the configuration has one.",
    )
    event_id: Text | None = Field(
        default=None,
        max_length=64,
        description="An id for this event, which is then stored once; by default one is derived from its other fields.",
    )
    recommendation_id: str | None = Field(
        default=None, max_length=64, description="Of the list that led to this event."
    )

    def new_event(self, types: Mapping[str, EventType]) -> NewEvent:
        """The event with ids as texts. ValueError if its type is none of these, or does not fit."""
        kind, least = EventType(self.kind)
        if self.type is not None:
            if self.type not in types:
                raise ValueError(f"type: this type of events is not known; {nearest(self.type, types)}")
            kind, least = types[self.type]
            if "kind" in self.model_fields_set and self.kind != kind:
                raise ValueError(f"kind: events of type {self.type} are {kind}; leave the kind out")
        if self.weight is not None:
            if kind != "chosen":
                raise ValueError(f"weight: only a choice has a weight, and this event is {kind}")
            least = None
        ids = str(self.user_id), str(self.item_id)
        return NewEvent(*ids, kind, self.weight, self.time, self.type, least, self.event_id, self.recommendation_id)


class PostedEvents(RequestBody, json_schema_extra={"examples": [{"events": [{"user_id": "ana", "item_id": "i7"}]}]}):
    """One event or many, in their order.

    Of a pair, the last kind, the last weight that was given and the latest time hold; another kind begins the pair
    anew. An event that says nothing new changes nothing. Without a weight, a pair weighs at least what the types of its
    events say.
    """

    events: list[Event] = Field(min_length=1, max_length=LIMITS.events)

    @model_validator(mode="after")
    def _consistent(self) -> PostedEvents:
        latest = time.time_ns() // 1_000_000 + _AHEAD
        for k, event in enumerate(self.events):
            if event.time is not None and event.time > latest:
                raise ValueError(f"events.{k}.time: it is more than a day ahead of this machine's clock")
        return self


class EventsKept(BaseModel):
    """What was stored. It is on the disk, and part of the next recommendation."""

    events: int = Field(description="Distinct pairs in the post.")
    new: int = Field(description="Of how many of them something new was said.")
    unknown_items: list[str] = Field(description="Items the model does not know yet: stored, not used until it does.")
    event_ids: list[str] = Field(default=[], description="The id of each event, in the order of the post.")
    unattributed: int = Field(
        default=0, description="Events whose recommendation_id is none of this service's: stored, without it."
    )


class EntryEvent(BaseModel):
    """A posted event of a pair that was not withdrawn."""

    event_id: str
    kind: str
    type: str | None
    weight: float | None = Field(description="The weight that it gave.")
    time: int = Field(description="When it happened (milliseconds since 1970), or else when it was stored.")
    at: int = Field(description="When it was stored.")


class EventWithdrawn(BaseModel):
    """One event was withdrawn: the pair is what its other events come to, or else what the model knows of it."""

    event_id: str
    user_id: str
    item_id: str
    seq: int = Field(description="The number of the store's commit.")


class Entry(BaseModel):
    """One item of a user's history or dislikes."""

    item_id: str
    name: str
    in_model: bool = Field(description="Whether the model knows the item.")
    popularity: int
    popularity_rank: int | None
    at: int | None = Field(description="When it was posted (milliseconds since 1970); null when it is from the model.")
    weight: float = Field(default=1, description="Its weight, posted or from the model; 1 if none was given.")
    time: int | None = Field(default=None, description="When it happened (milliseconds since 1970), if that is known.")
    events: list[EntryEvent] = Field(default=[], description="Its events that were not withdrawn, in their order.")


class UserHistory(BaseModel):
    """Everything that is known of a user."""

    user_id: str
    items: list[Entry]
    low_rated: list[str] = Field(description="Items rated too low to be in the history, which the model knows of.")
    disliked: list[Entry] = Field(default=[], description="Items that the user dislikes.")


class UserIds(BaseModel):
    """Ids of users."""

    users: list[str]


class Forgotten(BaseModel):
    """A user was forgotten."""

    user_id: str
    events: int = Field(description="How many stored events were deleted.")
    seq: int = Field(description="The number of the store's commit.")
    unlearned: bool = Field(
        default=False,
        description="Whether the user is in no model any more, neither in the one in use nor in the model folder. "
        "Only a service that learns unlearns.",
    )


class ArmReport(BaseModel):
    """What one arm of one release led to."""

    release: str = Field(description="Version of the model in the folder.")
    arm: Literal["main", "candidate", "unassigned"] = Field(
        description="unassigned: lists without a user or session while a candidate serves, made by the main model."
    )
    impressions: int = Field(description="Lists given out.")
    items: int = Field(description="Items in them.")
    clicked: int = Field(description="Lists that led to an event by which an item was chosen.")
    clicks: int = Field(description="Such events.")
    rate: float | None = Field(description="clicked / impressions; null without impressions.")
    low: float = Field(description="The lower end of the rate's 95 % interval (Wilson).")
    high: float = Field(description="The upper end.")
    types: dict[str, int] = Field(description="Events that go back to these lists, by type (or kind).")


class Report(BaseModel):
    """Impressions and what they led to, by release of the model and arm. A click counts on the day of its list."""

    days: int
    since: datetime.date = Field(description="The first day, UTC.")
    releases: list[ArmReport]
