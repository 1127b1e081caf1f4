"""Requests and responses as types: the OpenAPI description is made from them.

Ids are text in every response. In a request they may be text or whole numbers; 7 and "7" are the same. A class whose
name another part of komd has keeps its name in the description by `title` and `__qualname__`.
"""

from komd.serve.schemas.event_schemas import (
    ArmReport,
    Entry,
    EntryEvent,
    Event,
    EventsKept,
    EventWithdrawn,
    Forgotten,
    PostedEvents,
    Report,
    UserHistory,
    UserIds,
)
from komd.serve.schemas.item_schemas import (
    AvailabilityKept,
    Curve,
    Item,
    Items,
    ItemState,
    PostedAvailability,
    Similar,
    SimilarItems,
)
from komd.serve.schemas.list_schemas import (
    Ask,
    Batch,
    BatchAnswer,
    Contribution,
    HistoryItem,
    Other,
    Recommendation,
    RecommendationList,
    Why,
)
from komd.serve.schemas.schema_parts import LIMITS, ErrorDetail, Identifier, Text
from komd.serve.schemas.service_schemas import ArmLearning, CandidateModel, CandidateShare, Health, Learning, Model

__all__ = [
    "LIMITS",
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
