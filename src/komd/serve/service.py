"""People and items as a service sees them: the model's histories and the live ones are one history.

Everything here is plain Python that may wait or compute; the API calls it from threads.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.serve.event_store import Events, Stored
from komd.serve.hot_reload import Live
from komd.serve.id_text import users_beginning
from komd.serve.model_snapshot import Ranked, Shelf
from komd.serve.schemas import (
    Ask,
    Contribution,
    Curve,
    Entry,
    EventsKept,
    Item,
    Model,
    Other,
    Person,
    Recommendation,
    Recommendations,
    Similar,
    SimilarItems,
    Why,
)
from komd.serve.serve_settings import Limits

__all__ = ["Service"]


_NOTHING = np.zeros(0, np.int32)


@dataclass(frozen=True)
class _Asked:
    """One person's question in inside numbers."""

    row: NDArray[np.int32]
    unknown: list[str]
    seen: NDArray[np.int32]  # what they know besides


class Service:
    """What the API answers with."""

    def __init__(self, live: Live, events: Events, limits: Limits) -> None:
        self.live = live
        self.events = events
        self.limits = limits

    # ---- recommending -----------------------------------------------------------------------------------------

    def recommend(self, ask: Ask) -> Recommendations:
        """The list of one person."""
        return self.recommend_all([ask])[0]

    def recommend_all(self, asks: list[Ask]) -> list[Recommendations]:
        """The lists of several people, all by the same model. Those who ask in the same way are scored together."""
        shelf = self.live.current
        asked = [self._asked(shelf, ask) for ask in asks]
        alike: dict[Any, list[int]] = {}
        for place, ask in enumerate(asks):
            alike.setdefault(ask.manner(), []).append(place)
        answers: dict[int, Recommendations] = {}
        for places in alike.values():
            ask = asks[places[0]]
            allow, allow_unknown = self._listed(shelf, ask.allowed)
            deny, deny_unknown = self._listed(shelf, ask.denied)
            lists = shelf.recommend(
                [asked[place].row for place in places],
                seen=[asked[place].seen for place in places],
                n=ask.n,
                exclude_seen=ask.exclude_seen,
                allow=allow,
                deny=deny,
                max_popularity=ask.max_popularity,
                reasons=ask.reasons if ask.explain else None,
            )
            for place, ranked in zip(places, lists, strict=True):
                unknown = [*asked[place].unknown, *allow_unknown, *deny_unknown]
                answers[place] = _answer(shelf, asks[place], ranked, list(dict.fromkeys(unknown)))
        return [answers[place] for place in range(len(asks))]

    def _asked(self, shelf: Shelf, ask: Ask) -> _Asked:
        if ask.user is not None:
            row, unknown, stored = self._history(shelf, ask.user)
            forgotten = stored.forgotten or not ask.exclude_low_rated
            return _Asked(row, unknown, _NOTHING if forgotten else shelf.seen(ask.user))
        texts = ask.chosen
        numbers = shelf.item_numbers(texts)
        return _Asked(numbers[numbers >= 0], [t for t, k in zip(texts, numbers, strict=True) if k < 0], _NOTHING)

    def _history(self, shelf: Shelf, user: str) -> tuple[NDArray[np.int32], list[str], Stored]:
        """The one history of a person: what the model holds, unless forgotten, and what came since."""
        stored = self.events.person(user, newest=self.limits.stored)
        texts = [item for item, _ in stored.events]
        numbers = shelf.item_numbers(texts)
        unknown = [text for text, number in zip(texts, numbers, strict=True) if number < 0]
        learned = None if stored.forgotten else shelf.learned(user)
        row = numbers[numbers >= 0]
        return (row if learned is None else np.union1d(learned, row).astype(np.int32)), unknown, stored

    @staticmethod
    def _listed(shelf: Shelf, texts: list[str] | None) -> tuple[NDArray[np.int32] | None, list[str]]:
        if texts is None:
            return None, []
        numbers = shelf.item_numbers(texts)
        return numbers[numbers >= 0], [text for text, number in zip(texts, numbers, strict=True) if number < 0]

    # ---- people -----------------------------------------------------------------------------------------------

    def keep(self, pairs: list[tuple[str, str]]) -> tuple[Future[int], EventsKept]:
        """Keep events: the answer is true once the future is done, which says how many were new."""
        items = list(dict.fromkeys(item for _, item in pairs))
        numbers = self.live.current.item_numbers(items)
        unknown = [item for item, number in zip(items, numbers, strict=True) if number < 0]
        return self.events.add(pairs), EventsKept(events=len(set(pairs)), new=0, unknown_items=unknown)

    def person(self, user: str) -> Person | None:
        """Somebody's whole history; None when nothing is known of them."""
        shelf = self.live.current
        row, unknown, stored = self._history(shelf, user)
        low = _NOTHING if stored.forgotten else shelf.seen(user)
        if not len(row) and not unknown and not len(low):
            return None
        when = dict(stored.events)
        texts = shelf.item_texts(row)
        known = [_entry(shelf, int(k), text, when.get(text)) for k, text in zip(row, texts, strict=True)]
        strange = [_stranger(text, when[text]) for text in unknown]
        entries = sorted(known + strange, key=lambda entry: entry.at or 0)
        return Person(user_id=user, items=entries, low_rated=shelf.item_texts(low))

    def people(self, prefix: str, n: int) -> list[str]:
        """Up to n ids of people that begin so: those of the model and those of the store, without the forgotten."""
        shelf = self.live.current
        learned = users_beginning(shelf.catalogue.users, prefix, 2 * n)
        gone = self.events.among_forgotten(learned)
        live = self.events.users(prefix, n)
        return list(dict.fromkeys([user for user in learned if user not in gone] + live))[:n]

    # ---- items ------------------------------------------------------------------------------------------------

    def search(self, query: str, n: int) -> list[Item]:
        """Items by name, or the most popular ones when nothing is typed."""
        shelf = self.live.current
        m = len(shelf.catalogue.order)
        numbers = shelf.search.find(query, n) if query.strip() else np.arange(min(n, m), dtype=np.int32)
        return [_item(shelf, int(k), text) for k, text in zip(numbers, shelf.item_texts(numbers), strict=True)]

    def item(self, text: str) -> Item | None:
        """One item; None when the model does not know it."""
        shelf = self.live.current
        number = int(shelf.item_numbers([text])[0])
        return _item(shelf, number, text) if number >= 0 else None

    def similar(self, text: str, n: int) -> SimilarItems | None:
        """The items most like one; None when the model does not know it."""
        shelf = self.live.current
        number = int(shelf.item_numbers([text])[0])
        if number < 0:
            return None
        near, likeness = shelf.similar(number, n)
        found = [
            Similar(**_item(shelf, int(k), one).model_dump(), similarity=float(like))
            for k, one, like in zip(near, shelf.item_texts(near), likeness, strict=True)
        ]
        return SimilarItems(item_id=text, name=shelf.names.name(number), items=found)

    def curve(self) -> Curve:
        """The long tail of the catalogue."""
        ranks, counts = self.live.current.curve
        return Curve(ranks=ranks, counts=counts)

    def model(self) -> Model:
        """About the model."""
        return Model(**self.live.current.about())


def _item(shelf: Shelf, number: int, text: str) -> Item:
    return Item(
        item_id=text,
        name=shelf.names.name(number),
        popularity=int(shelf.catalogue.popularity[number]),
        popularity_rank=number + 1,
        details=shelf.names.details(number),
    )


def _entry(shelf: Shelf, number: int, text: str, at: int | None) -> Entry:
    return Entry(
        item_id=text,
        name=shelf.names.name(number),
        in_model=True,
        popularity=int(shelf.catalogue.popularity[number]),
        popularity_rank=number + 1,
        at=at,
    )


def _stranger(text: str, at: int) -> Entry:
    """An item the model does not know."""
    return Entry(item_id=text, name=text, in_model=False, popularity=0, popularity_rank=None, at=at)


def _answer(shelf: Shelf, ask: Ask, ranked: Ranked, unknown: list[str]) -> Recommendations:
    numbers = ranked.items.tolist()
    texts, names = shelf.item_texts(ranked.items), shelf.item_names(ranked.items)
    popularity, scores = shelf.catalogue.popularity[ranked.items].tolist(), ranked.scores.tolist()
    rows = []
    for k, number in enumerate(numbers):
        rows.append(
            Recommendation(
                item_id=texts[k],
                name=names[k],
                rank=k + 1,
                score=scores[k],
                popularity=int(popularity[k]),
                popularity_rank=number + 1,
                details=shelf.names.details(number),
                why=None if ranked.reasons is None else _why(shelf, ranked, k),
            )
        )
    return Recommendations(
        user_id=ask.user, items=rows, fallback=ranked.fallback, unknown_items=unknown, model=shelf.version
    )


def _why(shelf: Shelf, ranked: Ranked, k: int) -> Why:
    assert ranked.reasons is not None
    reason = ranked.reasons[k]
    texts, names = shelf.item_texts(reason.items), shelf.item_names(reason.items)
    parts = [
        Contribution(item_id=text, name=name, contribution=part)
        for text, name, part in zip(texts, names, reason.contributions.tolist(), strict=True)
    ]
    others = Other(items=reason.others, contribution=reason.others_contribution)
    return Why(contributions=parts, others=others, global_term=reason.global_term)
