"""From a request to its response: the model's history of a user and the live one are one history.

Everything here is plain Python that may wait or compute; the API calls it from threads.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from komd.errors import InputError
from komd.serve import request_context, schemas
from komd.serve.candidate_masks import ItemRules
from komd.serve.event_records import NewEvent, StoredEvent, StoredHistory
from komd.serve.event_store import EventStore
from komd.serve.id_text import users_beginning
from komd.serve.model_arms import Arm, ModelArms
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.publication import LearnedState
from komd.serve.recommendation_id import ARMS, UNASSIGNED, RecommendationIds, today
from komd.serve.report_counts import Impressions, released, wilson
from komd.serve.request_cost import LargeRequest, check_batch
from komd.serve.response_rows import entries_of, entry_event, items_of, list_of, unknown_entry
from komd.serve.serve_settings import Settings
from komd.serve.user_row import UserRow

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

    def __init__(self, arms: ModelArms, events: EventStore, settings: Settings, rules: ItemRules) -> None:
        self.arms = arms
        self.watcher = arms.main.watcher
        self.rules = rules
        self.events = events
        self.limits = settings.limits
        self._types = settings.events
        self._ids = RecommendationIds(events.derived_key("recommendation"))
        self.impressions = Impressions()
        self._forgotten_seq = 0  # of the last commit that forgot a user, as far as it was noticed
        self._clear_again = False  # whether that was a moment ago

    # ---- recommending -----------------------------------------------------------------------------------------

    def cost(self, ask: schemas.Ask) -> float:
        """About how many operations a request with a posted history takes."""
        return self.arms.of(ask.assigned_by).watcher.current.cost.of(ask, len(ask.history or ()))

    def recommend(self, ask: schemas.Ask, most: float = math.inf) -> dict[str, Any]:
        """The list of one user, a `schemas.RecommendationList`. Raises LargeRequest if it is more work than `most`."""
        return self.recommend_all([ask], most)[0]

    def recommend_all(self, asks: list[schemas.Ask], most: float = math.inf) -> list[dict[str, Any]]:
        """The lists of several users, as `answers` gives them, in the order of the requests."""
        return [answer for _, answer in sorted(self.answers(asks, most), key=lambda each: each[0])]

    def answers(self, asks: list[schemas.Ask], most: float = math.inf) -> Iterator[tuple[int, dict[str, Any]]]:
        """The lists of several users, all of an arm by the same model, each with the number of its request.

        Requests with the same options are ranked together, and their lists come together. Raises BatchTooLarge if all
        is too much work for one batch, LargeRequest if it is more than `most`.
        """
        snapshots, context = [arm.watcher.current for arm in self.arms.all], request_context.current()
        releases = [arm.watcher.reported_release for arm in self.arms.all]
        now = time.time_ns() // 1000
        arms = [self.arms.of(ask.assigned_by) for ask in asks]
        # Too large by what was posted alone: refused before anything is looked up.
        check_batch(
            [snapshots[arm.number].cost.of(ask, len(ask.history or ())) for arm, ask in zip(arms, asks, strict=True)]
        )
        users, costs = [], []
        for arm, ask in zip(arms, asks, strict=True):
            context.check()
            users.append(self._known_of(snapshots[arm.number], ask))
            costs.append(snapshots[arm.number].cost.of(ask, len(users[-1].row.items)))
        if sum(costs) > most:
            raise LargeRequest
        check_batch(costs)
        groups: dict[Any, list[int]] = {}
        for k, ask in enumerate(asks):
            groups.setdefault((arms[k].number, ask.options()), []).append(k)
        for group in groups.values():
            ask, arm = asks[group[0]], arms[group[0]]
            snapshot = snapshots[arm.number]
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
                rules=ask.rules,
                costs=[costs[k] for k in group],
            )
            for k, ranked in zip(group, lists, strict=True):
                context.check()
                unknown = dict.fromkeys([*users[k].unknown, *allow_unknown, *deny_unknown])
                given_out = self._given_out(asks[k], releases[arm.number], arm.number, len(ranked.items))
                yield k, list_of(snapshot, arm, asks[k].user, ranked, list(unknown), given_out)

    def _given_out(self, ask: schemas.Ask, release: str, arm: int, items: int) -> str:
        """Count a list that is given out; its id."""
        if self.arms.share and ask.assigned_by is None:
            arm = UNASSIGNED
        self.impressions.count(release, arm, items, reported=ask.impression)
        return self._ids.new(release, arm)

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
        least = [event.least for event in choices]
        row = row.joined(of_kind["chosen"], weights, times, of_kind["disliked"], of_kind["withdrawn"], least)
        unknown = [
            event
            for number, event in zip(numbers, stored.events, strict=True)
            if number < 0 and event.kind != "withdrawn"
        ]
        return _JoinedHistory(row, stored, unknown)

    # ---- users ------------------------------------------------------------------------------------------------

    def add_events(self, posted: list[schemas.Event]) -> tuple[Future[int], schemas.EventsKept]:
        """Store events: the response is true once the future is done, which says how many were new."""
        events, unattributed = self._new_events(posted)
        _, unknown = self.watcher.current.find_items(list(dict.fromkeys(event.item for event in events)))
        kept = schemas.EventsKept(
            events=len({event[:2] for event in events}),
            new=0,
            unknown_items=unknown,
            event_ids=[self.events.event_id(event) for event in events],
            unattributed=unattributed,
        )
        return self.events.add(events, kept.event_ids), kept

    def _new_events(self, posted: list[schemas.Event]) -> tuple[list[NewEvent], int]:
        """The events to store, and how many of them name a recommendation that is none of this service's."""
        events, unattributed = [], 0
        for k, each in enumerate(posted):
            try:
                event = each.new_event(self._types)
            except ValueError as error:
                raise InputError(f"events.{k}.{error}") from error
            if event.recommendation is not None and not self._ids.verified(event.recommendation):
                event = event._replace(recommendation=None)
                unattributed += 1
            events.append(event)
        return events, unattributed

    def user_history(self, user: str) -> schemas.UserHistory | None:
        """Everything that is known of a user; None when nothing is."""
        snapshot = self.watcher.current
        row, stored, unknown = self._joined(snapshot, user)
        if not len(row.items) + len(row.dislikes) + len(row.seen) + len(unknown):
            return None
        posted = {event.item: event for event in stored.events}
        by_item: dict[str, list[schemas.EntryEvent]] = {}
        for each in self.events.logged(user, newest=self.limits.stored) if posted else ():
            by_item.setdefault(each.item, []).append(entry_event(each))
        history = entries_of(snapshot, row.items, posted, row.weights, row.times)
        history += [unknown_entry(event) for event in unknown if event.kind == "chosen"]
        disliked = entries_of(snapshot, row.dislikes, posted)
        disliked += [unknown_entry(event) for event in unknown if event.kind == "disliked"]
        for entries in (history, disliked):
            entries.sort(key=lambda entry: entry.at or 0)
            for entry in entries:
                entry.events = by_item.get(entry.item_id, [])
        low = snapshot.item_texts(row.seen)
        return schemas.UserHistory(user_id=user, items=history, low_rated=low, disliked=disliked)

    def user_ids(self, prefix: str, n: int) -> list[str]:
        """Up to n user ids with this prefix: those of the model and those of the store, without the forgotten."""
        learned = users_beginning(self.watcher.current.catalogue.users, prefix, 2 * n)
        forgotten = self.events.among_forgotten(learned)
        stored = self.events.users(prefix, n)
        return list(dict.fromkeys([user for user in learned if user not in forgotten] + stored))[:n]

    def drop_forgotten(self) -> None:
        """Keep no weights of users who were forgotten, by whichever process.

        The caches do not say whose weights they hold, so they are emptied, and once more a moment later: a request that
        had read the user's history already may have added to them. Answers never depend on it.
        """
        last = self.events.last_forgotten()
        noticed = last > self._forgotten_seq
        if noticed or self._clear_again:
            for arm in self.arms.all:
                arm.watcher.current.weights.clear()
        self._forgotten_seq, self._clear_again = last, noticed

    # ---- reports ----------------------------------------------------------------------------------------------

    def report(self, days: int) -> schemas.Report:
        """What the lists of the last days led to."""
        first = today() - days + 1
        found = []
        for counts in released(self.events.report(first)):
            # Lists may be missing: a worker that was killed had not counted its last ones. And a list is clicked again
            # if the user whose click it was is forgotten.
            lists = max(counts.impressions, counts.clicked)
            rate = counts.clicked / lists if counts.impressions else None
            low, high = wilson(counts.clicked, lists)
            found.append(
                schemas.ArmReport(**counts._asdict() | {"arm": ARMS[counts.arm]}, rate=rate, low=low, high=high)
            )
        since = datetime.date(1970, 1, 1) + datetime.timedelta(days=first)
        return schemas.Report(days=days, since=since, releases=found)

    # ---- items ------------------------------------------------------------------------------------------------

    def search(self, query: str, n: int) -> list[schemas.Item]:
        """Items by name, or the most popular ones for an empty query."""
        snapshot = self.watcher.current
        m = len(snapshot.catalogue.order)
        numbers = snapshot.search(query, n) if query.strip() else np.arange(min(n, m), dtype=np.int32)
        return items_of(snapshot, numbers)

    def item(self, text: str) -> schemas.Item | None:
        """One item; None when the model does not know it."""
        snapshot = self.watcher.current
        return next(iter(items_of(snapshot, snapshot.find_items([text])[0])), None)

    def set_available(self, states: dict[str, bool]) -> tuple[Future[int], schemas.AvailabilityKept]:
        """Store which items are available: the response is true once the future is done, which says how many changed.

        `read_availability` makes it hold for the lists of this process.
        """
        _, unknown = self.watcher.current.find_items(list(states))
        kept = schemas.AvailabilityKept(items=len(states), changed=0, unknown_items=unknown)
        return self.events.set_available(states), kept

    def read_availability(self) -> None:
        """Take in what any process stored of the availability of items."""
        self.rules.availability.read(self.events)

    def similar(self, text: str, n: int, include_unavailable: bool = False) -> schemas.SimilarItems | None:
        """The items most similar to one; None when the model does not know it."""
        snapshot = self.watcher.current
        number = int(snapshot.item_numbers([text])[0])
        if number < 0:
            return None
        near, similarities = snapshot.model.nearest_items(number, n + snapshot.masks.unavailable())
        if not include_unavailable:
            available = np.array(snapshot.masks.available(near), np.bool_)
            near, similarities = near[available], similarities[available]
        near, similarities = near[:n], similarities[:n]
        found = [
            schemas.Similar(**item.model_dump(), similarity=similarity)
            for item, similarity in zip(items_of(snapshot, near), similarities.tolist(), strict=True)
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
        states = [arm.watcher.learned for arm in self.arms.all]  # first: nobody has learned more than is stored
        stored = self.events.last_seq()
        main, *others = (_learned(arm, state, stored) for arm, state in zip(self.arms.all, states, strict=True))
        unlearned = [found["unlearned_seq"] for found in (main, *others)]
        lowest = None if None in unlearned else min(unlearned)
        candidate = schemas.ArmLearning(**others[0]) if others and self.watcher.learned is not None else None
        return schemas.Learning(
            **main | {"unlearned_seq": lowest},
            learning=self.watcher.learned is not None,
            stored_seq=stored,
            candidate=candidate,
        )

    def seconds_behind(self) -> float:
        """The age of the oldest stored event that a model in use has not learned; 0 if all have all."""
        states = [arm.watcher.learned for arm in self.arms.all]
        reached = min((state.seq for state in states if state is not None), default=None)
        oldest = None if reached is None else self.events.pending(reached).oldest
        return 0.0 if oldest is None else max(time.time() - oldest / 1000, 0.0)

    def has_unlearned(self, seq: int) -> bool:
        """Whether users forgotten by this commit are in no model any more."""
        states = [arm.watcher.learned for arm in self.arms.all]
        return all(state is not None and min(state.seq, state.unlearned_seq) >= seq for state in states)

    # ---- the candidate ----------------------------------------------------------------------------------------

    def candidate(self) -> schemas.CandidateModel:
        """About the candidate and what was decided of it."""
        found = self.arms.state()
        if found is None:
            return schemas.CandidateModel(state="none")
        arm, state = found
        snapshot, share = arm.watcher.current, self.arms.share
        return schemas.CandidateModel(
            state=state.decision,
            model=snapshot.model.text,
            version=snapshot.version,
            share=share,
            users=round(share * len(self.watcher.current.catalogue.users)),
            since=state.since,
        )


def _learned(arm: Arm, state: LearnedState | None, stored: int) -> dict[str, Any]:
    """What the model of an arm has learned of a store with so many commits."""
    return {
        "model": arm.watcher.current.version,
        "learned_seq": None if state is None else state.seq,
        "behind": state is not None and state.seq < stored,
        "learned_at": None if state is None else state.at,
        "skipped": 0 if state is None else state.skipped,
        "unlearned_seq": None if state is None else state.unlearned_seq,
    }
