"""Tokens, their roles and names, from a file that may change while it is in use.

A line is `TOKEN`, `TOKEN roles` or `TOKEN roles name`: roles are joined by commas, and a bare token has all. A file
that cannot be used is refused, with a line in the log, and the tokens stay as they were. Nothing here says or logs a
token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import threading
from pathlib import Path
from typing import NamedTuple

from komd.errors import InputError
from komd.serve.roles import ROLES

__all__ = ["Token", "TokenFile", "read_tokens"]

log = logging.getLogger("komd.serve")

_SHORTEST = 16
_NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)


class Token(NamedTuple):
    """What is kept of a token: not the token itself."""

    digest: bytes
    roles: frozenset[str]
    name: str = ""
    """For the log and the metrics; may be empty."""

    @property
    def key(self) -> str:
        """What requests with this token have in common."""
        return self.digest[:8].hex()


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens of a file. Raises InputError, which names the line and not the token, or OSError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeError:
        raise InputError(f"{path.name} is not UTF-8 text; a token file has one token a line") from None
    found: dict[bytes, Token] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            token = _read_line(line.split(), f"line {number} of {path.name}")
            if token.digest in found:
                raise InputError(f"line {number} of {path.name} has the token of an earlier line; give it once")
            found[token.digest] = token
    if not found:
        raise InputError(f"{path.name} holds no token; write one a line, say from: openssl rand -hex 32")
    return tuple(found.values())


def _read_line(words: list[str], place: str) -> Token:
    secret = words[0]
    if len(secret) < _SHORTEST or not secret.isascii() or not secret.isprintable():
        raise InputError(
            f"the token in {place} has {len(secret)} characters or odd ones; it takes at least {_SHORTEST} "
            "without spaces, say from: openssl rand -hex 32"
        )
    roles = frozenset(words[1].split(",")) if len(words) > 1 else frozenset(ROLES)
    if not roles <= ROLES.keys():
        wrong = sorted(roles - ROLES.keys())[0]
        raise InputError(f"{place}: roles are {', '.join(ROLES)}, joined by commas without spaces; got {wrong[:40]!r}")
    if len(words) > 3 or (len(words) == 3 and not _NAME.fullmatch(words[2])):
        raise InputError(f"{place}: a line is TOKEN ROLES NAME; a name is one word of letters, digits, and . _ @ -")
    return Token(hashlib.sha256(secret.encode()).digest(), roles, words[2] if len(words) == 3 else "")


class TokenFile:
    """The tokens in use. Without a file there are none, and none is asked for."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._checked = self._signature()
        self.tokens = () if path is None else read_tokens(path)

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            about = None if self._path is None else self._path.stat()
        except OSError:
            return None
        return None if about is None else (about.st_size, about.st_mtime_ns, about.st_ino)

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        if self._path is not None and self._signature() != self._checked:
            self.reload()

    def reload(self) -> None:
        """Read the file again; the tokens stay as they are if that fails."""
        if self._path is None:
            return
        with self._lock:
            self._checked = self._signature()  # before reading: what is written meanwhile is read next time
            try:
                tokens = read_tokens(self._path)
            except (InputError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                log.error("the token file %s is refused and the old tokens stay: %s", self._path.name, reason)
                return
            if tokens != self.tokens:
                before, now = set(self.tokens), set(tokens)
                self.tokens = tokens
                log.info(
                    "%s read again: %d tokens, %d of them new or changed, %d gone or changed",
                    self._path.name,
                    len(now),
                    len(now - before),
                    len(before - now),
                )

    def find(self, authorization: bytes) -> Token | None:
        """The token that an Authorization header carries; None if it carries none of these."""
        kind, _, secret = authorization.partition(b" ")
        digest = hashlib.sha256(secret.strip()).digest()
        found = None
        # Every token is compared, each in constant time, so that the time reveals nothing about any.
        for token in self.tokens:
            if hmac.compare_digest(digest, token.digest):
                found = token
        return found if kind.lower() == b"bearer" else None
