"""Requests outside the limits, or malformed, are refused in words."""

from __future__ import annotations

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
]


@pytest.mark.parametrize(("path", "body", "words"), TOO_MUCH, ids=lambda value: str(value)[:30])
def test_too_much_is_422_in_words(running, path, body, words):
    answer = running.client.post(path, json=body)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert len(answer.content) < 1500  # what was sent is not sent back


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
    assert (
        running.client.post("/v1/recommend", content=b"{}", headers={"content-type": "text/plain"}).status_code == 422
    )
    for raw in (
        b"\x16\x03\x01\x02\x00 hello\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        assert code(running.send(raw)) == 400
    assert running.client.request("PATCH", "/v1/model").status_code == 405
    assert running.client.get("/v1/nothing").json() == {"detail": "Not Found"}
