"""The service as one ASGI application, and how a worker process makes it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from importlib import metadata, resources
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException as StarletteError
from starlette.routing import Match, Route

from komd.errors import SolverError
from komd.serve.access import BROKEN, AccessControl
from komd.serve.api import RequestQueues, add_routes, errors
from komd.serve.candidate_masks import ItemRules
from komd.serve.event_store import EventStore, StoreError
from komd.serve.item_filters import FilterError, named_filters
from komd.serve.learner import updatable
from komd.serve.model_arms import Arm, ModelArms, watchers
from komd.serve.process_signals import end_with_parent, on_hangup
from komd.serve.prometheus import SHARED, ServiceMetrics
from komd.serve.rate_limits import RateSlots
from komd.serve.recommendation_id import ARMS
from komd.serve.request_context import DeadlineExceeded
from komd.serve.request_cost import BatchTooLarge
from komd.serve.request_queue import ClientGone, QueueFull, RequestQueue, RightOfWay
from komd.serve.serve_settings import VARIABLE, Settings
from komd.serve.service import Service
from komd.serve.store_circuit import CircuitOpen
from komd.serve.token_file import TokenFile
from komd.serve.tracing import TracedApplication

__all__ = ["check", "create", "from_environment"]

log = logging.getLogger("komd.serve")

_LEARNED_SECONDS = 0.1  # between two looks for a model that the learner published
_GAUGE_SECONDS = 1.0
_REPORT_SECONDS = 1.0
_FOLLOW_SECONDS = 1.0  # between two looks for what was decided of the candidate
_AVAILABILITY_SECONDS = 0.5  # between two looks for items that are available or not any more

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
    rules = ItemRules(named_filters(settings.filters))
    models = watchers(settings, rules)
    events = EventStore(
        settings.store,
        threads=len(RequestQueues._fields) + (settings.candidate is not None),
        key_file=settings.key_file,
    )
    rules.availability.read(events)
    arms = ModelArms(settings, models, events)
    for arm in arms.all:
        arm.watcher.current.masks.warm_up()
        metrics.loaded.labels(arm.name).set(arm.watcher.current.loaded)
    limits, names = settings.limits, RequestQueues._fields
    way = RightOfWay()
    queues = RequestQueues(
        *(RequestQueue(name, waiting=limits.waiting, metrics=metrics, way=way, large=name == "large") for name in names)
    )
    service = Service(arms, events, settings, rules)
    tokens = TokenFile(settings.token_file)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        learning = service.watcher.learned is not None
        seconds = min(settings.watch_seconds, _LEARNED_SECONDS) if learning else settings.watch_seconds
        tasks = [
            *(asyncio.create_task(_watch(arm, metrics, seconds)) for arm in arms.all),
            asyncio.create_task(_watch_availability(service)),
            asyncio.create_task(_watch_store(events, metrics)),
            asyncio.create_task(_report(service, metrics)),
        ]
        if arms.candidate is not None:
            tasks.append(asyncio.create_task(_follow(arms, metrics, min(settings.watch_seconds, _FOLLOW_SECONDS))))
        if settings.token_file is not None:
            tasks.append(asyncio.create_task(_watch_tokens(tokens, settings.watch_seconds)))
        if learning:
            tasks.append(asyncio.create_task(_watch_learner(service, metrics)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for queue in queues:
                queue.close()
            with contextlib.suppress(StoreError):
                events.count(service.impressions.take())
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
    access = AccessControl(app, settings, metrics, tokens, RateSlots.shared_or_own(os.environ.get(SHARED)))
    access.rereading += [arm.watcher.reread for arm in arms.all]
    return TracedApplication(access) if settings.tracing else access


def check(settings: Settings) -> None:
    """Load the model and open the store, for the error if they cannot be used."""
    for watcher in watchers(settings, ItemRules(named_filters(settings.filters))):
        if settings.learn and watcher is not None:
            updatable(watcher.current.model)
    EventStore(settings.store, key_file=settings.key_file).close()


def from_environment() -> AccessControl | TracedApplication:
    """What a worker process serves: the settings are in its environment."""
    from komd.serve.server_process import log_to_stderr, settle

    settings = Settings.from_text(os.environ[VARIABLE])
    log_to_stderr()
    end_with_parent(os.environ[SHARED])
    access = create(settings)
    on_hangup(access.reread)
    settle()
    return access


async def _watch(arm: Arm, metrics: ServiceMetrics, seconds: float) -> None:
    """Check for a new model every so many seconds; count all models that were loaded or refused since."""
    watcher, reloads, refusals = arm.watcher, 0, 0
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(watcher.refresh)
        except Exception:  # whatever is wrong with the folder, the old model goes on serving
            log.exception("looking for a new model failed")
        metrics.reloads.labels(arm.name).inc(watcher.reloads - reloads)
        metrics.refusals.labels(arm.name).inc(watcher.refusals - refusals)
        reloads, refusals = watcher.reloads, watcher.refusals
        metrics.loaded.labels(arm.name).set(watcher.current.loaded)


async def _follow(arms: ModelArms, metrics: ServiceMetrics, seconds: float) -> None:
    """Do what other workers decided of the candidate; while the store does not answer, all stays as it is."""
    while True:
        metrics.share.set(arms.share)
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(arms.follow)
        except StoreError:
            pass
        except Exception:
            log.exception("looking for what was decided of the candidate failed")


async def _watch_store(events: EventStore, metrics: ServiceMetrics) -> None:
    """Show in the metrics whether the database answers."""
    failures = 0
    while True:
        metrics.circuit_open.set(events.is_refusing)
        metrics.store_failures.inc(events.failures - failures)
        failures = events.failures
        await asyncio.sleep(_GAUGE_SECONDS)


async def _report(service: Service, metrics: ServiceMetrics) -> None:
    """Add the lists that were given out to the report, and show in the metrics what was counted."""
    lists: Counter[int] = Counter()
    attributed: Counter[int] = Counter()
    while True:
        await asyncio.sleep(_REPORT_SECONDS)
        for metric, before, now in (
            (metrics.lists, lists, service.impressions.lists),
            (metrics.attributed, attributed, service.events.attributed),
        ):
            for arm, count in list(now.items()):
                metric.labels(ARMS[arm]).inc(count - before[arm])
                before[arm] = count
        waiting = service.impressions.take()
        if waiting:
            try:
                await asyncio.shield(asyncio.wrap_future(service.events.count(waiting)))
            except StoreError as error:
                service.impressions.put_back(waiting)
                log.debug("lists are counted later: %s", error)


async def _watch_availability(service: Service) -> None:
    """Take in what other processes stored of the availability of items."""
    while True:
        await asyncio.sleep(_AVAILABILITY_SECONDS)
        with contextlib.suppress(StoreError):  # requests that need the store report it
            await asyncio.to_thread(service.read_availability)


async def _watch_tokens(tokens: TokenFile, seconds: float) -> None:
    """Check for new tokens every so many seconds."""
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(tokens.refresh)


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
