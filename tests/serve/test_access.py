"""Who may ask, how much may be sent, how slowly, and what every answer carries."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
from dataclasses import replace

import httpx
import psutil
import pytest

from komd.errors import InputError
from komd.serve.serve_settings import Limits, Settings

from .conftest import received

JSON = {"content-type": "application/json"}


def request(method, path, *headers, body=b"", host="127.0.0.1"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def code(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


# ---- what is refused before it starts --------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_only_this_machine_without_a_token(shop, host):
    settings = Settings(model=shop / "shop.komd", store="sqlite:///x.db", host=host)
    with pytest.raises(InputError, match="without a token file only this machine is served"):
        settings.check()
    assert "no token: anyone who reaches" in replace(settings, insecure=True).check()[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_this_machine_needs_no_token(shop, host):
    assert Settings(model=shop, store="sqlite:///x.db", host=host).check() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no token"),
        ("# only a comment\n", "holds no token"),
        ("short\n", "has 5 characters"),
        ("two words are odd ones\n", "odd ones"),
    ],
)
def test_bad_tokens(shop, tmp_path, content, words):
    file = tmp_path / "tokens"
    file.write_text(content)
    with pytest.raises(InputError, match=words):
        Settings(model=shop, store="sqlite:///x.db", token_file=file).check()


def test_tokens_others_can_read(shop, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("a" * 32)
    file.chmod(0o644)
    assert "can be read by others" in Settings(model=shop, store="sqlite:///x.db", token_file=file).check()[0]
    file.chmod(0o600)
    assert Settings(model=shop, store="sqlite:///x.db", token_file=file, host="0.0.0.0").check() == []


@pytest.mark.parametrize("origin", ["*", "shop.example", "https://*.example", "https://shop.example/"])
def test_origins_are_named_in_full(shop, origin):
    with pytest.raises(InputError, match=r"an origin is like https://shop\.example"):
        Settings(model=shop, store="sqlite:///x.db", origins=(origin,)).check()


def test_settings_survive_the_way_to_a_worker(shop, tmp_path):
    settings = Settings(model=shop, store="x", items=tmp_path, origins=("https://a.b",), limits=Limits(n=5))
    assert Settings.from_text(settings.to_text()) == settings


# ---- who -------------------------------------------------------------------------------------------------------


@pytest.fixture
def locked(settings, serving, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("# for the shop\n" + "a" * 32 + "\n" + "b" * 32 + "\n")
    return serving(replace(settings, token_file=file))


def test_tokens(locked):
    for token in ("a" * 32, "b" * 32):
        given = {"authorization": f"Bearer {token}"}
        assert locked.client.get("/v1/model", headers=given).status_code == 200
        assert locked.client.post("/v1/recommend", json={"history": []}, headers=given).status_code == 200
    wrong = [
        "",
        "Bearer",
        "Bearer " + "a" * 31,
        "Bearer " + "A" * 32,
        "Basic " + "a" * 32,
        "Bearer " + "a" * 33,
        "a" * 32,
    ]
    paths = ["/v1/model", "/v1/users/x", "/v1/items", "/v1/metrics", "/v1/nothing", "/v1/recommend"]
    for value in wrong:
        for path in paths:
            answer = locked.client.get(path, headers={"authorization": value})
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert "token" in answer.json()["detail"]
    assert locked.client.delete("/v1/users/x").status_code == 401
    for path in ("/v1/health", "/v1/ready", "/", "/docs", "/openapi.json"):
        assert locked.client.get(path).status_code == 200
    assert "HTTPBearer" in locked.get("/openapi.json")["components"]["securitySchemes"]
    for path in ("/V1/model", "//v1/model", "/v1//model", "/./v1/model", "/v1/health/../model", "/%761/model"):
        assert code(locked.send(request("GET", path))) in (401, 404), path


def test_names_that_point_here_from_outside(running):
    for host in ("127.0.0.1:80", "localhost:8000", "[::1]:9"):
        assert code(running.send(request("GET", "/v1/model", host=host))) == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "192.0.2.1", ""):
        assert code(running.send(request("GET", "/v1/model", host=host))) == 421, host


def test_pages_of_other_sites(running, settings, serving):
    own = f"http://127.0.0.1:{running.port}"
    body = {"events": [{"user_id": "victim", "item_id": "x"}]}
    assert running.client.post("/v1/events", json=body, headers={"origin": own}).status_code == 200
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        answer = running.client.post("/v1/events", json=body, headers={"origin": origin})
        assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers
        assert running.client.post("/v1/model/reload", headers={"origin": origin}).status_code == 403
        ask = {"origin": origin, "access-control-request-method": "POST"}
        assert running.client.options("/v1/events", headers=ask).status_code == 403
    named = serving(replace(settings, origins=("https://shop.example",)))
    good = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    answer = named.client.options("/v1/recommend", headers=good)
    assert answer.status_code == 204 and answer.headers["access-control-allow-origin"] == "https://shop.example"
    answer = named.client.post("/v1/recommend", json={"history": []}, headers={"origin": "https://shop.example"})
    assert (
        answer.headers["access-control-allow-origin"] == "https://shop.example" and answer.headers["vary"] == "Origin"
    )
    assert named.client.get("/v1/model", headers={"origin": "https://evil.example"}).status_code == 403


def test_every_answer_is_armoured(running):
    for path in ("/", "/docs", "/static/app.js", "/v1/model", "/v1/users/nobody", "/nothing", "/openapi.json"):
        headers = running.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert headers["cache-control"] == ("no-cache" if path in ("/", "/docs", "/static/app.js") else "no-store")


# ---- how much --------------------------------------------------------------------------------------------------

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


def test_bodies_too_long_are_413_and_the_service_stays(running):
    head = request("POST", "/v1/recommend", "Content-Type: application/json")
    sent = head.replace(b"Connection: close", b"Content-Length: 3000000")
    answer = running.send(sent + b"x" * 3_000_000)
    assert code(answer) == 413 and b"at most 1,048,576 bytes" in answer
    chunked = head.replace(b"Connection: close", b"Transfer-Encoding: chunked")
    answer = running.send(
        chunked + b"100000\r\n" + b"x" * 0x100000 + b"\r\n" + b"10\r\n" + b"y" * 16 + b"\r\n0\r\n\r\n"
    )
    assert code(answer) == 413
    endless = httpx.Client(base_url=running.address)
    try:
        refused = endless.post("/v1/events", content=(b"x" * 65536 for _ in range(1000)), headers=JSON).status_code
    except httpx.TransportError:  # hung up on before it had said all
        refused = 413
    assert refused == 413
    assert running.get("/v1/health") == {"status": "ok"}


def test_endless_heads_are_431(running):
    answer = running.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 40_000)
    assert code(answer) == 431
    answer = running.send(b"GET /" + b"a" * 70_000)
    assert code(answer) in (400, 431)


def test_memory_stays_flat_under_abuse(running):
    process = psutil.Process(os.getpid())
    big = json.dumps({"history": ["x" * 200] * 2000, "exclude": ["y" * 100] * 4000}).encode()

    def abuse():
        for _ in range(12):
            running.client.post("/v1/recommend", content=big, headers=JSON)
            running.client.post("/v1/recommend", content=b"[" * 500_000, headers=JSON)
            running.send(request("POST", "/v1/events", body=b"z" * 2_000_000), wait=0.2)

    abuse()
    before = process.memory_info().rss
    abuse()
    abuse()
    assert process.memory_info().rss < before + 30e6
    assert running.get("/v1/ready") == {"status": "ready"}


# ---- how slowly ------------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(settings, serving):
    limits = Limits(head_seconds=0.5, body_seconds=0.5, write_seconds=0.5, idle_seconds=1, connections=20, waiting=4)
    return serving(replace(settings, limits=limits))


def test_slow_heads_are_hung_up_on(hasty):
    for first in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "):
        with socket.create_connection(("127.0.0.1", hasty.port)) as line:
            start = time.monotonic()
            line.sendall(first)
            answer = received(line, 5)
            assert time.monotonic() - start < 4.5
            assert code(answer) == 408
    with socket.create_connection(("127.0.0.1", hasty.port)) as line:  # the second request of a connection
        line.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/he")
        assert re.findall(rb"HTTP/1.1 (\d+)", received(line, 5)) == [b"200", b"408"]


def test_a_drop_now_and_then_does_not_help(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port)) as line:
        for letter in b"GET / HTTP/1.1":
            try:
                line.sendall(bytes([letter]))
            except OSError:
                break
            time.sleep(0.1)
        assert code(received(line, 3)) in (408, None)  # None: it was closed while we wrote


def test_slow_bodies_are_408(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port)) as line:
        head = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        line.sendall(head + b'{"events"')
        answer = received(line, 5)
    assert code(answer) == 408 and b"the body took more than 0.5 seconds" in answer
    assert hasty.get("/v1/health")


def test_idle_connections_are_closed(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port)) as line:
        line.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line.settimeout(5)
        assert line.recv(9) == b"HTTP/1.1 "
        while line.recv(4096):
            pass  # ends when the service hangs up; a time-out would raise


def dropped(service):
    """Whether every connection but that of `client` is gone within some seconds."""
    for _ in range(100):
        if len(service.server.server_state.connections) <= 1:
            return True
        time.sleep(0.1)
    return False


def test_who_never_takes_the_answer_is_dropped(hasty, shop):
    ask = {"history": ["x"], "n": 50, "explain": True}
    body = json.dumps({"requests": [ask] * 256}).encode()  # some megabytes of answer: more than the system will hold
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", hasty.port))
        line.sendall(request("POST", "/v1/recommend/batch", "Content-Type: application/json", body=body))
        assert dropped(hasty)
    assert hasty.get("/v1/health")


def test_who_asks_without_waiting_is_dropped(hasty):
    one = b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = hasty.send(one * 10, wait=0.5)
    assert answer.count(b"HTTP/1.1 200") == 10
    assert b"HTTP/1.1 400" in hasty.send(one * 2000, wait=3)
    assert dropped(hasty)
    assert hasty.get("/v1/health")


def test_too_many_connections_are_503(hasty):
    lines = [socket.create_connection(("127.0.0.1", hasty.port)) for _ in range(25)]
    try:
        time.sleep(0.1)
        assert code(hasty.send(request("GET", "/v1/health"))) == 503
    finally:
        for line in lines:
            line.close()
    time.sleep(0.3)
    assert hasty.get("/v1/health")


# ---- what is written down --------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_ids", [False, True])
def test_the_log_names_no_user_unless_asked(settings, serving, caplog, log_ids, monkeypatch):
    service = serving(replace(settings, log_requests=True, log_ids=log_ids))
    logging.getLogger("komd.serve").setLevel(logging.INFO)
    monkeypatch.setattr(logging.getLogger("komd.serve"), "propagate", True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with caplog.at_level(logging.INFO):
        service.client.get("/v1/users/ana-secret")
        service.client.get("/v1/users", params={"prefix": "ana-secret"})
        service.client.delete("/v1/users/ana-secret")
        service.post("/v1/events", {"events": [{"user_id": "ana-secret", "item_id": "i"}]})

        def broken(*_, **__):
            raise RuntimeError("-".join(["ana", "secret"]))

        monkeypatch.setattr("komd.serve.service.Service.recommend", broken)
        answer = service.client.post("/v1/recommend", json={"user_id": "ana-secret"})
        assert answer.status_code == 500 and "secret" not in answer.text and answer.json()["detail"]
        for _ in range(100):  # the line is written after the answer
            if "RuntimeError" in caplog.text:
                break
            time.sleep(0.02)
    assert "GET /v1/users" in caplog.text or log_ids
    assert "RuntimeError" in caplog.text
    assert ("ana-secret" in caplog.text) == log_ids


def test_a_store_that_goes_away_is_503_and_histories_are_served_on(settings, serving, tmp_path):
    service = serving(settings)
    import sqlite3

    with sqlite3.connect(tmp_path / "events.db") as connection:
        connection.execute("ALTER TABLE komd_events RENAME TO gone")
        connection.execute("ALTER TABLE komd_settings RENAME TO gone_too")
    for answer in (
        service.client.get("/v1/ready"),
        service.client.get("/v1/users/a"),
        service.client.post("/v1/events", json={"events": [{"user_id": "a", "item_id": "b"}]}),
        service.client.delete("/v1/users/a"),
    ):
        assert answer.status_code == 503 and answer.headers["retry-after"]
    assert service.get("/v1/health") and service.post("/v1/recommend", {"history": []})
