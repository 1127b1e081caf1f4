"""Requests with large bodies: read, checked and answered in the thread of a queue, not on the event loop.

To parse and check a megabyte takes some milliseconds. On the event loop that would be done at once for every client
that sends one; in the thread of a queue it waits for its turn, and is not done if the queue is full. Compiled code
keeps the GIL to its end, so the parser calls a Python function for each object, in which other threads get it.
FastAPI's own handler runs there, in an event loop of its own, so that every answer and every error is the same as that
of a small body.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message, Scope

from komd.serve.request_queue import RequestQueue

__all__ = ["LARGE_BODY", "route_class"]

LARGE_BODY = 16 << 10
"""Bytes of a body that is still parsed on the event loop."""

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def route_class(queue_of: Callable[[str], RequestQueue]) -> type[APIRoute]:
    """The class of routes whose large bodies are handled in the thread of `queue_of(path)`."""

    class LargeBodyRoute(APIRoute):
        def get_route_handler(self) -> _Handler:
            handle: _Handler = super().get_route_handler()
            return handle if self.body_field is None else _in_queue(handle, queue_of(self.path))

    return LargeBodyRoute


def _in_queue(handle: _Handler, queue: RequestQueue) -> _Handler:
    async def handle_in_place(request: Request) -> Response:
        if len(await request.body()) <= LARGE_BODY:
            return await handle(request)
        large = _LargeRequest(request.scope, await request.body())
        return await queue.run(lambda: _completed(handle(large)))

    return handle_in_place


class _LargeRequest(Request):
    """A request whose complete body is here."""

    def __init__(self, scope: Scope, body: bytes) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        super().__init__(scope, receive)

    async def json(self) -> Any:
        """The body, parsed so that other threads can work meanwhile."""
        return json.loads(await self.body(), object_hook=_same)


def _same(value: dict[str, Any]) -> dict[str, Any]:
    return value


def _completed(answering: Coroutine[Any, Any, Response]) -> Response:
    """What a coroutine returns, run in this thread."""
    with asyncio.Runner() as runner:
        return runner.run(answering)
