"""Requests for lists, and lists with their reasons."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator

from komd.serve.candidate_masks import NO_RULES, ListRules
from komd.serve.item_filters import CONDITIONS_SCHEMA, ItemConditions, conditions_of
from komd.serve.posted_values import Moment, Weight
from komd.serve.schemas.schema_parts import LIMITS, Identifier, Number, RequestBody, Text, texts_of_ids

__all__ = [
    "Ask",
    "Batch",
    "BatchAnswer",
    "Contribution",
    "HistoryItem",
    "Other",
    "Recommendation",
    "RecommendationList",
    "Why",
]


Where = Annotated[ItemConditions, PlainValidator(conditions_of), WithJsonSchema(CONDITIONS_SCHEMA)]
"""Conditions on the columns of the table of items; `item_filters.py` has their grammar."""


class HistoryItem(RequestBody):
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


class Ask(RequestBody, json_schema_extra={"examples": [{"history": ["i7", "i42"], "n": 10, "explain": True}]}):
    """A request: for which user, and how. Give `user_id` or `history`, not both."""

    user_id: Identifier | None = Field(default=None, description="A user whose history is known or has been posted.")
    history: list[Text | Number | HistoryItem] | None = Field(
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
    impression: bool = Field(
        default=True, description="Whether the list counts as given out in /v1/report: not if nobody will see it."
    )

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
        return texts_of_ids(self.dislikes) or []

    @property
    def allowed(self) -> list[str] | None:
        """The allow list as texts."""
        return texts_of_ids(self.items)

    @property
    def denied(self) -> list[str] | None:
        """The deny list as texts."""
        return texts_of_ids(self.exclude)

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


def _between(value: Any) -> Any:
    """Called between two requests of a batch: other threads can work, which compiled code alone would not let."""
    return value


class Batch(RequestBody, json_schema_extra={"examples": [{"requests": [{"history": ["i7"]}, {"history": ["i42"]}]}]}):
    """Several requests at once, all answered by the same model; while a candidate is tried, each by the model that
    serves its user."""

    requests: list[Annotated[Ask, BeforeValidator(_between)]] = Field(min_length=1, max_length=LIMITS.batch)


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
