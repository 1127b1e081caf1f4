"""Availability of items: posted, stored, read by every worker, and held against plain dictionaries."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.errors import InputError
from komd.serve.app import check
from komd.serve.candidate_masks import CandidateMasks, ItemRules, ListRules
from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore
from komd.serve.item_attributes import ItemAttributes
from komd.serve.item_availability import AvailableItems, ItemAvailability
from komd.serve.item_names import ItemNames, read_names
from komd.serve.serve_settings import Settings
from tests.serve import attributed
from tests.serve.conftest import Command, Running, connected, same_lists, until

SETTINGS = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("available")


@pytest.fixture(scope="module")
def rows(folder):
    return attributed.make(folder)


def listed(answer):
    return [row["item_id"] for row in answer["items"]]


def post(running, states, code=200):
    items = [{"item_id": item, "available": available} for item, available in states.items()]
    return running.post("/v1/items/availability", {"items": items}, code=code)


# ---- the states -------------------------------------------------------------------------------------------------


@given(
    posts=st.lists(
        st.one_of(st.just("look"), st.just("model"), st.dictionaries(st.sampled_from("abcdxyz"), st.booleans())),
        max_size=25,
    )
)
@SETTINGS
def test_masks_follow_what_is_posted_however_often_they_are_asked_for(posts):
    """Against a dictionary; two models with other items look at other moments, as a model and its candidate do."""
    sets = ["abcd", "bcx"]
    items = [komd.read([("u", one) for one in some]).items for some in sets]
    availability = ItemAvailability()
    views = [AvailableItems(ItemAttributes.of(ItemNames.of(some, None)), availability) for some in items]
    expected, versions = {}, set()
    for k, post in enumerate([*posts, "look", "model", "look"]):
        if isinstance(post, dict):
            availability.change(post)
            expected |= post
        elif post == "look":
            version, mask = views[k % 2].now()
            found = [True] * len(sets[k % 2]) if mask is None else mask.tolist()
            assert found == [expected.get(item, True) for item in sets[k % 2]]
            versions.add((k % 2, version, tuple(found)))
        else:
            views[0] = AvailableItems(ItemAttributes.of(ItemNames.of(items[0], None)), availability)
    assert len({one[:2] for one in versions}) == len(versions)  # one number, one answer


def test_the_store_keeps_the_last_state_and_says_what_changed(store):
    events = EventStore(store)
    other = EventStore(store)
    try:
        assert events.availability(0) == []
        assert events.set_available({"a": False, "b": True, "ü": False}).result() == 3
        first = events.last_seq()
        assert {(row.item, row.available, row.seq) for row in other.availability(0)} == {
            ("a", False, first),
            ("b", True, first),
            ("ü", False, first),
        }
        assert events.set_available({"a": False, "b": True}).result() == 0  # nothing new: no commit
        assert events.last_seq() == first and events.availability(first) == []
        events.add([NewEvent("ana", "a")]).result()
        assert other.set_available({"a": True, "b": True, "c": False}).result() == 2
        found = events.availability(first)
        assert {(row.item, row.available) for row in found} == {("a", True), ("c", False)}
        assert {row.seq for row in found} == {first + 2}
        changes = events.changes(0)  # what learners read: commits without events are passed
        assert [change.item for change in changes.events] == ["a"] and changes.seq == first + 2
        assert events.set_available({f"i{k}": False for k in range(3000)}).result() == 3000
    finally:
        events.close()
        other.close()
    again = EventStore(store)
    expected = {"a": True, "b": True, "ü": False, "c": False} | {f"i{k}": False for k in range(3000)}
    assert {row.item: row.available for row in again.availability(0)} == expected
    again.close()


def test_writers_from_several_processes_lose_nothing(store):
    """Readers that ask again and again see each state, whoever wrote it."""
    stores = [EventStore(store) for _ in range(3)]
    reader = ItemAvailability()

    def write(k):
        for turn in range(20):
            stores[k].set_available({f"{k}-{turn % 4}": turn % 8 < 4, "shared": (turn + k) % 2 == 0}).result()

    threads = [threading.Thread(target=write, args=(k,)) for k in (0, 1)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            reader.read(stores[2])
        reader.read(stores[2])
        fresh = ItemAvailability()
        fresh.read(stores[2])
        assert reader.since(0)[1] == fresh.since(0)[1]
        assert len(fresh.since(0)[1]) == 9
    finally:
        for one in stores:
            one.close()


# ---- over HTTP --------------------------------------------------------------------------------------------------


@pytest.fixture
def service(folder, rows, store, serving):
    return serving(Settings(folder / "shop.komd", store, folder / "items.csv", filters={"kids": {"genre": "Comedy"}}))


def test_what_is_not_available_is_in_no_list(service, rows):
    ids = list(rows)
    ask = {"history": ids[:4], "n": 90}
    everything = service.post("/v1/recommend", ask)
    gone = listed(everything)[:3]
    similar = service.get(f"/v1/items/{ids[0]}/similar", n=20)
    gone.append(listed(similar)[0])
    answer = post(service, dict.fromkeys([*gone, "no such"], False))
    assert answer == {"items": len(set(gone)) + 1, "changed": len(set(gone)) + 1, "unknown_items": ["no such"]}
    left = [row for row in everything["items"] if row["item_id"] not in gone]
    found = service.post("/v1/recommend", ask)["items"]
    assert [(row["item_id"], row["score"]) for row in found] == [(row["item_id"], row["score"]) for row in left]
    assert [row["rank"] for row in found] == list(range(1, len(found) + 1))
    batch = service.post("/v1/recommend/batch", {"requests": [ask, ask | {"include_unavailable": True}]})["answers"]
    assert batch[0]["items"] == found and same_lists(batch[1], everything)
    assert listed(service.post("/v1/recommend", ask | {"items": gone})) == []
    assert set(listed(service.post("/v1/recommend", ask | {"items": gone, "include_unavailable": True})))
    assert not set(gone) & set(listed(service.post("/v1/recommend", {"history": [], "n": 90})))
    assert not set(gone) & set(listed(service.post("/v1/recommend", ask | {"filters": ["kids"]})))
    near = service.get(f"/v1/items/{ids[0]}/similar", n=5)["items"]
    assert near == [row for row in similar["items"] if row["item_id"] not in gone][:5]
    with_them = service.get(f"/v1/items/{ids[0]}/similar", n=20, include_unavailable=True)["items"]
    assert [row["item_id"] for row in with_them] == listed(similar)
    assert not with_them[0]["available"]
    user = service.get("/v1/users", n=1)["users"][0]
    assert not set(gone) & set(listed(service.get(f"/v1/users/{user}/recommendations", n=50)))
    # Search shows them, and says so.
    shown = {row["item_id"]: row["available"] for row in service.get("/v1/items", n=90)["items"]}
    assert {item for item, available in shown.items() if not available} == set(gone)
    assert not service.get(f"/v1/items/{gone[0]}")["available"]
    named = service.get("/v1/items", q=service.get(f"/v1/items/{gone[0]}")["name"], n=1)["items"]
    assert [(row["item_id"], row["available"]) for row in named] == [(gone[0], False)]
    # Posted again nothing changes; posted as available they are back.
    assert post(service, {gone[0]: False})["changed"] == 0
    post(service, dict.fromkeys(gone, True))
    assert same_lists(service.post("/v1/recommend", ask), everything)
    assert service.get(f"/v1/items/{gone[0]}")["available"]


def test_the_last_state_of_a_post_holds_and_numbers_are_ids(shop, tmp_path, serving):
    running = serving(Settings(shop / "numbers.komd", f"sqlite:///{tmp_path / 'e.db'}", shop / "names.tsv"))
    entries = [{"item_id": 10, "available": False}, {"item_id": "10", "available": True}]
    assert running.post("/v1/items/availability", {"items": entries})["items"] == 1
    assert running.get("/v1/items/10")["available"]
    running.post("/v1/items/availability", {"items": entries[::-1]})
    assert not running.get("/v1/items/10")["available"]
    answer = post(running, {"x7": False, "07": False})
    assert answer["unknown_items"] == ["x7", "07"]


@pytest.mark.parametrize(
    "body, words",
    [
        ({"items": []}, "items: List should have at least 1"),
        ({"items": [{"item_id": "a"}]}, "items.0.available: Field required"),
        ({"items": [{"item_id": "a", "available": None}]}, "items.0.available: Input should be a valid boolean"),
        ({"items": [{"item_id": "", "available": True}]}, "items.0.item_id"),
        ({"items": [{"item_id": "a", "available": True, "at": 1}]}, "items.0.at: Extra inputs are not permitted"),
        ({"items": [{"item_id": k, "available": True} for k in range(20_001)]}, "at most 20000 items"),
    ],
)
def test_what_is_refused(running, body, words):
    assert words in running.post("/v1/items/availability", body, code=422)["detail"]


def test_it_is_back_after_a_restart(folder, rows, store):
    settings = Settings(folder / "shop.komd", store, folder / "items.csv")
    running = Running(settings)
    item = listed(running.post("/v1/recommend", {"history": []}))[0]
    post(running, {item: False})
    running.stop()
    running = Running(settings)
    try:
        assert item not in listed(running.post("/v1/recommend", {"history": [], "n": 90}))
        assert not running.get(f"/v1/items/{item}")["available"]
    finally:
        running.stop()


def test_the_table_says_what_is_available_until_it_is_posted(folder, rows, tmp_path, serving):
    ids = [item for item, row in rows.items() if row]
    words = ["false", "True", " NO ", "yes", "0", "1", ""]
    said = {item: words[k % len(words)] for k, item in enumerate(ids)}
    table = tmp_path / "items.csv"
    attributed.write_table(table, [rows[item] | {"available": said[item]} for item in ids])
    settings = Settings(folder / "shop.komd", f"sqlite:///{tmp_path / 'e.db'}", table, watch_seconds=0.1)
    running = serving(settings)
    gone = {item for item in ids if said[item] in ("false", " NO ", "0")}

    def popular():
        return set(listed(running.post("/v1/recommend", {"history": [], "n": 90})))

    assert popular() == set(rows) - gone  # an item that is in no line is available
    back, lost = ids[0], ids[1]
    post(running, {back: True, lost: False})
    assert popular() == (set(rows) - gone | {back}) - {lost}
    # Another table changes what was not posted.
    attributed.write_table(table, [rows[item] | {"available": "yes"} for item in ids])
    assert until(lambda: popular() == set(rows) - {lost})
    attributed.write_table(tmp_path / "odd.csv", [rows[item] | {"available": "perhaps"} for item in ids])
    with pytest.raises(InputError, match=r"odd\.csv: the column 'available' .* has 'perhaps'; write true or false"):
        check(replace(settings, items=tmp_path / "odd.csv"))


def test_other_workers_follow(folder, rows, tmp_path):
    command = Command(
        *("serve", folder / "shop.komd", "--store", f"sqlite:///{tmp_path / 'e.db'}", "--port", "0", "--workers", "2"),
    ).wait()
    try:
        ask = {"history": [], "n": 90}
        item = command.client.post("/v1/recommend", json=ask).json()["items"][0]["item_id"]
        body = {"items": [{"item_id": item, "available": False}]}
        # The answer holds at once for the connection's own worker.
        assert command.client.post("/v1/items/availability", json=body).json()["changed"] == 1
        assert item not in listed(command.client.post("/v1/recommend", json=ask).json())

        def everywhere():
            seen = []
            for _ in range(12):  # new connections, which the workers share
                with connected(command.client.base_url, timeout=30) as client:
                    seen.append(item in listed(client.post("/v1/recommend", json=ask).json()))
            return not any(seen)

        assert until(everywhere, seconds=15)
    finally:
        command.stop()


# ---- learning ---------------------------------------------------------------------------------------------------


def test_masks_when_models_change_every_second(rows, folder):
    """The same items: what is known is carried over. Other items: it is found again."""
    data = komd.generate(users=150, items=90, activity=9, tastes=5, rng=3)
    table = read_names(folder / "items.csv")
    rules = ItemRules()
    model = komd.CFKOMD().fit(data)
    names = ItemNames.of(model.catalogue.items, table)
    masks = CandidateMasks.of(model.catalogue, names, rules)
    item = data.items.values.to_pylist()[7]
    rules.availability.change({item: False, "new": False})
    before = masks.of_rules(ListRules())
    updated = model.view()
    updated.update([(f"u{k}", data.items.values.to_pylist()[40]) for k in range(60)])
    catalogue = updated.view().catalogue
    again = CandidateMasks.of(catalogue, names, rules, masks)
    assert again.attributes is masks.attributes
    after = again.of_rules(ListRules())
    for found, held in ((before, model.catalogue), (after, catalogue)):
        texts = held.item_ids(np.flatnonzero(~found.allowed).astype(np.int32)).to_pylist()
        assert texts == [item]
        assert len(found.candidates) == 89
    updated.update([("ana", "new")])
    catalogue = updated.view().catalogue
    more = CandidateMasks.of(catalogue, ItemNames.of(catalogue.items, table), rules, again)
    allowed = more.of_rules(ListRules()).allowed
    assert sorted(catalogue.item_ids(np.flatnonzero(~allowed).astype(np.int32)).to_pylist()) == sorted([item, "new"])


def test_a_service_that_learns(folder, rows, tmp_path):
    """An item that the model does not know is posted as unavailable; it is learned, and is in no list."""
    shutil.copytree(folder / "shop.komd", tmp_path / "m.komd")
    command = Command(
        *("serve", tmp_path / "m.komd", "--store", f"sqlite:///{tmp_path / 'e.db'}", "--port", "0", "--learn"),
        *("--learn-seconds", "0.1"),
    ).wait()
    client = command.client
    try:
        states = [{"item_id": "brand new", "available": False}]
        assert client.post("/v1/items/availability", json={"items": states}).json()["unknown_items"] == ["brand new"]
        assert until(lambda: not client.get("/v1/learning").json()["behind"])  # a commit without events is learned
        plays = [{"user_id": f"u{k}", "item_id": "brand new"} for k in range(300)]
        client.post("/v1/events", json={"events": plays})
        assert until(lambda: client.get("/v1/items/brand new").status_code == 200)
        assert client.get("/v1/items/brand new").json()["available"] is False
        ask = {"history": [], "n": 91}
        assert "brand new" not in listed(client.post("/v1/recommend", json=ask).json())
        full = client.post("/v1/recommend", json=ask | {"include_unavailable": True}).json()
        assert listed(full)[0] == "brand new"
        client.post("/v1/items/availability", json={"items": [states[0] | {"available": True}]})
        assert listed(client.post("/v1/recommend", json=ask).json())[0] == "brand new"
    finally:
        command.stop()
