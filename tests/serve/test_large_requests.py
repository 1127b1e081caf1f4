"""Large requests over HTTP: the same answers and errors as small ones, deadlines, refused batches, lost clients."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import replace

import pytest

from komd.serve import api, large_bodies, request_cost, schemas
from komd.serve.json_output import json_array
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.serve_settings import Limits

from .conftest import code, received, request, same_lists, until

PADDING = " " * (large_bodies.LARGE_BODY + 1)  # after the JSON: a large body that says the same


@pytest.fixture
def impatient(settings, serving):
    """A service with a deadline of a fifth of a second."""
    return serving(replace(settings, limits=replace(Limits(), request_seconds=0.2)))


@pytest.fixture
def slow(monkeypatch):
    """Ranking that takes for ever, in short parts, until it is let go; how often it was begun and ended."""
    events = {"begun": 0, "ended": 0, "free": threading.Event()}
    ranked = ModelSnapshot.recommend

    def recommend(self, rows, **options):
        if "costs" not in options:  # a model is tried when it is loaded
            return ranked(self, rows, **options)
        events["begun"] += 1
        try:
            while not events["free"].wait(0.01):
                api.request_context.current().check()
        finally:
            events["ended"] += 1
        return ranked(self, rows, **options)

    monkeypatch.setattr(ModelSnapshot, "recommend", recommend)
    yield events
    events["free"].set()


ITEMS = ["Amber Kite (jazz)", "Amber Tiger (opera)"]


@pytest.mark.parametrize(
    "path, body",
    [
        ("recommend", {"history": ITEMS, "n": 5, "explain": True}),
        ("recommend", {"history": [{"item_id": ITEMS[0], "weight": 2}, 7], "exclude": ITEMS}),
        ("recommend", {"user_id": "user-00007", "n": 3}),
        ("recommend", {"user_id": "a", "history": []}),
        ("recommend", {"history": [1.5, None], "n": 0, "unknown": 1}),
        ("recommend", {"history": ["a\x00"], "n": "many"}),
        ("recommend", [1, 2]),
        ("recommend", None),
        ("recommend/batch", {"requests": [{"history": ITEMS}, {"user_id": "user-00003"}, {"history": ITEMS, "n": 2}]}),
        ("recommend/batch", {"requests": [{"history": ITEMS}, {"history": ITEMS, "reasons": 1000}]}),
        ("recommend/batch", {"requests": []}),
        ("events", {"events": [{"user_id": "ana", "item_id": "i7", "kind": "loved"}]}),
        ("events", {"events": [{"user_id": "ana", "item_id": ITEMS[0]}]}),
    ],
)
def test_large_bodies_are_answered_as_small_ones(running, path, body):
    text = json.dumps(body)
    answers = [
        running.client.post(f"/v1/{path}", content=content, headers={"content-type": "application/json"})
        for content in (text, text + PADDING)
    ]
    kept = ("content-type", "cache-control")
    small, large = ({"code": each.status_code, "body": without_ids(each.json())} for each in answers)
    if path == "events" and small["code"] == 200:
        small["body"].pop("new"), large["body"].pop("new")
    assert small == large
    assert [answers[0].headers.get(name) for name in kept] == [answers[1].headers.get(name) for name in kept]


def without_ids(body):
    """Each list has an id of its own."""
    for found in (body, *body.get("answers", ())):
        found.pop("recommendation_id", None)
    return body


@pytest.mark.parametrize("text", ["{", '{"history": [}', "\udcff".encode("utf-8", "surrogatepass"), b"\xc3("])
def test_large_bodies_that_are_no_json(running, text):
    raw = text if isinstance(text, bytes) else text.encode()
    for kind in ("application/json", "application/json; charset=utf-8"):
        found = [
            running.client.post("/v1/recommend", content=content, headers={"content-type": kind})
            for content in (raw, raw + PADDING.encode())
        ]
        assert found[0].status_code == found[1].status_code in (400, 422)
        assert found[0].json() == found[1].json()


def test_a_batch_is_written_as_pydantic_would(running):
    answer = running.client.post("/v1/recommend/batch", json={"requests": [{"history": ITEMS}, {"user_id": "ü"}]})
    read = schemas.BatchAnswer.model_validate_json(answer.content)
    assert read.model_dump_json().encode() == answer.content
    whole = json_array("answers", [(1, read.answers[1]), (0, read.answers[0])])
    assert whole.body == answer.content


def test_a_long_answer_arrives_complete(running):
    unknown = [f"{k:0>250}" for k in range(3000)]
    found = running.post("/v1/recommend", {"history": ITEMS, "items": [*unknown, *ITEMS]})
    assert found["unknown_items"] == unknown


def test_a_batch_that_is_too_much_is_refused(running, monkeypatch):
    monkeypatch.setattr(request_cost, "BATCH", 1e5)
    answer = running.client.post("/v1/recommend/batch", json={"requests": [{"history": ITEMS}] * 40})
    assert answer.status_code == 422
    assert "this batch of 40 requests is" in answer.json()["detail"] and "split it" in answer.json()["detail"]
    assert len(running.post("/v1/recommend/batch", {"requests": [{"history": ITEMS}]})["answers"]) == 1


@pytest.mark.parametrize("n", [10, 1000])
def test_a_late_answer_is_504_and_its_work_is_abandoned(impatient, slow, n):
    answer = impatient.client.post("/v1/recommend", json={"history": ITEMS, "n": n})
    assert answer.status_code == 504
    assert "time limit" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) >= 1
    assert until(lambda: slow["ended"] == 1)
    slow["free"].set()
    assert impatient.post("/v1/recommend", {"history": ITEMS, "n": n})["items"]
    assert "komd_deadline_exceeded_total 1.0" in impatient.client.get("/v1/metrics").text


def test_large_requests_do_not_hold_up_small_ones(settings, serving, slow):
    """One large request works for ever; small ones are answered."""
    service = serving(settings)
    body = {"requests": [{"history": ITEMS}]}
    large = threading.Thread(target=lambda: service.client.post("/v1/recommend/batch", json=body))
    large.start()
    assert until(lambda: slow["begun"] == 1)
    assert service.get("/v1/items")["items"]
    assert service.get("/v1/users")["users"]
    slow["free"].set()
    large.join(20)
    assert slow["ended"] == 1


def test_a_stored_history_that_is_long_is_left_to_the_large_queue(running, monkeypatch):
    before = waited(running, "large")
    running.post("/v1/recommend", {"user_id": "user-00007"})
    assert waited(running, "large") == before
    monkeypatch.setattr(api, "SMALL", 1e5)
    found = running.post("/v1/recommend", {"user_id": "user-00007", "n": 30})
    assert waited(running, "large") == before + 1
    monkeypatch.undo()
    assert same_lists(running.post("/v1/recommend", {"user_id": "user-00007", "n": 30}), found)


def waited(service, queue):
    lines = service.client.get("/v1/metrics").text.splitlines()
    name = f'komd_queue_wait_seconds_count{{queue="{queue}"}} '
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_work_for_a_client_that_went_away_is_abandoned(settings, serving, slow):
    service = serving(settings)
    body = json.dumps({"requests": [{"history": ITEMS}]}).encode()
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(request("POST", "/v1/recommend/batch", "Content-Type: application/json", body=body))
        assert until(lambda: slow["begun"] == 1)
    assert until(lambda: slow["ended"] == 1)
    slow["free"].set()
    assert until(lambda: 'status="499"' in service.client.get("/v1/metrics").text)


def test_a_store_that_does_not_answer_in_time(impatient, monkeypatch):
    """Events and forgetting say that they may have happened."""
    from komd.serve.event_store import EventStore

    monkeypatch.setattr(EventStore, "add", lambda self, events, ids=None: Future())
    monkeypatch.setattr(EventStore, "forget", lambda self, user: Future())
    start = time.monotonic()
    posted = impatient.client.post("/v1/events", json={"events": [{"user_id": "ana", "item_id": "i7"}]})
    forgotten = impatient.client.delete("/v1/users/ana")
    for answer, words in ((posted, "may or may not be stored"), (forgotten, "may or may not be forgotten")):
        assert answer.status_code == 504 and words in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) >= 1
    assert time.monotonic() - start < 20


def test_a_full_queue_says_when_to_come_again(settings, serving, slow):
    service = serving(replace(settings, limits=replace(Limits(), waiting=1)))
    body = request(
        "POST", "/v1/recommend", "Content-Type: application/json", body=json.dumps({"history": ITEMS}).encode()
    )
    lines = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(3)]
    for line in lines[:2]:
        line.sendall(body)
    assert until(lambda: "komd_waiting 2.0" in service.client.get("/v1/metrics").text)
    lines[2].sendall(body)
    refused = received(lines[2])
    assert code(refused) == 503 and b"retry-after: 1\r\n" in refused
    slow["free"].set()
    assert [code(received(line)) for line in lines[:2]] == [200, 200]
    for line in lines:
        line.close()
