"""Types of events, their withdrawal and the report, by real requests."""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import quote

import pytest
from scipy.stats import binomtest

import komd
from komd.serve.event_types import EVENT_TYPES, EventType
from komd.serve.publication import folder_version
from komd.serve.recommendation_id import recommendation_of
from komd.serve.report_counts import Impressions, wilson
from tests.serve.conftest import Command, Running, until
from tests.serve.test_learner import PAIRS

TYPES = {**EVENT_TYPES, "view": EventType("chosen", 0.5), "purchase": EventType("chosen", 4.0)}
TYPES["impression"] = EventType("ignored")


@pytest.fixture(scope="module")
def typed(shop, tmp_path_factory):
    """A service with weights of types, on a model that uses weights and knows the weight 2 of one user's items."""
    from komd.serve.serve_settings import Settings

    folder = tmp_path_factory.mktemp("typed")
    import pyarrow as pa

    users, items = zip(*PAIRS, strict=True)
    table = pa.table({"user": users, "item": items, "weight": [2.0] * len(PAIRS)})
    komd.CFKOMD(weighting="linear").fit(komd.read(table, weight="weight")).save(folder / "m.komd")
    service = Running(Settings(model=folder / "m.komd", store=f"sqlite:///{folder / 'e.db'}", events=TYPES))
    yield service
    service.stop()


def entry(typed, user, item):
    person = typed.get(f"/v1/users/{user}")
    return next((each for each in [*person["items"], *person["disliked"]] if each["item_id"] == item), None)


def post(typed, user, item, code=200, **fields):
    return typed.post("/v1/events", {"events": [{"user_id": user, "item_id": item, **fields}]}, code)


# ---- types ------------------------------------------------------------------------------------------------------


def test_a_type_gives_a_least_weight(typed):
    post(typed, "u1", "i1", type="view")
    assert entry(typed, "u1", "i1")["weight"] == 0.5
    post(typed, "u1", "i1", type="purchase")
    post(typed, "u1", "i1", type="view", time="2026-01-01")
    assert entry(typed, "u1", "i1")["weight"] == 4.0
    post(typed, "u1", "i1", type="view", weight=0.25)  # a weight that is given holds
    assert entry(typed, "u1", "i1")["weight"] == 0.25
    post(typed, "u1", "new", type="purchase")  # also of items that the model does not know
    assert entry(typed, "u1", "new")["weight"] == 4.0


def test_a_view_does_not_lower_what_the_model_knows(typed):
    post(typed, "ana", "i1", type="view")
    post(typed, "ana", "i2", type="purchase")
    assert entry(typed, "ana", "i1")["weight"] == 2.0
    assert entry(typed, "ana", "i2")["weight"] == 4.0


def test_what_was_posted_is_shown_event_by_event(typed):
    (first,) = post(typed, "u2", "i1", type="view", time="2026-03-01")["event_ids"]
    (second,) = post(typed, "u2", "i1", weight=3, event_id="order/7")["event_ids"]
    (third,) = post(typed, "u2", "i1", type="dislike")["event_ids"]
    shown = entry(typed, "u2", "i1")["events"]
    assert [(each["event_id"], each["kind"], each["type"], each["weight"]) for each in shown] == [
        (first, "chosen", "view", None),
        (second, "chosen", None, 3.0),
        (third, "disliked", "dislike", None),
    ]
    assert second == "order/7" and shown[0]["time"] == 1772323200000 and shown[1]["time"] == shown[1]["at"]
    assert post(typed, "u2", "i1", type="dislike") == {
        "events": 1,
        "new": 0,
        "unknown_items": [],
        "unattributed": 0,
        "event_ids": [third],
    }


def test_ignored_types_are_no_part_of_a_history(typed):
    post(typed, "u3", "i1", type="impression")
    typed.get("/v1/users/u3", 404)
    assert typed.get("/v1/users/u3/recommendations")["fallback"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "vieww"}, "events.0.type: this type of events is not known; did you mean 'view'?"),
        ({"type": "view", "kind": "disliked"}, "events.0.kind: events of type view are chosen"),
        ({"type": "dislike", "kind": "chosen"}, "events.0.kind: events of type dislike are disliked"),
        ({"type": "dislike", "weight": 2}, "events.0.weight: only a choice has a weight, and this event is disliked"),
        ({"type": "impression", "weight": 2}, "events.0.weight: only a choice has a weight"),
        ({"kind": "withdrawn", "weight": 2}, "events.0.weight: only a choice has a weight"),
        ({"type": ""}, "events.0.type"),
        ({"type": "v" * 33}, "events.0.type"),
        ({"event_id": ""}, "events.0.event_id"),
        ({"event_id": "x" * 65}, "events.0.event_id"),
        ({"event_id": "a\x00"}, "events.0.event_id"),
        ({"recommendation_id": "x" * 65}, "events.0.recommendation_id"),
    ],
)
def test_events_that_are_refused(typed, fields, words):
    assert words in post(typed, "u4", "i1", 422, **fields)["detail"]
    typed.get("/v1/users/u4", 404)


# ---- withdrawal of one event ------------------------------------------------------------------------------------


def withdraw(typed, event_id, code=200):
    answer = typed.client.delete(f"/v1/events/{quote(event_id, safe='')}")
    assert answer.status_code == code, answer.text
    return answer.json()


def test_one_event_is_withdrawn(typed):
    post(typed, "u5", "i1", type="view")
    (bought,) = post(typed, "u5", "i1", type="purchase")["event_ids"]
    (gone,) = post(typed, "u5", "i1", type="dislike", event_id="a/b ü")["event_ids"]
    assert typed.get("/v1/users/u5")["items"] == []
    answer = withdraw(typed, gone)
    assert (answer["event_id"], answer["user_id"], answer["item_id"]) == ("a/b ü", "u5", "i1")
    assert entry(typed, "u5", "i1")["weight"] == 4.0
    withdraw(typed, bought)
    assert entry(typed, "u5", "i1")["weight"] == 0.5
    assert "no such event" in withdraw(typed, bought, 404)["detail"]
    withdraw(typed, "x" * 65, 422)


def test_the_only_event_of_a_pair_returns_it_to_the_model(typed):
    before = typed.get("/v1/users/bo")
    disliked, removed = (post(typed, "bo", item, kind=kind)["event_ids"][0] for item, kind in KINDS)
    assert entry(typed, "bo", "i2") in typed.get("/v1/users/bo")["disliked"] and entry(typed, "bo", "i3") is None
    for one in (disliked, removed):
        withdraw(typed, one)
    assert typed.get("/v1/users/bo") == before
    (added,) = post(typed, "bo", "i4")["event_ids"]
    withdraw(typed, added)
    assert typed.get("/v1/users/bo") == before


KINDS = (("i2", "disliked"), ("i3", "withdrawn"))


# ---- the report -------------------------------------------------------------------------------------------------


def of_arm(reported):
    assert len(reported["releases"]) <= 1
    return next(iter(reported["releases"]), {"impressions": 0})


def test_what_lists_led_to(serving, settings, shop):
    typed = serving(replace(settings, events=TYPES))
    items = komd.load(shop / "shop.komd").catalogue.items.values.to_pylist()
    asks = [{"history": items[:2], "n": 4}, {"user_id": "eve", "n": 3}]
    lists = [typed.post("/v1/recommend", ask) for ask in asks]
    lists += typed.post("/v1/recommend/batch", {"requests": asks})["answers"]
    lists.append(typed.get("/v1/users/eve/recommendations", n=2))
    typed.post("/v1/recommend", asks[0] | {"impression": False})  # nobody sees it: not in the report
    ids = [each["recommendation_id"] for each in lists]
    assert len(set(ids)) == 5
    release = typed.get("/v1/model")["version"]
    assert all(recommendation_of(one)[:2] == (release, 0) for one in ids)
    posted = [
        {"user_id": "eve", "item_id": items[5], "type": "view", "recommendation_id": ids[0]},
        {"user_id": "eve", "item_id": items[6], "type": "view", "recommendation_id": ids[0]},
        {"user_id": "eve", "item_id": items[6], "type": "purchase", "recommendation_id": ids[0]},
        {"user_id": "eve", "item_id": items[7], "recommendation_id": ids[1]},
        {"user_id": "eve", "item_id": items[8], "type": "dislike", "recommendation_id": ids[2]},
        {"user_id": "eve", "item_id": items[8], "type": "impression", "recommendation_id": ids[2]},
        {"user_id": "eve", "item_id": items[9], "type": "view"},
        {"user_id": "eve", "item_id": items[10], "type": "view", "recommendation_id": "A" * 32},
    ]
    kept = typed.post("/v1/events", {"events": posted})
    assert kept["unattributed"] == 1 and kept["new"] == 6
    for _ in range(2):
        typed.post("/v1/events", {"events": posted})  # sent again
    assert until(lambda: of_arm(typed.get("/v1/report"))["impressions"] == 5)
    found = of_arm(typed.get("/v1/report", days=1))
    assert (found["release"], found["arm"], found["items"]) == (release, "main", 16)
    assert (found["clicked"], found["clicks"]) == (2, 4)
    assert found["types"] == {"view": 2, "purchase": 1, "chosen": 1, "dislike": 1, "impression": 1}
    assert found["rate"] == 0.4 and (found["low"], found["high"]) == pytest.approx(wilson(2, 5))
    withdraw(typed, kept["event_ids"][0])
    withdraw(typed, kept["event_ids"][3])
    found = of_arm(typed.get("/v1/report"))
    assert (found["clicked"], found["clicks"]) == (1, 2)
    assert found["types"] == {"view": 1, "purchase": 1, "dislike": 1, "impression": 1}
    assert "eve" not in str(typed.get("/v1/report"))
    assert until(lambda: 'komd_attributed_events_total{arm="main"} 6.0' in typed.client.get("/v1/metrics").text)
    assert 'komd_recommendations_total{arm="main"} 6.0' in typed.client.get("/v1/metrics").text
    # The click of a forgotten user stays counted, and nobody knows any more that its list was clicked.
    assert typed.client.delete("/v1/users/eve").status_code == 200
    clicks = [{"user_id": "flo", "item_id": items[0], "type": "view", "recommendation_id": one} for one in ids]
    typed.post("/v1/events", {"events": clicks})
    found = of_arm(typed.get("/v1/report"))
    assert found["clicked"] == 6 and found["low"] < found["rate"] == found["high"] == 1.0


def test_bad_days(typed):
    for days in ("0", "367", "x", "-1"):
        typed.get("/v1/report", 422, days=days)


def test_two_workers_and_their_end(shop, tmp_path):
    """The lists of all workers are counted, those of the last moment before the end too."""
    folder = tmp_path / "shop.komd"
    folder.symlink_to(shop / "shop.komd")
    words = ("serve", folder, "--port", "0", "--workers", "2", "--store", f"sqlite:///{tmp_path / 'e.db'}")
    service = Command(*words).wait()
    ids = [service.client.post("/v1/recommend", json={"history": [], "n": 3}).json() for _ in range(40)]
    event = {"user_id": "ana", "item_id": "x", "recommendation_id": ids[7]["recommendation_id"]}
    for _ in range(10):  # whichever worker it reaches, it is the same event
        assert service.client.post("/v1/events", json={"events": [event]}).json()["unattributed"] == 0
    assert service.stop()[0] == 0
    service = Command(*words, "--workers", "1").wait()  # the store's key is the same: the ids are good after a restart
    answer = service.client.post("/v1/events", json={"events": [event | {"item_id": "y"}]}).json()
    assert answer["unattributed"] == 0
    (found,) = service.client.get("/v1/report").json()["releases"]
    assert (found["impressions"], found["items"], found["clicked"], found["clicks"]) == (40, 120, 1, 2)
    service.stop()


def test_the_release_of_a_model_that_learns(shop, tmp_path):
    """Lists of the models that a learner publishes belong to the one in the folder, as it was before it unlearned."""
    folder = tmp_path / "shop.komd"
    komd.load(shop / "shop.komd").save(folder)
    service = Command("serve", folder, "--port", "0", "--learn", "--learn-seconds", "0").wait()
    ask = {"history": [], "n": 3}
    first = service.client.post("/v1/recommend", json=ask).json()
    service.client.post("/v1/events", json={"events": [{"user_id": "new", "item_id": "new"}]})
    assert until(lambda: service.client.get("/v1/model").json()["version"] != first["model"])
    second = service.client.post("/v1/recommend", json=ask).json()
    assert second["model"] != first["model"]
    release = folder_version(folder, (folder / "manifest.json").read_bytes())
    gone = komd.load(folder).catalogue.users[0]
    assert service.client.delete(f"/v1/users/{gone}").json()["unlearned"]
    assert folder_version(folder, (folder / "manifest.json").read_bytes()) != release
    third = service.client.post("/v1/recommend", json=ask).json()
    service.stop()
    releases = {recommendation_of(each["recommendation_id"]).release for each in (first, second, third)}
    assert releases == {release}


def test_counts_that_could_not_be_stored_are_kept():
    impressions, day = Impressions(), int(time.time()) // 86_400
    impressions.count("r", 0, 10)
    taken = impressions.take()
    impressions.count("r", 0, 5)
    impressions.put_back(taken)
    assert impressions.take() == {(day, "r", 0, "lists"): 2, (day, "r", 0, "items"): 15}
    assert impressions.take() == {} and impressions.lists == {0: 2}


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 50), (50, 50), (3, 40), (999, 12345)])
def test_the_interval_is_wilsons(successes, trials):
    expected = binomtest(successes, trials).proportion_ci(0.95, "wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert wilson(0, 0) == (0.0, 1.0)
