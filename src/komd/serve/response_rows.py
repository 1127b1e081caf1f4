"""Lists, items and histories of a model as the rows of responses.

A list with its reasons is made of plain dictionaries in the form of `schemas.RecommendationList`: it has hundreds of
parts, and to make an object of pydantic for each takes longer than the list itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.serve import request_context, schemas
from komd.serve.event_records import LoggedEvent, StoredEvent
from komd.serve.model_arms import Arm
from komd.serve.model_snapshot import ModelSnapshot, RankedList, Reason
from komd.serve.user_row import NO_TIME

_NO_ITEMS = np.zeros(0, np.int32)

__all__ = ["entries_of", "entry_event", "items_of", "list_of", "unknown_entry"]


def _labels(snapshot: ModelSnapshot, numbers: NDArray[np.int32]) -> Iterator[tuple[int, str, str, int]]:
    """(number, id, name, popularity) of items by inside number."""
    popularity = snapshot.catalogue.popularity[numbers].astype(np.int64).tolist()
    texts, names = snapshot.item_texts(numbers), snapshot.item_names(numbers)
    return zip(numbers.tolist(), texts, names, popularity, strict=True)


def entries_of(
    snapshot: ModelSnapshot,
    numbers: NDArray[np.int32],
    posted: dict[str, StoredEvent],
    weights: NDArray[np.float32] | None = None,
    times: NDArray[np.int64] | None = None,
) -> list[schemas.Entry]:
    """Items of a user's history or dislikes; without `times`, the time is that of the posted event."""
    entries = []
    for k, (number, text, name, count) in enumerate(_labels(snapshot, numbers)):
        event = posted.get(text)
        if times is not None:
            happened = None if times[k] == NO_TIME else int(times[k]) // 1000
        else:
            happened = None if event is None else event.time
        entry = schemas.Entry(
            item_id=text,
            name=name,
            in_model=True,
            popularity=count,
            popularity_rank=number + 1,
            at=None if event is None else event.at,
            weight=1.0 if weights is None else float(str(weights[k])),  # as it was written: 0.1 and not 0.10000000149
            time=happened,
        )
        entries.append(entry)
    return entries


def entry_event(event: LoggedEvent) -> schemas.EntryEvent:
    return schemas.EntryEvent(
        event_id=event.event_id,
        kind=event.kind,
        type=event.type,
        weight=event.weight,
        time=event.at if event.time is None else event.time,
        at=event.at,
    )


def unknown_entry(event: StoredEvent) -> schemas.Entry:
    """An item that was posted and that the model does not know."""
    weight = event.least if event.weight is None else event.weight
    return schemas.Entry(
        item_id=event.item,
        name=event.item,
        in_model=False,
        popularity=0,
        popularity_rank=None,
        at=event.at,
        weight=1.0 if weight is None else weight,
        time=event.time,
    )


def items_of(snapshot: ModelSnapshot, numbers: NDArray[np.int32]) -> list[schemas.Item]:
    details, image, available = snapshot.item_details, snapshot.item_image, snapshot.masks.available(numbers)
    return [
        schemas.Item(
            item_id=text,
            name=name,
            popularity=count,
            popularity_rank=number + 1,
            details=details(number),
            image=image(number),
            available=available[k],
        )
        for k, (number, text, name, count) in enumerate(_labels(snapshot, numbers))
    ]


def list_of(
    snapshot: ModelSnapshot, arm: Arm, user: str | None, ranked: RankedList, unknown: list[str], given_out: str
) -> dict[str, Any]:
    """A list of a user as it is answered, a `schemas.RecommendationList`; `given_out` is its id."""
    scores = ranked.scores.tolist()
    details, image = snapshot.item_details, snapshot.item_image
    reasons = [None] * len(scores) if ranked.reasons is None else _reasons(snapshot, ranked.reasons)
    rows = [
        {
            "item_id": text,
            "name": name,
            "rank": k + 1,
            "score": scores[k],
            "popularity": count,
            "popularity_rank": number + 1,
            "details": details(number),
            "image": image(number),
            "why": reasons[k],
        }
        for k, (number, text, name, count) in enumerate(_labels(snapshot, ranked.items))
    ]
    return {
        "user_id": user,
        "items": rows,
        "fallback": ranked.fallback,
        "unknown_items": unknown,
        "model": snapshot.version,
        "arm": arm.name,
        "recommendation_id": given_out,
    }


def _reasons(snapshot: ModelSnapshot, reasons: Sequence[Reason]) -> list[dict[str, Any]]:
    """Why each item of a list got its score, each a `schemas.Why`. Their items are looked up together."""
    items = np.concatenate([reason.items for reason in reasons]) if reasons else _NO_ITEMS
    labels = zip(snapshot.item_texts(items), snapshot.item_names(items), strict=True)
    context, found = request_context.current(), []
    for reason in reasons:
        context.check()
        found.append(_why(reason, labels))
    return found


def _why(reason: Reason, labels: Iterator[tuple[str, str]]) -> dict[str, Any]:
    """One reason; takes the labels of its items."""
    shown = zip(reason.contributions.tolist(), reason.disliked.tolist(), strict=True)
    parts = [
        {"item_id": text, "name": name, "contribution": part, "disliked": disliked}
        for (part, disliked), (text, name) in zip(shown, labels, strict=False)
    ]
    above, below = reason.others_positive, reason.others_negative
    others = {
        "items": reason.others,
        "contribution": reason.others_contribution,
        "positive_items": above[0],
        "positive": above[1],
        "negative_items": below[0],
        "negative": below[1],
    }
    return {"contributions": parts, "others": others, "global_term": reason.global_term}
