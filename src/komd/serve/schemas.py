"""Requests and responses as types: the OpenAPI description is made from them.

Ids are text in every response. In a request they may be text or whole numbers; 7 and "7" are the same. A class whose
name another part of komd has keeps its name in the description by `title` and `__qualname__`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from komd.serve.serve_settings import Limits

__all__ = [
    "Ask",
    "Batch",
    "BatchAnswer",
    "Contribution",
    "Curve",
    "Entry",
    "ErrorDetail",
    "Event",
    "EventsKept",
    "Forgotten",
    "Health",
    "Identifier",
    "Item",
    "Items",
    "Model",
    "Other",
    "PostedEvents",
    "Recommendation",
    "RecommendationList",
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


def _texts(ids: list[str | int] | None) -> list[str] | None:
    return None if ids is None else [one if type(one) is str else str(one) for one in ids]


class _Request(BaseModel, extra="forbid"):
    """Unknown fields are refused. Responses are made here, so not checked again."""


class ErrorDetail(BaseModel, title="Problem"):
    """What was wrong, in words."""

    __qualname__ = "Problem"

    detail: str


# ---- recommending ---------------------------------------------------------------------------------------------


class Ask(_Request, json_schema_extra={"examples": [{"history": ["i7", "i42"], "n": 10, "explain": True}]}):
    """A request: for which user, and how. Give `user_id` or `history`, not both."""

    user_id: Identifier | None = Field(default=None, description="A user whose history is known or has been posted.")
    history: list[Identifier] | None = Field(
        default=None, max_length=LIMITS.history, description="What a user chose, known or not."
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
    explain: bool = Field(default=False, description=f"Say why; then n is at most {LIMITS.explained}.")
    reasons: int = Field(default=10, ge=1, le=100, description="How many contributions to list; the others are summed.")

    @model_validator(mode="after")
    def _consistent(self) -> Ask:
        if (self.user_id is None) == (self.history is None):
            raise ValueError("give user_id or history, one of them")
        if self.explain and self.n > LIMITS.explained:
            raise ValueError(f"with explain, n is at most {LIMITS.explained}")
        return self

    @property
    def user(self) -> str | None:
        """The user's id as text."""
        return None if self.user_id is None else str(self.user_id)

    @property
    def chosen(self) -> list[str]:
        """The history as texts."""
        return _texts(self.history) or []

    @property
    def allowed(self) -> list[str] | None:
        """The allow list as texts."""
        return _texts(self.items)

    @property
    def denied(self) -> list[str] | None:
        """The deny list as texts."""
        return _texts(self.exclude)

    def options(self) -> Any:
        """All of the request but the user: requests that agree in it are ranked together."""
        lists = tuple(None if ids is None else tuple(ids) for ids in (self.items, self.exclude))
        return self.n, self.exclude_seen, lists, self.max_popularity, self.explain, self.reasons


class Batch(_Request):
    """Several requests at once, all answered by the same model."""

    requests: list[Ask] = Field(min_length=1, max_length=LIMITS.batch)


class Contribution(BaseModel):
    """What one item of the history adds to a score."""

    item_id: str
    name: str
    contribution: float


class Other(BaseModel):
    """The contributions that are not listed, together."""

    items: int
    contribution: float


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
    why: Why | None = None


class RecommendationList(BaseModel, title="Recommendations"):
    """A list, best first."""

    __qualname__ = "Recommendations"

    user_id: str | None
    items: list[Recommendation]
    fallback: bool = Field(description="No known item in the history: the list goes by popularity.")
    unknown_items: list[str] = Field(description="Items that the model does not know; they were skipped.")
    model: str = Field(description="Version of the model that answered.")


class BatchAnswer(BaseModel):
    """The lists, in the order of the requests."""

    answers: list[RecommendationList]


# ---- users ----------------------------------------------------------------------------------------------------


class Event(_Request):
    """A user chose an item."""

    user_id: Identifier
    item_id: Identifier

    @property
    def pair(self) -> tuple[str, str]:
        """The ids as texts."""
        return str(self.user_id), str(self.item_id)


class PostedEvents(_Request, json_schema_extra={"examples": [{"events": [{"user_id": "ana", "item_id": "i7"}]}]}):
    """One event or many. The same event again changes nothing."""

    events: list[Event] = Field(min_length=1, max_length=LIMITS.events)


class EventsKept(BaseModel):
    """What was stored. It is on the disk, and part of the next recommendation."""

    events: int = Field(description="Distinct pairs in the post.")
    new: int = Field(description="How many were not there before.")
    unknown_items: list[str] = Field(description="Items the model does not know yet: stored, not used until it does.")


class Entry(BaseModel):
    """One item of a user's history."""

    item_id: str
    name: str
    in_model: bool = Field(description="Whether the model knows the item.")
    popularity: int
    popularity_rank: int | None
    at: int | None = Field(description="When it was posted (milliseconds since 1970); null when it is from the model.")


class UserHistory(BaseModel, title="Person"):
    """Everything that is known of a user."""

    __qualname__ = "Person"

    user_id: str
    items: list[Entry]
    low_rated: list[str] = Field(description="Items rated too low to be in the history, which the model knows of.")


class UserIds(BaseModel, title="People"):
    """Ids of users."""

    __qualname__ = "People"

    users: list[str]


class Forgotten(BaseModel):
    """A user was forgotten."""

    user_id: str
    events: int = Field(description="How many stored events were deleted.")


# ---- items, model, health -------------------------------------------------------------------------------------


class Item(BaseModel):
    """An item and what it is called."""

    item_id: str
    name: str
    popularity: int
    popularity_rank: int
    details: dict[str, str]


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


class Health(BaseModel):
    """The state of the service."""

    status: str
