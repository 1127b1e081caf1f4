"""The options that commands share: declared once, and the same for every command that reads data."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import typer

import komd
from komd.cli import options
from komd.cli.main import app

COMMANDS = typer.main.get_command(app).commands
READING = {field.name for field in dataclasses.fields(options.ReadingOptions)}


def test_reading_options_are_the_arguments_of_read():
    assert set(inspect.signature(komd.read).parameters) - {"source", "memory"} == READING


@pytest.mark.parametrize("command", ["fit", "evaluate", "compare", "tune", "analyze", "score"])
def test_every_command_that_reads_has_all_of_them(command):
    found = {parameter.name: parameter for parameter in COMMANDS[command].params}
    same = {parameter.name: parameter for parameter in COMMANDS["fit"].params}
    assert set(found) >= READING
    for name in READING:
        assert found[name].help == same[name].help
        assert found[name].opts == same[name].opts
        assert found[name].default is None
    assert "reading" not in found


def test_a_command_gets_one_value():
    seen = []

    @options.with_reading("time")
    def command(first: str, reading: options.ReadingOptions = options.DEFAULT_READING, last: int = 3) -> None:
        seen.append((first, reading, last))

    names = list(inspect.signature(command).parameters)
    assert names[:2] == ["first", "user"]
    assert names[-2:] == ["database", "last"]
    assert "time" not in names
    command(first="a", last=4, user="uid", **dict.fromkeys(READING - {"time", "user"}))
    assert seen == [("a", options.ReadingOptions(user="uid"), 4)]


def test_columns_by_position_and_by_name(tmp_path, komd_json):
    file = tmp_path / "odd.csv"
    file.write_text("uid,what,how\nu1,a,x\nu2,b,x\nu1,b,y\n")
    for words in (("--user", 0, "--item", 1, "--header"), ("--user", "uid", "--item", "what")):
        assert komd_json("fit", file, "-o", tmp_path / "m.komd", *words)["train"]["users"] == 2
