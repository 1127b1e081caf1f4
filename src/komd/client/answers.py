"""The answers of a service as types, from its description: `python -m tools.client_types` writes them."""

from __future__ import annotations

from typing import TypedDict

__all__ = [
    "ArmLearningJson",
    "ArmReportJson",
    "AvailabilityKeptJson",
    "BatchAnswerJson",
    "CandidateModelJson",
    "ContributionJson",
    "CurveJson",
    "EntryEventJson",
    "EntryJson",
    "EventWithdrawnJson",
    "EventsKeptJson",
    "ForgottenJson",
    "HealthJson",
    "ItemJson",
    "ItemsJson",
    "LearningJson",
    "ModelJson",
    "OtherJson",
    "RecommendationJson",
    "RecommendationsJson",
    "ReportJson",
    "SimilarItemsJson",
    "SimilarJson",
    "UserHistoryJson",
    "UserIdsJson",
    "WhyJson",
]


class ContributionJson(TypedDict):
    """What one item of the history, or one that the user dislikes, adds to a score."""

    item_id: str
    name: str
    contribution: float
    disliked: bool


class OtherJson(TypedDict):
    """The contributions that are not listed, together."""

    items: int
    contribution: float
    positive_items: int
    positive: float
    negative_items: int
    negative: float


class WhyJson(TypedDict):
    """contributions + others + global_term = score."""

    contributions: list[ContributionJson]
    others: OtherJson
    global_term: float


class RecommendationJson(TypedDict):
    """One row of a list."""

    item_id: str
    name: str
    rank: int
    score: float
    popularity: int
    popularity_rank: int
    details: dict[str, str]
    image: str | None
    why: WhyJson | None


class RecommendationsJson(TypedDict):
    """A list, best first."""

    user_id: str | None
    items: list[RecommendationJson]
    fallback: bool
    unknown_items: list[str]
    model: str
    arm: str
    recommendation_id: str


class BatchAnswerJson(TypedDict):
    """The lists, in the order of the requests."""

    answers: list[RecommendationsJson]


class EventsKeptJson(TypedDict):
    """What was stored. It is on the disk, and part of the next recommendation."""

    events: int
    new: int
    unknown_items: list[str]
    event_ids: list[str]
    unattributed: int


class EventWithdrawnJson(TypedDict):
    """One event was withdrawn: the pair is what its other events come to, or else what the model knows of it."""

    event_id: str
    user_id: str
    item_id: str
    seq: int


class UserIdsJson(TypedDict):
    """Ids of users."""

    users: list[str]


class EntryEventJson(TypedDict):
    """A posted event of a pair that was not withdrawn."""

    event_id: str
    kind: str
    type: str | None
    weight: float | None
    time: int
    at: int


class EntryJson(TypedDict):
    """One item of a user's history or dislikes."""

    item_id: str
    name: str
    in_model: bool
    popularity: int
    popularity_rank: int | None
    at: int | None
    weight: float
    time: int | None
    events: list[EntryEventJson]


class UserHistoryJson(TypedDict):
    """Everything that is known of a user."""

    user_id: str
    items: list[EntryJson]
    low_rated: list[str]
    disliked: list[EntryJson]


class ForgottenJson(TypedDict):
    """A user was forgotten."""

    user_id: str
    events: int
    seq: int
    unlearned: bool


class ItemJson(TypedDict):
    """An item and what it is called."""

    item_id: str
    name: str
    popularity: int
    popularity_rank: int
    details: dict[str, str]
    image: str | None
    available: bool


class ItemsJson(TypedDict):
    """Items, best match first."""

    items: list[ItemJson]


class SimilarJson(TypedDict):
    """An item that is similar to another."""

    item_id: str
    name: str
    popularity: int
    popularity_rank: int
    details: dict[str, str]
    image: str | None
    available: bool
    similarity: float


class SimilarItemsJson(TypedDict):
    """What is similar to an item, the most similar first."""

    item_id: str
    name: str
    items: list[SimilarJson]


class AvailabilityKeptJson(TypedDict):
    """What was stored. It is on the disk, and holds for the next list of this worker; others follow in a second."""

    items: int
    changed: int
    unknown_items: list[str]


class CurveJson(TypedDict):
    """The long tail: the item of rank ranks[k] was chosen by counts[k] users."""

    ranks: list[int]
    counts: list[int]


class ArmReportJson(TypedDict):
    """What one arm of one release led to."""

    release: str
    arm: str
    impressions: int
    items: int
    clicked: int
    clicks: int
    rate: float | None
    low: float
    high: float
    types: dict[str, int]


class ReportJson(TypedDict):
    """Impressions and what they led to, by release of the model and arm. A click counts on the day of its list."""

    days: int
    since: str
    releases: list[ArmReportJson]


class ModelJson(TypedDict):
    """The model in use."""

    model: str
    version: str
    loaded_at: float
    users: int
    items: int
    interactions: int
    named_items: int
    example_item: str
    uses_weights: bool
    half_life: str | None
    learned_seq: int | None
    dislikes_weight: float


class ArmLearningJson(TypedDict):
    """How far the candidate has learned what is stored. The fields are those of Learning."""

    learned_seq: int | None
    behind: bool
    learned_at: float | None
    model: str
    skipped: int
    unlearned_seq: int | None


class LearningJson(TypedDict):
    """How far the model in use has learned what is stored."""

    learning: bool
    learned_seq: int | None
    stored_seq: int
    behind: bool
    learned_at: float | None
    model: str
    skipped: int
    unlearned_seq: int | None
    candidate: ArmLearningJson | None


class CandidateModelJson(TypedDict):
    """The model that is tried on a share of the users."""

    state: str
    model: str | None
    version: str | None
    share: float
    users: int
    since: float | None


class HealthJson(TypedDict):
    """The state of the service."""

    status: str
