"""From stored events to updates of a model: what changed in the store since, as statements about pairs.

The model that follows a store is always the one that its base (the model as it was fitted or saved) and the store's
present rows come to, whichever intermediate states of the store were read on the way, and however often:

- a pair that the base knows and that is chosen has the base's weight unless one was posted, raised to the least weight
  that the types of its events say, and the later time;
- a pair of which all events were withdrawn is what the base knows of it;
- what the base knows of users whom the store has forgotten is not used;
- an item that nobody chose any more is dropped, and with it what users dislike or have seen of it; when it comes back,
  so does that. The same goes for users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.data.encode import encode
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.engine.update_batch import CHOSEN, DISLIKED, NO_TIME, REMOVED, SEEN, UpdateBatch
from komd.engine.updates import Updatable
from komd.errors import InputError
from komd.serve.event_records import StoredChange
from komd.serve.event_store import EventStore
from komd.serve.id_text import ids_of, text_of, texts_of

__all__ = ["StoreFollower", "stored_batches", "stored_interactions"]

_BASE = -1  # of a pair of which no event is left: what the base knows holds
_KINDS = {"chosen": CHOSEN, "disliked": DISLIKED, "withdrawn": REMOVED, "none": _BASE}
_DIGITS = 16  # of a mark, in hexadecimal: 64 bits, by which users are found before the whole mark is compared

_Statement = tuple[Any, Any, int, float | None, int]
"""User, item, kind, weight and microseconds, as `UpdateBatch.of_events` takes them."""
_Said = tuple[Any, Any, int, float | None, int, float | None]
"""The same with the least weight."""


class StoreFollower:
    """Follows the commits of a store from the first on. `base` is what the model knew before it followed any.

    Examples
    --------
    Bring a model up to date with a store::

        follower = StoreFollower(events, model.catalogue)
        while (batch := follower.next_batch(model)) is not None:
            model.take_in(batch)
    """

    def __init__(self, events: EventStore, base: Catalogue) -> None:
        self._events = events
        self._base = base
        histories = base.histories
        self._valued = histories.weights is not None or histories.times is not None
        self._keys: dict[int, NDArray[np.int64]] = {}  # by kind: the pairs of the base
        self._marks: NDArray[np.uint64] | None = None
        self._came: dict[str, str | None] = {}  # the users of stored events and their marks, once these are asked for
        self._forgotten_rows: set[int] = set()  # of the base
        self._unchosen: dict[Any, dict[Any, int]] = {}  # by user and item: pairs of the store that are not chosen
        self.seq = 0
        """The number of the last commit that was given."""
        self.events = 0
        """How many changes were read."""
        self.skipped = 0
        """How many changes could not be learned: a text in them is no id of the model's kind."""

    def next_batch(self, model: Updatable, *, limit: int = 100_000) -> UpdateBatch | None:
        """What the next commits changed, for the model that took in all batches before; None if there are none."""
        changes = self._events.changes(self.seq, limit=limit)
        if changes.seq <= self.seq:
            return None
        self.seq = changes.seq
        gone = self._forget(changes.forgotten)
        self.events += len(changes.events)
        said = self._returned(self._learnable(changes.events))
        like = self._base.users.type, self._base.items.type
        return UpdateBatch.of_events([*self._restated(model, said), *self._exact(said)], gone, like)

    @property
    def forgotten_users(self) -> list[Any]:
        """The ids of the base's users who are forgotten by the commits so far."""
        rows = np.array(sorted(self._forgotten_rows), np.int64)
        return list(self._base.users.take(rows).to_pylist())

    # ---- events -----------------------------------------------------------------------------------------------

    def _learnable(self, events: Sequence[StoredChange]) -> list[_Said]:
        """The events as statements, without those whose texts are no ids of the base's kinds."""
        users = ids_of(self._base.users, [event.user for event in events])
        items = ids_of(self._base.items, [event.item for event in events])
        said = []
        for event, user, item in zip(events, users, items, strict=True):
            if user is None or item is None:
                self.skipped += 1
                continue
            kind = _KINDS[event.kind]
            said.append((user, item, kind, event.weight, 1000 * event.time, event.least))
            self._came.setdefault(event.user, None)
            if kind in (CHOSEN, _BASE):
                self._unchosen.get(user, {}).pop(item, None)
            else:
                self._unchosen.setdefault(user, {})[item] = kind
        return said

    def _returned(self, said: list[_Said]) -> list[_Said]:
        """The statements, where those of pairs without events say what the base knows."""
        places = [k for k, each in enumerate(said) if each[2] == _BASE]
        if not places:
            return said
        kinds = np.full(len(places), REMOVED)
        for kind in (SEEN, DISLIKED, CHOSEN):
            kinds[self._base_places([said[k] for k in places], kind) >= 0] = kind
        found: list[_Said] = []
        returning = dict(zip(places, kinds.tolist(), strict=True))
        for k, each in enumerate(said):
            if k in returning:
                user, item = each[:2]
                found.append((user, item, REMOVED, None, NO_TIME, None))
                if returning[k] != REMOVED:
                    found.append((user, item, returning[k], None, NO_TIME, None))
            else:
                found.append(each)
        return found

    def _exact(self, said: list[_Said]) -> Iterable[_Statement]:
        """The statements, such that what the model learned of a pair before makes no difference."""
        if not self._valued:
            return [each[:5] for each in said]
        weights, times = self._base_values(said)
        exact: list[_Statement] = []
        for (user, item, kind, weight, time, least), held, moment in zip(
            said, weights.tolist(), times.tolist(), strict=True
        ):
            exact.append((user, item, REMOVED, None, time))
            if kind != REMOVED:
                if weight is None:
                    weight = held if least is None else max(held, least)
                exact.append((user, item, kind, weight or 1.0, max(time, moment)))
        return exact

    def _base_values(self, said: list[_Said]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Weights and times that the base has of these pairs: 0 and NO_TIME where it does not know them as chosen."""
        histories = self._base.histories
        weights, times = np.zeros(len(said)), np.full(len(said), NO_TIME)
        at = self._base_places(said, CHOSEN)
        held = np.flatnonzero(at >= 0)
        weights[held] = 1.0 if histories.weights is None else histories.weights[at[held]]
        if histories.times is not None:
            times[held] = histories.times[at[held]]
        return weights, times

    def _base_places(self, said: list[_Said], kind: int) -> NDArray[np.int64]:
        """Where the base has these pairs among those of this kind; -1 where it does not, or the user is forgotten."""
        base, histories = self._base, self._base.histories
        if kind not in self._keys:
            part = {CHOSEN: histories, DISLIKED: histories.dislikes, SEEN: histories.seen}[kind]
            self._keys[kind] = np.zeros(0, np.int64) if part is None else part.keys
        held = self._keys[kind]
        if not len(held):
            return np.full(len(said), -1)
        rows = _numbers(base.users, [each[0] for each in said])
        columns = _numbers(base.items, [each[1] for each in said])
        known = (rows >= 0) & (columns >= 0) & ~np.isin(rows, list(self._forgotten_rows))
        keys = np.where(known, rows << 32 | base.inside[columns], -1)
        at = np.minimum(np.searchsorted(held, keys), len(held) - 1)
        return np.where(known & (held[at] == keys), at, -1)

    def _restated(self, model: Updatable, said: list[_Said]) -> list[_Statement]:
        """What else is known of users and items that come, or come back, with these statements.

        Models drop what users dislike or have seen of an item that nobody chose, and all of users who chose nothing.
        """
        histories = self._base.histories
        parts = ((SEEN, histories.seen), (DISLIKED, histories.dislikes))
        others = [(kind, part) for kind, part in parts if part is not None]
        if not self._unchosen and not others:
            return []
        chosen = [each for each in said if each[2] == CHOSEN]
        catalogue = model.catalogue
        users, items = (
            _unknown(ids, [each[k] for each in chosen]) for k, ids in enumerate((catalogue.users, catalogue.items))
        )
        if not users and not items:
            return []
        rows = _numbers(self._base.users, users)
        numbers = _numbers(self._base.items, items)
        columns = self._base.inside[numbers[numbers >= 0]]
        found: list[_Statement] = []
        for kind, part in others:
            keys = part.keys
            keys = keys[np.isin(keys >> 32, rows) | np.isin(keys & 0xFFFFFFFF, columns)]
            keys = keys[~np.isin(keys >> 32, list(self._forgotten_rows))]
            pairs = zip(
                self._base.users.take(keys >> 32).to_pylist(),
                self._base.item_ids((keys & 0xFFFFFFFF).astype(np.int32)).to_pylist(),
                strict=True,
            )
            found += [(*pair, kind, None, NO_TIME) for pair in pairs if pair[1] not in self._unchosen.get(pair[0], ())]
        returning, back = set(users), set(items)
        found += [
            (user, item, kind, None, NO_TIME)
            for user, pairs_of in self._unchosen.items()
            for item, kind in pairs_of.items()
            if kind == DISLIKED and (item in back or user in returning)
        ]
        return found

    # ---- forgotten users --------------------------------------------------------------------------------------

    def _forget(self, marks: list[str]) -> list[Any]:
        """The ids of the users with these marks, as far as the model can know them."""
        if not marks:
            return []
        wanted = set(marks)
        if self._marks is None:
            digits = [self._events.mark(text)[:_DIGITS] for text in texts_of(self._base.users.values)]
            self._marks = np.array([int(some, 16) for some in digits], np.uint64)
        near = np.flatnonzero(np.isin(self._marks, np.array([int(mark[:_DIGITS], 16) for mark in marks], np.uint64)))
        gone = []
        for row in near.tolist():
            user = self._base.users[row]
            if self._events.mark(text_of(user)) in wanted:
                self._forgotten_rows.add(row)
                gone.append(user)
        for text, mark in self._came.items():
            if mark is None:
                self._came[text] = self._events.mark(text)
        came = [text for text, mark in self._came.items() if mark in wanted]
        for text in came:
            del self._came[text]
        gone = list(dict.fromkeys([*gone, *ids_of(self._base.users, came)]))
        for user in gone:
            self._unchosen.pop(user, None)
        return gone


def _numbers(ids: Ids, values: list[Any]) -> NDArray[np.int64]:
    """The numbers of ids of the same kind; -1 where there is none."""
    return ids.find(pa.array(values, ids.type), on_unknown="skip").astype(np.int64)


def _unknown(ids: Ids, values: list[Any]) -> list[Any]:
    """Those of the values that are none of the ids, each once."""
    distinct = list(dict.fromkeys(values))
    return [value for value, number in zip(distinct, _numbers(ids, distinct).tolist(), strict=True) if number < 0]


def stored_batches(events: EventStore, model: Updatable) -> Iterator[UpdateBatch]:
    """Updates that bring a model up to date with a store; each is to be taken in before the next is asked for."""
    follower = StoreFollower(events, model.catalogue)
    while (batch := follower.next_batch(model)) is not None:
        yield batch


def stored_interactions(events: EventStore) -> Interactions:
    """All that users chose, and what they dislike, as data to fit a model to. Ids are text; times are milliseconds.

    There are weights if any event has one, by itself or by its type; events without count 1. Dislikes are those of
    users who chose something, of items that somebody chose. InputError if nothing was chosen.
    """
    pairs: dict[tuple[str, str], StoredChange] = {}
    seq, more = 0, True
    while more:
        changes = events.changes(seq)
        if pairs and changes.forgotten:  # perhaps after what was read of them
            gone = set(changes.forgotten)
            gone_users = {user for user in {user for user, _ in pairs} if events.mark(user) in gone}
            pairs = {pair: event for pair, event in pairs.items() if pair[0] not in gone_users}
        pairs |= {event[:2]: event for event in changes.events}
        seq, more = changes.seq, changes.more
    chosen, disliked = ([event for event in pairs.values() if event.kind == kind] for kind in ("chosen", "disliked"))
    if not chosen:
        raise InputError(f"nobody chose anything in the store {events.name}: there is nothing to learn from")
    known = {event.user for event in chosen}, {event.item for event in chosen}
    held = chosen + [event for event in disliked if event.user in known[0] and event.item in known[1]]
    is_chosen = np.arange(len(held)) < len(chosen)
    users, rows = encode(pa.array([event.user for event in held], pa.string()), noun="user")
    items, columns = encode(pa.array([event.item for event in held], pa.string()), noun="item")
    weights = None
    given = [event.least if event.weight is None else event.weight for event in held]
    if any(weight is not None for weight in given[: len(chosen)]):
        weights = np.array([1.0 if weight is None else weight for weight in given])
    times = np.array([event.time for event in held], np.int64)
    return Interactions.from_numbers(
        users, items, rows, columns, times, is_chosen, weights=weights, time_unit="ms", disliked=~is_chosen
    )
