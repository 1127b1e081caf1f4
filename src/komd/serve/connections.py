"""The edge of the service: clients that send a request's head too slowly, or without end, or never take the answer,
or ask on and on without waiting for it.

uvicorn waits for them without limit. Bodies are limited one step later, in guard.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from komd.serve.serve_settings import Limits

__all__ = ["Impatient"]

_HEAD = 32 << 10  # bytes of a request's first line and headers
_AHEAD = 16  # requests a client may send before it has the answer to the first


class Impatient(HttpToolsProtocol):
    """uvicorn's protocol with the time limits of the application it runs."""

    _timer: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _received: int | None = 0
    """Bytes of the head so far; None outside a head."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits: Limits = getattr(self.app, "limits", Limits())

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def _await_head(self) -> None:
        self._received = 0
        self._settle()
        self._timer = self.loop.call_later(self._limits.head_seconds, self._refuse, b"408 Request Timeout")

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            words = b'{"detail":"' + status[4:].lower() + b'"}'
            lines = [b"HTTP/1.1 " + status, b"content-type: application/json", b"connection: close"]
            self.transport.write(b"\r\n".join([*lines, b"content-length: %d" % len(words), b"", words]))
            self._hang_up()

    def _hang_up(self) -> None:
        """Close, whether or not the other side ever takes what is still to be sent."""
        self.transport.close()
        self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._hang_up()

    def data_received(self, data: bytes) -> None:
        if self._received is not None:
            self._received += min(len(data), _HEAD + 1)
        super().data_received(data)
        # Only a head that is still not whole counts: what came behind it is a body, which is measured elsewhere.
        if self._received is not None and self._received > _HEAD:
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:  # a further request on the same connection
            self._await_head()

    def on_headers_complete(self) -> None:
        self._received = None
        self._settle()
        if len(self.pipeline) >= _AHEAD:  # the queue of a connection has no end of its own
            raise ValueError("too many requests at once")
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        if self._stuck is not None:
            self._stuck.cancel()
        super().connection_lost(exc)
