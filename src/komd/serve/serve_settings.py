"""The settings of a service, checked once, and given to every worker as text."""

from __future__ import annotations

import functools
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from komd.errors import InputError
from komd.files import readable_by_others
from komd.serve.event_types import EVENT_TYPES, EventType
from komd.serve.item_filters import named_filters
from komd.serve.token_file import read_tokens

__all__ = ["RUNTIME_LIMITS", "VARIABLE", "Limits", "Settings", "is_loopback"]

VARIABLE = "KOMD_SERVE"
"""The environment variable that carries the settings to worker processes."""


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
    request_seconds: float = 10.0
    """From the end of a request's body to its answer; then it is answered 504, and its work is abandoned."""
    connections: int = 1000
    """Connections of one worker; more are answered 503."""
    waiting: int = 256
    """Requests of one worker that wait for a thread; more are answered 503."""
    token_rate: float | None = None
    """Requests a second with the same token, over all workers; more are answered 429. None: any number."""
    address_rate: float | None = None
    """Requests a second from the same address, over all workers; more are answered 429. None: any number."""

    @property
    def events(self) -> int:
        """Pairs in one post."""
        return 4 * self.batch


RUNTIME_LIMITS = (
    *("head_seconds", "body_seconds", "write_seconds", "idle_seconds", "request_seconds", "connections", "waiting"),
    *("token_rate", "address_rate"),
)
"""The limits that a configuration may set. The others are part of the API's description, and the same everywhere."""


@dataclass(frozen=True)
class Settings:
    """Everything that a worker needs to know. `serve_config.py` reads it from a file, the command line from options."""

    model: Path
    store: str
    items: Path | None = None
    """The table of items: ids, names, further columns."""
    images: str | None = None
    """The column of `items` with addresses of images."""
    host: str = "127.0.0.1"
    port: int = 8000
    public_url: str | None = None
    """The address under which browsers reach the service behind a proxy, as https://recs.example."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose forwarded headers are believed."""
    token_file: Path | None = None
    forget_key_file: Path | None = None
    """Where the key of the marks of forgotten users is kept; None: beside an SQLite store, or beside the model."""
    insecure: bool = False
    workers: int = 1
    origins: tuple[str, ...] = ()
    log_requests: bool = False
    log_ids: bool = False
    tracing: bool = False
    """Whether requests are traced with OpenTelemetry."""
    watch_seconds: float = 1.0
    """How often files are checked for changes: the model, the table of items, tokens."""
    allow_shrink: bool = False
    """Whether a new model may have lost most of the users or items of the one in use."""
    candidate: Path | None = None
    """Another model, which serves a share of the users."""
    share: float = 0.1
    """The share of users whom the candidate serves."""
    learn: bool = False
    """Whether posted events are learned while serving."""
    learn_seconds: float = 1.0
    """How old a stored event gets before it is learned."""
    learn_events: int = 1000
    """How many events wait at most."""
    learned: Path | None = None
    """Where the learner publishes its models; set by the process that starts it."""
    learned_candidate: Path | None = None
    """The same, of the candidate's learner."""
    events: Mapping[str, EventType] = field(default_factory=lambda: dict(EVENT_TYPES))
    """The types of events, by name."""
    filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Conditions on the columns of `items`, by name."""
    limits: Limits = field(default_factory=Limits)

    def to_text(self) -> str:
        """As JSON, for a worker."""
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def from_text(text: str) -> Settings:
        """What `to_text` gave."""
        values = json.loads(text)
        for name in ("model", "items", "token_file", "forget_key_file", "candidate", "learned", "learned_candidate"):
            values[name] = None if values[name] is None else Path(values[name])
        for name in ("origins", "trusted_proxies"):
            values[name] = tuple(values[name])
        values["events"] = {name: EventType(*each) for name, each in values["events"].items()}
        return Settings(**values | {"limits": Limits(**values["limits"])})

    def learners(self) -> list[Settings]:
        """The settings of the process that learns for each model: in the candidate's, it is the model."""
        if self.candidate is None:
            return [self]
        return [self, replace(self, model=self.candidate, learned=self.learned_candidate)]

    @property
    def of_candidate(self) -> bool:
        """Whether these are the settings of the candidate's learner."""
        return self.model == self.candidate

    def check(self) -> list[str]:
        """Raise InputError for settings that cannot or must not be served; returns warnings."""
        if self.workers < 1:
            raise InputError(f"workers must be at least 1, got {self.workers}")
        if not 0 <= self.learn_seconds <= 86_400:
            raise InputError(f"learn_seconds is between 0 and a day (86400), got {self.learn_seconds}")
        if self.learn_events < 1:
            raise InputError(f"learn_events must be at least 1, got {self.learn_events}")
        if not 0 < self.watch_seconds <= 86_400:
            raise InputError(f"watch_seconds is more than 0 and at most a day (86400), got {self.watch_seconds}")
        if not 0 <= self.share <= 1:
            raise InputError(f"share is between 0 % and 100 %, got {100 * self.share:g} %")
        if self.candidate is not None and self.candidate.resolve() == self.model.resolve():
            raise InputError(f"the candidate is the model itself, {self.model}; name the folder of another one")
        for origin in (*self.origins, *(() if self.public_url is None else (self.public_url,))):
            if not _is_origin(origin):
                noun = "public_url" if origin == self.public_url else "an origin"
                raise InputError(f"{noun} is like https://shop.example, got {origin!r}")
        for proxy in self.trusted_proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise InputError(f"a trusted proxy is an address or a network like 10.0.0.0/8, got {proxy!r}") from None
        for name in ("token_rate", "address_rate"):
            rate = getattr(self.limits, name)
            if rate is not None and not 1e-6 <= rate <= 1e6:
                raise InputError(f"{name} is requests a second, a millionth to a million; got {rate:g}")
        if self.images is not None and self.items is None:
            raise InputError("images names a column of the table of items, and none is given (items)")
        if self.filters and self.items is None:
            raise InputError("filters are conditions on the columns of the table of items, and none is given (items)")
        named_filters(self.filters)
        warnings = []
        if self.token_file is not None:
            read_tokens(self.token_file)
            if readable_by_others(self.token_file):
                warnings.append(f"{self.token_file.name} can be read by others; chmod 600 keeps it to you")
        elif not is_loopback(self.host):
            if not self.insecure:
                raise InputError(
                    f"without a token file only this machine is served, and {self.host} is more than that: "
                    "give --token-file, or --insecure if anyone may read and write"
                )
            warnings.append(f"no token: anyone who reaches {self.host}:{self.port} can read and write all histories")
        elif self.public_url is not None:
            warnings.append(f"no token: anyone who reaches {self.public_url} can read and write all histories")
        return warnings

    @property
    def key_file(self) -> Path:
        """The file with the key of the marks of forgotten users."""
        from komd.serve import forget_key

        return forget_key.key_file(self.store, self.forget_key_file, self.model)


def _is_origin(text: str) -> bool:
    """
    >>> _is_origin("https://shop.example:8443"), _is_origin("https://shop.example/"), _is_origin("shop.example")
    (True, False, False)
    """
    try:
        parts = urlsplit(text)
        plain = parts.hostname and "@" not in text and "*" not in text and (parts.port or 1) > 0  # reading it checks it
        return bool(plain) and f"{parts.scheme}://{parts.netloc}" == text and parts.scheme in ("http", "https")
    except ValueError:
        return False


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
