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
    """And `no_weight`, which is weight=False. `every_id` goes without saying in `komd update`."""
    assert set(inspect.signature(komd.read).parameters) - {"source", "memory", "every_id"} == READING - {"no_weight"}


@pytest.mark.parametrize("command", ["fit", "update", "evaluate", "compare", "tune", "analyze", "score"])
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


ROWS = (
    "user,song,plays,when\nu1,a,5,978300760\nu1,b,1,978300770\nu2,a,4,978300780\nu2,b,3,978300790\nu2,c,4,978300790\n"
)


def test_weights_times_and_dislikes_on_the_command_line(tmp_path, komd_json, komd_fails):
    file = tmp_path / "plays.csv"
    file.write_text(ROWS + "u2,a,6,978300799\n")
    fit = ("fit", file, "-o", tmp_path / "m.komd")
    train = komd_json(*fit, "--weight", "plays", "--time", "when", "--repeated", "max")["train"]
    assert train["interactions"] == 5 and train["weights"] == {"least": 1, "largest": 6}
    assert train["times"] == {"first": 978300760, "last": 978300790, "unit": "s"}
    train = komd_json(*fit, "--rating", "plays", "--liked", 4, "--disliked", 1, "--time", 3, "--time-unit", "ms")[
        "train"
    ]
    assert (train["interactions"], train["times"]["unit"], "dislikes" in train) == (3, "ms", False)  # nobody likes b
    assert komd_json(*fit, "--liked", 3, "--disliked", 1)["train"]["dislikes"] == 1
    assert komd_json(*fit, "--repeated", "count", "--no-weight")["train"]["weights"]["largest"] == 2
    assert "weights must be finite and > 0" in komd_fails(*fit, "--user", "user", "--item", "song", "--weight", "song")
    assert "give --weight or --no-weight, not both" in komd_fails(*fit, "--weight", "plays", "--no-weight")
    assert "--liked and --min-rating are the same thing" in komd_fails(*fit, "--liked", 3, "--min-rating", 3)
    assert "'sum' or 'max' or 'last' or 'count', got 'mean'" in komd_fails(*fit, "--repeated", "mean")
    assert "--time-unit needs --time" in komd_fails(*fit, "--time-unit", "s")


def test_notes_are_one_line_each(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    (tmp_path / "plays.csv").write_text(ROWS)
    fit = ["fit", "plays.csv", "-o", "m.komd"]
    said = CliRunner().invoke(app, fit).stderr.splitlines()
    assert said == [
        "komd: note: plays.csv: the column 'plays' is not used; --weight plays makes it count, --rating plays "
        "with --liked keeps what is rated high; --no-weight silences this"
    ]
    assert CliRunner().invoke(app, [*fit, "--no-weight"]).stderr == ""
    assert CliRunner().invoke(app, [*fit, "--weight", "plays"]).stderr == ""
    said = CliRunner().invoke(app, [*fit, "--no-weight", "--time", "when", "--time-unit", "min"]).stderr.splitlines()
    assert said == [
        "komd: note: plays.csv: 5 times lie in the future, the latest 3830-01-25; wrong unit? (--time-unit)"
    ]
