"""Tasks beside the requests go on after any error: nobody would start them again."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pytest

from komd.serve.event_store import EventStore
from komd.serve.service import Service
from komd.serve.token_file import TokenFile

from .conftest import until

SECRET = "0123456789abcdef0123"


@pytest.fixture
def failing(monkeypatch):
    """Let functions fail when they are called first; how often each was called."""
    calls = Counter()

    def fail(kind, name):
        usual = getattr(kind, name)

        def once(*arguments):
            calls[name] += 1
            if calls[name] == 1:
                raise ZeroDivisionError(SECRET)
            return usual.fget(*arguments) if isinstance(usual, property) else usual(*arguments)

        monkeypatch.setattr(kind, name, property(once) if isinstance(usual, property) else once)

    return fail, calls


def test_tasks_go_on_after_errors(settings, serving, tmp_path, failing, caplog):
    fail, calls = failing
    (tmp_path / "tokens").write_text(SECRET)
    fail(Service, "read_availability")
    fail(TokenFile, "refresh")
    fail(EventStore, "count")
    fail(EventStore, "is_refusing")
    with caplog.at_level(logging.ERROR, "komd.serve"):
        service = serving(replace(settings, token_file=tmp_path / "tokens", watch_seconds=0.1))
        service.client.headers["authorization"] = f"Bearer {SECRET}"
        service.post("/v1/recommend", {"history": []})
        assert until(lambda: len(calls) == 4 and min(calls.values()) > 1), calls
        # the list that could not be counted at first is
        assert until(lambda: [each["impressions"] for each in service.get("/v1/report")["releases"]] == [1])
    said = [record.getMessage() for record in caplog.records]
    assert sum("failed: ZeroDivisionError" in line for line in said) == 4
    assert SECRET not in "".join(said)
