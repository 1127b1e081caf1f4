"""The service as one ASGI application, and how a worker process makes it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Sequence
from importlib import metadata, resources
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException as StarletteError

from komd.errors import SolverError
from komd.serve.access import BROKEN, AccessControl
from komd.serve.api import RequestQueues, add_routes, errors
from komd.serve.event_store import EventStore, StoreError
from komd.serve.hot_reload import ModelWatcher
from komd.serve.learner import updatable
from komd.serve.prometheus import ServiceMetrics
from komd.serve.publication import Publication
from komd.serve.request_queue import QueueFull, RequestQueue
from komd.serve.serve_settings import VARIABLE, Settings
from komd.serve.service import Service
from komd.serve.tracing import TracedApplication

__all__ = ["check", "create", "from_environment"]

log = logging.getLogger("komd.serve")

_LEARNED_SECONDS = 0.1  # between two looks for a model that the learner published
_GAUGE_SECONDS = 1.0

_ABOUT = """Recommendations from what users did, by `komd`. Ids are text; whole numbers are accepted too.
Errors are `{"detail": "words"}`."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NOT_NAMED = ("body", "query", "path", "HistoryItem")  # parts of the place of an error that are no field
_PAGES = {"index.html": "/", "api.html": "/docs"}


def create(settings: Settings) -> AccessControl | TracedApplication:
    """The application: model loaded and tried, store open. Raises KomdError when either cannot be used."""
    metrics = ServiceMetrics()
    publication = None if settings.learned is None else Publication(settings.learned)
    watcher = ModelWatcher(settings.model, settings.items, publication)
    metrics.loaded.set(watcher.current.loaded)
    events = EventStore(settings.store, threads=len(RequestQueues._fields))
    limits, names = settings.limits, RequestQueues._fields
    queues = RequestQueues(*(RequestQueue(name, waiting=limits.waiting, metrics=metrics) for name in names))
    service = Service(watcher, events, limits)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        learning = watcher.learned is not None
        seconds = min(settings.watch_seconds, _LEARNED_SECONDS) if learning else settings.watch_seconds
        tasks = [asyncio.create_task(_watch(watcher, metrics, seconds))]
        if learning:
            tasks.append(asyncio.create_task(_watch_learner(service, metrics)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for queue in queues:
                queue.close()
            events.close()

    app = FastAPI(
        title="komd",
        version=metadata.version("komd"),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        responses=errors(),
        dependencies=[Depends(HTTPBearer(auto_error=False))] if settings.token_file else [],
    )
    add_routes(app, service, queues, metrics)
    _add_pages(app)
    _add_error_handlers(app)
    served = AccessControl(app, settings, metrics)
    return TracedApplication(served, limits) if settings.tracing else served


def check(settings: Settings) -> None:
    """Load the model and open the store, for the error if they cannot be used."""
    model = ModelWatcher(settings.model, settings.items).current.model
    if settings.learn:
        updatable(model)
    EventStore(settings.store).close()


def from_environment() -> AccessControl | TracedApplication:
    """What a worker process serves: the settings are in its environment."""
    from komd.serve.server_process import log_to_stderr

    settings = Settings.from_text(os.environ[VARIABLE])
    log_to_stderr()
    return create(settings)


async def _watch(watcher: ModelWatcher, metrics: ServiceMetrics, seconds: float) -> None:
    """Check for a new model every so many seconds; count all models that were loaded or refused since."""
    reloads = refusals = 0
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(watcher.refresh)
        except Exception:  # whatever is wrong with the folder, the old model goes on serving
            log.exception("looking for a new model failed")
        metrics.reloads.inc(watcher.reloads - reloads)
        metrics.refusals.inc(watcher.refusals - refusals)
        reloads, refusals = watcher.reloads, watcher.refusals
        metrics.loaded.set(watcher.current.loaded)


async def _watch_learner(service: Service, metrics: ServiceMetrics) -> None:
    """Show in the metrics what the model in use has learned, and how old the oldest event is that it has not."""
    while True:
        state = service.watcher.learned
        if state is not None:
            metrics.learned_seq.set(state.seq)
            metrics.learned_events.set(state.events)
            metrics.publications.set(state.publications)
        with contextlib.suppress(StoreError):
            metrics.behind.set(await asyncio.to_thread(service.seconds_behind))
        await asyncio.sleep(_GAUGE_SECONDS)


def _add_pages(app: FastAPI) -> None:
    """The page and its parts, from the package, held in memory."""
    folder = resources.files("komd.serve") / "static"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        kind = _TYPES.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            _add_page(app, _PAGES.get(file.name, f"/static/{file.name}"), file.read_bytes(), kind)


def _add_page(app: FastAPI, address: str, content: bytes, kind: str) -> None:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    about = {"etag": tag, "cache-control": "no-cache"}

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=about)
        return Response(content, media_type=kind, headers=about)

    app.add_api_route(address, page, methods=["GET", "HEAD"], include_in_schema=False)


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is {"detail": words}."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        found = _told(error.errors())
        status = 400 if any(one["type"] == "json_invalid" for one in found) else 422
        return JSONResponse({"detail": "; ".join(_sentence(one) for one in found[:5])}, status)

    @app.exception_handler(StarletteError)
    async def known(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"detail": str(error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(StoreError)
    async def unavailable(_: Request, error: StoreError) -> Response:
        log.error("%s", error)
        return JSONResponse({"detail": "the store does not answer now"}, 503, headers={"retry-after": "2"})

    @app.exception_handler(QueueFull)
    async def busy(_: Request, error: QueueFull) -> Response:
        return JSONResponse({"detail": str(error)}, 503, headers={"retry-after": "1"})

    @app.exception_handler(SolverError)
    async def unsolved(_: Request, error: SolverError) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:  # access.py writes it to the log
        return JSONResponse({"detail": BROKEN}, 500)


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
