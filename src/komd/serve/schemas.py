"""Requests and responses as types: the OpenAPI description is made from them.

Ids are text in every response. In a request they may be text or whole numbers; 7 and "7" are the same. A class whose
name another part of komd has keeps its name in the description by `title` and `__qualname__`.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PlainValidator, WithJsonSchema, model_validator

from komd.errors import nearest
from komd.serve.candidate_masks import NO_RULES, ListRules
from komd.serve.event_records import NewEvent
from komd.serve.event_types import EventType
from komd.serve.item_filters import CONDITIONS_SCHEMA, ItemConditions, conditions_of
from komd.serve.posted_values import Moment, Weight
from komd.serve.serve_settings import Limits

__all__ = [
    "ArmLearning",
    "ArmReport",
    "Ask",
    "AvailabilityKept",
    "Batch",
    "BatchAnswer",
    "CandidateModel",
    "CandidateShare",
    "Contribution",
    "Curve",
    "Entry",
    "EntryEvent",
    "ErrorDetail",
    "Event",
    "EventWithdrawn",
    "EventsKept",
    "Forgotten",
    "Health",
    "HistoryItem",
    "Identifier",
    "Item",
    "ItemState",
    "Items",
    "Learning",
    "Model",
    "Other",
    "PostedAvailability",
    "PostedEvents",
    "Recommendation",
    "RecommendationList",
    "Report",
    "Similar",
    "SimilarItems",
    "Text",
    "UserHistory",
    "UserIds",
    "Why",
]

LIMITS = Limits()
"""The limits are part of the description, so they are the same for every service."""


Text = Annotated[str, Field(min_length=1, max_length=LIMITS.identifier, pattern=r"^[^\x00]*$")]
_Number = Annotated[int, Field(strict=True, gt=-(2**64), lt=2**64)]
Identifier = Text | _Number
"""An id as it may be sent. Validated without a call into Python, of which a request may need thousands."""


Where = Annotated[ItemConditions, PlainValidator(conditions_of), WithJsonSchema(CONDITIONS_SCHEMA)]
"""Conditions on the columns of the table of items; `item_filters.py` has their grammar."""


_AHEAD = 86_400_000  # milliseconds that a posted event may be ahead of this machine's clock: a day


def _texts(ids: list[str | int] | None) -> list[str] | None:
    return None if ids is None else [one if type(one) is str else str(one) for one in ids]


class _Request(BaseModel, extra="forbid"):
    """Unknown fields are refused. Responses are made here, so not checked again."""


class ErrorDetail(BaseModel, title="Problem"):
    """What was wrong, in words."""

    __qualname__ = "Problem"

    detail: str


# ---- recommending ---------------------------------------------------------------------------------------------


class HistoryItem(_Request):
    """An item of a history with its weight and its time, as far as they are known."""

    item_id: Identifier
    weight: Weight | None = Field(
        default=None, description="How much it counts, such as a number of plays; 1 if not given."
    )
    time: Moment | None = Field(
        default=None,
        description="When it was chosen: ISO 8601 text (UTC unless it says otherwise) or milliseconds since 1970. "
        "Without a time its age is 0.",
    )


class Ask(_Request, json_schema_extra={"examples": [{"history": ["i7", "i42"], "n": 10, "explain": True}]}):
    """A request: for which user, and how. Give `user_id` or `history`, not both."""

    user_id: Identifier | None = Field(default=None, description="A user whose history is known or has been posted.")
    history: list[Text | _Number | HistoryItem] | None = Field(
        default=None,
        max_length=LIMITS.history,
        description="What a user chose, known or not: ids, or objects with item_id, weight and time. "
        "An item that is given twice counts as it was given first.",
    )
    session_id: Identifier | None = Field(
        default=None,
        description="With a history, while a candidate is tried: requests with the same id are answered by the same of "
        "the two models. It is not stored. Without it, the main model answers.",
    )
    dislikes: list[Identifier] | None = Field(
        default=None,
        max_length=LIMITS.history,
        description="With a history: what the user dislikes. It is never recommended, and counts against what is "
        "similar to it if the model weighs dislikes. Dislikes of a user_id are posted as events.",
    )
    at: Moment | None = Field(
        default=None,
        description="For models with a half-life, the moment from which ages are measured: ISO 8601 text (UTC unless "
        "it says otherwise) or milliseconds since 1970; now by default. What is later has age 0.",
    )
    n: int = Field(default=10, ge=1, le=LIMITS.n, description="Length of the list.")
    exclude_seen: bool = Field(default=True, description="Leave out what is in the history.")
    exclude_low_rated: bool = Field(
        default=True, description="With exclude_seen, leave out what the user rated too low to be in the history."
    )
    items: list[Identifier] | None = Field(default=None, max_length=LIMITS.listed, description="Only these items.")
    exclude: list[Identifier] | None = Field(default=None, max_length=LIMITS.listed, description="None of these items.")
    max_popularity: int | None = Field(
        default=None, ge=0, le=2**53, description="Only items chosen by at most so many users. Scores stay the same."
    )
    filters: list[Text] | None = Field(
        default=None, max_length=20, description="Only items that meet these filters of the configuration, by name."
    )
    where: Where | None = Field(
        default=None,
        description='Only items that meet these conditions on columns of the table of items: {"genre": "Comedy"}, '
        '{"genre": ["Comedy", "Drama"]}, {"genre": {"not": "Horror"}}, {"year": {"min": 1990, "max": 1999}}.',
    )
    include_unavailable: bool = Field(default=False, description="Also items that are not available.")
    max_per: dict[Text, Annotated[int, Field(ge=1, le=LIMITS.n)]] | None = Field(
        default=None,
        max_length=5,
        description="At most so many items of the list for each value of a column of the table of items, as "
        '{"artist": 2}. Items without a value are not limited.',
    )
    explain: bool = Field(default=False, description=f"Say why; then n is at most {LIMITS.explained}.")
    reasons: int = Field(default=10, ge=1, le=100, description="How many contributions to list; the others are summed.")

    @model_validator(mode="after")
    def _consistent(self) -> Ask:
        if (self.user_id is None) == (self.history is None):
            raise ValueError("give user_id or history, one of them")
        if self.explain and self.n > LIMITS.explained:
            raise ValueError(f"with explain, n is at most {LIMITS.explained}")
        if self.dislikes is not None:
            if self.history is None:
                raise ValueError("dislikes: they belong to a history; those of a user_id are posted to /v1/events")
            both = set(self.chosen).intersection(self.disliked)
            if both:
                raise ValueError(f"dislikes: {min(both)!r} is in the history as well")
        return self

    @property
    def user(self) -> str | None:
        """The user's id as text."""
        return None if self.user_id is None else str(self.user_id)

    @property
    def assigned_by(self) -> str | None:
        """The id by which the request is assigned to one of two models: of the user, else of the session."""
        found = self.session_id if self.user_id is None else self.user_id
        return None if found is None else str(found)

    @property
    def chosen(self) -> list[str]:
        """The ids of the history as texts."""
        return [
            one if type(one) is str else str(one.item_id if isinstance(one, HistoryItem) else one)
            for one in self.history or ()
        ]

    @property
    def weights(self) -> list[float | None] | None:
        """The weights of the history; None if there is none."""
        return self._given("weight")

    @property
    def times(self) -> list[int | None] | None:
        """The times of the history; None if there is none."""
        return self._given("time")

    def _given(self, name: str) -> list[Any] | None:
        values = [getattr(one, name) if type(one) is HistoryItem else None for one in self.history or ()]
        return None if values.count(None) == len(values) else values

    @property
    def disliked(self) -> list[str]:
        """The dislikes as texts."""
        return _texts(self.dislikes) or []

    @property
    def allowed(self) -> list[str] | None:
        """The allow list as texts."""
        return _texts(self.items)

    @property
    def denied(self) -> list[str] | None:
        """The deny list as texts."""
        return _texts(self.exclude)

    @property
    def rules(self) -> ListRules:
        """What is said of the attributes of items."""
        if not (self.filters or self.where or self.include_unavailable or self.max_per):
            return NO_RULES
        limits = tuple(sorted((self.max_per or {}).items()))
        return ListRules(tuple(self.filters or ()), self.where or (), self.include_unavailable, limits)

    def options(self) -> Any:
        """All of the request but the user: requests that agree in it are ranked together."""
        lists = tuple(None if ids is None else tuple(ids) for ids in (self.items, self.exclude))
        return self.n, self.exclude_seen, lists, self.max_popularity, self.explain, self.reasons, self.at, self.rules


class Batch(_Request, json_schema_extra={"examples": [{"requests": [{"history": ["i7"]}, {"history": ["i42"]}]}]}):
    """Several requests at once, all answered by the same model; while a candidate is tried, each by the model that
    serves its user."""

    requests: list[Ask] = Field(min_length=1, max_length=LIMITS.batch)


class Contribution(BaseModel):
    """What one item of the history, or one that the user dislikes, adds to a score."""

    item_id: str
    name: str
    contribution: float
    disliked: bool = Field(default=False, description="Whether it is an item that the user dislikes.")


class Other(BaseModel):
    """The contributions that are not listed, together."""

    items: int
    contribution: float
    positive_items: int = Field(default=0, description="How many of them add to the score.")
    positive: float = Field(default=0, description="What those add.")
    negative_items: int = Field(default=0, description="How many of them take away from the score.")
    negative: float = Field(default=0, description="What those take away, as a negative number.")


class Why(BaseModel):
    """contributions + others + global_term = score."""

    contributions: list[Contribution]
    others: Other
    global_term: float = Field(description="What does not come from one item: the effect of everything not chosen.")


class Recommendation(BaseModel):
    """One row of a list."""

    item_id: str
    name: str
    rank: int
    score: float
    popularity: int = Field(description="How many users chose it.")
    popularity_rank: int
    details: dict[str, str] = Field(description="Further columns of the table of names.")
    image: str | None = Field(default=None, description="The address of its image, if the service has images.")
    why: Why | None = None


class RecommendationList(BaseModel, title="Recommendations"):
    """A list, best first."""

    __qualname__ = "Recommendations"

    user_id: str | None
    items: list[Recommendation]
    fallback: bool = Field(description="No known item in the history: the list goes by popularity.")
    unknown_items: list[str] = Field(description="Items that the model does not know; they were skipped.")
    model: str = Field(description="Version of the model that answered.")
    arm: Literal["main", "candidate"] = Field(
        default="main", description="Which model answered, while a candidate is tried on a share of the users."
    )
    recommendation_id: str = Field(
        default="", description="Of this list: sent with the events it leads to, it is what /v1/report counts."
    )


class BatchAnswer(BaseModel):
    """The lists, in the order of the requests."""

    answers: list[RecommendationList]


# ---- users ----------------------------------------------------------------------------------------------------


class Event(_Request):
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


class PostedEvents(_Request, json_schema_extra={"examples": [{"events": [{"user_id": "ana", "item_id": "i7"}]}]}):
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


class UserHistory(BaseModel, title="Person"):
    """Everything that is known of a user."""

    __qualname__ = "Person"

    user_id: str
    items: list[Entry]
    low_rated: list[str] = Field(description="Items rated too low to be in the history, which the model knows of.")
    disliked: list[Entry] = Field(default=[], description="Items that the user dislikes.")


class UserIds(BaseModel, title="People"):
    """Ids of users."""

    __qualname__ = "People"

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


# ---- reports --------------------------------------------------------------------------------------------------


class ArmReport(BaseModel):
    """What one arm of one release led to."""

    release: str = Field(description="Version of the model in the folder.")
    arm: Literal["main", "candidate"]
    lists: int = Field(description="Lists given out: impressions.")
    items: int = Field(description="Items in them.")
    clicked: int = Field(description="Lists that led to an event by which an item was chosen.")
    clicks: int = Field(description="Such events.")
    rate: float | None = Field(description="clicked / lists; null without lists.")
    low: float = Field(description="The lower end of the rate's 95 % interval (Wilson).")
    high: float = Field(description="The upper end.")
    types: dict[str, int] = Field(description="Events that go back to these lists, by type (or kind).")


class Report(BaseModel):
    """Impressions and what they led to, by release of the model and arm. A click counts on the day of its list."""

    days: int
    since: datetime.date = Field(description="The first day, UTC.")
    releases: list[ArmReport]


# ---- items, model, health -------------------------------------------------------------------------------------


class Item(BaseModel):
    """An item and what it is called."""

    item_id: str
    name: str
    popularity: int
    popularity_rank: int
    details: dict[str, str]
    image: str | None = Field(default=None, description="The address of its image, if the service has images.")
    available: bool = Field(default=True, description="Whether it may be in lists.")


class Items(BaseModel):
    """Items, best match first."""

    items: list[Item]


class Similar(Item):
    """An item that is similar to another."""

    similarity: float


class SimilarItems(BaseModel):
    """What is similar to an item, the most similar first."""

    item_id: str
    name: str
    items: list[Similar]


class ItemState(_Request):
    """Whether an item is available."""

    item_id: Identifier
    available: bool


class PostedAvailability(
    _Request, json_schema_extra={"examples": [{"items": [{"item_id": "i7", "available": False}]}]}
):
    """Items that are available or not from now on. Of an item that is listed twice, the last entry holds."""

    items: list[ItemState] = Field(min_length=1, max_length=LIMITS.listed)

    @property
    def states(self) -> dict[str, bool]:
        """By id as text."""
        return {str(state.item_id): state.available for state in self.items}


class AvailabilityKept(BaseModel):
    """What was stored. It is on the disk, and holds for the next list of this worker; others follow in a second."""

    items: int = Field(description="Distinct items in the post.")
    changed: int = Field(description="Of how many of them the store said something else, or nothing, before.")
    unknown_items: list[str] = Field(description="Items the model does not know yet: stored, for when it does.")


class Curve(BaseModel):
    """The long tail: the item of rank ranks[k] was chosen by counts[k] users."""

    ranks: list[int]
    counts: list[int]


class Model(BaseModel):
    """The model in use."""

    model: str
    version: str
    loaded_at: float
    users: int
    items: int
    interactions: int
    named_items: int
    example_item: str
    uses_weights: bool = Field(default=False, description="Whether weights make a difference to this model.")
    half_life: str | None = Field(default=None, description='After what time an event counts half, such as "30d".')
    learned_seq: int | None = Field(
        default=None, description="The number of the last commit of the store that it has learned; null: none."
    )
    dislikes_weight: float = Field(
        default=0, description="How much dislikes count in scores. They are left out of every list, whatever it is."
    )


class ArmLearning(BaseModel):
    """How far the candidate has learned what is stored. The fields are those of Learning."""

    learned_seq: int | None
    behind: bool
    learned_at: float | None
    model: str
    skipped: int
    unlearned_seq: int | None


class CandidateModel(BaseModel):
    """The model that is tried on a share of the users."""

    state: Literal["none", "serving", "promoted", "dropped"] = Field(
        description="none: the service has no candidate. serving: it answers the share. promoted, dropped: it answers "
        "nobody."
    )
    model: str | None = None
    version: str | None = Field(default=None, description="Version of the model, as in its lists.")
    share: float = Field(default=0, description="The share of users whom it serves now.")
    users: int = Field(default=0, description="About how many of the users of the main model these are.")
    since: float | None = Field(default=None, description="When that was decided: seconds since 1970.")


class CandidateShare(_Request, json_schema_extra={"examples": [{"share": 0.25}]}):
    """A share for the candidate."""

    share: float = Field(
        ge=0,
        le=1,
        description="Of the users, between 0 and 1. Whoever it serves, it keeps serving while the share grows.",
    )


class Learning(BaseModel):
    """How far the model in use has learned what is stored."""

    learning: bool = Field(description="Whether the service learns (--learn).")
    learned_seq: int | None = Field(description="The number of the last commit that the model in use has learned.")
    stored_seq: int = Field(description="The number of the store's last commit.")
    behind: bool = Field(description="Whether the service learns, and there are commits to learn.")
    learned_at: float | None = Field(description="When the learner said so: seconds since 1970.")
    model: str = Field(description="Version of the model in use.")
    skipped: int = Field(
        description="How many stored changes cannot be learned: an id in them is not of the model's kind."
    )
    unlearned_seq: int | None = Field(
        description="The number of the last commit whose forgotten users are not in the model folder either, nor in "
        "the candidate's."
    )
    candidate: ArmLearning | None = Field(default=None, description="The same of the candidate, if there is one.")


class Health(BaseModel):
    """The state of the service."""

    status: str
