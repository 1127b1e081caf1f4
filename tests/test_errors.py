"""Wording that errors share."""

from __future__ import annotations

import json
import pickle
from importlib import metadata

import pytest

from komd.errors import InputError, UnknownIdError, argument, install


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, "pip install 'komd[tune]'"),
        ({"url": "file:///home/ana/my%20komd"}, "pip install '/home/ana/my komd[tune]'"),
        ({"url": "https://host/komd.git"}, "pip install 'komd[tune] @ https://host/komd.git'"),
    ],
)
def test_extras_are_installed_from_where_komd_came_from(origin, expected, monkeypatch):
    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(metadata, "distribution", lambda name: Installed())
    assert install("tune") == expected


def test_extras_where_komd_is_not_installed(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install("serve", "postgresql").startswith("pip install '.[serve,postgresql]'")


def test_arguments_are_named_for_python_and_for_others():
    error = InputError(
        f"a=b: choose with {argument('user')} or {argument('item', 1)}, {argument('on_unknown', 'skip')}"
    )
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert str(each) == 'a=b: choose with user= or item=1, on_unknown="skip"'
        assert each.worded(lambda name, value: f"<{name}|{value}>") == (
            'a=b: choose with <user|> or <item|1>, <on_unknown|"skip">'
        )
    assert repr(error).isprintable()


def test_an_unknown_id_is_said_in_a_sentence():
    assert str(UnknownIdError("unknown user 'ana'")) == "unknown user 'ana'"
