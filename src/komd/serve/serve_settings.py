"""The settings of a service, checked once, and given to every worker as text."""

from __future__ import annotations

import functools
import ipaddress
import json
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path

from komd.errors import InputError

__all__ = ["VARIABLE", "Limits", "Settings", "is_loopback"]

VARIABLE = "KOMD_SERVE"
"""The environment variable that carries the settings to worker processes."""

_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """The limits of requests: sizes, lengths and times."""

    body: int = 1 << 20
    """Bytes of a request's body."""
    n: int = 1000
    """Length of a list."""
    explained: int = 50
    """Length of a list with reasons."""
    history: int = 2000
    """Items of a posted history."""
    stored: int = 10_000
    """Live items of one user that are used: the newest."""
    batch: int = 256
    """Users in one batch; a post may have four times as many events."""
    listed: int = 20_000
    """Items in an allow or deny list."""
    identifier: int = 256
    """Characters of an id."""
    head_seconds: float = 10.0
    """From the first byte of a request to the end of its head."""
    body_seconds: float = 10.0
    """From the head of a request to the end of its body."""
    write_seconds: float = 30.0
    """How long a client may leave a response unread."""
    idle_seconds: int = 30
    """How long a connection is kept without a request."""
    connections: int = 1000
    """Connections of one worker; more are answered 503."""
    waiting: int = 256
    """Requests of one worker that wait for a thread; more are answered 503."""

    @property
    def events(self) -> int:
        """Pairs in one post."""
        return 4 * self.batch


@dataclass(frozen=True)
class Settings:
    """Everything that a worker needs to know."""

    model: Path
    store: str
    items: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    insecure: bool = False
    workers: int = 1
    origins: tuple[str, ...] = ()
    log_requests: bool = False
    log_ids: bool = False
    watch_seconds: float = 1.0
    learn: bool = False
    """Whether posted events are learned while serving."""
    learn_seconds: float = 1.0
    """How old a stored event gets before it is learned."""
    learn_events: int = 1000
    """How many events wait at most."""
    learned: Path | None = None
    """Where the learner publishes its models; set by the process that starts it."""
    limits: Limits = field(default_factory=Limits)

    def to_text(self) -> str:
        """As JSON, for a worker."""
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def from_text(text: str) -> Settings:
        """What `to_text` gave."""
        values = json.loads(text)
        for name in ("model", "items", "token_file", "learned"):
            values[name] = None if values[name] is None else Path(values[name])
        return Settings(**values | {"origins": tuple(values["origins"]), "limits": Limits(**values["limits"])})

    def check(self) -> list[str]:
        """Raise InputError for settings that cannot or must not be served; returns warnings."""
        if self.workers < 1:
            raise InputError(f"workers must be at least 1, got {self.workers}")
        if not 0 <= self.learn_seconds <= 86_400:
            raise InputError(f"learn_seconds is between 0 and a day (86400), got {self.learn_seconds}")
        if self.learn_events < 1:
            raise InputError(f"learn_events must be at least 1, got {self.learn_events}")
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or "*" in origin or origin.count("/") != 2:
                raise InputError(f"an origin is like https://shop.example, got {origin!r}")
        warnings = []
        if self.token_file is not None:
            self.tokens()
            if self.token_file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
                warnings.append(f"{self.token_file} can be read by others; chmod 600 keeps it to you")
        elif not is_loopback(self.host):
            if not self.insecure:
                raise InputError(
                    f"without a token file only this machine is served, and {self.host} is more than that: "
                    "give --token-file, or --insecure if anyone may read and write"
                )
            warnings.append(f"no token: anyone who reaches {self.host}:{self.port} can read and write all histories")
        return warnings

    def tokens(self) -> tuple[str, ...]:
        """The tokens of the file, one a line; none when there is no file."""
        if self.token_file is None:
            return ()
        try:
            lines = self.token_file.read_text(encoding="utf-8").split("\n")
        except UnicodeError:
            raise InputError(f"{self.token_file} is not UTF-8 text; a token file has one token a line") from None
        tokens = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        if not tokens:
            raise InputError(f"{self.token_file} holds no token; write one a line, say from: openssl rand -hex 32")
        for token in tokens:
            if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
                raise InputError(
                    f"a token of {self.token_file} has {len(token)} characters or odd ones; it takes at least "
                    f"{_SHORTEST_TOKEN} without spaces, say from: openssl rand -hex 32"
                )
        return tokens


@functools.lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
