"""The service as one ASGI application, and how a worker process makes it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from importlib import metadata

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from komd.serve.access import AccessControl
from komd.serve.api import RequestQueues, add_routes, errors
from komd.serve.background_tasks import background_tasks
from komd.serve.candidate_masks import ItemRules
from komd.serve.error_answers import add_error_handlers
from komd.serve.event_store import EventStore, StoreError
from komd.serve.item_filters import named_filters
from komd.serve.learner import updatable
from komd.serve.model_arms import ModelArms, watchers
from komd.serve.process_signals import end_with_parent, on_hangup
from komd.serve.prometheus import SHARED, ServiceMetrics
from komd.serve.rate_limits import RateSlots
from komd.serve.request_queue import RequestQueue, RightOfWay
from komd.serve.serve_settings import VARIABLE, Settings
from komd.serve.service import Service
from komd.serve.static_pages import add_pages
from komd.serve.token_file import TokenFile
from komd.serve.tracing import TracedApplication

__all__ = ["check", "create", "from_environment"]

_ABOUT = """Recommendations from what users did, by `komd`. Ids are text; whole numbers are accepted too.
Errors are `{"detail": "words"}`."""


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
        tasks = [asyncio.create_task(each) for each in background_tasks(settings, service, tokens, metrics)]
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
    add_pages(app)
    add_error_handlers(app)
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
    on_hangup(lambda: None)  # while it starts: everything is about to be read anyway
    end_with_parent(os.environ[SHARED])
    access = create(settings)
    on_hangup(access.reread)
    settle()
    return access
