"""Errors as answers: every one is {"detail": words}, with a status code."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteError
from starlette.routing import Match, Route

from komd.errors import SolverError
from komd.serve.access import BROKEN
from komd.serve.item_filters import FilterError
from komd.serve.request_context import DeadlineExceeded
from komd.serve.request_cost import BatchTooLarge
from komd.serve.request_queue import ClientGone, QueueFull
from komd.serve.store_circuit import CircuitOpen, StoreError

__all__ = ["add_error_handlers"]

log = logging.getLogger("komd.serve")

_NOT_NAMED = ("body", "query", "path", "HistoryItem")  # parts of the place of an error that are no field


def add_error_handlers(app: FastAPI) -> None:
    """Every error is {"detail": words}."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = _told(error.errors())
        status = 400 if any(one["type"] == "json_invalid" for one in found) else 422
        return JSONResponse({"detail": "; ".join(_sentence(one) for one in found[:5])}, status)

    @app.exception_handler(StarletteError)
    async def known(request: Request, error: HTTPException) -> Response:
        headers, words = error.headers, str(error.detail)
        if error.status_code == 405:
            # Starlette names the methods of the first route with this path; there may be several.
            allowed = ", ".join(sorted(_methods(app, request)))
            headers, words = {"allow": allowed}, f"{request.method} is not possible here; {allowed} is"
        return JSONResponse({"detail": words}, error.status_code, headers=headers)

    @app.exception_handler(StoreError)
    async def unavailable(_: Request, error: StoreError) -> Response:
        if not isinstance(error, CircuitOpen):  # which says so in the log once
            log.error("%s", error)
        return JSONResponse({"detail": error.detail}, 503, headers={"retry-after": f"{math.ceil(error.retry_after)}"})

    @app.exception_handler(QueueFull)
    async def busy(_: Request, error: QueueFull) -> Response:
        return JSONResponse({"detail": str(error)}, 503, headers={"retry-after": str(error.retry_after)})

    @app.exception_handler(DeadlineExceeded)
    async def late(_: Request, error: DeadlineExceeded) -> Response:
        return JSONResponse({"detail": str(error)}, 504, headers={"retry-after": str(error.retry_after)})

    @app.exception_handler(ClientGone)
    async def gone(_: Request, error: ClientGone) -> Response:
        return Response(status_code=499)

    @app.exception_handler(BatchTooLarge)
    async def too_large(_: Request, error: BatchTooLarge) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(FilterError)
    async def no_such_filter(_: Request, error: FilterError) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(SolverError)
    async def unsolved(_: Request, error: SolverError) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:  # access.py writes it to the log
        return JSONResponse({"detail": BROKEN}, 500)


def _methods(app: FastAPI, request: Request) -> set[str]:
    """The methods of all routes with the path of this request."""
    found = [
        route for route in app.routes if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
    ]
    return {method for route in found for method in route.methods or ()}


def _told(errors: Sequence[Any]) -> list[Any]:
    """The errors of a validation, without "should be a string" where an object was sent and is wrong inside."""
    inside = {error["loc"][:k] for error in errors for k in range(len(error["loc"]) - 1)}
    return [e for e in errors if e["loc"][:-1] not in inside or e["type"] not in ("string_type", "int_type")]


def _sentence(error: Any) -> str:
    """One error of the validation, without what was sent: that may be long, or name a user."""
    place = ".".join(str(part) for part in error["loc"] if part not in _NOT_NAMED)
    if error["type"] == "json_invalid":
        return "the body is not JSON"
    words = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {words}" if place else words
