"""Who may ask, how much may be sent, and the headers of every response: one ASGI layer around the API.

Checked in this order: the Host (against foreign names that resolve to this machine), the Origin (against pages of other
sites), the token, the length and the speed of the body. An error inside the API is a plain 500 and a line in the log
that names no user.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from komd.serve.prometheus import ServiceMetrics
from komd.serve.serve_settings import Settings, is_loopback

__all__ = ["HEADERS", "AccessControl", "decoded"]

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("komd.serve")

HEADERS: list[tuple[bytes, bytes]] = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_NO_STORE = (b"cache-control", b"no-store")
_OPEN = ("/v1/health", "/v1/ready")  # for monitoring: need no token, reveal nothing
_WITH_IDS = ("/v1/users/", "/v1/items/")  # an id may contain a slash: these paths are split before decoding
_DRAINED = 4  # times the limit is read of a body that is too long, so that the client gets to read the response


class Refused(Exception):
    """A request that does not reach the API."""

    def __init__(self, status: int, words: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
        self.headers = headers


class AccessControl:
    """The layer. `app` is only called for requests that may be answered, with their complete body."""

    def __init__(self, app: App, settings: Settings, metrics: ServiceMetrics) -> None:
        self._app = app
        self._settings = settings
        self.limits = settings.limits
        self._metrics = metrics
        self._tokens = [hashlib.sha256(token.encode()).digest() for token in settings.tokens()]
        self._origins = {origin.encode() for origin in settings.origins}
        self._check_host = not self._tokens and is_loopback(settings.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        extra = self._cors(headers)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                given = [*message["headers"], *HEADERS, *extra]
                message["headers"] = given if b"cache-control" in own else [*given, _NO_STORE]
            await send(message)

        try:
            if scope["path"].startswith(_WITH_IDS):
                scope["path"] = scope["raw_path"].decode("ascii")
            if not await self._preflight(scope, headers, send_with_headers):
                self._authorize(scope, headers)
                receive_body = await self._body(headers, receive)
                await self._app(scope, receive_body, send_with_headers)
        except Refused as refused:
            closing = ((b"connection", b"close"),) if refused.status in (408, 413) else ()
            await _send_error(send_with_headers, refused.status, refused.words, *refused.headers, *closing)
        except ConnectionError:
            status = status or 499  # the client went away
        except Exception as error:
            self._log_error(error)
            if not status:
                await _send_error(send_with_headers, 500, "something went wrong here; the log has a line about it")
        finally:
            self._count(scope, status, time.perf_counter() - start)

    # ---- who may ask ------------------------------------------------------------------------------------------

    def _authorize(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise Refused unless this request may be answered."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self._check_host and not is_loopback(_hostname(host)):
            raise Refused(421, f"this service answers to localhost, not to {host[:100]!r}")
        origin = headers.get(b"origin")
        own = f"{scope.get('scheme', 'http')}://{host}".encode()
        if origin is not None and origin != own and origin not in self._origins:
            raise Refused(403, "pages of other sites are not served; name theirs with --origin")
        path: str = scope["path"]
        if self._tokens and path.startswith("/v1/") and path not in _OPEN:
            self._check_token(headers.get(b"authorization", b""))

    def _check_token(self, given: bytes) -> None:
        kind, _, token = given.partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        # Every token is compared, each in constant time, so that the time reveals nothing about any.
        matches = [hmac.compare_digest(digest, known) for known in self._tokens]
        if not any(matches) or kind.lower() != b"bearer":
            raise Refused(401, "give a token: Authorization: Bearer …", (b"www-authenticate", b"Bearer"))

    def _cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        origin = headers.get(b"origin")
        if not self._origins:
            return []
        if origin not in self._origins:
            return [(b"vary", b"Origin")]
        assert origin is not None
        return [(b"vary", b"Origin"), (b"access-control-allow-origin", origin)]

    async def _preflight(self, scope: Scope, headers: dict[bytes, bytes], send: Send) -> bool:
        if scope["method"] != "OPTIONS" or headers.get(b"origin") not in self._origins:
            return False
        allowed = [
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": allowed})
        await send({"type": "http.response.body", "body": b""})
        return True

    # ---- how much may be sent ---------------------------------------------------------------------------------

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        """The complete body, read within the limits, as something to receive it from."""
        declared = headers.get(b"content-length", b"")
        if not declared and b"transfer-encoding" not in headers:
            return receive
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                body = await self._read(receive)
        except TimeoutError:
            raise Refused(408, f"the body took more than {self.limits.body_seconds:g} seconds") from None
        if len(body) > self.limits.body:
            raise Refused(413, f"a body has at most {self.limits.body:,} bytes")
        given = False

        async def receive_body() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return receive_body

    async def _read(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        length, more = 0, True
        while more and length <= _DRAINED * self.limits.body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            part = message.get("body", b"")
            length += len(part)
            if length <= self.limits.body:
                parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts) if length <= self.limits.body else bytes(self.limits.body + 1)

    # ---- metrics and log --------------------------------------------------------------------------------------

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "DELETE", "OPTIONS") else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        if self._settings.log_requests:
            asked = route
            if self._settings.log_ids:
                query = scope["query_string"].decode("latin-1")
                asked = repr(scope["path"] + ("?" + query if query else ""))
            log.info("%s %s %d %.1f ms", method, asked, status, 1000 * seconds)

    def _log_error(self, error: Exception) -> None:
        """One line and where it happened; the message may name users, so it is only logged with `log_ids`."""
        frames = "".join(traceback.format_tb(error.__traceback__))
        words = f": {error}" if self._settings.log_ids else ""
        log.error("%s%s\n%s", type(error).__name__, words, frames)


def decoded(part: str) -> str:
    """A part of a path under /v1/users or /v1/items, percent-decoded.

    >>> decoded("a%2Fb")
    'a/b'
    """
    return unquote(part, errors="strict")


def _hostname(host: str) -> str:
    """
    >>> _hostname("localhost:8000"), _hostname("[::1]:8000"), _hostname("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


async def _send_error(send: Send, status: int, words: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"detail": words}).encode()
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": body})
