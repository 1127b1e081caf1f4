"""From a request to its response: the model's history of a user and the live one are one history.

Everything here is plain Python that may wait or compute; the API calls it from threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd.serve import schemas
from komd.serve.event_store import EventStore, StoredHistory
from komd.serve.hot_reload import ModelWatcher
from komd.serve.id_text import users_beginning
from komd.serve.model_snapshot import ModelSnapshot, RankedList, Reason
from komd.serve.serve_settings import Limits

__all__ = ["Service"]

_NO_ITEMS = np.zeros(0, np.int32)


class _KnownOf(NamedTuple):
    """What is known of the user of one request, in inside numbers."""

    history: NDArray[np.int32]
    unknown: list[str]  # items that the model does not know
    seen: NDArray[np.int32]  # items known to the user besides the history


class Service:
    """Answers the requests of the API."""

    def __init__(self, watcher: ModelWatcher, events: EventStore, limits: Limits) -> None:
        self.watcher = watcher
        self.events = events
        self.limits = limits

    # ---- recommending -----------------------------------------------------------------------------------------

    def recommend(self, ask: schemas.Ask) -> schemas.RecommendationList:
        """The list of one user."""
        return self.recommend_all([ask])[0]

    def recommend_all(self, asks: list[schemas.Ask]) -> list[schemas.RecommendationList]:
        """The lists of several users, all by the same model. Requests with the same options are ranked together."""
        snapshot = self.watcher.current
        users = [self._known_of(snapshot, ask) for ask in asks]
        groups: dict[Any, list[int]] = {}
        for k, ask in enumerate(asks):
            groups.setdefault(ask.options(), []).append(k)
        answers: dict[int, schemas.RecommendationList] = {}
        for group in groups.values():
            ask = asks[group[0]]
            allow, allow_unknown = (None, []) if ask.allowed is None else snapshot.find_items(ask.allowed)
            deny, deny_unknown = (None, []) if ask.denied is None else snapshot.find_items(ask.denied)
            lists = snapshot.recommend(
                [users[k].history for k in group],
                seen=[users[k].seen for k in group],
                n=ask.n,
                exclude_seen=ask.exclude_seen,
                allow=allow,
                deny=deny,
                max_popularity=ask.max_popularity,
                reasons=ask.reasons if ask.explain else None,
            )
            for k, ranked in zip(group, lists, strict=True):
                unknown = dict.fromkeys([*users[k].unknown, *allow_unknown, *deny_unknown])
                answers[k] = _response(snapshot, asks[k].user, ranked, list(unknown))
        return [answers[k] for k in range(len(asks))]

    def _known_of(self, snapshot: ModelSnapshot, ask: schemas.Ask) -> _KnownOf:
        if ask.user is None:
            return _KnownOf(*snapshot.find_items(ask.chosen), _NO_ITEMS)
        history, unknown, stored = self._history(snapshot, ask.user)
        unseen = stored.forgotten or not ask.exclude_low_rated
        return _KnownOf(history, unknown, _NO_ITEMS if unseen else snapshot.seen(ask.user))

    def _history(self, snapshot: ModelSnapshot, user: str) -> tuple[NDArray[np.int32], list[str], StoredHistory]:
        """The one history of a user: what the model has, unless forgotten, and what was posted since."""
        stored = self.events.history(user, newest=self.limits.stored)
        history, unknown = snapshot.find_items([item for item, _ in stored.events])
        learned = None if stored.forgotten else snapshot.learned_history(user)
        if learned is not None:
            history = np.union1d(learned, history).astype(np.int32)
        return history, unknown, stored

    # ---- users ------------------------------------------------------------------------------------------------

    def add_events(self, pairs: list[tuple[str, str]]) -> tuple[Future[int], schemas.EventsKept]:
        """Store events: the response is true once the future is done, which says how many were new."""
        _, unknown = self.watcher.current.find_items(list(dict.fromkeys(item for _, item in pairs)))
        return self.events.add(pairs), schemas.EventsKept(events=len(set(pairs)), new=0, unknown_items=unknown)

    def user_history(self, user: str) -> schemas.UserHistory | None:
        """The complete history of a user; None when nothing is known of them."""
        snapshot = self.watcher.current
        history, unknown, stored = self._history(snapshot, user)
        low = _NO_ITEMS if stored.forgotten else snapshot.seen(user)
        if not len(history) and not unknown and not len(low):
            return None
        when = dict(stored.events)
        entries = [
            schemas.Entry(
                item_id=text, name=name, in_model=True, popularity=count, popularity_rank=number + 1, at=when.get(text)
            )
            for number, text, name, count in _labels(snapshot, history)
        ]
        entries += [
            schemas.Entry(item_id=text, name=text, in_model=False, popularity=0, popularity_rank=None, at=when[text])
            for text in unknown
        ]
        entries.sort(key=lambda entry: entry.at or 0)
        return schemas.UserHistory(user_id=user, items=entries, low_rated=snapshot.item_texts(low))

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
        numbers = snapshot.name_index.find(query, n) if query.strip() else np.arange(min(n, m), dtype=np.int32)
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
        return schemas.SimilarItems(item_id=text, name=snapshot.names.name(number), items=found)

    def curve(self) -> schemas.Curve:
        """The long tail of the catalogue."""
        ranks, counts = self.watcher.current.curve
        return schemas.Curve(ranks=ranks, counts=counts)

    def model(self) -> schemas.Model:
        """About the model in use."""
        return schemas.Model(**self.watcher.current.about())


def _labels(snapshot: ModelSnapshot, numbers: NDArray[np.int32]) -> Iterator[tuple[int, str, str, int]]:
    """(number, id, name, popularity) of items by inside number."""
    popularity = snapshot.catalogue.popularity[numbers].astype(np.int64).tolist()
    texts, names = snapshot.item_texts(numbers), snapshot.item_names(numbers)
    return zip(numbers.tolist(), texts, names, popularity, strict=True)


def _items(snapshot: ModelSnapshot, numbers: NDArray[np.int32]) -> list[schemas.Item]:
    details = snapshot.names.details
    return [
        schemas.Item(item_id=text, name=name, popularity=count, popularity_rank=number + 1, details=details(number))
        for number, text, name, count in _labels(snapshot, numbers)
    ]


def _response(
    snapshot: ModelSnapshot, user: str | None, ranked: RankedList, unknown: list[str]
) -> schemas.RecommendationList:
    scores, reasons, details = ranked.scores.tolist(), ranked.reasons, snapshot.names.details
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
    texts, names = snapshot.item_texts(reason.items), snapshot.item_names(reason.items)
    parts = [
        schemas.Contribution(item_id=text, name=name, contribution=part)
        for text, name, part in zip(texts, names, reason.contributions.tolist(), strict=True)
    ]
    others = schemas.Other(items=reason.others, contribution=reason.others_contribution)
    return schemas.Why(contributions=parts, others=others, global_term=reason.global_term)
