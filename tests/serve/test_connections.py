"""Limits of connections: long and slow heads, unread responses, requests in advance, idle connections."""

from __future__ import annotations

import json
import re
import socket
import time
from dataclasses import replace

import pytest

from komd.serve.serve_settings import Limits

from .conftest import code, received, request


def detail(answer):
    """The words of a response that is all of an answer, and JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head and b"content-length: %d" % len(body) in head
    return json.loads(body)["detail"]


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS where there is none
        b"GET / HTTP/9.9\r\n\r\n",
        b"BREW /tea HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Length: a\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_not_http_is_400_in_json(running, raw):
    answer = running.send(raw)
    assert code(answer) == 400 and detail(answer) == "this is not a request in HTTP"


def test_endless_heads_are_431(running):
    answer = running.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 40_000)
    assert code(answer) == 431
    answer = running.send(b"GET /" + b"a" * 70_000)
    assert code(answer) in (400, 431)


@pytest.fixture
def hasty(settings, serving):
    limits = Limits(head_seconds=0.5, body_seconds=0.5, write_seconds=0.5, idle_seconds=1, connections=20, waiting=4)
    return serving(replace(settings, limits=limits))


def test_slow_heads_are_408(hasty):
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


def test_single_bytes_do_not_extend_the_time(hasty):
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


def test_clients_that_do_not_read_are_disconnected(hasty, shop):
    ask = {"history": ["x"], "n": 50, "explain": True}
    body = json.dumps({"requests": [ask] * 256}).encode()  # some megabytes of answer: more than the system will hold
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", hasty.port))
        line.sendall(request("POST", "/v1/recommend/batch", "Content-Type: application/json", body=body))
        assert dropped(hasty)
    assert hasty.get("/v1/health")


def test_clients_that_send_too_many_requests_in_advance_are_disconnected(hasty):
    one = b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = hasty.send(one * 10, wait=0.5)
    assert answer.count(b"HTTP/1.1 200") == 10
    assert b"400 Bad Request" in (answer := hasty.send(one * 2000, wait=3)) and b"too many requests at once" in answer
    assert dropped(hasty)
    assert hasty.get("/v1/health")


def test_too_many_connections_are_503(hasty):
    lines = [socket.create_connection(("127.0.0.1", hasty.port)) for _ in range(25)]
    try:
        time.sleep(0.1)
        answer = hasty.send(request("GET", "/v1/health"))
        assert code(answer) == 503 and "too many connections" in detail(answer) and b"retry-after: " in answer
    finally:
        for line in lines:
            line.close()
    time.sleep(0.3)
    assert hasty.get("/v1/health")


def kept(port, raw, then, wait=8.0):
    """Whether a connection is still open `wait` seconds after its request was answered and `then` was sent."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(raw)
        line.settimeout(5)
        assert line.recv(65536)
        line.sendall(then)
        line.settimeout(wait)
        try:
            while line.recv(65536):
                pass
        except TimeoutError:
            return True
        except ConnectionError:
            pass
        return False


REFUSED = b"POST /v1/events HTTP/1.1\r\nHost: evil.example\r\n"


@pytest.mark.parametrize(
    ("raw", "then"),
    [
        (REFUSED + b"Content-Length: 9000\r\n\r\n", b"a"),  # refused before its body came, which never ends
        (REFUSED + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (REFUSED + b"Content-Length: 1\r\n\r\n", b"a"),  # refused before its body came, which does end
        (b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\r\n"),  # an empty line before the next request
    ],
    ids=["endless body", "endless chunks", "late body", "empty line"],
)
def test_what_follows_an_answer_does_not_keep_a_connection(hasty, raw, then):
    assert not kept(hasty.port, raw, then)


def test_a_refused_body_is_read_and_the_connection_goes_on(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port)) as line:
        line.sendall(REFUSED + b"Content-Length: 3\r\n\r\n")
        line.settimeout(5)
        assert code(line.recv(65536)) == 421
        line.sendall(b"abc" + request("GET", "/v1/health"))
        assert code(received(line)) == 200


@pytest.mark.parametrize(
    "rest", [b"0\r\n" + b"a: b\r\n" * 8, b"0\r\nx: " + b"a" * 64, b"1;" + b"a" * 64], ids=["many", "long", "size"]
)
def test_endless_trailers_and_sizes_of_chunks_are_cut_off(running, rest):
    """By default a body has 10 seconds: here the size ends it."""
    with socket.create_connection(("127.0.0.1", running.port)) as line:
        line.sendall(b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" + rest)
        line.settimeout(5)
        more = (b"a: b\r\n" if rest.endswith(b"\n") else b"a") * 1000
        with pytest.raises((ConnectionError, TimeoutError)) as stopped:
            for _ in range(40_000_000 // len(more)):
                line.sendall(more)
        assert not isinstance(stopped.value, TimeoutError)


def test_trailers_are_no_headers(settings, serving, tmp_path):
    """A proxy adds its headers to the head; what a client sends after the body would come last."""
    secret = "0123456789abcdef0123"
    (tmp_path / "tokens").write_text(secret)
    service = serving(replace(settings, token_file=tmp_path / "tokens"))
    head = b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    body = b'Transfer-Encoding: chunked\r\n\r\ne\r\n{"history":[]}\r\n0\r\n'
    given = b"Authorization: Bearer " + secret.encode() + b"\r\n"
    assert code(service.send(head + given + body + b"\r\n")) == 200
    assert code(service.send(head + body + given + b"\r\n")) == 401
