"""Answers as JSON. Long ones are made and sent in parts, so that no other request waits for a long one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from komd.serve import request_context

__all__ = ["json_array", "json_response"]

_SENT = 128 << 10  # bytes given to the connection at a time


class _LongResponse(Response):
    """A response whose body is sent in parts, each when the client has read enough of those before."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for start in range(0, len(body), _SENT):
            more = start + _SENT < len(body)
            await send({"type": "http.response.body", "body": bytes(body[start : start + _SENT]), "more_body": more})


def _response(body: bytes, status: int = 200) -> Response:
    kind = Response if len(body) <= _SENT else _LongResponse
    return kind(body, status, media_type="application/json")


def json_response(answer: BaseModel | dict[str, Any], status: int = 200) -> Response:
    """A response as bytes; made in the thread that computed it."""
    return _response(to_json(answer), status)


def json_array(name: str, answers: Iterable[tuple[int, dict[str, Any]]]) -> Response:
    """The response `{name: [answers]}`, of numbered answers in any order.

    Each is written when it comes and not kept: the garbage collector stops all threads to visit every object there is,
    and a batch of answers has hundreds of thousands.
    """
    written: dict[int, bytes] = {}
    for k, answer in answers:
        written[k] = to_json(answer)
        request_context.current().check()
    return _response(b'{"%s":[%s]}' % (name.encode(), b",".join(written[k] for k in sorted(written))))
