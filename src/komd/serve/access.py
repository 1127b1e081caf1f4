"""Who may ask, how much may be sent, and the headers of every response: one ASGI layer around the API.

Checked in this order: the Host (against foreign names that resolve to this machine), the Origin (against pages of other
sites), the rate of the address, the token with its role and rate, the length, the speed and the type of the body. An
error inside the API is a plain 500 and a line in the log that names no user.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException as Refused
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from komd.serve import request_context
from komd.serve.forwarded import ForwardedRequest, TrustedProxies
from komd.serve.path_names import names_only
from komd.serve.prometheus import ServiceMetrics
from komd.serve.rate_limits import RateLimit, RateSlots, address_key, address_name
from komd.serve.request_context import RequestContext
from komd.serve.roles import ROLES, role_needed
from komd.serve.serve_settings import Settings, is_loopback
from komd.serve.token_file import Token, TokenFile

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
_WITH_IDS = ("/v1/users/", "/v1/items/", "/v1/events/")  # an id may have a slash: they are split before decoding
_GUESSES = 5.0  # wrong tokens a second from one address, and how many of them at once
_GUESSES_AT_ONCE = 100
_DRAINED = 4  # times the limit is read of a body that is too long, so that the client gets to read the response


class _Caller(NamedTuple):
    """Who asks."""

    address: str
    token: Token | None = None


class AccessControl:
    """The layer. `app` is only called for requests that may be answered, with their complete body."""

    def __init__(
        self, app: ASGIApp, settings: Settings, metrics: ServiceMetrics, tokens: TokenFile, slots: RateSlots
    ) -> None:
        self._app = app
        self._settings = settings
        self.limits = settings.limits
        self._metrics = metrics
        self._tokens = tokens
        self._origins = {_origin(parts.scheme, parts.netloc) for parts in map(urlsplit, settings.origins)}
        self._headers = _headers(settings)
        public = None if settings.public_url is None else urlsplit(settings.public_url)
        self._public_origin = None if public is None else _origin(public.scheme, public.netloc)
        self._public_host = None if public is None else public.hostname
        self._proxies = TrustedProxies(settings.trusted_proxies) if settings.trusted_proxies else None
        self._check_host = settings.token_file is None and is_loopback(settings.host)
        address, token = self.limits.address_rate, self.limits.token_rate
        self._address_rate = None if address is None else RateLimit(slots, "address", address)
        self._token_rate = None if token is None else RateLimit(slots, "token", token)
        self._guess_rate = RateLimit(slots, "guesses", _GUESSES, _GUESSES_AT_ONCE)
        self.rereading: list[Callable[[], object]] = [tokens.reload]
        """What reads a file of the settings again."""

    def reread(self) -> None:
        """Read the files again that may change while they are in use: on SIGHUP."""
        log.info("reading tokens and names again")
        for read in self.rereading:
            try:
                read()
            except Exception as error:  # the others are read all the same
                self._log_error(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        extra = self._cors(headers)
        status, caller = 0, None

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
                caller = self._authorize(scope, headers)
                receive_body = await self._body(scope, headers, receive)
                client = caller.token.key if caller.token else address_name(caller.address)
                deadline = time.monotonic() + self.limits.request_seconds
                request_context.enter(RequestContext(client, deadline, receive))
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
            self._count(scope, status, time.perf_counter() - start, caller)

    # ---- who may ask ------------------------------------------------------------------------------------------

    def _authorize(self, scope: Scope, headers: dict[bytes, bytes]) -> _Caller:
        """Who asks. Raises Refused unless this request may be answered."""
        peer = (scope.get("client") or ("",))[0]
        seen = ForwardedRequest(peer) if self._proxies is None else self._proxies.seen(peer, scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        # The Host itself, never a forwarded one: a foreign page that reaches this machine by a name of its own may send
        # any header but this.
        if self._check_host and not is_loopback(_hostname(host)) and _hostname(host) != self._public_host:
            raise Refused(421, f"this service answers to localhost, not to {host[:100]!r}; name it with --public-url")
        origin = headers.get(b"origin")
        if origin is not None and not self._is_own(origin, seen, scope.get("scheme", "http"), host):
            raise Refused(
                403,
                "pages of other sites are not served; name theirs with --origin, and the address of this service "
                "behind a proxy with --public-url",
            )
        path: str = scope["path"]
        if not path.startswith("/v1/") or path in _OPEN:
            return _Caller(seen.address)
        if self._address_rate is not None:
            self._spend(self._address_rate, address_key(seen.address))
        if self._settings.token_file is None:
            return _Caller(seen.address)
        token = self._token(headers.get(b"authorization", b""), seen.address)
        role = role_needed(scope["method"], path)
        if role not in token.roles:
            raise Refused(403, f"this token may not {ROLES[role]}: it takes the role {role}")
        if self._token_rate is not None:
            self._spend(self._token_rate, token.digest)
        return _Caller(seen.address, token)

    def _is_own(self, origin: bytes, seen: ForwardedRequest, scheme: str, host: str) -> bool:
        """Whether a page of this origin is ours, or one that the settings name."""
        own = _origin(seen.scheme or scheme, seen.host or host)
        return origin in self._origins or origin == own or origin == self._public_origin

    def _token(self, given: bytes, address: str) -> Token:
        """The token of a request. An address that sends many wrong ones has to wait, whatever it sends next."""
        if given:
            self._refuse_early(self._guess_rate, self._guess_rate.wait(address_key(address)))
        token = self._tokens.find(given)
        if token is None:
            if given:
                self._guess_rate.spend(address_key(address))
            raise Refused(401, "give a token: Authorization: Bearer …", {"www-authenticate": "Bearer"})
        return token

    def _spend(self, rate: RateLimit, key: bytes) -> None:
        self._refuse_early(rate, rate.spend(key))

    def _refuse_early(self, rate: RateLimit, wait: int) -> None:
        if wait:
            self._metrics.limited.labels(rate.kind).inc()
            words = {
                "address": "too many requests from this address",
                "token": "too many requests with this token",
                "guesses": "too many wrong tokens from this address",
            }[rate.kind]
            raise Refused(429, f"{words}; try again in {wait} s", {"retry-after": str(wait)})

    def _cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        allowed = [(b"access-control-allow-origin", origin) for origin in self._origins & {headers.get(b"origin")}]
        return [(b"vary", b"Origin"), *allowed] if self._origins else []

    # ---- how much may be sent ---------------------------------------------------------------------------------

    async def _body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Receive:
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
        if body and scope["path"].startswith("/v1/") and not _is_json(headers.get(b"content-type", b"")):
            came = headers.get(b"content-type", b"").decode("latin-1")[:100]
            came = f"it came as {came!r}" if came else "it came without one"
            raise Refused(415, f"a body is sent with the header Content-Type: application/json; {came}")
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

    def _count(self, scope: Scope, status: int, seconds: float, caller: _Caller | None) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        name = caller.token.name if caller is not None and caller.token is not None else ""
        if name:
            self._metrics.by_token.labels(name).inc()
        if self._settings.log_requests:
            asked = route
            if self._settings.log_ids:
                query = scope["query_string"].decode("latin-1")
                asked = repr(scope["path"] + ("?" + query if query else ""))
            log.info("%s %s %d %.1f ms%s", method, asked, status, 1000 * seconds, f" by {name}" if name else "")

    def _log_error(self, error: Exception) -> None:
        """One line and where it happened; the message may name users, so it is only logged with `log_ids`."""
        frames = names_only("".join(traceback.format_tb(error.__traceback__)))
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


def _origin(scheme: str, host: str) -> bytes:
    """The origin of pages at this address, as browsers write it.

    >>> _origin("https", "Shop.example:443"), _origin("http", "127.0.0.1:8000")
    (b'https://shop.example', b'http://127.0.0.1:8000')
    """
    host = host.lower().removesuffix({"http": ":80", "https": ":443"}.get(scheme, ""))
    return f"{scheme}://{host}".encode("latin-1", "replace")


def _is_json(kind: bytes) -> bool:
    """
    >>> _is_json(b"application/json"), _is_json(b"Application/JSON; charset=utf-8"), _is_json(b"text/plain")
    (True, True, False)
    """
    return kind == b"application/json" or kind.partition(b";")[0].strip().lower() == b"application/json"


def _error(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps({"detail": words}), status, headers, media_type="application/json")
