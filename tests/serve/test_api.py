"""What the API answers: compared with the library asked directly, and with plain counting."""

from __future__ import annotations

import random
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import komd
from tests.serve.conftest import same_lists

SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def model(shop):
    return komd.load(shop / "shop.komd")


def library(model, history, **how):
    table = model.recommend(histories={"x": list(history)}, **how).table
    return list(zip(table["item_id"].to_pylist(), table["score"].to_pylist(), strict=True))


def listed(answer):
    return [(row["item_id"], row["score"]) for row in answer["items"]]


# ---- recommending ---------------------------------------------------------------------------------------------


def test_a_user_and_a_history_as_the_library_serves_them(running, model):
    user = model.catalogue.users[7]
    history = model.catalogue.item_ids(model.catalogue.histories.take(np.array([7])).indices).to_pylist()
    expected = library(model, history, n=10)
    for answer in (
        running.post("/v1/recommend", {"user_id": user}),
        running.post("/v1/recommend", {"history": history}),
        running.get(f"/v1/users/{user}/recommendations"),
    ):
        assert listed(answer) == expected
        assert [row["rank"] for row in answer["items"]] == list(range(1, 11))
        assert not answer["fallback"] and answer["unknown_items"] == []
        assert not {row["item_id"] for row in answer["items"]} & set(history)
        for row in answer["items"]:
            number = int(model.catalogue.find_items([row["item_id"]], "error")[0])
            assert row["popularity"] == model.catalogue.popularity[number]
            assert row["popularity_rank"] == number + 1
            assert "why" not in row or row["why"] is None
    assert answer["user_id"] == user


def test_how_to_ask(running, model):
    items = model.catalogue.items.values.to_pylist()
    history = items[:4]
    ask = {"history": history, "n": 20}
    assert listed(running.post("/v1/recommend", ask | {"exclude_seen": False})) == library(
        model, history, n=20, exclude_seen=False
    )
    assert listed(running.post("/v1/recommend", ask | {"items": items[2:9]})) == library(
        model, history, n=20, items=items[2:9]
    )
    assert listed(running.post("/v1/recommend", ask | {"exclude": items[:60]})) == library(
        model, history, n=20, exclude=items[:60]
    )
    assert running.post("/v1/recommend", ask | {"items": []})["items"] == []


def test_rare_items_only(running, model):
    popularity = dict(
        zip(model.catalogue.item_ids(np.arange(90)).to_pylist(), model.catalogue.popularity.tolist(), strict=True)
    )
    history = list(popularity)[:3]
    everything = library(model, history, n=90)
    for most in (0, 1, 5, 14, 1000):
        answer = listed(running.post("/v1/recommend", {"history": history, "n": 90, "max_popularity": most}))
        assert answer == [(item, score) for item, score in everything if popularity[item] <= most]


def test_unknown_items_are_passed_over_and_named(running, model):
    items = model.catalogue.items.values.to_pylist()
    answer = running.post("/v1/recommend", {"history": [items[0], "no such", "no such"], "exclude": ["nor this"]})
    assert answer["unknown_items"] == ["no such", "nor this"]
    assert listed(answer) == library(model, [items[0]], n=10)
    answer = running.post("/v1/recommend", {"history": ["no such"], "explain": True})
    assert answer["fallback"]
    assert listed(answer)[0] == (model.catalogue.item_ids(np.arange(1))[0].as_py(), model.catalogue.popularity[0])
    assert all(row["why"]["global_term"] == row["score"] for row in answer["items"])
    assert running.post("/v1/recommend", {"user_id": "a new user"})["fallback"]


def test_a_batch_is_the_single_answers(running, model):
    items = model.catalogue.items.values.to_pylist()
    users = model.catalogue.users.values.to_pylist()
    asks = [{"user_id": user, "n": 5} for user in users[:70]]
    asks += [{"history": items[k : k + 3], "n": 3 + k % 2, "explain": k % 3 == 0} for k in range(20)]
    asks += [{"history": []}, {"history": items[:2], "items": items[5:9]}]
    answers = running.post("/v1/recommend/batch", {"requests": asks})["answers"]
    assert len(answers) == len(asks)
    assert all(
        same_lists(answer, running.post("/v1/recommend", ask)) for answer, ask in zip(answers, asks, strict=True)
    )


@given(data=st.data())
@SETTINGS
def test_reasons_add_up_to_the_score(running, model, data):
    items = model.catalogue.items.values.to_pylist()
    history = data.draw(st.lists(st.sampled_from(items), unique=True, min_size=1, max_size=30))
    reasons = data.draw(st.integers(1, 12))
    answer = running.post("/v1/recommend", {"history": history, "explain": True, "n": 4, "reasons": reasons})
    for row in answer["items"]:
        why = row["why"]
        parts = [part["contribution"] for part in why["contributions"]]
        assert len(parts) == min(reasons, len(history))
        assert why["others"]["items"] == len(history) - len(parts)
        assert sum(parts) + why["others"]["contribution"] + why["global_term"] == pytest.approx(row["score"], abs=1e-12)
        assert [abs(part) for part in parts] == sorted(map(abs, parts), reverse=True)
        others = why["others"]
        assert others["positive"] + others["negative"] == pytest.approx(others["contribution"], abs=1e-12)
        assert others["positive"] >= 0 >= others["negative"]
        assert others["positive_items"] + others["negative_items"] <= others["items"]
        told = model.explain(history=history, item=row["item_id"])
        expected = dict(zip(told.table["item_id"].to_pylist(), told.table["contribution"].to_pylist(), strict=True))
        for part in why["contributions"]:
            assert part["contribution"] == pytest.approx(expected[part["item_id"]], abs=1e-12)
        assert why["global_term"] == pytest.approx(told.global_term, abs=1e-12)


# ---- users ----------------------------------------------------------------------------------------------------


def test_events_are_part_of_the_next_answer(running, model):
    items = model.catalogue.items.values.to_pylist()
    assert running.post("/v1/recommend", {"user_id": "eve"})["fallback"]
    posted = {"events": [{"user_id": "eve", "item_id": item} for item in [*items[3:6], "tomorrow's"]]}
    kept = running.post("/v1/events", posted)
    assert len(set(kept.pop("event_ids"))) == 4
    assert kept == {"events": 4, "new": 4, "unknown_items": ["tomorrow's"], "unattributed": 0}
    assert running.post("/v1/events", posted)["new"] == 0
    answer = running.post("/v1/recommend", {"user_id": "eve"})
    assert listed(answer) == library(model, items[3:6], n=10)
    assert answer["unknown_items"] == ["tomorrow's"]
    shown = running.get("/v1/users/eve")["items"]
    assert {entry["item_id"] for entry in shown} == {*items[3:6], "tomorrow's"}
    assert all(entry["at"] > 1.7e12 for entry in shown)
    assert {entry["item_id"]: entry["in_model"] for entry in shown}["tomorrow's"] is False


def test_forgetting_reaches_into_the_model(running, model):
    user = model.catalogue.users[11]
    items = model.catalogue.items.values.to_pylist()
    held = {entry["item_id"] for entry in running.get(f"/v1/users/{user}")["items"]}
    assert held == set(model.catalogue.item_ids(model.catalogue.histories.take(np.array([11])).indices).to_pylist())
    new = next(item for item in items if item not in held)
    running.post("/v1/events", {"events": [{"user_id": user, "item_id": new}]})
    assert {entry["item_id"] for entry in running.get(f"/v1/users/{user}")["items"]} == held | {new}
    assert user in running.get("/v1/users", prefix=user)["users"]
    answer = running.client.delete(f"/v1/users/{user}")
    assert answer.json().items() >= {"user_id": user, "events": 1, "unlearned": False}.items()
    running.get(f"/v1/users/{user}", 404)
    assert running.post("/v1/recommend", {"user_id": user})["fallback"]
    assert user not in running.get("/v1/users", prefix=user)["users"]
    running.post("/v1/events", {"events": [{"user_id": user, "item_id": new}]})
    assert listed(running.post("/v1/recommend", {"user_id": user})) == library(model, [new], n=10)


@given(data=st.data())
@SETTINGS
def test_a_known_user_with_events_is_a_stranger_with_the_united_history(running, model, data):
    """The same, to the last bit, through HTTP."""
    items = model.catalogue.items.values.to_pylist()
    row = data.draw(st.integers(20, 149))
    user = model.catalogue.users[row]
    fresh = data.draw(st.lists(st.sampled_from(items), max_size=6))
    for item in fresh:
        running.post("/v1/events", {"events": [{"user_id": user, "item_id": item}]})
    united = [entry["item_id"] for entry in running.get(f"/v1/users/{user}")["items"]]
    learned = model.catalogue.item_ids(model.catalogue.histories.take(np.array([row])).indices).to_pylist()
    assert set(united) >= set(fresh) | set(learned) and len(united) == len(set(united))
    order = random.Random(row).sample(united, len(united))
    how = {"n": data.draw(st.integers(1, 40)), "explain": True, "exclude_seen": data.draw(st.booleans())}
    known = running.post("/v1/recommend", {"user_id": user, **how})
    stranger = running.post("/v1/recommend", {"history": order, **how})
    assert same_lists(known | {"user_id": None}, stranger)
    assert listed(known) == library(model, united, n=how["n"], exclude_seen=how["exclude_seen"])


def test_low_rated_items_and_items_without_users(serving, settings, tmp_path):
    """Neither is recommended unless asked for, also to a user whose history has grown since."""
    data = komd.generate(users=60, items=40, activity=6, rng=8)
    unchosen = data.items[int(data.indices[0])]
    data = data.keep(data.indices != data.indices[0])
    rng = np.random.default_rng(0)
    data = data.with_seen(*(numbers.astype(np.int32) for numbers in np.nonzero(rng.random(data.shape) < 0.2)))
    model = komd.ECFOMD().fit(data)
    model.save(tmp_path / "rated.komd")
    service = serving(replace(settings, model=tmp_path / "rated.komd"))
    user, n = data.users[4], 40
    low = data.seen.history(user)
    expected = model.recommend(user, n=n).items(user)
    assert not {unchosen, *low} & set(expected)
    address = f"/v1/users/{user}/recommendations"
    for answer in (service.post("/v1/recommend", {"user_id": user, "n": n}), service.get(address, n=n)):
        assert [row["item_id"] for row in answer["items"]] == expected
    shown = model.recommend(user, n=n, exclude_low_rated=False).items(user)
    ask = {"user_id": user, "n": n, "exclude_low_rated": False}
    for answer in (service.post("/v1/recommend", ask), service.get(address, n=n, exclude_low_rated=False)):
        assert [row["item_id"] for row in answer["items"]] == shown
    asks = [{"user_id": user, "n": n}, ask, {"user_id": user, "n": n, "exclude_seen": False}]
    lists = [
        [row["item_id"] for row in answer["items"]]
        for answer in service.post("/v1/recommend/batch", {"requests": asks})["answers"]
    ]
    assert lists == [expected, shown, model.recommend(user, n=n, exclude_seen=False).items(user)]
    service.post("/v1/events", {"events": [{"user_id": user, "item_id": item} for item in (expected[0], low[0])]})
    history = [*data.history(user), expected[0], low[0]]
    grown = [item for item, _ in library(model, history, n=n) if item not in low]
    assert [row["item_id"] for row in service.post("/v1/recommend", {"user_id": user, "n": n})["items"]] == grown
    only = service.post("/v1/recommend", {"user_id": user, "items": [unchosen]})["items"]
    assert [row["item_id"] for row in only] == ([] if unchosen in low else [unchosen])
    assert sorted(service.get(f"/v1/users/{user}")["low_rated"]) == sorted(low)
    service.client.delete(f"/v1/users/{user}")
    service.get(f"/v1/users/{user}", 404)
    service.post("/v1/events", {"events": [{"user_id": user, "item_id": expected[0]}]})
    assert service.get(f"/v1/users/{user}")["low_rated"] == []
    assert listed(service.post("/v1/recommend", {"user_id": user, "n": n})) == library(model, [expected[0]], n=n)


# ---- weights, times and dislikes ------------------------------------------------------------------------------------


def event(user, item, **said):
    return {"events": [{"user_id": user, "item_id": item, **said}]}


def test_dislikes_of_a_history_are_never_recommended(running, model):
    items = model.catalogue.items.values.to_pylist()
    history = items[:4]
    best = [item for item, _ in library(model, history, n=5)]
    for seen in (True, False):
        ask = {"history": history, "dislikes": [best[0], best[2], "no such"], "n": 90, "exclude_seen": seen}
        answer = running.post("/v1/recommend", ask)
        table = model.recommend(histories=[history], dislikes=[[best[0], best[2]]], n=90, exclude_seen=seen).table
        assert [row["item_id"] for row in answer["items"]] == table["item_id"].to_pylist()
        assert not {best[0], best[2]} & {row["item_id"] for row in answer["items"]}
        assert answer["unknown_items"] == ["no such"]
    only = running.post("/v1/recommend", {"history": [], "dislikes": best[:1], "n": 90})
    assert only["fallback"] and best[0] not in {row["item_id"] for row in only["items"]}


def test_choices_dislikes_and_withdrawals_of_a_known_user(running, model):
    user = model.catalogue.users[13]
    learned = model.catalogue.item_ids(model.catalogue.histories.row(13)).to_pylist()
    best = [item for item, _ in library(model, learned, n=3)]

    def shown():
        about = running.get(f"/v1/users/{user}")
        return [{entry["item_id"] for entry in about[name]} for name in ("items", "disliked")]

    def lists():
        return listed(running.post("/v1/recommend", {"user_id": user, "n": 90}))

    def expected(history, dislikes=()):
        return [pair for pair in library(model, history, n=90) if pair[0] not in dislikes]

    running.post("/v1/events", event(user, learned[0], kind="disliked"))  # of the model's history
    running.post("/v1/events", event(user, best[0], kind="disliked"))
    assert shown() == [set(learned[1:]), {learned[0], best[0]}]
    assert lists() == expected(learned[1:], {learned[0], best[0]})
    everything = running.post("/v1/recommend", {"user_id": user, "n": 90, "exclude_seen": False})["items"]
    assert not {learned[0], best[0]} & {row["item_id"] for row in everything}
    running.post("/v1/events", event(user, learned[1], kind="withdrawn"))
    running.post("/v1/events", event(user, best[0], kind="withdrawn"))
    assert shown() == [set(learned[2:]), {learned[0]}]
    assert lists() == expected(learned[2:], {learned[0]})
    assert learned[1] in {item for item, _ in lists()}  # withdrawn: it may be recommended again
    for item in learned[:2]:
        running.post("/v1/events", event(user, item))
    assert shown() == [set(learned), set()]
    assert lists() == expected(learned)
    running.post("/v1/events", event(user, "tomorrow's", kind="disliked"))
    running.post("/v1/events", event(user, "never", kind="withdrawn"))
    assert running.post("/v1/recommend", {"user_id": user})["unknown_items"] == ["tomorrow's"]
    assert shown()[1] == {"tomorrow's"}
    assert running.client.delete(f"/v1/users/{user}").json()["events"] == 5
    running.get(f"/v1/users/{user}", 404)


def test_a_user_who_withdraws_everything_is_not_known(running):
    running.post("/v1/events", event("fay", "thing"))
    running.post("/v1/events", event("fay", "thing", kind="withdrawn"))
    running.get("/v1/users/fay", 404)
    assert "fay" not in running.get("/v1/users", prefix="fay")["users"]


def test_weights_and_times_of_events_are_shown(running, model):
    item = model.catalogue.items[0]
    assert running.post("/v1/events", event("gus", item, weight=0.1, time="2026-01-01T00:00:00Z"))["new"] == 1
    assert running.post("/v1/events", event("gus", "unknown", weight=2.5))["new"] == 1
    assert running.post("/v1/events", event("gus", item))["new"] == 0
    shown = {entry["item_id"]: entry for entry in running.get("/v1/users/gus")["items"]}
    assert (shown[item]["weight"], shown[item]["time"]) == (0.1, 1767225600000)
    assert shown[item]["at"] > 1767225600000
    assert (shown["unknown"]["weight"], shown["unknown"]["time"]) == (2.5, shown["unknown"]["at"])
    learned = running.get(f"/v1/users/{model.catalogue.users[5]}")["items"][0]
    assert (learned["weight"], learned["time"], learned["at"]) == (1, None, None)


def test_what_the_model_makes_of_weights_times_and_dislikes(running, serving, settings, tmp_path):
    about = running.get("/v1/model")
    assert (about["uses_weights"], about["half_life"], about["dislikes_weight"]) == (True, None, 0)
    data = komd.generate(users=60, items=40, rng=1)
    komd.EASE().fit(data).save(tmp_path / "even.komd")
    about = serving(replace(settings, model=tmp_path / "even.komd")).get("/v1/model")
    assert (about["uses_weights"], about["half_life"], about["dislikes_weight"]) == (False, None, 0)
    timed = komd.data.interactions.Interactions(
        data.users, data.items, data.indptr, data.indices, np.zeros(data.pairs, np.int64), time_unit="s"
    )
    komd.CFKOMD(weighting="none", half_life="30d", dislikes_weight=0.5).fit(timed).save(tmp_path / "timed.komd")
    about = serving(replace(settings, model=tmp_path / "timed.komd")).get("/v1/model")
    assert (about["uses_weights"], about["half_life"], about["dislikes_weight"]) == (False, "30d", 0.5)


def test_withdrawn_items_are_no_longer_low_rated(serving, settings, tmp_path):
    data = komd.generate(users=60, items=40, activity=6, rng=8)
    rng = np.random.default_rng(0)
    data = data.with_seen(*(numbers.astype(np.int32) for numbers in np.nonzero(rng.random(data.shape) < 0.2)))
    komd.CFKOMD().fit(data).save(tmp_path / "rated.komd")
    service = serving(replace(settings, model=tmp_path / "rated.komd"))
    user = data.users[4]
    low = service.get(f"/v1/users/{user}")["low_rated"]
    service.post("/v1/events", event(user, low[0], kind="withdrawn"))
    assert service.get(f"/v1/users/{user}")["low_rated"] == low[1:]
    found = {row["item_id"] for row in service.post("/v1/recommend", {"user_id": user, "n": 40})["items"]}
    assert low[0] in found and not found & set(low[1:])


def test_ids_of_any_text(running):
    for user in ("a/b", "per cent %41", "ünïcode ☃", "q?x=1#y", "..", "users/x/recommendations", "'; DROP TABLE x;--"):
        running.post("/v1/events", {"events": [{"user_id": user, "item_id": "thing/1"}]})
        shown = running.get("/v1/users/" + quote(user, safe="").replace(".", "%2E"))
        assert shown["user_id"] == user and shown["items"][0]["item_id"] == "thing/1"


@pytest.mark.parametrize("held", [0, 50_000])
def test_integer_ids(serving, settings, shop, monkeypatch, held):
    monkeypatch.setattr("komd.serve.item_names._CACHED", held)  # many items are looked up in another way than few
    service = serving(replace(settings, model=shop / "numbers.komd"))
    model = komd.load(shop / "numbers.komd")
    expected = [(str(item), score) for item, score in library(model, [3, 10, 17], n=10)]
    for history in ([3, 10, 17], ["3", "10", "17"], [3, "10", 17]):
        assert listed(service.post("/v1/recommend", {"history": history})) == expected
    answer = service.post("/v1/recommend", {"history": ["03", "3.0", " 3", "4", "x", 10**18]})
    assert answer["unknown_items"] == ["03", "3.0", " 3", "4", "x", str(10**18)]
    service.post("/v1/events", {"events": [{"user_id": 20, "item_id": 3}, {"user_id": "020", "item_id": 3}]})
    assert len(service.get("/v1/users/20")["items"]) > 1
    assert len(service.get("/v1/users/020")["items"]) == 1  # another user
    assert service.get("/v1/users", prefix="11")["users"] == ["110", "1100", "1110", *map(str, range(1120, 1200, 10))]
    assert service.get("/v1/items/3")["name"] == "3"
    service.get("/v1/items/03", 404)


def test_many_items_are_looked_up_as_few_are(shop, running, serving, settings, monkeypatch):
    monkeypatch.setattr("komd.serve.item_names._CACHED", 0)
    many = serving(settings)
    items = [item["item_id"] for item in many.get("/v1/items", n=20)["items"]]
    for ask in (
        {"history": [items[3], "no such", items[9]], "explain": True, "exclude": [items[0], "nor this"]},
        {"user_id": komd.load(shop / "shop.komd").catalogue.users[3], "items": items},
        {"history": []},
    ):
        assert same_lists(many.post("/v1/recommend", ask), running.post("/v1/recommend", ask))


# ---- items, model, health -------------------------------------------------------------------------------------


def test_similar_items(running, model):
    item = model.catalogue.items[8]
    answer = running.get(f"/v1/items/{item}/similar", n=6)
    table = model.similar_items([item], n=6).table
    assert [(row["item_id"], row["similarity"]) for row in answer["items"]] == list(
        zip(table["item_id"].to_pylist(), table["score"].to_pylist(), strict=True)
    )
    running.get("/v1/items/nothing/similar", 404)


def test_popularity_is_the_long_tail(running, model):
    curve = running.get("/v1/popularity")
    counts = np.sort(np.bincount(model.catalogue.histories.indices, minlength=90))[::-1]
    assert curve["ranks"][0] == 1 and curve["ranks"][-1] == 90
    assert curve["counts"] == counts[np.array(curve["ranks"]) - 1].tolist()


def test_model_health_and_metrics(running, model):
    about = running.get("/v1/model")
    assert (about["model"], about["users"], about["items"]) == (model.text, 150, 90)
    assert about["interactions"] == len(model.catalogue.histories.indices)
    assert running.get("/v1/health") == {"status": "ok"} and running.get("/v1/ready") == {"status": "ready"}
    running.get("/v1/users/secret-user/recommendations")
    running.post("/v1/recommend", {"history": []})
    running.post("/v1/events", {"events": [{"user_id": "counted", "item_id": "thing"}]})
    text = running.client.get("/v1/metrics").text
    name = 'komd_requests_total{method="GET",route="/v1/users/{user_id}/recommendations",status="200"}'
    assert any(line.startswith(name) and float(line.split()[-1]) >= 1 for line in text.splitlines()), text
    assert 'komd_request_seconds_bucket{le="0.02",route="/v1/recommend"}' in text
    assert "process_resident_memory_bytes" in text and "secret" not in text
    assert next(float(line.split()[1]) for line in text.splitlines() if line.startswith("komd_events_new_total")) > 0


def test_pages_come_with_their_types(running):
    for address, kind in (("/", "text/html"), ("/docs", "text/html"), ("/static/app.js", "text/javascript")):
        answer = running.client.get(address)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(kind)
        again = running.client.get(address, headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304 and not again.content
    assert running.client.get("/static/../app.py").status_code == 404
    assert running.get("/openapi.json")["info"]["title"] == "komd"
