"""The configuration file of a service: every option, checked, and printed so that it gives the same service."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from komd.cli.main import app
from komd.cli.serve_command import serve
from komd.errors import InputError
from komd.serve.event_types import EVENT_TYPES, EventType
from komd.serve.serve_config import OPTIONS, as_toml, read_config, settings_of
from komd.serve.serve_settings import Limits, Settings

FULL = """
model = "shop.komd"
store = "sqlite:///events.db"
items = "names.csv"
images = "cover"
host = "::1"
port = 8123
public_url = "https://recs.example"
trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]
token_file = "tokens"
forget_key_file = "key"
insecure = true
workers = 3
origins = ["https://shop.example"]
log_requests = true
log_ids = true
tracing = true
watch_seconds = 2
allow_shrink = true
candidate = "new.komd"
share = "25%"
learn = true
learn_seconds = 0.5
learn_events = 10

[limits]
request_seconds = 3
address_rate = 20
connections = 50

[events]
view = 0.2
skip = "disliked"
play = { kind = "chosen", weight = 2 }

[filters.kids]
genre = ["Animation", "Children's"]
year = { min = 1990 }
"""


def written(folder: Path, text: str) -> Path:
    (folder / "komd.toml").write_text(text, encoding="utf-8")
    return folder / "komd.toml"


def test_every_option_can_be_set(tmp_path):
    found = settings_of(read_config(written(tmp_path, FULL)))
    untouched = Settings(model=Path("x"), store="y")
    for each in fields(Settings):
        if each.name not in ("learned", "learned_candidate"):
            assert getattr(found, each.name) != getattr(untouched, each.name), f"{each.name} is not in the example"
    assert found.model == tmp_path / "shop.komd"  # relative to the file
    assert found.store == f"sqlite:///{tmp_path / 'events.db'}"
    assert found.share == 0.25
    assert found.events["view"] == EventType("chosen", 0.2)
    assert found.events["skip"] == EventType("disliked")
    assert found.events["like"] == EVENT_TYPES["like"]
    assert found.limits == replace(Limits(), request_seconds=3, address_rate=20, connections=50)


def test_what_is_printed_gives_the_same_settings(tmp_path):
    found = settings_of(read_config(written(tmp_path, FULL)))
    again = written(tmp_path / "..", as_toml(found))
    try:
        assert settings_of(read_config(again)) == found
    finally:
        again.unlink()


def test_the_command_has_every_option():
    """One name for a setting on the command line and in the file; a list is given one by one."""
    singular = {"trusted_proxies": "trusted_proxy", "origins": "origin"}
    assert {singular.get(name, name) for name in OPTIONS} == set(inspect.signature(serve).parameters) - {
        "config",
        "print_config",
    }


def test_options_come_before_the_file(tmp_path):
    config = written(tmp_path, 'model = "a.komd"\nport = 1234\nworkers = 2\n')
    said = CliRunner().invoke(app, ["serve", "--config", str(config), "--port", "4321", "--print-config"])
    assert said.exit_code == 0, said.output
    printed = tomllib.loads(said.stdout)
    assert (printed["port"], printed["workers"]) == (4321, 2)
    assert printed["model"] == str(tmp_path / "a.komd")


def test_no_password_is_printed():
    settings = settings_of({"model": Path("m.komd"), "store": "postgresql://ana:secret@host/name"})
    assert "secret" not in as_toml(settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 8000", "unknown option 'prot': did you mean 'port'"),
        ('port = "8000"', "port is a whole number, got '8000'"),
        ("port = true", "port is a whole number, got True"),
        ("learn = 1", "learn is true or false, got 1"),
        ('origins = "https://a.b"', "origins is a list of texts"),
        ("model = 3", "model is a path as text, got 3"),
        ("limits = 3", r"limits is a table: \[limits\]"),
        ("[limits]\nconections = 3", "unknown limit 'conections': did you mean 'connections'"),
        ("[limits]\nconnections = 0", "limits.connections must be above 0"),
        ("[limits]\nbody = 5", "unknown limit 'body'"),
        ('share = "many"', "share is a number between 0 and 1 or text like 10%"),
        ("model = ", "is not TOML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, words):
    with pytest.raises(InputError, match=words) as error:
        read_config(written(tmp_path, text))
    assert "komd.toml" in str(error.value)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ({"View!": 1}, "a type of events has a name"),
        ({"view": 0}, "a weight is a number > 0"),
        ({"view": True}, "a weight is a number > 0"),
        ({"view": "choosen"}, "events.view is 'choosen': did you mean 'chosen'"),
        ({"skip": {"kind": "disliked", "weight": 2}}, "only a choice has one"),
        ({"view": {"wieght": 2}}, "did you mean 'weight'"),
    ],
)
def test_mistakes_in_types_of_events(events, words):
    with pytest.raises(InputError, match=words):
        settings_of({"model": Path("m"), "events": events})


def test_a_model_is_needed():
    said = CliRunner().invoke(app, ["serve"])
    assert said.exit_code == 2
    with pytest.raises(InputError, match="no model: name its folder"):
        settings_of({})


def test_a_share_is_that_of_a_candidate(tmp_path):
    said = CliRunner().invoke(app, ["serve", str(tmp_path / "m.komd"), "--share", "20%", "--print-config"])
    assert isinstance(said.exception, InputError) or said.exit_code == 2
    with pytest.raises(InputError, match="share is that of a candidate, and none is given: name its folder"):
        settings_of({"model": Path("m.komd"), "share": 0.2})
    config = written(tmp_path, 'model = "a.komd"\nshare = "20%"\n')  # of a candidate on the command line
    words = ["serve", "--config", str(config), "--candidate", str(tmp_path / "b.komd"), "--print-config"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0 and tomllib.loads(said.stdout)["share"] == 0.2
    assert "share" not in tomllib.loads(as_toml(settings_of({"model": Path("m.komd")})))
