"""Who may ask, how much may be sent, and the headers and log lines of every request."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import replace

import httpx
import psutil
import pytest

from .conftest import code, connected, request

JSON = {"content-type": "application/json"}


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
    named = serving(replace(settings, origins=("https://Shop.example:443",)))
    good = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    answer = named.client.options("/v1/recommend", headers=good)
    assert answer.status_code == 204 and answer.headers["access-control-allow-origin"] == "https://shop.example"
    answer = named.client.post("/v1/recommend", json={"history": []}, headers={"origin": "https://shop.example"})
    assert (
        answer.headers["access-control-allow-origin"] == "https://shop.example" and answer.headers["vary"] == "Origin"
    )
    assert named.client.get("/v1/model", headers={"origin": "https://evil.example"}).status_code == 403


def test_every_response_has_the_security_headers(running):
    for path in ("/", "/docs", "/static/app.js", "/v1/model", "/v1/users/nobody", "/nothing", "/openapi.json"):
        headers = running.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert headers["cache-control"] == ("no-cache" if path in ("/", "/docs", "/static/app.js") else "no-store")


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
    endless = connected(running.address)
    try:
        refused = endless.post("/v1/events", content=(b"x" * 65536 for _ in range(1000)), headers=JSON).status_code
    except httpx.TransportError:  # disconnected before all was sent
        refused = 413
    assert refused == 413
    assert running.get("/v1/health") == {"status": "ok"}


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


def test_head_of_health_and_readiness(running, settings, serving, tmp_path):
    for path in ("/v1/health", "/v1/ready"):
        answer = running.client.head(path)
        assert answer.status_code == 200 and answer.content == b"" and answer.headers["content-type"]
    assert running.send(request("HEAD", "/v1/ready")).endswith(b"\r\n\r\n")
    import sqlite3

    service = serving(settings)
    with sqlite3.connect(tmp_path / "events.db") as connection:
        connection.execute("ALTER TABLE komd_events RENAME TO gone")
        connection.execute("ALTER TABLE komd_settings RENAME TO gone_too")
    answer = service.client.head("/v1/ready")
    assert answer.status_code == 503 and answer.content == b"" and answer.headers["retry-after"]
    assert service.client.head("/v1/health").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/users/x", {"GET", "DELETE"}),
        ("POST", "/v1/users/a%2Fb", {"GET", "DELETE"}),
        ("GET", "/v1/recommend", {"POST"}),
        ("DELETE", "/v1/health", {"GET", "HEAD"}),
        ("OPTIONS", "/v1/model/reload", {"POST"}),
        ("POST", "/", {"GET", "HEAD"}),
    ],
)
def test_another_method_is_405_with_those_that_are_allowed(running, method, path, allowed):
    answer = running.client.request(method, path)
    assert answer.status_code == 405 and allowed <= set(answer.headers["allow"].split(", "))
    assert f"{method} is not possible here" in answer.json()["detail"]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "\xff"])
def test_a_body_that_is_not_declared_as_json_is_415(running, kind):
    headers = {} if kind is None else {"content-type": kind.encode("latin-1")}
    answer = running.client.post("/v1/recommend", content=b'{"history": []}', headers=headers)
    assert answer.status_code == 415 and "Content-Type: application/json" in answer.json()["detail"]
    assert ("without one" if kind is None else "it came as") in answer.json()["detail"]


def test_json_by_other_spellings_and_no_body_at_all(running):
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/json ;x=1"):
        answer = running.client.post("/v1/recommend", content=b'{"history": []}', headers={"content-type": kind})
        assert answer.status_code == 200
    assert running.client.post("/v1/model/reload").status_code == 200
    assert running.client.post("/v1/recommend").status_code == 422
