"""Limits of connections: the time and the size of a request's head, the time to read a response, requests in advance.

A request may be answered, and refused, before all of it came: what is left of it has the time of a body. Trailers,
which follow a body in chunks, are dropped: what the head said was checked, and a proxy adds its headers there.

Clients that exceed them are disconnected; uvicorn alone would wait without limit. What is refused here, before there is
a request, is answered in JSON like everything else. Bodies are limited in access.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from komd.serve.serve_settings import Limits

__all__ = ["LimitedProtocol"]

_HEAD = 32 << 10  # bytes of a request's first line and headers
_AHEAD = 16  # requests that a client may send before it has the response to the first


log = logging.getLogger("komd.serve")


async def _refuse_connection(scope: Scope, receive: Receive, send: Send) -> None:
    """What is served in place of the application when there are too many connections."""
    words = {"detail": "there are too many connections; try again in a moment"}
    await JSONResponse(words, 503, {"retry-after": "1", "connection": "close"})(scope, receive, send)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the limits of the application it runs."""

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _rest_timer: asyncio.TimerHandle | None = None
    _abort_timer: asyncio.TimerHandle | None = None
    _received: int | None = 0
    """Bytes of the head so far; None outside a head."""
    _incomplete = False
    """Whether a request's head came, and its body did not end yet."""
    _framing = 0
    """Bytes since the last part of a body: sizes of chunks and trailers, which the parser keeps in memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits: Limits = getattr(self.app, "limits", Limits())
        self._served = self.app
        self._most, self.limit_concurrency = self.limit_concurrency, None  # uvicorn's answer is not JSON

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def _await_head(self) -> None:
        self._received = 0
        self._head_timer = self.loop.call_later(self._limits.head_seconds, self._refuse, b"408 Request Timeout")

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes, words: str = "") -> None:
        if not self.transport.is_closing():
            body = json.dumps({"detail": words or status[4:].lower().decode()}).encode()
            lines = [b"HTTP/1.1 " + status, b"content-type: application/json", b"connection: close"]
            self.transport.write(b"\r\n".join([*lines, b"content-length: %d" % len(body), b"", body]))
            self._close()

    def _close(self) -> None:
        """Close, whether or not the client ever reads what is still to be sent."""
        self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        if self._abort_timer is None:
            self._abort_timer = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        too_many = len(self.pipeline) >= _AHEAD
        self._refuse(b"400 Bad Request", "too many requests at once" if too_many else "this is not a request in HTTP")

    def data_received(self, data: bytes) -> None:
        if self._received is not None:
            self._received += min(len(data), _HEAD + 1)
        self._framing += len(data)
        super().data_received(data)
        # Only an incomplete head counts: what follows it is a body, which is limited in access.py.
        if self._received is not None and self._received > _HEAD:
            self._refuse(b"431 Request Header Fields Too Large")
        if self._incomplete and self._framing > _HEAD:
            self._close()
        self._keep_idle()

    def _keep_idle(self) -> None:
        """Limit the time to the next request again: uvicorn gives that up at the first byte, of whatever it is."""
        if self.cycle is None or not self.cycle.response_complete or self._incomplete or self._head_timer is not None:
            return  # something else limits the time
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._incomplete:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._incomplete = False
        self._cancel_rest_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_later()
        elif self._incomplete and self.cycle.response_complete and self._rest_timer is None:
            self._rest_timer = self.loop.call_later(self._limits.body_seconds, self._close)

    def _cancel_rest_timer(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:  # a further request on the same connection
            self._await_head()

    def on_headers_complete(self) -> None:
        self._received = None
        self._incomplete, self._framing = True, 0
        self._cancel_head_timer()
        if len(self.pipeline) >= _AHEAD:  # uvicorn does not limit the queue of a connection
            raise ValueError("too many requests at once")
        full = self._most is not None and max(len(self.connections), len(self.tasks)) >= self._most
        if full:
            log.warning("a request is refused: there are %d connections, the most of a worker", len(self.connections))
        self.app = _refuse_connection if full else self._served
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        self._cancel_rest_timer()
        for timer in (self._write_timer, self._abort_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
