"""Requests outside the limits, or malformed, are refused in words."""

from __future__ import annotations

import time

import pytest

from .conftest import code

JSON = {"content-type": "application/json"}


LONG = "x" * 257


TOO_MUCH = [
    ("/v1/recommend", {"history": [], "n": 1001}, "n: Input should be less than or equal to 1000"),
    ("/v1/recommend", {"history": [], "n": 0}, "n: Input should be greater than or equal to 1"),
    ("/v1/recommend", {"history": [], "n": 51, "explain": True}, "with explain, n is at most 50"),
    ("/v1/recommend", {"history": ["i"] * 2001}, "history: List should have at most 2000 items"),
    ("/v1/recommend", {"history": [], "items": ["i"] * 20_001}, "items: List should have at most 20000 items"),
    ("/v1/recommend", {"history": [LONG]}, "at most 256 characters"),
    ("/v1/recommend", {"history": [""]}, "at least 1 character"),
    ("/v1/recommend", {"history": [1.5]}, "valid string"),
    ("/v1/recommend", {"history": [True]}, "valid string"),
    ("/v1/recommend", {"history": [2**70]}, "Input should be less than 18446744073709551616"),
    ("/v1/recommend", {"history": ["a\x00b"]}, "String should match pattern"),
    ("/v1/recommend", {"history": "abc"}, "valid list"),
    ("/v1/recommend", {}, "give user_id or history, one of them"),
    ("/v1/recommend", {"user_id": "a", "history": []}, "give user_id or history, one of them"),
    ("/v1/recommend", {"history": [], "exclude_sene": True}, "Extra inputs are not permitted"),
    ("/v1/recommend", [], "valid dictionary"),
    ("/v1/recommend/batch", {"requests": [{"history": []}] * 257}, "at most 256 items"),
    ("/v1/recommend/batch", {"requests": []}, "at least 1 item"),
    ("/v1/events", {"events": [{"user_id": "a", "item_id": "b"}] * 1025}, "at most 1024 items"),
    ("/v1/events", {"events": [{"user_id": "a"}]}, "item_id: Field required"),
    ("/v1/recommend", {"user_id": "a", "dislikes": ["i"]}, "dislikes: they belong to a history; those of a user_id"),
    ("/v1/recommend", {"history": ["7", {"item_id": 8}], "dislikes": [7]}, "dislikes: '7' is in the history as well"),
    ("/v1/recommend", {"history": [{"item_id": 8}], "dislikes": ["8"]}, "dislikes: '8' is in the history as well"),
    ("/v1/recommend", {"history": [], "dislikes": ["i"] * 2001}, "dislikes: List should have at most 2000 items"),
    ("/v1/recommend", {"history": [{"weight": 1}]}, "history.0.item_id: Field required"),
    ("/v1/recommend", {"history": [{"item_id": "i", "wieght": 1}]}, "wieght: Extra inputs are not permitted"),
    ("/v1/recommend", {"history": [], "at": "yesterday"}, "at: a time is ISO 8601 text"),
    ("/v1/events", {"events": [{"user_id": "a", "item_id": "b", "kind": "liked"}]}, "events.0.kind: Input should be"),
    (
        "/v1/events",
        {
            "events": [
                {"user_id": "a", "item_id": "b"},
                {"user_id": "a", "item_id": "b", "kind": "disliked", "weight": 2},
            ]
        },
        "events.1.weight: only a choice has a weight, and this event is disliked",
    ),
    (
        "/v1/events",
        {"events": [{"user_id": "a", "item_id": "b", "time": 1000 * int(time.time() + 90_000)}]},
        "events.0.time: it is more than a day ahead of this machine's clock",
    ),
]

BAD_WEIGHTS = {
    "0": "weight: Input should be greater than 0",
    "-2": "weight: Input should be greater than 0",
    "1e31": "weight: Input should be less than or equal to 1000000",
    "NaN": "weight: Input should be a finite number",
    "Infinity": "weight: Input should be a finite number",
    "1e999": "weight: Input should be a finite number",
    '"3"': "weight: Input should be a valid number",
    "true": "weight: Input should be a valid number",
    "[]": "weight: Input should be a valid number",
}
BAD_TIMES = {
    "1700000000": "time: a time is ISO 8601 text",
    "-5": "below 10^11 and looks like seconds",
    "300000000000000": "after the year 9999",
    "1700000000000.5": "time: a time is ISO 8601 text",
    "true": "time: a time is ISO 8601 text",
    '"1700000000000"': "time: a time is ISO 8601 text",
    '"next week"': "time: a time is ISO 8601 text",
    '"2026-02-30T00:00:00Z"': "time: a time is ISO 8601 text",
    '"now"': "time: a time is ISO 8601 text",
    "{}": "time: a time is ISO 8601 text",
}


@pytest.mark.parametrize(("path", "body", "words"), TOO_MUCH, ids=lambda value: str(value)[:30])
def test_too_much_is_422_in_words(running, path, body, words):
    answer = running.client.post(path, json=body)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert len(answer.content) < 1500  # what was sent is not sent back


@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/events"])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("weight", *bad) for bad in BAD_WEIGHTS.items()] + [("time", *bad) for bad in BAD_TIMES.items()],
)
def test_bad_weights_and_times_are_422_and_named(running, path, name, value, words):
    one = f'"item_id": "i", "{name}": {value}'
    event, history = f'{{"events": [{{"user_id": "a", {one}}}]}}', f'{{"history": [{{{one}}}]}}'
    body = event if path == "/v1/events" else history
    answer = running.client.post(path, content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"] and "valid string" not in answer.json()["detail"]
    where = "events.0." if path == "/v1/events" else "history.0."
    assert answer.json()["detail"].startswith(f"{where}{name}: ")


def test_times_in_each_form(running):
    forms = ["2026-03-01T12:00:00Z", "2026-03-01T13:00+01:00", "2026-03-01T12:00:00.000", 1772366400000]  # naive: UTC
    for k, form in enumerate(forms):
        running.post("/v1/events", {"events": [{"user_id": "clock", "item_id": str(k), "time": form}]})
    assert {entry["time"] for entry in running.get("/v1/users/clock")["items"]} == {1772366400000}
    running.post("/v1/recommend", {"history": [{"item_id": "i", "time": "9999-12-31T23:59:59Z"}], "at": "0001-01-01"})
    soon = 1000 * int(time.time() + 80_000)  # clocks differ
    assert running.post("/v1/events", {"events": [{"user_id": "clock", "item_id": "s", "time": soon}]})["new"] == 1


def test_addresses_are_checked_too(running):
    for path in (
        f"/v1/users/{LONG}",
        "/v1/users/a%00b",
        "/v1/users/%ff",
        "/v1/items/x/similar?n=1001",
        "/v1/items?n=0",
        "/v1/items?q=" + "a" * 201,
    ):
        answer = running.client.get(path)
        assert answer.status_code == 422 and answer.json()["detail"], path


def test_malformed_is_400(running):
    for body in (b"{", b"\xff\xfe", b"[1,", b"nonsense", b'{"history": [1' + b"0" * 5000 + b"]}", b"[" * 100_000):
        answer = running.client.post("/v1/recommend", content=body, headers=JSON)
        assert answer.status_code in (400, 422), answer.text
        assert answer.json()["detail"]
    half = b'{"history": ["\\ud800"]}'
    assert running.client.post("/v1/recommend", content=half, headers=JSON).status_code == 422
    plain = running.client.post("/v1/recommend", content=b"{}", headers={"content-type": "text/plain"})
    assert plain.status_code == 415 and "application/json" in plain.json()["detail"]
    for raw in (
        b"\x16\x03\x01\x02\x00 hello\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        assert code(running.send(raw)) == 400
    assert running.client.request("PATCH", "/v1/model").status_code == 405
    assert running.client.get("/v1/nothing").json() == {"detail": "Not Found"}
