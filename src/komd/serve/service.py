"""From a request to its response: the model's history of a user and the live one are one history.

Everything here is plain Python that may wait or compute; the API calls it from threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd.serve import request_context, schemas
from komd.serve.event_records import NewEvent, StoredEvent, StoredHistory
from komd.serve.event_store import EventStore
from komd.serve.hot_reload import ModelWatcher
from komd.serve.id_text import users_beginning
from komd.serve.model_snapshot import ModelSnapshot, RankedList, Reason
from komd.serve.request_cost import LargeRequest, check_batch
from komd.serve.serve_settings import Limits
from komd.serve.user_row import NO_TIME, UserRow

__all__ = ["Service"]

_NO_ITEMS = np.zeros(0, np.int32)


class _KnownOf(NamedTuple):
    """What is known of the user of one request: by the model's items, and the items that the model does not know."""

    row: UserRow
    unknown: list[str]


class _JoinedHistory(NamedTuple):
    """What is known of a user: what the model has, unless forgotten, and what was posted since."""

    row: UserRow
    stored: StoredHistory
    unknown: list[StoredEvent]  # events with items that the model does not know, without withdrawn ones


class Service:
    """Answers the requests of the API."""

    def __init__(self, watcher: ModelWatcher, events: EventStore, limits: Limits) -> None:
        self.watcher = watcher
        self.events = events
        self.limits = limits

    # ---- recommending -----------------------------------------------------------------------------------------

    def cost(self, ask: schemas.Ask) -> float:
        """About how many operations a request with a posted history takes."""
        return self.watcher.current.cost.of(ask, len(ask.history or ()))

    def recommend(self, ask: schemas.Ask, most: float = math.inf) -> schemas.RecommendationList:
        """The list of one user. Raises LargeRequest if that takes more than `most` operations."""
        return self.recommend_all([ask], most)[0]

    def recommend_all(self, asks: list[schemas.Ask], most: float = math.inf) -> list[schemas.RecommendationList]:
        """The lists of several users, as `answers` gives them, in the order of the requests."""
        return [answer for _, answer in sorted(self.answers(asks, most), key=lambda each: each[0])]

    def answers(
        self, asks: list[schemas.Ask], most: float = math.inf
    ) -> Iterator[tuple[int, schemas.RecommendationList]]:
        """The lists of several users, all by the same model, each with the number of its request.

        Requests with the same options are ranked together, and their lists come together. Raises BatchTooLarge if all
        is too much work for one batch, LargeRequest if it is more than `most`.
        """
        snapshot, context = self.watcher.current, request_context.current()
        now = time.time_ns() // 1000
        users = []
        for ask in asks:
            context.check()
            users.append(self._known_of(snapshot, ask))
        costs = [snapshot.cost.of(ask, len(user.row.items)) for ask, user in zip(asks, users, strict=True)]
        if sum(costs) > most:
            raise LargeRequest
        check_batch(costs)
        groups: dict[Any, list[int]] = {}
        for k, ask in enumerate(asks):
            groups.setdefault(ask.options(), []).append(k)
        for group in groups.values():
            ask = asks[group[0]]
            allow, allow_unknown = (None, []) if ask.allowed is None else snapshot.find_items(ask.allowed)
            deny, deny_unknown = (None, []) if ask.denied is None else snapshot.find_items(ask.denied)
            lists = snapshot.recommend(
                [users[k].row for k in group],
                n=ask.n,
                at=now if ask.at is None else 1000 * ask.at,
                exclude_seen=ask.exclude_seen,
                allow=allow,
                deny=deny,
                max_popularity=ask.max_popularity,
                reasons=ask.reasons if ask.explain else None,
                costs=[costs[k] for k in group],
            )
            for k, ranked in zip(group, lists, strict=True):
                context.check()
                unknown = dict.fromkeys([*users[k].unknown, *allow_unknown, *deny_unknown])
                yield k, _response(snapshot, asks[k].user, ranked, list(unknown))

    def _known_of(self, snapshot: ModelSnapshot, ask: schemas.Ask) -> _KnownOf:
        if ask.user is None:
            texts, disliked = ask.chosen, ask.disliked
            numbers = snapshot.item_numbers(texts)
            dislikes, unknown = snapshot.find_items(disliked) if disliked else (_NO_ITEMS, [])
            unknown = [text for text, number in zip(texts, numbers.tolist(), strict=True) if number < 0] + unknown
            return _KnownOf(UserRow.posted(numbers, dislikes, ask.weights, ask.times), unknown)
        found = self._joined(snapshot, ask.user)
        row = found.row if ask.exclude_low_rated else replace(found.row, seen=_NO_ITEMS)
        return _KnownOf(row, [event.item for event in found.unknown])

    def _joined(self, snapshot: ModelSnapshot, user: str) -> _JoinedHistory:
        stored = self.events.history(user, newest=self.limits.stored)
        row = (None if stored.forgotten else snapshot.learned_row(user)) or UserRow()
        if not stored.events:
            return _JoinedHistory(row, stored, [])
        numbers = snapshot.item_numbers([event.item for event in stored.events]).tolist()
        known = [(number, event) for number, event in zip(numbers, stored.events, strict=True) if number >= 0]
        of_kind = {
            kind: np.array([number for number, event in known if event.kind == kind], np.int32)
            for kind in ("chosen", "disliked", "withdrawn")
        }
        choices = [event for _, event in known if event.kind == "chosen"]
        weights, times = [event.weight for event in choices], [event.time for event in choices]
        row = row.joined(of_kind["chosen"], weights, times, of_kind["disliked"], of_kind["withdrawn"])
        unknown = [
            event
            for number, event in zip(numbers, stored.events, strict=True)
            if number < 0 and event.kind != "withdrawn"
        ]
        return _JoinedHistory(row, stored, unknown)

    # ---- users ------------------------------------------------------------------------------------------------

    def add_events(self, events: list[NewEvent]) -> tuple[Future[int], schemas.EventsKept]:
        """Store events: the response is true once the future is done, which says how many were new."""
        _, unknown = self.watcher.current.find_items(list(dict.fromkeys(event.item for event in events)))
        pairs = len({(event.user, event.item) for event in events})
        return self.events.add(events), schemas.EventsKept(events=pairs, new=0, unknown_items=unknown)

    def user_history(self, user: str) -> schemas.UserHistory | None:
        """Everything that is known of a user; None when nothing is."""
        snapshot = self.watcher.current
        row, stored, unknown = self._joined(snapshot, user)
        if not len(row.items) + len(row.dislikes) + len(row.seen) + len(unknown):
            return None
        posted = {event.item: event for event in stored.events}
        history = _entries(snapshot, row.items, posted, row.weights, row.times)
        history += [_unknown_entry(event) for event in unknown if event.kind == "chosen"]
        disliked = _entries(snapshot, row.dislikes, posted)
        disliked += [_unknown_entry(event) for event in unknown if event.kind == "disliked"]
        for entries in (history, disliked):
            entries.sort(key=lambda entry: entry.at or 0)
        low = snapshot.item_texts(row.seen)
        return schemas.UserHistory(user_id=user, items=history, low_rated=low, disliked=disliked)

    def user_ids(self, prefix: str, n: int) -> list[str]:
        """Up to n user ids with this prefix: those of the model and those of the store, without the forgotten."""
        learned = users_beginning(self.watcher.current.catalogue.users, prefix, 2 * n)
        forgotten = self.events.among_forgotten(learned)
        stored = self.events.users(prefix, n)
        return list(dict.fromkeys([user for user in learned if user not in forgotten] + stored))[:n]

    # ---- items ------------------------------------------------------------------------------------------------

    def search(self, query: str, n: int) -> list[schemas.Item]:
        """Items by name, or the most popular ones for an empty query."""
        snapshot = self.watcher.current
        m = len(snapshot.catalogue.order)
        numbers = snapshot.search(query, n) if query.strip() else np.arange(min(n, m), dtype=np.int32)
        return _items(snapshot, numbers)

    def item(self, text: str) -> schemas.Item | None:
        """One item; None when the model does not know it."""
        snapshot = self.watcher.current
        return next(iter(_items(snapshot, snapshot.find_items([text])[0])), None)

    def similar(self, text: str, n: int) -> schemas.SimilarItems | None:
        """The items most similar to one; None when the model does not know it."""
        snapshot = self.watcher.current
        number = int(snapshot.item_numbers([text])[0])
        if number < 0:
            return None
        near, similarities = snapshot.model.nearest_items(number, n)
        found = [
            schemas.Similar(**item.model_dump(), similarity=similarity)
            for item, similarity in zip(_items(snapshot, near), similarities.tolist(), strict=True)
        ]
        return schemas.SimilarItems(item_id=text, name=snapshot.item_names(np.array([number]))[0], items=found)

    def curve(self) -> schemas.Curve:
        """The long tail of the catalogue."""
        ranks, counts = self.watcher.current.curve
        return schemas.Curve(ranks=ranks, counts=counts)

    def model(self) -> schemas.Model:
        """About the model in use."""
        learned = self.watcher.learned
        return schemas.Model(**self.watcher.current.about(), learned_seq=None if learned is None else learned.seq)

    def learning(self) -> schemas.Learning:
        """How far the model in use has learned what is stored."""
        state, stored = self.watcher.learned, self.events.last_seq()
        if state is None:
            found: dict[str, Any] = {"learned_seq": None, "learned_at": None, "skipped": 0, "unlearned_seq": None}
        else:
            found = {
                "learned_seq": state.seq,
                "learned_at": state.at,
                "skipped": state.skipped,
                "unlearned_seq": state.unlearned_seq,
            }
        return schemas.Learning(
            learning=state is not None,
            stored_seq=stored,
            behind=state is not None and state.seq < stored,
            model=self.watcher.current.version,
            **found,
        )

    def seconds_behind(self) -> float:
        """The age of the oldest stored event that the model in use has not learned; 0 if it has all."""
        state = self.watcher.learned
        oldest = None if state is None else self.events.pending(state.seq).oldest
        return 0.0 if oldest is None else max(time.time() - oldest / 1000, 0.0)

    def has_unlearned(self, seq: int) -> bool:
        """Whether users forgotten by this commit are in no model any more."""
        state = self.watcher.learned
        return state is not None and min(state.seq, state.unlearned_seq) >= seq


def _labels(snapshot: ModelSnapshot, numbers: NDArray[np.int32]) -> Iterator[tuple[int, str, str, int]]:
    """(number, id, name, popularity) of items by inside number."""
    popularity = snapshot.catalogue.popularity[numbers].astype(np.int64).tolist()
    texts, names = snapshot.item_texts(numbers), snapshot.item_names(numbers)
    return zip(numbers.tolist(), texts, names, popularity, strict=True)


def _entries(
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


def _unknown_entry(event: StoredEvent) -> schemas.Entry:
    """An item that was posted and that the model does not know."""
    return schemas.Entry(
        item_id=event.item,
        name=event.item,
        in_model=False,
        popularity=0,
        popularity_rank=None,
        at=event.at,
        weight=1.0 if event.weight is None else event.weight,
        time=event.time,
    )


def _items(snapshot: ModelSnapshot, numbers: NDArray[np.int32]) -> list[schemas.Item]:
    details = snapshot.item_details
    return [
        schemas.Item(item_id=text, name=name, popularity=count, popularity_rank=number + 1, details=details(number))
        for number, text, name, count in _labels(snapshot, numbers)
    ]


def _response(
    snapshot: ModelSnapshot, user: str | None, ranked: RankedList, unknown: list[str]
) -> schemas.RecommendationList:
    scores, reasons, details = ranked.scores.tolist(), ranked.reasons, snapshot.item_details
    rows = [
        schemas.Recommendation(
            item_id=text,
            name=name,
            rank=k + 1,
            score=scores[k],
            popularity=count,
            popularity_rank=number + 1,
            details=details(number),
            why=None if reasons is None else _why(snapshot, reasons[k]),
        )
        for k, (number, text, name, count) in enumerate(_labels(snapshot, ranked.items))
    ]
    return schemas.RecommendationList(
        user_id=user, items=rows, fallback=ranked.fallback, unknown_items=unknown, model=snapshot.version
    )


def _why(snapshot: ModelSnapshot, reason: Reason) -> schemas.Why:
    request_context.current().check()
    texts, names = snapshot.item_texts(reason.items), snapshot.item_names(reason.items)
    parts = [
        schemas.Contribution(item_id=text, name=name, contribution=part, disliked=disliked)
        for text, name, part, disliked in zip(
            texts, names, reason.contributions.tolist(), reason.disliked.tolist(), strict=True
        )
    ]
    others = schemas.Other(items=reason.others, contribution=reason.others_contribution)
    return schemas.Why(contributions=parts, others=others, global_term=reason.global_term)
