"""What a worker does beside answering: it looks for new models, tokens and decisions, and keeps the metrics true.

Nobody starts a task again that has ended: each goes on after any error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any

from komd.serve.event_store import EventStore, StoreError
from komd.serve.model_arms import Arm, ModelArms
from komd.serve.path_names import names_only
from komd.serve.prometheus import ServiceMetrics
from komd.serve.recommendation_id import ARMS
from komd.serve.serve_settings import Settings
from komd.serve.service import Service
from komd.serve.token_file import TokenFile

__all__ = ["background_tasks"]

log = logging.getLogger("komd.serve")

_LEARNED_SECONDS = 0.1  # between two looks for a model that the learner published
_GAUGE_SECONDS = 1.0
_REPORT_SECONDS = 1.0
_FOLLOW_SECONDS = 1.0  # between two looks for what was decided of the candidate
_AVAILABILITY_SECONDS = 0.5  # between two looks for items that are available or not any more
_FORGOTTEN_SECONDS = 1.0  # between two looks for users who were forgotten


def background_tasks(
    settings: Settings, service: Service, tokens: TokenFile, metrics: ServiceMetrics
) -> Iterator[Coroutine[Any, Any, None]]:
    """Everything that is to run as long as the service does."""
    arms, learning = service.arms, service.watcher.learned is not None
    seconds = min(settings.watch_seconds, _LEARNED_SECONDS) if learning else settings.watch_seconds
    for arm in arms.all:
        yield _watch(arm, metrics, seconds)
    yield _watch_availability(service)
    yield _watch_forgotten(service)
    yield _watch_store(service.events, metrics)
    yield _report(service, metrics)
    if arms.candidate is not None:
        yield _follow(arms, metrics, min(settings.watch_seconds, _FOLLOW_SECONDS))
    if settings.token_file is not None:
        yield _watch_tokens(tokens, settings.watch_seconds)
    if learning:
        yield _watch_learner(service, metrics)


@contextlib.contextmanager
def _survived(words: str) -> Iterator[None]:
    """Go on after any error. Those of the store are reported by requests that need it; the message may name users."""
    try:
        yield
    except StoreError:
        pass
    except Exception as error:
        frames = names_only("".join(traceback.format_tb(error.__traceback__)))
        log.error("%s failed: %s\n%s", words, type(error).__name__, frames)


async def _watch(arm: Arm, metrics: ServiceMetrics, seconds: float) -> None:
    """Check for a new model every so many seconds; count all models that were loaded or refused since."""
    watcher, reloads, refusals, hits, misses = arm.watcher, 0, 0, 0, 0
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(watcher.refresh)
        except Exception:  # whatever is wrong with the folder, the old model goes on serving
            log.exception("looking for a new model failed")
        metrics.reloads.labels(arm.name).inc(watcher.reloads - reloads)
        metrics.refusals.labels(arm.name).inc(watcher.refusals - refusals)
        reloads, refusals = watcher.reloads, watcher.refusals
        counts = watcher.current.weights.counts  # which go on with the next model
        found, solved = counts.hits, counts.misses
        metrics.weights_found.labels(arm.name).inc(found - hits)
        metrics.weights_solved.labels(arm.name).inc(solved - misses)
        hits, misses = found, solved
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
        with _survived("looking whether the store answers"):
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
        with _survived("counting lists"):
            for metric, before, now in (
                (metrics.lists, lists, service.impressions.lists),
                (metrics.attributed, attributed, service.events.attributed),
            ):
                for arm, count in list(now.items()):
                    metric.labels(ARMS[arm]).inc(count - before[arm])
                    before[arm] = count
            await _counted(service)


async def _counted(service: Service) -> None:
    waiting = service.impressions.take()
    if waiting:
        try:
            await asyncio.shield(asyncio.wrap_future(service.events.count(waiting)))
        except Exception as error:
            service.impressions.put_back(waiting)
            log.debug("lists are counted later: %s", type(error).__name__)
            raise


async def _watch_availability(service: Service) -> None:
    """Take in what other processes stored of the availability of items."""
    while True:
        await asyncio.sleep(_AVAILABILITY_SECONDS)
        with _survived("reading which items are available"):
            await asyncio.to_thread(service.read_availability)


async def _watch_forgotten(service: Service) -> None:
    """Keep no weights of users who were forgotten, here or by other processes."""
    while True:
        await asyncio.sleep(_FORGOTTEN_SECONDS)
        with _survived("looking for forgotten users"):
            await asyncio.to_thread(service.drop_forgotten)


async def _watch_tokens(tokens: TokenFile, seconds: float) -> None:
    """Check for new tokens every so many seconds."""
    while True:
        await asyncio.sleep(seconds)
        with _survived("reading the tokens"):
            await asyncio.to_thread(tokens.refresh)


async def _watch_learner(service: Service, metrics: ServiceMetrics) -> None:
    """Show in the metrics what the model in use has learned, and how old the oldest event is that it has not."""
    while True:
        with _survived("looking what was learned"):
            state = service.watcher.learned
            if state is not None:
                metrics.learned_seq.set(state.seq)
                metrics.learned_events.set(state.events)
                metrics.publications.set(state.publications)
            metrics.behind.set(await asyncio.to_thread(service.seconds_behind))
        await asyncio.sleep(_GAUGE_SECONDS)
