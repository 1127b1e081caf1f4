"""The log of events: what the events of a pair come to, against a slow twin, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore
from komd.serve.recommendation_id import RecommendationIds, recommendation_of

EXAMPLES = itertools.count()


@pytest.fixture
def events(store):
    opened = EventStore(store)
    yield opened
    opened.close()


class Clock:
    """A clock that goes on by a millisecond whenever it is read."""

    def __init__(self):
        self.now = 1_700_000_000_000

    def time_ns(self):
        self.now += 1
        return 1_000_000 * self.now

    def time(self):
        return self.now / 1000


class Twin:
    """What a store holds, recomputed from the list of its events whenever it is asked."""

    def __init__(self):
        self.held = []  # [id, event, effective time or None, stored at], in their order
        self.forgotten_counts = Counter()

    def of(self, user, item):
        return [each for each in self.held if each[1][:2] == (user, item) and each[1].kind != "ignored"]

    def state(self, user, item):
        """Kind, weight, least and time of the pair; None if no event says anything."""
        rows = self.of(user, item)
        if not rows:
            return None
        kind = rows[-1][1].kind
        before = [k for k, each in enumerate(rows) if each[1].kind != kind]
        rows = rows[before[-1] + 1 :] if before else rows
        weights = [event.weight for _, event, *_ in rows if event.weight is not None]
        least = [event.least for _, event, *_ in rows if event.least is not None]
        times = [rows[0][3] if rows[0][2] is None else rows[0][2]] + [each[2] for each in rows if each[2] is not None]
        return kind, weights[-1] if weights else None, max(least, default=None), max(times)

    def post(self, event_id, event, now):
        """Whether something new is said of the pair."""
        known = next((each for each in self.held if each[0] == event_id), None)
        if known is not None and (event.event_id is not None or event.kind == "ignored"):
            return False
        before = self.state(event.user, event.item)
        its_own = known is None and (event.type is not None or event.event_id is not None)
        new = (
            before is None
            or event.kind != before[0]
            or (event.weight is not None and event.weight != before[1])
            or (event.least is not None and (before[2] is None or event.least > before[2]))
            or (event.time is not None and event.time > before[3])
            or (its_own and event.time is None and now > before[3])
        )
        if event.kind == "ignored":
            new = False
        if known is not None and not new:
            return False
        when = event.time if event.time is not None else now if new or its_own else None
        if known is not None:
            self.held.remove(known)
            when = max(value for value in (when, known[2]) if value is not None)
        self.held.append([event_id, event, when, now])
        return new

    def counts(self, events=None):
        found, clicked = Counter(), set()
        for _, event, *_ in self.held if events is None else events:
            if event.recommendation is not None:
                found[f"event:{event.type or event.kind}"] += 1
                if event.kind == "chosen":
                    found["clicks"] += 1
                    clicked.add(event.recommendation)
        found["clicked"] = len(clicked)
        return found + (self.forgotten_counts if events is None else Counter())

    def forget(self, user):
        gone = [each for each in self.held if each[1].user == user]
        self.forgotten_counts += self.counts(gone)
        self.held = [each for each in self.held if each[1].user != user]


EVENT = st.builds(
    NewEvent,
    st.sampled_from("ab"),
    st.sampled_from(["i", "i", "j"]),
    st.sampled_from(["chosen", "chosen", "chosen", "disliked", "withdrawn", "ignored"]),
    st.none() | st.sampled_from([1.0, 2.5]),
    st.none() | st.sampled_from([10**12, 10**12 + 1, 1_800_000_000_000]),
    st.none() | st.sampled_from(["view", "purchase"]),
    st.none() | st.sampled_from([0.5, 4.0]),
    st.none() | st.sampled_from(["mine", "other"]),
    st.none() | st.sampled_from([0, 1]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.lists(EVENT, min_size=1, max_size=4)),
        st.tuples(st.just("again"), st.integers(0, 30)),
        st.tuples(st.just("again"), st.integers(0, 30)),
        st.tuples(st.just("withdraw"), st.integers(0, 30)),
        st.tuples(st.just("withdraw"), st.integers(0, 30)),
        st.tuples(st.just("forget"), st.sampled_from("ab")),
    ),
    min_size=1,
    max_size=16,
)


@given(STEPS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_come_to_what_the_twin_says(events, monkeypatch, steps):
    """Posts, posts of the same events again, withdrawals and forgotten users: states, log, answers and counts."""
    number = next(EXAMPLES)
    release, clock, twin, ids, sent = f"{number:012x}", Clock(), Twin(), [], []
    monkeypatch.setattr("komd.serve.event_log.time", clock)
    lists = [RecommendationIds(b"key").new(release, arm) for arm in (0, 1)]

    def placed(event):
        """In the part of the store that belongs to this example."""
        own = None if event.event_id is None else f"{event.event_id}-{event.user}-{number}"
        shown = None if event.recommendation is None else lists[event.recommendation]
        user = f"{event.user}-{number}"
        if event.recommendation is not None and event.user == "b":
            shown = None  # a list belongs to one user
        return event._replace(user=user, event_id=own, recommendation=shown)

    for what, given_ in steps:
        if what in ("post", "again"):
            if what == "again" and not sent:
                continue
            posted = [placed(event) for event in given_] if what == "post" else sent[given_ % len(sent)]
            sent.append(posted)
            answer = events.add(posted).result(20)
            new = [event[:2] for event in posted if twin.post(events.event_id(event), event, clock.now)]
            assert answer == len(set(new))
            ids += [events.event_id(event) for event in posted]
        elif what == "withdraw":
            if ids:
                one = ids[given_ % len(ids)]
                found = next((each for each in twin.held if each[0] == one), None)
                gone = events.withdraw(one).result(20)
                assert (gone is None) == (found is None)
                if found is not None:
                    assert gone[:2] == found[1][:2] and gone.seq == events.last_seq()
                    twin.held.remove(found)
        else:
            events.forget(f"{given_}-{number}").result(20)
            twin.forget(f"{given_}-{number}")
    for user in (f"a-{number}", f"b-{number}"):
        expected = {item: twin.state(user, item) for item in "ij"}
        found = {e.item: (e.kind, e.weight, e.least, e.time) for e in events.history(user).events}
        assert found == {item: state for item, state in expected.items() if state is not None}
        held = [each for each in twin.held if each[1].user == user]
        assert [(e.event_id, e.time) for e in events.logged(user)] == [(each[0], each[2]) for each in held]
    counted = Counter()
    for its_release, _, name, count in events.report(0):
        if its_release == release:
            counted[name] += count
    assert +counted == +twin.counts()


def logged(events, user="ana"):
    return [event.event_id for event in events.logged(user)]


def one(events, *what, **fields):
    event = NewEvent("ana", "i", *what, **fields)
    return events.event_id(event), events.add([event]).result(20)


def test_a_pair_without_events_is_what_the_model_knows(events):
    """The row stays, so that learners see it; it is in no history."""
    first, new = one(events)
    assert new == 1
    assert events.withdraw(first).result(20) == ("ana", "i", 3)
    assert events.history("ana").events == [] and events.users("", 10) == []
    (change,) = events.changes(2).events
    assert change.kind == "none"
    assert events.withdraw(first).result(20) is None and events.last_seq() == 3
    assert one(events) == (first, 1)  # posted again, it is there again
    assert [event.kind for event in events.history("ana").events] == ["chosen"]


def test_an_event_that_changes_no_pair_is_logged_and_numbered(events):
    view, _ = one(events, time=5, type="view")
    seq = events.last_seq()
    seen, new = one(events, "ignored", time=6, type="impression")
    assert new == 0 and events.last_seq() == seq + 1 and events.changes(seq).events == []
    assert logged(events) == [view, seen]


def test_an_id_of_the_client_is_taken_once(events):
    assert one(events, "chosen", 2.0, event_id="order/7") == ("order/7", 1)
    assert one(events, "chosen", 3.0, event_id="order/7") == ("order/7", 0)
    assert events.add([NewEvent("bo", "i", event_id="order/7")]).result(20) == 0
    assert events.history("ana").events[0].weight == 2.0 and events.history("bo").events == []


def test_a_weight_that_a_type_was_given_later_holds_when_others_are_withdrawn(events):
    """The same event is posted again after the configuration has changed."""
    one(events, time=5, type="view", least=0.5)
    one(events, time=5, type="view", least=2.0)
    other, _ = one(events, time=6)
    assert events.history("ana").events[0].least == 2.0
    events.withdraw(other).result(20)
    assert events.history("ana").events[0].least == 2.0


def test_ids_do_not_tell_who_and_differ_between_stores(events, tmp_path):
    other = EventStore(f"sqlite:///{tmp_path / 'other.db'}", key_file=tmp_path / "other.key")
    event = NewEvent("ana", "i")
    assert events.event_id(event) != other.event_id(event)
    ids = {events.event_id(event._replace(**{name: value})) for name, value in VARIED}
    assert len(ids | {events.event_id(event)}) == len(VARIED) + 1
    other.close()


VARIED = [
    *(("user", "an"), ("item", "ai"), ("kind", "disliked"), ("weight", 1.0), ("time", 1), ("type", "view")),
    ("recommendation", "x"),
]


def test_a_recommendation_is_clicked_once_by_many_at_once(events, store):
    """Several processes' worth of writers: each event is counted once, and the list is clicked once."""
    other, shown = EventStore(store), RecommendationIds(b"key").new("ab" * 6, 1)
    posts = [NewEvent("ana", f"i{k % 5}", type="view", recommendation=shown) for k in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda k: (events, other)[k % 2].add([posts[k]]).result(20), range(len(posts))))
    counts = {name: count for release, arm, name, count in events.report(recommendation_of(shown).day)}
    assert counts == {"clicked": 1, "clicks": 5, "event:view": 5}
    assert events.attributed[1] + other.attributed[1] == 5
    for event_id in logged(events):
        events.withdraw(event_id).result(20)
    assert {count for *_, count in events.report(0)} == {0}
    assert events.report(int(time.time() // 86_400) + 1) == []
    other.close()
