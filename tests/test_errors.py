"""Wording that errors share."""

from __future__ import annotations

import json
from importlib import metadata

import pytest

from komd.errors import install


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
