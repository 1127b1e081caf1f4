"""Sizes of memory: read, said, and measured."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from komd.errors import InputError
from komd.memory import available, budget, peak, readable


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("8 gb", 8 * 10**9),
        (" 1.5GB ", 15 * 10**8),
        ("500MB", 5 * 10**8),
        ("1TB", 10**12),
        ("2KiB", 2048),
        ("1GiB", 2**30),
        (".5 MiB", 2**19),
        ("100", 100),
        ("100B", 100),
        (12345, 12345),
        (1e9, 10**9),
    ],
)
def test_budgets(text, size):
    assert budget(text) == size


@pytest.mark.parametrize("text", ["", "lots", "8XB", "GB", "-1GB", "1,5GB", "8GB!", "1e3GB", "0x10"])
def test_what_is_no_size(text):
    with pytest.raises(InputError, match=r"memory must be a size such as '8GB' or '500MB', got"):
        budget(text)


@pytest.mark.parametrize("nothing", [0, -5, "0GB", "0.0001B"])
def test_nothing_is_not_enough(nothing):
    with pytest.raises(InputError, match="memory must be > 0, got"):
        budget(nothing)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, [8], {"GB": 8}])
def test_what_is_no_number(wrong):
    with pytest.raises(InputError, match="memory must be"):
        budget(wrong)


def test_by_default_a_share_of_what_is_free(monkeypatch):
    monkeypatch.setattr("komd.memory.available", lambda: 1000)
    assert budget() == budget(None) == 600


def test_what_there_is():
    import psutil

    assert 0 <= available() <= psutil.virtual_memory().total
    before = peak()
    assert before >= 0.9 * psutil.Process().memory_info().rss > 10_000_000
    assert peak() >= before


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (55e6, "55 MB"),
        (1.6e9, "1.6 GB"),
        (4.2e13, "42,000 GB"),
    ],
)
def test_sizes_as_people_say_them(size, words):
    assert readable(size) == words


@given(st.floats(0, 9e11))
def test_said_and_read_again(size):
    said = budget(readable(size)) if size >= 1 else size
    assert said == pytest.approx(size, rel=0.06, abs=1)
