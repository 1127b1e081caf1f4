"""Repeated log lines: one, and then how many more."""

from __future__ import annotations

import io
import logging
import socket

import pytest

from komd.serve.log_floods import FloodFilter
from tests.serve.conftest import Command, until


@pytest.fixture
def logger():
    """A logger of its own, and the text that it writes; floods last 0.2 seconds."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.addFilter(FloodFilter(handler.handle, 0.2))
    made = logging.Logger("flooded", logging.DEBUG)
    made.addHandler(handler)
    return made, text


def test_a_flood_is_one_line_and_a_number(logger):
    log, text = logger
    for k in range(1000):
        log.error("the store %s does not answer (%d)", "x", k)
    log.error("something else")
    assert text.getvalue().splitlines() == ["the store x does not answer (0)", "something else"]
    assert until(lambda: "more of these" in text.getvalue())
    assert text.getvalue().splitlines()[2:] == ["999 more of these in 0.2 s: the store x does not answer (1)"]


def test_a_flood_that_goes_on_is_counted_completely(logger):
    log, text = logger
    sent = 0

    def flood():
        nonlocal sent
        for _ in range(50):
            log.warning("again\nand where")
            sent += 1
        return text.getvalue().count("more of these") >= 3

    assert until(flood, pause=0.005)
    assert until(lambda: counted(text) == sent)
    lines = text.getvalue().splitlines()
    assert len(lines) < 20 and lines[:2] == ["again", "and where"] and lines[2].endswith("in 0.2 s: again")


def counted(text):
    lines = text.getvalue().splitlines()
    return lines.count("and where") + sum(int(line.split()[0].replace(",", "")) for line in lines if "more of" in line)


def test_requests_and_other_lines_are_not_held_back(logger):
    log, text = logger
    for _ in range(5):
        log.info("GET /v1/model 200")
    for letter in "abcdefgh" * 60:
        log.error("problem of kind %s", letter * 3)
    assert text.getvalue().count("GET") == 5 and len(text.getvalue().splitlines()) == 5 + 8


def test_many_kinds_do_not_fill_the_memory(logger):
    log, _ = logger
    flood_filter = log.handlers[0].filters[0]
    for k in range(2000):
        log.error("kind %s", "x" * k)
    assert len(flood_filter._floods) <= 200


def test_a_client_that_sends_nonsense_cannot_fill_the_log(shop, tmp_path):
    service = Command("serve", shop / "shop.komd", "--port", 0, KOMD_STORE=f"sqlite:///{tmp_path / 'e.db'}").wait()
    address = (service.client.base_url.host, service.client.base_url.port)
    for _ in range(100):
        with socket.create_connection(address) as line:
            line.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
            assert line.recv(12) == b"HTTP/1.1 400"
    _, _, errors = service.stop()
    assert "Invalid HTTP request" in errors and errors.count("Invalid HTTP request") < 10
