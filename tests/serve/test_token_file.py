"""The token file: what a line may say, and tokens that come and go while they are in use."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from komd.errors import InputError
from komd.serve.roles import ROLES
from komd.serve.token_file import TokenFile, read_tokens

from .conftest import until

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


def test_lines(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"# comment\n\n{A}\n{B} read,metrics\n{C}\twrite\tshop.backend\r\n")
    every, some, named = read_tokens(file)
    assert (every.roles, every.name) == (frozenset(ROLES), "")
    assert (some.roles, some.name) == ({"read", "metrics"}, "")
    assert (named.roles, named.name) == ({"write"}, "shop.backend")
    assert len({every.key, some.key, named.key}) == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{B} reader", "line 2 of tokens: roles are read, write, admin, metrics, joined by commas .* got 'reader'"),
        (f"{B} read, write", "roles are"),
        (f"{B} read,", "got ''"),
        (f"{B} read a/b", "a name is one word"),
        (f"{B} read one two", "a line is TOKEN ROLES NAME"),
        ("tooshort read", "the token in line 2 of tokens has 8 characters"),
        ("é" * 32, "odd ones"),
        (f"{A} read", "line 2 of tokens has the token of an earlier line"),
    ],
)
def test_lines_that_are_refused_name_the_line_and_not_the_token(tmp_path, line, words):
    file = tmp_path / "tokens"
    file.write_text(f"{A}\n{line}\n")
    with pytest.raises(InputError, match=words) as refused:
        read_tokens(file)
    assert A not in str(refused.value) and B not in str(refused.value) and str(tmp_path) not in str(refused.value)


def test_what_is_found(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"{A}\n{B} read x\n")
    tokens = TokenFile(file)
    assert tokens.find(f"bEaReR  {B} ".encode()).name == "x"
    for given in (
        b"",
        b"Bearer",
        b"Bearer ",
        f"Basic {A}".encode(),
        A.encode(),
        f"Bearer {A}{A}".encode(),
        b"\xff \xff",
    ):
        assert tokens.find(given) is None


def test_tokens_change_without_a_restart(settings, serving, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("komd.serve"), "propagate", True)
    file = tmp_path / "tokens"
    file.write_text(f"{A}\n")
    service = serving(replace(settings, token_file=file, watch_seconds=0.05))

    def status(token):
        return service.client.get("/v1/model", headers={"authorization": f"Bearer {token}"}).status_code

    assert (status(A), status(B)) == (200, 401)
    fresh = tmp_path / "fresh"
    fresh.write_text(f"{B} read\n")
    fresh.replace(file)
    assert until(lambda: (status(A), status(B)) == (401, 200))
    for broken in (b"", b"short\n", b"\xff\xfe" * 40, f"{A} king\n".encode()):
        caplog.clear()
        file.write_bytes(broken)
        assert until(lambda: "is refused and the old tokens stay" in caplog.text), broken
        assert (status(A), status(B)) == (401, 200)
    caplog.clear()
    file.unlink()
    assert until(lambda: "No such file" in caplog.text) and status(B) == 200
    file.write_text(f"{C}\n")
    assert until(lambda: (status(B), status(C)) == (401, 200))
    assert not any(token in caplog.text for token in (A, B, C)) and str(tmp_path) not in caplog.text
