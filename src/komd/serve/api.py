"""The addresses under /v1."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import FastAPI, HTTPException, Path, Query, Response
from pydantic import BaseModel, BeforeValidator

from komd.errors import InputError, KomdError
from komd.serve import request_context, schemas
from komd.serve.access import decoded
from komd.serve.event_store import StoreError
from komd.serve.json_output import json_array, json_response
from komd.serve.large_bodies import route_class
from komd.serve.path_names import names_only
from komd.serve.prometheus import CONTENT_TYPE, ServiceMetrics
from komd.serve.request_context import DeadlineExceeded
from komd.serve.request_cost import SMALL, LargeRequest
from komd.serve.request_queue import RequestQueue
from komd.serve.service import Service

__all__ = ["RequestQueues", "add_routes", "errors"]

Result = TypeVar("Result")
UserId = Annotated[schemas.Text, BeforeValidator(decoded), Path(description="Id of a user.")]
ItemId = Annotated[schemas.Text, BeforeValidator(decoded), Path(description="Id of an item.")]
EventId = Annotated[
    str,
    BeforeValidator(decoded),
    Path(min_length=1, max_length=64, pattern=r"^[^\x00]*$", description="Id of an event."),
]
Days = Annotated[int, Query(ge=1, le=366, description="How many days.")]
Length = Annotated[int, Query(ge=1, le=schemas.LIMITS.n, description="How many at most.")]
Few = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
Prefix = Annotated[
    str, Query(max_length=schemas.LIMITS.identifier, pattern=r"^[^\x00]*$", description="Prefix of the ids.")
]
Filters = Annotated[
    tuple[schemas.Text, ...],
    Query(alias="filter", max_length=20, description="Filters of the configuration, which all must hold."),
]
Typed = Annotated[str, Query(max_length=200, description="What was typed so far.")]

_DESCRIPTIONS = {
    400: "Not JSON",
    401: "No token, or a wrong one",
    403: "The request comes from a page of another site, or its token lacks the role",
    404: "Not known",
    408: "The body came too slowly",
    409: "The new model cannot be used, and the old one stays; or there is no candidate to decide on",
    413: "The body is too long",
    415: "The body is not declared as application/json",
    421: "The Host is not a name of this machine",
    422: "Something in the request is wrong, in words",
    429: "Too many requests from this address or with this token; Retry-After says when to try again",
    503: "The store or the threads are busy or not available; try again",
    504: "No answer within the time limit; ask for less, or try again",
}
_ALWAYS = (401, 403, 421, 422, 429, 503, 504)


def errors(*also: int) -> dict[int | str, dict[str, Any]]:
    """The errors that every request may end with, and these, for the description."""
    codes = sorted({*_ALWAYS, *also})
    return {code: {"model": schemas.ErrorDetail, "description": _DESCRIPTIONS[code]} for code in codes}


_BODY = (400, 408, 413, 415)
_UNLEARN_SECONDS = 10.0  # that a request waits for a user to be unlearned
_UNLEARN_POLL = 0.03


class RequestQueues(NamedTuple):
    """Where work is done, so that short requests never wait for long ones, nor for the database."""

    compute: RequestQueue
    """Requests that only compute."""
    store: RequestQueue
    """Requests that read the store as well."""
    large: RequestQueue
    """Requests that take long: batches, long histories and lists, large bodies. They let the others go first."""
    ready: RequestQueue
    """The question whether the store answers."""


async def _by_deadline(written: Future[Result], words: str) -> Result:
    """What a write to the store says when it is done. Raises DeadlineExceeded, with these words, if that is late."""
    deadline = request_context.current().deadline
    try:
        async with asyncio.timeout(None if deadline == math.inf else max(deadline - time.monotonic(), 0.0)):
            return await asyncio.shield(asyncio.wrap_future(written))
    except TimeoutError:
        if written.done():
            return written.result()
        raise DeadlineExceeded(words) from None


def add_routes(app: FastAPI, service: Service, queues: RequestQueues, metrics: ServiceMetrics) -> None:
    """The API of a service. The routes are the application's own: a router in between costs a tenth of a request."""

    async def answer(
        queue: RequestQueue, work: Callable[[], BaseModel | dict[str, Any] | None], missing: str = ""
    ) -> Response:
        if queue in (queues.store, queues.ready):
            service.events.check()

        def work_to_json() -> Response | None:
            found = work()
            return None if found is None else json_response(found)

        response = await queue.run(work_to_json)
        if response is None:
            raise HTTPException(404, missing)
        return response

    async def answer_ask(ask: schemas.Ask) -> Response:
        """By the thread for requests of its kind. How long a stored history is shows when it is read."""
        if ask.history is not None and service.cost(ask) > SMALL:
            return await answer(queues.large, lambda: service.recommend(ask))
        try:
            queue = queues.compute if ask.user_id is None else queues.store
            return await answer(queue, lambda: service.recommend(ask, most=SMALL))
        except LargeRequest:
            return await answer(queues.large, lambda: service.recommend(ask))

    app.router.route_class = route_class(
        lambda path: queues.large if path.startswith("/v1/recommend") else queues.store
    )

    # ---- recommending -----------------------------------------------------------------------------------------

    @app.post("/v1/recommend", response_model=schemas.RecommendationList, responses=errors(*_BODY), tags=["recommend"])
    async def recommend(ask: schemas.Ask) -> Response:
        """The best items for a user id or for a history."""
        return await answer_ask(ask)

    @app.post("/v1/recommend/batch", response_model=schemas.BatchAnswer, responses=errors(*_BODY), tags=["recommend"])
    async def recommend_batch(batch: schemas.Batch) -> Response:
        """Several lists at once, by one model; while a candidate is tried, each by the model that serves its user.

        A batch that is too much work is refused: send it in parts.
        """
        return await queues.large.run(lambda: json_array("answers", service.answers(batch.requests)))

    @app.get("/v1/users/{user_id}/recommendations", response_model=schemas.RecommendationList, tags=["recommend"])
    async def recommend_user(
        user_id: UserId,
        n: Annotated[int, Query(ge=1, le=schemas.LIMITS.explained, description="Length of the list.")] = 10,
        exclude_seen: bool = True,
        explain: bool = False,
        exclude_low_rated: bool = True,
        filters: Filters = (),
    ) -> Response:
        """The best items for a user id: the short form of /v1/recommend."""
        ask = schemas.Ask(
            user_id=user_id,
            n=n,
            exclude_seen=exclude_seen,
            explain=explain,
            exclude_low_rated=exclude_low_rated,
            filters=list(filters),
        )
        return await answer_ask(ask)

    # ---- users ------------------------------------------------------------------------------------------------

    @app.post("/v1/events", response_model=schemas.EventsKept, responses=errors(*_BODY), tags=["users"])
    async def post_events(posted: schemas.PostedEvents) -> Response:
        """Store what users chose and dislike. When this answers, it is on the disk and part of their next list."""
        try:
            written, kept = await queues.compute.run(lambda: service.add_events(posted.events))
        except InputError as error:
            raise HTTPException(422, str(error)) from error
        kept.new = await _by_deadline(
            written, "the store is slow: the events may or may not be stored; post them again"
        )
        metrics.events.inc(kept.new)
        return json_response(kept)

    @app.delete("/v1/events/{event_id}", response_model=schemas.EventWithdrawn, responses=errors(404), tags=["users"])
    async def withdraw_event(event_id: EventId) -> Response:
        """Withdraw one event, as if it had never been posted. If it is not there, also because it was withdrawn: 404.

        The pair is what its other events come to, or else what the model itself knows of it.
        """
        gone = await _by_deadline(
            service.events.withdraw(event_id), "the store is slow: the event may or may not be withdrawn; send it again"
        )
        if gone is None:
            raise HTTPException(404, "there is no such event: it was never posted, or is withdrawn")
        return json_response(
            schemas.EventWithdrawn(event_id=event_id, user_id=gone.user, item_id=gone.item, seq=gone.seq)
        )

    @app.get("/v1/users", response_model=schemas.UserIds, tags=["users"])
    async def users(prefix: Prefix = "", n: Few = 20) -> Response:
        """Ids of users with this prefix."""
        return await answer(queues.store, lambda: schemas.UserIds(users=service.user_ids(prefix, n)))

    @app.get("/v1/users/{user_id}", response_model=schemas.UserHistory, responses=errors(404), tags=["users"])
    async def show_user(user_id: UserId) -> Response:
        """Everything that is known of a user."""
        return await answer(queues.store, lambda: service.user_history(user_id), "nothing is known of this user")

    @app.delete(
        "/v1/users/{user_id}",
        response_model=schemas.Forgotten,
        responses={202: {"model": schemas.Forgotten, "description": "Forgotten, and still to be unlearned"}},
        tags=["users"],
    )
    async def forget_user(user_id: UserId) -> Response:
        """Forget a user: their stored events are deleted, and what the model knows of them is no longer used.

        A service that learns also unlearns them, and says so when it is done; /v1/learning tells if it takes longer.
        """
        forgot = await _by_deadline(
            service.events.forget(user_id), "the store is slow: the user may or may not be forgotten; delete them again"
        )
        done, learning = service.has_unlearned(forgot.seq), service.watcher.learned is not None
        latest = min(time.monotonic() + _UNLEARN_SECONDS, request_context.current().deadline)
        while learning and not done and time.monotonic() < latest:
            await asyncio.sleep(_UNLEARN_POLL)
            done = service.has_unlearned(forgot.seq)
        found = schemas.Forgotten(user_id=user_id, events=forgot.events, seq=forgot.seq, unlearned=done)
        return json_response(found, 202 if learning and not done else 200)

    # ---- items ------------------------------------------------------------------------------------------------

    @app.get("/v1/items", response_model=schemas.Items, tags=["items"])
    async def find_items(q: Typed = "", n: Few = 10) -> Response:
        """Items by the beginnings of words in their names; tolerates typos. Without q the most popular ones."""
        return await answer(queues.compute, lambda: schemas.Items(items=service.search(q, n)))

    @app.get("/v1/items/{item_id}/similar", response_model=schemas.SimilarItems, responses=errors(404), tags=["items"])
    async def similar_items(item_id: ItemId, n: Length = 10, include_unavailable: bool = False) -> Response:
        """Items that are similar to this one."""

        def similar() -> schemas.SimilarItems | None:
            return service.similar(item_id, n, include_unavailable)

        return await answer(queues.compute, similar, "the model does not know this item")

    @app.post(
        "/v1/items/availability", response_model=schemas.AvailabilityKept, responses=errors(*_BODY), tags=["items"]
    )
    async def post_availability(posted: schemas.PostedAvailability) -> Response:
        """Say which items are available. Others are in no list, unless a request includes them.

        When this answers, it is on the disk and holds for the lists of this worker; other workers follow in a second.
        """
        written, kept = await queues.compute.run(lambda: service.set_available(posted.states))
        kept.changed = await _by_deadline(
            written, "the store is slow: what was posted may or may not be stored; post it again"
        )
        await queues.store.run(service.read_availability)
        return json_response(kept)

    @app.get("/v1/items/{item_id}", response_model=schemas.Item, responses=errors(404), tags=["items"])
    async def show_item(item_id: ItemId) -> Response:
        """One item."""
        return await answer(queues.compute, lambda: service.item(item_id), "the model does not know this item")

    @app.get("/v1/popularity", response_model=schemas.Curve, tags=["items"])
    async def popularity() -> Response:
        """The long tail of the catalogue, as a curve."""
        return await answer(queues.compute, service.curve)

    # ---- reports ----------------------------------------------------------------------------------------------

    @app.get("/v1/report", response_model=schemas.Report, tags=["service"])
    async def report(days: Days = 7) -> Response:
        """Lists given out in the last days, today included, and what they led to: by release of the model and arm."""
        return await answer(queues.store, lambda: service.report(days))

    # ---- the service itself -----------------------------------------------------------------------------------

    @app.get("/v1/model", response_model=schemas.Model, tags=["service"])
    async def model() -> Response:
        """The model in use."""
        return json_response(service.model())

    @app.post("/v1/model/reload", response_model=schemas.Model, responses=errors(409), tags=["service"])
    async def reload() -> Response:
        """Load the model that is in the folder now. Other workers follow within a second or two."""

        def work() -> str:
            service.watcher.reload()
            return service.watcher.refused()

        try:
            refused = await asyncio.to_thread(work)
        except KomdError as error:
            raise HTTPException(409, f"the old model stays: {error}") from error
        if refused:
            raise HTTPException(409, f"the old model stays: {names_only(refused, *service.arms.folders)}")
        return json_response(service.model())

    @app.get("/v1/learning", response_model=schemas.Learning, tags=["service"])
    async def learning() -> Response:
        """How far the model in use has learned what is stored."""
        return await answer(queues.store, service.learning)

    # ---- the candidate ----------------------------------------------------------------------------------------

    async def decided(decision: Callable[[], None]) -> Response:
        try:
            await asyncio.to_thread(decision)
        except StoreError:
            raise
        except KomdError as error:
            raise HTTPException(409, names_only(str(error), *service.arms.folders)) from error
        return json_response(service.candidate())

    @app.get("/v1/candidate", response_model=schemas.CandidateModel, tags=["service"])
    async def candidate() -> Response:
        """The model that is tried on a share of the users, as this worker knows it."""
        return json_response(service.candidate())

    @app.put("/v1/candidate", response_model=schemas.CandidateModel, responses=errors(409, *_BODY), tags=["service"])
    async def share_candidate(new: schemas.CandidateShare) -> Response:
        """Let the candidate serve another share of the users. Other workers follow within a second or two."""
        return await decided(lambda: service.arms.set_share(new.share))

    @app.post("/v1/candidate/promote", response_model=schemas.CandidateModel, responses=errors(409), tags=["service"])
    async def promote_candidate() -> Response:
        """Make the candidate the main model: it is saved over it. Other workers follow within a second or two."""
        return await decided(service.arms.promote)

    @app.delete("/v1/candidate", response_model=schemas.CandidateModel, responses=errors(409), tags=["service"])
    async def drop_candidate() -> Response:
        """Let the candidate serve nobody. Its folder stays as it is."""
        return await decided(service.arms.drop)

    # ---- health -----------------------------------------------------------------------------------------------

    @app.head("/v1/health", include_in_schema=False)
    @app.get("/v1/health", response_model=schemas.Health, tags=["service"])
    async def health() -> Response:
        """Whether the process is alive."""
        return json_response(schemas.Health(status="ok"))

    @app.head("/v1/ready", include_in_schema=False)
    @app.get("/v1/ready", response_model=schemas.Health, tags=["service"])
    async def ready() -> Response:
        """Whether requests can be answered: the model is loaded (always, once it listens) and the store answers.

        While it does not, this says so at once, or after a few seconds: it waits for no other request.
        """

        def pinged() -> schemas.Health:
            service.events.ping()
            return schemas.Health(status="ready")

        return await answer(queues.ready, pinged)

    @app.get(
        "/v1/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        tags=["service"],
    )
    async def counts() -> Response:
        """Counters for Prometheus."""
        return Response(await asyncio.to_thread(metrics.text), media_type=CONTENT_TYPE)
