"""Requests to a service and their answers, over connections that are kept.

Every method is one operation of the API, with its fields as arguments; one that is left out is not sent, so that the
service's own default holds. Requests that change nothing, or may be sent twice, are tried again.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, cast
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from komd.client import answers
from komd.errors import InputError, KomdError

__all__ = ["Client", "ServiceError"]

_BUSY = (429, 503)  # statuses after which a request is worth another try
_PAUSE = 0.2  # seconds before the second try, unless the service says otherwise; then twice as long each time
_LONGEST_PAUSE = 10.0
_AT_ONCE = (ConnectionError, http.client.BadStatusLine)  # of a kept connection that the service has closed


class ServiceError(KomdError):
    """The service refused a request, or could not be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The status code of the answer; None if there was none."""


class Client:
    """A client of one service, for any number of threads.

    Parameters
    ----------
    address
        As "https://recs.example" or "http://127.0.0.1:8000".
    token
        Sent with every request, if the service asks for one.
    timeout
        Seconds to wait for a connection, and for each part of an answer.
    retries
        How often a request is tried again if the service is busy (429, 503) or cannot be reached.
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 10.0, retries: int = 2) -> None:
        parts = _parts(address)
        if retries < 0:
            raise InputError(f"retries must be at least 0, got {retries}")
        self._parts = parts
        self._timeout = timeout
        self._retries = retries
        self._headers = {"accept": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable() and token.split() == [token]):  # an error must not show it
                raise InputError(
                    "a token has neither blanks nor ends of lines nor odd characters; read alone, strip it"
                )
            self._headers["authorization"] = f"Bearer {token}"
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: list[http.client.HTTPConnection] = []  # at most as many as there were requests at the same time

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            self._idle.pop().close()

    # ---- recommending -----------------------------------------------------------------------------------------

    def recommend(
        self,
        user_id: str | int | None = None,
        *,
        history: Sequence[str | int | Mapping[str, Any]] | None = None,
        session_id: str | int | None = None,
        dislikes: Sequence[str | int] | None = None,
        at: str | int | None = None,
        n: int | None = None,
        exclude_seen: bool | None = None,
        exclude_low_rated: bool | None = None,
        items: Sequence[str | int] | None = None,
        exclude: Sequence[str | int] | None = None,
        max_popularity: int | None = None,
        filters: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        include_unavailable: bool | None = None,
        max_per: Mapping[str, int] | None = None,
        explain: bool | None = None,
        reasons: int | None = None,
        impression: bool | None = None,
    ) -> answers.RecommendationsJson:
        """The best items for a user id or for a history."""
        body = _given(locals())
        return cast(answers.RecommendationsJson, self._ask("POST", "/v1/recommend", body))

    def recommend_batch(self, requests: Sequence[Mapping[str, Any]]) -> answers.BatchAnswerJson:
        """Several lists at once; each request is as the arguments of `recommend`."""
        body = {"requests": [dict(each) for each in requests]}
        return cast(answers.BatchAnswerJson, self._ask("POST", "/v1/recommend/batch", body))

    # ---- users ------------------------------------------------------------------------------------------------

    def post_events(self, events: Sequence[Mapping[str, Any]]) -> answers.EventsKeptJson:
        """Store what users did. When this returns, it is on the disk of the service."""
        return cast(
            answers.EventsKeptJson, self._ask("POST", "/v1/events", {"events": [dict(each) for each in events]})
        )

    def withdraw_event(self, event_id: str) -> answers.EventWithdrawnJson:
        """Withdraw one event, as if it had never been posted."""
        return cast(answers.EventWithdrawnJson, self._ask("DELETE", f"/v1/events/{_part(event_id)}"))

    def user(self, user_id: str | int) -> answers.PersonJson:
        """Everything that is known of a user."""
        return cast(answers.PersonJson, self._ask("GET", f"/v1/users/{_part(user_id)}"))

    def users(self, prefix: str = "", n: int | None = None) -> answers.PeopleJson:
        """Ids of users with this prefix."""
        return cast(answers.PeopleJson, self._ask("GET", "/v1/users", query={"prefix": prefix, "n": n}))

    def forget_user(self, user_id: str | int) -> answers.ForgottenJson:
        """Forget a user."""
        return cast(answers.ForgottenJson, self._ask("DELETE", f"/v1/users/{_part(user_id)}"))

    # ---- items ------------------------------------------------------------------------------------------------

    def search(self, q: str = "", n: int | None = None) -> answers.ItemsJson:
        """Items by name; without `q` the most popular ones."""
        return cast(answers.ItemsJson, self._ask("GET", "/v1/items", query={"q": q, "n": n}))

    def item(self, item_id: str | int) -> answers.ItemJson:
        """One item."""
        return cast(answers.ItemJson, self._ask("GET", f"/v1/items/{_part(item_id)}"))

    def similar(
        self, item_id: str | int, n: int | None = None, *, include_unavailable: bool | None = None
    ) -> answers.SimilarItemsJson:
        """Items that are similar to one."""
        query = {"n": n, "include_unavailable": include_unavailable}
        return cast(answers.SimilarItemsJson, self._ask("GET", f"/v1/items/{_part(item_id)}/similar", query=query))

    def set_available(self, items: Sequence[Mapping[str, Any]]) -> answers.AvailabilityKeptJson:
        """Say which items are available: [{"item_id": "i7", "available": False}, …]."""
        body = {"items": [dict(each) for each in items]}
        return cast(answers.AvailabilityKeptJson, self._ask("POST", "/v1/items/availability", body))

    def popularity(self) -> answers.CurveJson:
        """The long tail of the catalogue, as a curve."""
        return cast(answers.CurveJson, self._ask("GET", "/v1/popularity"))

    # ---- the service itself -----------------------------------------------------------------------------------

    def model(self) -> answers.ModelJson:
        """The model in use."""
        return cast(answers.ModelJson, self._ask("GET", "/v1/model"))

    def reload(self) -> answers.ModelJson:
        """Load the model that is in the service's folder now."""
        return cast(answers.ModelJson, self._ask("POST", "/v1/model/reload"))

    def report(self, days: int | None = None) -> answers.ReportJson:
        """What lists led to, by release of the model."""
        return cast(answers.ReportJson, self._ask("GET", "/v1/report", query={"days": days}))

    def candidate(self) -> answers.CandidateModelJson:
        """The model that is tried on a share of the users."""
        return cast(answers.CandidateModelJson, self._ask("GET", "/v1/candidate"))

    def share_candidate(self, share: float) -> answers.CandidateModelJson:
        """Let the candidate serve another share of the users."""
        return cast(answers.CandidateModelJson, self._ask("PUT", "/v1/candidate", {"share": share}))

    def promote_candidate(self) -> answers.CandidateModelJson:
        """Make the candidate the main model."""
        return cast(answers.CandidateModelJson, self._ask("POST", "/v1/candidate/promote"))

    def drop_candidate(self) -> answers.CandidateModelJson:
        """Let the candidate serve nobody."""
        return cast(answers.CandidateModelJson, self._ask("DELETE", "/v1/candidate"))

    def learning(self) -> answers.LearningJson:
        """How far the model in use has learned what is stored."""
        return cast(answers.LearningJson, self._ask("GET", "/v1/learning"))

    def health(self) -> answers.HealthJson:
        """Whether the process is alive."""
        return cast(answers.HealthJson, self._ask("GET", "/v1/health"))

    def ready(self) -> answers.HealthJson:
        """Whether requests can be answered; ServiceError if not."""
        return cast(answers.HealthJson, self._ask("GET", "/v1/ready"))

    def metrics(self) -> str:
        """Counters, in the text format of Prometheus."""
        return str(self._ask("GET", "/v1/metrics"))

    # ---- HTTP -------------------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: object = None, query: Mapping[str, object] | None = None) -> Any:
        """The answer to one request; tried again where that helps. All operations may be sent twice."""
        given = {name: _query(value) for name, value in (query or {}).items() if value is not None}
        target = self._parts.path.rstrip("/") + path + (f"?{urlencode(given)}" if given else "")
        sent = None if body is None else json.dumps(body).encode()
        for attempt in range(self._retries + 1):
            try:
                status, headers, content = self._exchange(method, target, sent)
            except (OSError, http.client.HTTPException) as error:
                if attempt == self._retries:
                    raise ServiceError(f"the service at {self._parts.netloc} cannot be reached: {error}") from error
                time.sleep(_pause(attempt, None))
                continue
            if status not in _BUSY or attempt == self._retries:
                return _answer(status, headers, content)
            time.sleep(_pause(attempt, headers.get("retry-after")))
        raise AssertionError("unreachable")

    def _exchange(self, method: str, target: str, body: bytes | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        try:
            kept = self._idle.pop()
        except IndexError:
            kept = None
        if kept is not None:
            with contextlib.suppress(*_AT_ONCE):  # the service had closed the connection meanwhile
                return self._exchange_by(kept, method, target, body)
        return self._exchange_by(self._connect(), method, target, body)

    def _exchange_by(
        self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = self._headers | ({} if body is None else {"content-type": "application/json"})
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            self._idle.append(connection)
        return answer.status, answer.headers, content

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        made: http.client.HTTPConnection
        if self._context is not None:
            made = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
        else:
            made = http.client.HTTPConnection(host, port, timeout=self._timeout)
        made.connect()
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def _parts(address: str) -> SplitResult:
    """The parts of an address; InputError, which does not repeat a password, if it is none."""
    try:
        parts = urlsplit(address)
        plain = bool(parts.hostname) and (parts.port or 1) > 0 and not parts.query and "@" not in parts.netloc
    except ValueError:
        plain = False
    if not plain or parts.scheme not in ("http", "https"):
        raise InputError(f"an address is like https://recs.example, got {address.rpartition('@')[2]!r}")
    return parts


def _answer(status: int, headers: http.client.HTTPMessage, content: bytes) -> Any:
    """The content of an answer; ServiceError, in the service's own words, if it is an error."""
    is_json = headers.get_content_type() == "application/json"
    try:
        found = json.loads(content) if is_json else content.decode("utf-8", "replace")
    except ValueError:
        raise ServiceError(f"the service answered {status} with what is not JSON", status) from None
    if status >= 300:  # a redirection, of a proxy, is not followed: it may lead the token elsewhere
        detail = found.get("detail") if isinstance(found, dict) else None
        raise ServiceError(f"{status}: {detail or http.client.responses.get(status, 'error')}", status)
    return found


def _pause(attempt: int, said: str | None) -> float:
    """Seconds before the next try: what the service said, or twice as long each time, never the same for all."""
    if said is not None and said.isdecimal():
        return min(float(said), _LONGEST_PAUSE)
    return min(_PAUSE * float(2**attempt), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)


def _part(identifier: str | int) -> str:
    """An id as a part of a path."""
    return quote(str(identifier), safe="")


def _query(value: object) -> str:
    """A value as a part of an address."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that were given."""
    return {name: value for name, value in arguments.items() if name != "self" and value is not None}
