"""What a terminal is told meanwhile, and that nobody else is."""

from __future__ import annotations

import io

import numba
import pytest

from komd import progress
from komd._core import compile as core


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    monkeypatch.setattr(progress, "_noted", set())
    monkeypatch.setattr(progress, "_quiet", False)


def test_a_note_is_shown_once_and_on_a_terminal_only(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    for _ in range(3):
        progress.note_once("compiling …")
    assert shown.getvalue() == "compiling …\n"
    for stream in (io.StringIO(), None):
        monkeypatch.setattr("sys.stderr", stream)
        progress.note_once("something else")
        assert stream is None or stream.getvalue() == ""


def test_no_note_where_json_is_asked_for(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    progress.be_quiet()
    progress.note_once("compiling …")
    assert shown.getvalue() == ""


def test_json_asks_for_quiet(tmp_path):
    from typer.testing import CliRunner

    from komd.cli.main import app

    words = ["generate", "-o", str(tmp_path / "plays.csv"), "--users", "60", "--items", "40", "--activity", "5"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert not progress._quiet
    assert CliRunner().invoke(app, [*words, "--json"]).exit_code == 0
    assert progress._quiet


def test_only_a_real_compilation_of_the_core_is_told(monkeypatch):
    told = []
    monkeypatch.setattr(core, "note_once", told.append)

    def one(x):
        return x + 1

    def two(x):
        return x + 2

    two.__module__ = "komd._core.two"
    numba.njit(one)(1)
    assert told == []
    function = numba.njit(two)
    function(1)
    function(2)
    assert len(told) == 1 and "compiling, once per machine" in told[0]


def test_without_a_place_for_the_cache_functions_compile_all_the_same(monkeypatch):
    from numba.core.caching import FunctionCache

    def nowhere(self, function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", nowhere)

    def three(x):
        return x + 3

    assert core.compiled(three)(1) == 4
