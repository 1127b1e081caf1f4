"""Requests with large bodies: read, checked and answered in the thread of a queue, not on the event loop.

To parse and check a megabyte holds the GIL for some milliseconds. On the event loop that would be done at once for
every client that sends one; in the thread of a queue it waits for its turn, and is not done if the queue is full.
FastAPI's own handler runs there, in an event loop of its own, so that every answer and every error is the same as that
of a small body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

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
        return await queue.run(lambda: _completed(handle(request)))

    return handle_in_place


def _completed(answering: Coroutine[Any, Any, Response]) -> Response:
    """What a coroutine returns, run in this thread."""
    with asyncio.Runner() as runner:
        return runner.run(answering)
