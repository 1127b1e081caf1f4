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
from collections.abc import Mapping
from urllib.parse import unquote

from starlette.exceptions import HTTPException as Refused
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from komd.serve import request_context
from komd.serve.prometheus import ServiceMetrics
from komd.serve.request_context import RequestContext
from komd.serve.serve_settings import Settings, is_loopback

__all__ = ["BROKEN", "HEADERS", "AccessControl", "decoded"]

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
_IMAGES = b"img-src 'self'"  # of the policy; with images of the items, those of any site are shown
_NO_STORE = (b"cache-control", b"no-store")
_ALLOWED = {
    "access-control-allow-methods": "GET, POST, PUT, DELETE",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
BROKEN = "something went wrong here; the log has a line about it"
_CLOSE = {"connection": "close"}
_OPEN = ("/v1/health", "/v1/ready")  # for monitoring: need no token, reveal nothing
_WITH_IDS = (
    "/v1/users/",
    "/v1/items/",
    "/v1/events/",
)  # an id may contain a slash: these paths are split before decoding
_DRAINED = 4  # times the limit is read of a body that is too long, so that the client gets to read the response


class AccessControl:
    """The layer. `app` is only called for requests that may be answered, with their complete body."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: ServiceMetrics) -> None:
        self._app = app
        self._settings = settings
        self.limits = settings.limits
        self._metrics = metrics
        self._tokens = [hashlib.sha256(token.encode()).digest() for token in settings.tokens()]
        self._origins = {origin.encode() for origin in settings.origins}
        self._headers = _headers(settings)
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
                given = [*message["headers"], *self._headers, *extra]
                message["headers"] = given if b"cache-control" in own else [*given, _NO_STORE]
            await send(message)

        try:
            if scope["path"].startswith(_WITH_IDS):
                scope["path"] = scope["raw_path"].decode("ascii")
            if scope["method"] == "OPTIONS" and headers.get(b"origin") in self._origins:
                await Response(status_code=204, headers=_ALLOWED)(scope, receive, send_with_headers)
            else:
                self._authorize(scope, headers)
                receive_body = await self._body(headers, receive)
                request_context.enter(self._context(scope, headers))
                await self._app(scope, receive_body, send_with_headers)
        except Refused as refused:
            await _error(refused.status_code, refused.detail, refused.headers)(scope, receive, send_with_headers)
        except ConnectionError:
            status = status or 499  # the client went away
        except Exception as error:
            self._log_error(error)
            if not status:
                await _error(500, BROKEN)(scope, receive, send_with_headers)
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

    def _context(self, scope: Scope, headers: dict[bytes, bytes]) -> RequestContext:
        """Who asks, and until when an answer is of use."""
        address = (scope.get("client") or ("",))[0]
        given = headers.get(b"authorization", b"") if self._tokens else b""
        client = hashlib.sha256(given).hexdigest()[:16] if given else address
        return RequestContext(client, time.monotonic() + self.limits.request_seconds)

    def _check_token(self, given: bytes) -> None:
        kind, _, token = given.partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        # Every token is compared, each in constant time, so that the time reveals nothing about any.
        matches = [hmac.compare_digest(digest, known) for known in self._tokens]
        if not any(matches) or kind.lower() != b"bearer":
            raise Refused(401, "give a token: Authorization: Bearer …", {"www-authenticate": "Bearer"})

    def _cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        allowed = [(b"access-control-allow-origin", origin) for origin in self._origins & {headers.get(b"origin")}]
        return [(b"vary", b"Origin"), *allowed] if self._origins else []

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
            raise Refused(408, f"the body took more than {self.limits.body_seconds:g} seconds", _CLOSE) from None
        if len(body) > self.limits.body:
            raise Refused(413, f"a body has at most {self.limits.body:,} bytes", _CLOSE)
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
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"
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


def _headers(settings: Settings) -> list[tuple[bytes, bytes]]:
    """The headers of every response. A page that came by TLS shows images that come by TLS alone."""
    if settings.images is None:
        return HEADERS
    secure = (settings.public_url or "").startswith("https:")
    allowed = _IMAGES + (b" https:" if secure else b" https: http:")
    return [(name, value.replace(_IMAGES, allowed)) for name, value in HEADERS]


def _error(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps({"detail": words}), status, headers, media_type="application/json")
