"""Settings of a service: what is refused before it starts, and the way to a worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from komd.errors import InputError
from komd.serve.serve_settings import Limits, Settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_only_this_machine_without_a_token(shop, host):
    settings = Settings(model=shop / "shop.komd", store="sqlite:///x.db", host=host)
    with pytest.raises(InputError, match="without a token file only this machine is served"):
        settings.check()
    assert "no token: anyone who reaches" in replace(settings, insecure=True).check()[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_this_machine_needs_no_token(shop, host):
    assert Settings(model=shop, store="sqlite:///x.db", host=host).check() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no token"),
        ("# only a comment\n", "holds no token"),
        ("short\n", "has 5 characters"),
        ("two words are odd ones\n", "odd ones"),
    ],
)
def test_bad_tokens(shop, tmp_path, content, words):
    file = tmp_path / "tokens"
    file.write_text(content)
    with pytest.raises(InputError, match=words):
        Settings(model=shop, store="sqlite:///x.db", token_file=file).check()


def test_a_token_file_that_others_can_read(shop, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("a" * 32)
    file.chmod(0o644)
    assert "can be read by others" in Settings(model=shop, store="sqlite:///x.db", token_file=file).check()[0]
    file.chmod(0o600)
    assert Settings(model=shop, store="sqlite:///x.db", token_file=file, host="0.0.0.0").check() == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_files_are_checked_now_and_then(shop, seconds):
    with pytest.raises(InputError, match="watch_seconds is more than 0"):
        Settings(model=shop, store="sqlite:///x.db", watch_seconds=seconds).check()


@pytest.mark.parametrize(
    "origin",
    [
        *("*", "shop.example", "https://*.example", "https://shop.example/", "https://", "https://shop.example:99999"),
        "https://ana@shop.example",
    ],
)
def test_origins_are_named_in_full(shop, origin):
    with pytest.raises(InputError, match=r"an origin is like https://shop\.example"):
        Settings(model=shop, store="sqlite:///x.db", origins=(origin,)).check()


def test_settings_survive_the_way_to_a_worker(shop, tmp_path):
    settings = Settings(
        model=shop, store="x", items=tmp_path, origins=("https://a.b",), limits=Limits(n=5), learned=shop
    )
    assert Settings.from_text(settings.to_text()) == settings
