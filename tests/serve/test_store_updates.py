"""A model that follows a store is the model of its base and the store's rows, whatever was read on the way."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")

import komd
from komd.data.interactions import Interactions
from komd.engine.saved_catalogue import catalogue_arrays
from komd.errors import InputError
from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore
from komd.serve.id_text import ids_of
from komd.serve.store_updates import StoreFollower, stored_interactions
from tests.budget import repeats

CHOSEN, DISLIKED, SEEN = range(3)


def saved_arrays(model):
    arrays, ids = catalogue_arrays(model.catalogue)
    return arrays | model.learned_arrays(), ids


def assert_same(model, other):
    """Every array and every id, to the last bit."""
    (found, found_ids), (expected, expected_ids) = saved_arrays(model.view()), saved_arrays(other.view())
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
    for name, values in expected_ids.items():
        assert found_ids[name].equals(values), name


def data_of(pairs, *, valued):
    """Interactions of {(user, item): (kind, weight, microseconds)}; only of users and items with a choice."""
    chosen = [pair for pair, state in pairs.items() if state[0] == CHOSEN]
    users, items = {user for user, _ in chosen}, {item for _, item in chosen}
    held = sorted(pair for pair in pairs if pair[0] in users and pair[1] in items)
    kinds = np.array([pairs[pair][0] for pair in held])
    ids = [komd.data.ids.Ids.from_arrow(pa.array(sorted(each))) for each in (users, items)]
    numbers = [each.find([pair[k] for pair in held]) for k, each in enumerate(ids)]
    values = {}
    if valued:
        values["weights"] = np.array([1.0 if pairs[pair][1] is None else pairs[pair][1] for pair in held])
        values["times"] = np.array([pairs[pair][2] for pair in held], np.int64)
        values["time_unit"] = "us"
    return Interactions.from_numbers(*ids, *numbers, chosen=kinds == CHOSEN, disliked=kinds == DISLIKED, **values)


def twin(base, rows, forgotten, *, valued):
    """What the base's pairs and the store's rows come to, pair by pair."""
    pairs = {pair: state for pair, state in base.items() if pair[0] not in forgotten}
    for (user, item), (kind, weight, time, least) in rows.items():
        if kind == "none":
            continue
        held = pairs.pop((user, item), None)
        if kind == "chosen":
            was = held if held is not None and held[0] == CHOSEN else (CHOSEN, None, -(2**63))
            if weight is None:
                weight = max((value for value in (was[1], least) if value is not None), default=1.0)
            pairs[user, item] = (CHOSEN, weight, max(was[2], 1000 * time))
        elif kind == "disliked":
            pairs[user, item] = (DISLIKED, None, 0)
    return data_of(pairs, valued=valued)


USERS, ITEMS = st.sampled_from("abc"), st.sampled_from("uvwx")
BASE = st.dictionaries(
    st.tuples(USERS, ITEMS),
    st.tuples(
        st.sampled_from([CHOSEN, CHOSEN, DISLIKED, SEEN]), st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 9_000)
    ),
    max_size=12,
)
EVENT = st.builds(
    NewEvent,
    USERS,
    ITEMS,
    st.sampled_from(["chosen", "chosen", "disliked", "withdrawn"]),
    st.sampled_from([None, None, 0.25, 2.0]),
    st.integers(0, 9),
    st.none() | st.sampled_from(["view", "purchase"]),
    st.sampled_from([None, 0.25, 0.75, 4.0]),
    st.none(),
    st.none(),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.lists(EVENT, min_size=1, max_size=4)),
        st.tuples(st.just("forget"), USERS),
        st.tuples(st.just("withdraw"), st.integers(0, 30)),
        st.tuples(st.just("follow"), st.none()),
    ),
    max_size=14,
)


@given(BASE, STEPS, st.booleans())
@settings(max_examples=repeats(40, 150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_model_that_follows_equals_a_fit(tmp_path_factory, base, steps, valued):
    """Base pairs of every kind, posts, users forgotten and back, read at any moments; one user always stays."""
    base = base | {("anchor", "anchor"): (CHOSEN, 1.0, 0), ("anchor", "other"): (CHOSEN, 2.0, 5)}
    data = data_of(base, valued=valued)
    base = {pair: state for pair, state in base.items() if pair[0] in data.users and pair[1] in data.items}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = (komd.CFKOMD(weighting="linear") if valued else komd.ECFOMD()).fit(data)
    events = EventStore(f"sqlite:///{tmp_path_factory.mktemp('s') / 'e.db'}")
    try:
        follower, fresh = StoreFollower(events, model.catalogue), model.view()
        forgotten, ids = set(), []
        for what, given_ in steps:
            if what == "post":
                posted = [
                    event._replace(weight=None, least=None) if event.kind != "chosen" or not valued else event
                    for event in given_
                ]
                events.add(posted).result(20)
                ids += [events.event_id(event) for event in posted]
            elif what == "withdraw" and ids:
                events.withdraw(ids[given_ % len(ids)]).result(20)
            elif what == "forget":
                events.forget(given_).result(20)
                forgotten.add(given_)
            elif what == "follow":
                follow(follower, model)
        follow(follower, model)
        rows = {(e.user, e.item): (e.kind, e.weight, e.time, e.least) for e in events.changes(0).events}
        expected = model.clone().fit(twin(base, rows, forgotten, valued=valued))
        assert_same(model, expected)
        follow(StoreFollower(events, fresh.catalogue), fresh, limit=1)  # all of it at once, or commit by commit
        assert_same(fresh, expected)
        assert set(follower.forgotten_users) == forgotten & {user for user, _ in base}
        follow(StoreFollower(events, model.catalogue), model)  # again, from the beginning: nothing changes
        assert_same(model, expected)
    finally:
        events.close()


def follow(follower, model, limit=100_000):
    while (batch := follower.next_batch(model, limit=limit)) is not None:
        model.take_in(batch)


@pytest.fixture
def events(tmp_path):
    store = EventStore(f"sqlite:///{tmp_path / 'events.db'}")
    yield store
    store.close()


def test_texts_that_are_no_ids_are_counted_and_skipped(events):
    data = komd.read(pa.table({"user": [1, 1, 2, 2, 3], "item": [10, 20, 10, 30, 20]}))
    model = komd.ECFOMD().fit(data)
    posted = [("x7", "10"), ("7", "ten"), ("07", "10"), ("7", "10"), ("2", str(2**63)), ("9", "40")]
    events.add([NewEvent(*pair) for pair in posted]).result(20)
    follower = StoreFollower(events, model.catalogue)
    follow(follower, model)
    assert follower.skipped == 4
    pairs = [(1, 10), (1, 20), (2, 10), (2, 30), (3, 20), (7, 10), (9, 40)]
    assert_same(model, komd.ECFOMD().fit(komd.read(pairs)))
    events.forget("x7").result(20)
    events.forget("7").result(20)
    follow(follower, model)
    assert_same(model, komd.ECFOMD().fit(komd.read([pair for pair in pairs if pair[0] != 7])))


@pytest.mark.parametrize(
    ("values", "texts", "expected"),
    [
        (pa.array(["a", "b"]), ["a", "", "7"], ["a", "", "7"]),
        (pa.array([1, 2]), ["-3", "0", "1e3", str(2**63 - 1), str(2**63)], [-3, 0, None, 2**63 - 1, None]),
        (pa.array([1, 2**63], pa.uint64()), ["-3", str(2**64 - 1), str(2**64)], [None, 2**64 - 1, None]),
        (pa.array([b"\x01"]), ["01ff", "0", "01FF"], [b"\x01\xff", None, None]),
    ],
)
def test_ids_of_texts(values, texts, expected):
    assert ids_of(komd.data.ids.Ids.from_arrow(values), texts) == expected


def test_nothing_new(events):
    model = komd.ECFOMD().fit(komd.read([("a", "x"), ("b", "x"), ("b", "y")]))
    follower = StoreFollower(events, model.catalogue)
    follow(follower, model)
    before = follower.seq
    assert follower.next_batch(model) is None and follower.seq == before
    events.add([NewEvent("c", "x")]).result(20)
    assert follower.next_batch(model) is not None and follower.seq == before + 1


# ---- a store as data --------------------------------------------------------------------------------------------


def test_a_store_as_data(events):
    posted = [
        NewEvent("ana", "i7", time=5_000),
        NewEvent("bo", "7", weight=3.0, time=6_000),
        NewEvent("ana", "7", time=7_000),
        NewEvent("bo", "i7", "disliked"),
        NewEvent("bo", "nobody chose it", "disliked"),
        NewEvent("cy", "i7", "disliked"),
        NewEvent("ana", "i9", "withdrawn"),
    ]
    events.add(posted).result(20)
    data = stored_interactions(events)
    assert list(data.users) == ["ana", "bo"] and list(data.items) == ["7", "i7"]
    assert data.time_unit == "ms" and data.pairs == 3
    held = {
        (data.users[u], data.items[i]): (w, t)
        for u, i, w, t in zip(data.rows, data.indices, data.weights, data.times, strict=True)
    }
    assert held == {("ana", "7"): (1.0, 7_000), ("ana", "i7"): (1.0, 5_000), ("bo", "7"): (3.0, 6_000)}
    assert [(data.users[u], data.items[i]) for u, i in zip(data.dislikes.rows, data.dislikes.indices, strict=True)] == [
        ("bo", "i7")
    ]


def test_a_store_with_types_as_data(events):
    posted = [
        NewEvent("ana", "i7", time=5, type="view", least=0.5),
        NewEvent("ana", "i7", time=6, type="purchase", least=4.0),
        NewEvent("ana", "i9", time=7),
        NewEvent("bo", "i7", "chosen", 2.0, 8, "purchase"),
        NewEvent("bo", "i9", "ignored", None, 9, "impression"),
    ]
    events.add(posted).result(20)
    data = stored_interactions(events)
    pairs = zip(data.rows, data.indices, data.weights, strict=True)
    assert {(data.users[u], data.items[i]): w for u, i, w in pairs} == {
        ("ana", "i7"): 4.0,
        ("ana", "i9"): 1.0,
        ("bo", "i7"): 2.0,
    }


def test_a_store_without_weights_or_choices(events):
    with pytest.raises(InputError, match="nobody chose anything in the store sqlite"):
        stored_interactions(events)
    events.add([NewEvent("ana", "i7")]).result(20)
    assert stored_interactions(events).weights is None


def test_a_store_that_changes_while_it_is_read_as_data(events, monkeypatch):
    first = [NewEvent("ana", "i1"), NewEvent("bo", "i1"), NewEvent("cy", "i2"), NewEvent("cy", "i3")]
    events.add(first).result(20)
    read = EventStore.changes

    def changes(self, after):
        found = read(self, after, limit=4)
        if after == 0:
            found = found._replace(more=True)
            self.withdraw(self.event_id(first[1])).result(20)
            self.add([NewEvent("ana", "i1", weight=3.0), NewEvent("cy", "i2", "disliked")]).result(20)
            self.forget("ana").result(20)
        return found

    monkeypatch.setattr(EventStore, "changes", changes)
    data = stored_interactions(events)
    assert list(data.users) == ["cy"] and list(data.items) == ["i3"] and data.weights is None


# ---- single events ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CHOSEN, DISLIKED, SEEN, None])
@pytest.mark.parametrize("posted", ["chosen", "disliked", "withdrawn"])
def test_a_pair_without_events_is_what_the_base_knows(events, kind, posted):
    """Whatever was posted of it and learned, also if nobody else had the item meanwhile."""
    base = {("a", "u"): (CHOSEN, 3.0, 7), ("a", "v"): (CHOSEN, 1.0, 8), ("b", "v"): (CHOSEN, 2.0, 9)}
    base |= {("b", "w"): (CHOSEN, 1.0, 9)}
    if kind is not None:
        base["b", "u"] = (kind, 2.0, 5)
    data = data_of(base, valued=True)
    model = komd.CFKOMD(weighting="linear").fit(data)
    before, follower = model.view(), StoreFollower(events, model.catalogue)
    said = [NewEvent("b", "u", posted, None, 6), NewEvent("a", "u", "withdrawn")]
    events.add(said).result(20)
    follow(follower, model)
    if posted == "chosen":
        assert ("b", "u") in {(e.user, e.item) for e in events.changes(0).events if e.kind == "chosen"}
    for event in said:
        events.withdraw(events.event_id(event)).result(20)
        follow(follower, model)
    assert_same(model, before)


def test_a_least_weight_raises_what_the_base_knows(events):
    base = {("a", "u"): (CHOSEN, 3.0, 7), ("a", "v"): (CHOSEN, 0.5, 8), ("b", "v"): (CHOSEN, 2.0, 9)}
    model = komd.CFKOMD(weighting="linear").fit(data_of(base, valued=True))
    views = [NewEvent(*pair, "chosen", None, 0, "view", 1.0) for pair in (("a", "u"), ("a", "v"), ("b", "u"))]
    events.add(views).result(20)
    follower = StoreFollower(events, model.catalogue)
    follow(follower, model)
    raised = base | {("a", "v"): (CHOSEN, 1.0, 8), ("b", "u"): (CHOSEN, 1.0, 0)}
    assert_same(model, model.clone().fit(data_of(raised, valued=True)))
