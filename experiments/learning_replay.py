"""The day itself: events come one after another, contenders are asked before each, and learn or are refitted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import komd
from komd.engine.saved_catalogue import catalogue_arrays

NIGHT, LEARNING, OTHERS = "the night before", "learning", "learning from others"
REFITS = {NIGHT: 24, "every 3 hours": 3, "every hour": 1}
"""Hours from one fit from scratch to the next, by contender. LEARNING learns; OTHERS without the user's own events."""
BEFORE = 5  # the first fifth of the events is fitted before the day
HOURS = 24
BATCH = 10  # events that are learned, and published, together
SAMPLE = 20  # one event in so many is asked of OTHERS
ASKED = 500  # lists asked of a model at a time
N = 20

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stream:
    """Events in their order, as ids; `rank` is how many earlier events the user of each has."""

    users: list[Any]
    items: list[Any]
    rank: NDArray[np.int64]
    of_user: dict[Any, list[Any]]
    sampled: NDArray[np.bool_]
    """The events at which OTHERS is asked: a random sample of the day's."""

    @staticmethod
    def of(data: komd.Interactions, seed: int = 0) -> Stream:
        """Events by time; of equal times in an order drawn once, so that the order of the file tells nothing."""
        assert data.times is not None
        rng = np.random.default_rng(seed)
        order = np.lexsort((rng.random(data.pairs), data.times))
        users, items = data.users.take(data.rows[order]).to_pylist(), data.items.take(data.indices[order]).to_pylist()
        of_user: dict[Any, list[Any]] = {}
        rank = np.zeros(len(users), np.int64)
        for event, (user, item) in enumerate(zip(users, items, strict=True)):
            own = of_user.setdefault(user, [])
            rank[event] = len(own)
            own.append(item)
        return Stream(users, items, rank, of_user, rng.random(len(users)) < 1 / SAMPLE)

    def __len__(self) -> int:
        return len(self.users)

    @property
    def start(self) -> int:
        """The first event of the day."""
        return len(self) // BEFORE

    def hour(self, hour: int) -> int:
        """The first event of an hour of the day; that of hour 24 is the end."""
        return self.start + (len(self) - self.start) * hour // HOURS

    def pairs(self, begin: int, end: int) -> list[tuple[Any, Any]]:
        return list(zip(self.users[begin:end], self.items[begin:end], strict=True))

    def histories(self, begin: int, end: int) -> dict[int, list[Any]]:
        """What the user of each event has chosen before it, by event; without users who come for the first time."""
        events = (begin + np.flatnonzero(self.rank[begin:end])).tolist()
        return {event: self.of_user[self.users[event]][: self.rank[event]] for event in events}


@dataclass(eq=False)
class Record:
    """What one contender did, by event: NaN where it was not asked.

    `hits` is whether the item was in the list; `unknown` whether the model did not know the item; `popular` whether it
    knew nothing of the history, so that the list was of popular items. `seconds` has each refit or update.
    """

    hits: Floats
    unknown: Floats
    popular: Floats
    seconds: list[float] = field(default_factory=list)

    @staticmethod
    def of(size: int) -> Record:
        return Record(np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan))


def replay(stream: Stream, text: str) -> dict[str, Record]:
    """The day, hour by hour, for every contender.

    At the end of each hour the learning model must equal a fit to all events so far: InputError if it does not.
    """
    records = {label: Record.of(len(stream)) for label in (*REFITS, LEARNING, OTHERS)}
    first = stream.pairs(0, stream.start)
    _fitted(text, first).update(added=stream.pairs(stream.start, stream.start + BATCH)).refresh()  # compiles
    learning = _fitted(text, first)
    models = dict.fromkeys(REFITS, _fitted(text, first))
    for hour in range(HOURS):
        begin, end = stream.hour(hour), stream.hour(hour + 1)
        for label, hours in REFITS.items():
            if hour and hour % hours == 0:
                clock = time.perf_counter()
                models[label] = _fitted(text, stream.pairs(0, begin))
                records[label].seconds.append(time.perf_counter() - clock)
            for low, high in _cut(begin, end, ASKED):
                ask(models[label], stream, low, high, records[label])
        for low, high in _cut(begin, end, BATCH):
            ask(learning, stream, low, high, records[LEARNING])
            _ask_others(learning, stream, low, high, records[OTHERS])
            pairs = stream.pairs(low, high)
            clock = time.perf_counter()
            learning.update(added=pairs).refresh()
            records[LEARNING].seconds.append(time.perf_counter() - clock)
        unequal = different(learning, _fitted(text, stream.pairs(0, end)))
        if unequal:
            raise komd.InputError(
                f"{text} that learned {end:,} events is not the model fitted to them: {', '.join(unequal)} differ; "
                "report this as a bug of update"
            )
    return records


def _ask_others(learning: Any, stream: Stream, begin: int, end: int, record: Record) -> None:
    """Ask at events of the sample, after unlearning all that the user of the event did."""
    for event in range(begin, end):
        if stream.sampled[event] and stream.rank[event]:
            model = learning.view().update(removed_users=[stream.users[event]], on_unknown="skip")
            ask(model, stream, event, event + 1, record)


def _fitted(text: str, pairs: list[tuple[Any, Any]]) -> Any:
    return komd.model_from_text(text).fit(pairs)


def _cut(begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    return ((low, min(low + size, end)) for low in range(begin, end, size))


def ask(model: Any, stream: Stream, begin: int, end: int, record: Record) -> None:
    """Ask for the lists of the users of these events, with their histories up to each; see what is in them."""
    histories = stream.histories(begin, end)
    if not histories:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FallbackWarning)
        lists = model.recommend(histories=histories, n=N, on_unknown="skip")
    events = np.fromiter(histories, np.int64)
    targets = [stream.items[event] for event in histories]
    record.unknown[events] = model.catalogue.find_items(targets, "skip") < 0
    record.popular[events] = record.hits[events] = 0.0
    record.popular[np.array(lists.fallback, np.int64)] = 1.0
    wanted = dict(zip(histories, targets, strict=True))
    columns = (lists.table.column(name).to_pylist() for name in ("user_id", "item_id"))
    found = [event for event, item in zip(*columns, strict=True) if wanted[event] == item]
    record.hits[np.array(found, np.int64)] = 1.0


def different(first: Any, second: Any) -> list[str]:
    """The names of arrays and ids that are not equal to the last bit."""
    (ours, our_ids), (theirs, their_ids) = (catalogue_arrays(model.catalogue) for model in (first, second))
    ours, theirs = ours | first.learned_arrays(), theirs | second.learned_arrays()
    names = [
        name
        for name in sorted(ours.keys() | theirs.keys())
        if name not in ours or name not in theirs or not _same(ours[name], theirs[name])
    ]
    return names + [name for name, ids in our_ids.items() if not ids.equals(their_ids[name])]


def _same(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
