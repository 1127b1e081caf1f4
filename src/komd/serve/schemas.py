"""What goes in and what comes out, as types: the OpenAPI description is made from them.

Ids are text in every answer. In a question they may be text or whole numbers; 7 and "7" are the same.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from komd.serve.serve_settings import Limits

__all__ = [
    "Ask",
    "Batch",
    "BatchAnswer",
    "Contribution",
    "Curve",
    "Entry",
    "Event",
    "EventsKept",
    "Forgotten",
    "Health",
    "Identifier",
    "Item",
    "Items",
    "Model",
    "Other",
    "People",
    "Person",
    "PostedEvents",
    "Problem",
    "Recommendation",
    "Recommendations",
    "Similar",
    "SimilarItems",
    "Text",
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


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Answer(BaseModel):
    """Made here, so not checked again."""


class Problem(_Answer):
    """What was wrong, in words."""

    detail: str


# ---- recommending ---------------------------------------------------------------------------------------------


class Ask(_Asked):
    """A question: for whom, and how. Give `user_id` or `history`, not both."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"history": ["i7", "i42"], "n": 10, "explain": True}]}
    )

    user_id: Identifier | None = Field(default=None, description="Somebody whose history is known or has been posted.")
    history: list[Identifier] | None = Field(
        default=None, max_length=LIMITS.history, description="What somebody chose, whoever they are."
    )
    n: int = Field(default=10, ge=1, le=LIMITS.n, description="Length of the list.")
    exclude_seen: bool = Field(default=True, description="Leave out what is in the history.")
    exclude_low_rated: bool = Field(
        default=True, description="With exclude_seen, leave out what the user rated too low to be in the history."
    )
    items: list[Identifier] | None = Field(default=None, max_length=LIMITS.listed, description="Only these items.")
    exclude: list[Identifier] | None = Field(default=None, max_length=LIMITS.listed, description="None of these items.")
    max_popularity: int | None = Field(
        default=None, ge=0, le=2**53, description="Only items chosen by at most so many people. Scores are as they are."
    )
    explain: bool = Field(default=False, description=f"Say why; then n is at most {LIMITS.explained}.")
    reasons: int = Field(default=10, ge=1, le=100, description="How many contributions to list; the others are summed.")

    @model_validator(mode="after")
    def _whole(self) -> Ask:
        if (self.user_id is None) == (self.history is None):
            raise ValueError("give user_id or history, one of them")
        if self.explain and self.n > LIMITS.explained:
            raise ValueError(f"with explain, n is at most {LIMITS.explained}")
        return self

    @property
    def user(self) -> str | None:
        """The person's id as text."""
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

    def manner(self) -> Any:
        """How is asked, whoever asks."""
        lists = (
            None if self.items is None else tuple(self.items),
            None if self.exclude is None else tuple(self.exclude),
        )
        return self.n, self.exclude_seen, lists, self.max_popularity, self.explain, self.reasons


class Batch(_Asked):
    """Several questions at once, all answered by the same model."""

    requests: list[Ask] = Field(min_length=1, max_length=LIMITS.batch)


class Contribution(_Answer):
    """What one item of the history adds to a score."""

    item_id: str
    name: str
    contribution: float


class Other(_Answer):
    """The contributions that are not listed, together."""

    items: int
    contribution: float


class Why(_Answer):
    """contributions + others + global_term = score."""

    contributions: list[Contribution]
    others: Other
    global_term: float = Field(description="What does not come from one item: the pull of everything not chosen.")


class Recommendation(_Answer):
    """One line of a list."""

    item_id: str
    name: str
    rank: int
    score: float
    popularity: int = Field(description="How many people chose it.")
    popularity_rank: int
    details: dict[str, str] = Field(description="Further columns of the table of names.")
    why: Why | None = None


class Recommendations(_Answer):
    """A list, best first."""

    user_id: str | None
    items: list[Recommendation]
    fallback: bool = Field(description="No known item in the history: the list goes by popularity.")
    unknown_items: list[str] = Field(description="Items that the model does not know; they were passed over.")
    model: str = Field(description="Version of the model that answered.")


class BatchAnswer(_Answer):
    """The lists, in the order of the questions."""

    answers: list[Recommendations]


# ---- people ---------------------------------------------------------------------------------------------------


class Event(_Asked):
    """Somebody chose something."""

    user_id: Identifier
    item_id: Identifier

    @property
    def pair(self) -> tuple[str, str]:
        """The ids as texts."""
        return str(self.user_id), str(self.item_id)


class PostedEvents(_Asked):
    """One event or many. The same event again changes nothing."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"events": [{"user_id": "ana", "item_id": "i7"}]}]}
    )

    events: list[Event] = Field(min_length=1, max_length=LIMITS.events)


class EventsKept(_Answer):
    """What was kept. It is on the disk, and part of the next recommendation."""

    events: int = Field(description="Distinct pairs in the post.")
    new: int = Field(description="How many were not there before.")
    unknown_items: list[str] = Field(description="Items the model does not know yet: kept, and not used until it does.")


class Entry(_Answer):
    """One item of somebody's history."""

    item_id: str
    name: str
    in_model: bool = Field(description="Whether the model knows the item.")
    popularity: int
    popularity_rank: int | None
    at: int | None = Field(description="When it was posted (milliseconds since 1970); null when the model brought it.")


class Person(_Answer):
    """Everything that is known of somebody."""

    user_id: str
    items: list[Entry]
    low_rated: list[str] = Field(description="Items rated too low to be in the history, which the model knows of.")


class People(_Answer):
    """Ids of people."""

    users: list[str]


class Forgotten(_Answer):
    """Somebody was forgotten."""

    user_id: str
    events: int = Field(description="How many stored events were deleted.")


# ---- items, model, health -------------------------------------------------------------------------------------


class Item(_Answer):
    """An item and what it is called."""

    item_id: str
    name: str
    popularity: int
    popularity_rank: int
    details: dict[str, str]


class Items(_Answer):
    """Items, best match first."""

    items: list[Item]


class Similar(Item):
    """An item that is like another."""

    similarity: float


class SimilarItems(_Answer):
    """What is like an item, most alike first."""

    item_id: str
    name: str
    items: list[Similar]


class Curve(_Answer):
    """The long tail: the item of rank ranks[k] was chosen by counts[k] people."""

    ranks: list[int]
    counts: list[int]


class Model(_Answer):
    """The model in use."""

    model: str
    version: str
    loaded_at: float
    users: int
    items: int
    interactions: int
    named_items: int
    example_item: str


class Health(_Answer):
    """A word on how it is going."""

    status: str
