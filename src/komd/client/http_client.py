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

_BUSY = (429, 503)  # statuses after which a request is retried
_PAUSE = 0.2  # seconds before the second try, unless the service says otherwise; then twice as long each time
_LONGEST_PAUSE = 10.0
_AT_ONCE = (ConnectionError, http.client.BadStatusLine)  # of a kept connection that the service has closed


class ServiceError(KomdError):
    """The service refused a request, or could not be reached.

    Examples
    --------
    >>> try:
    ...     Client("http://127.0.0.1:9", retries=0).health()
    ... except ServiceError as error:
    ...     print(error.status)  # nobody answers there
    None
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The status code of the answer; None if there was none."""


class Client:
    """A client of one komd service. It can be used from any number of threads.

    Every method raises ServiceError if the service refuses a request or cannot be reached.

    Parameters
    ----------
    address : str
        Address of the service, such as "https://recs.example" or "http://127.0.0.1:8000".
    token : str, optional
        Token that is sent with every request, if the service asks for one.
    timeout : float
        Seconds to wait for a connection, and for each part of an answer.
    retries : int
        How often a request is tried again if the service is busy (429, 503) or cannot be reached.

    Raises
    ------
    InputError
        If the address, the token or the number of retries cannot be used.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8000") as client:
            client.recommend(history=["i7", "i42"], n=10)
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
        """Return the best items for a user id or for a history.

        Parameters that are None are left to the service; docs/guide/serving.md describes each of them.

        Parameters
        ----------
        user_id : str or int, optional
            A user. Give either `user_id` or `history`.
        history : sequence of ids or mappings, optional
            Item ids, or mappings such as `{"item_id": "i7", "weight": 3}`.
        session_id : str or int, optional
            Id of a session without a user; it decides whether the candidate model serves it.
        dislikes : sequence of ids, optional
            With `history`: items that the user dislikes.
        at : str or int, optional
            The moment from which ages are measured.
        n : int, optional
            Length of the list.
        exclude_seen, exclude_low_rated : bool, optional
            Leave out items of the history, and items rated below `liked`.
        items, exclude : sequence of ids, optional
            Recommend only these items; none of these.
        max_popularity : int, optional
            Leave out items with more users than this.
        filters : sequence of str, optional
            Names of filters that the service offers.
        where : mapping, optional
            Conditions on the columns of the items.
        include_unavailable : bool, optional
            Also recommend items that are not available.
        max_per : mapping, optional
            At most so many items per value of a column, such as `{"artist": 2}`.
        explain : bool, optional
            Add the contributions to each score.
        reasons : int, optional
            How many contributions to add.
        impression : bool, optional
            Whether the list counts in the report.

        Returns
        -------
        dict
            The list, as the service describes it.
        """
        body = _given(locals())
        return cast(answers.RecommendationsJson, self._ask("POST", "/v1/recommend", body))

    def recommend_batch(self, requests: Sequence[Mapping[str, Any]]) -> answers.BatchAnswerJson:
        """Return several lists at once.

        Parameters
        ----------
        requests : sequence of mappings
            Each with arguments of `recommend`.

        Returns
        -------
        dict
            The lists, in the same order.
        """
        body = {"requests": [dict(each) for each in requests]}
        return cast(answers.BatchAnswerJson, self._ask("POST", "/v1/recommend/batch", body))

    # ---- users ------------------------------------------------------------------------------------------------

    def post_events(self, events: Sequence[Mapping[str, Any]]) -> answers.EventsKeptJson:
        """Store events. When this returns, the service has written them to its disk.

        Parameters
        ----------
        events : sequence of mappings
            Events such as `{"user_id": "ana", "item_id": "i7"}`.

        Returns
        -------
        dict
            How many were stored, and their ids.
        """
        return cast(
            answers.EventsKeptJson, self._ask("POST", "/v1/events", {"events": [dict(each) for each in events]})
        )

    def withdraw_event(self, event_id: str) -> answers.EventWithdrawnJson:
        """Withdraw one event, as if it had never been posted.

        Parameters
        ----------
        event_id : str
            The id of the event.

        Returns
        -------
        dict
        """
        return cast(answers.EventWithdrawnJson, self._ask("DELETE", f"/v1/events/{_part(event_id)}"))

    def user(self, user_id: str | int) -> answers.UserHistoryJson:
        """Return everything that the service knows of a user.

        Parameters
        ----------
        user_id : str or int

        Returns
        -------
        dict
        """
        return cast(answers.UserHistoryJson, self._ask("GET", f"/v1/users/{_part(user_id)}"))

    def users(self, prefix: str = "", n: int | None = None) -> answers.UserIdsJson:
        """Return user ids with a prefix.

        Parameters
        ----------
        prefix : str
            Beginning of the ids.
        n : int, optional
            How many, at most.

        Returns
        -------
        dict
        """
        return cast(answers.UserIdsJson, self._ask("GET", "/v1/users", query={"prefix": prefix, "n": n}))

    def forget_user(self, user_id: str | int) -> answers.ForgottenJson:
        """Erase a user: the history, the events and, where the service learns, what the model learned from them.

        Parameters
        ----------
        user_id : str or int

        Returns
        -------
        dict
            Whether the user is unlearned already, or this is under way.
        """
        return cast(answers.ForgottenJson, self._ask("DELETE", f"/v1/users/{_part(user_id)}"))

    # ---- items ------------------------------------------------------------------------------------------------

    def search(self, q: str = "", n: int | None = None) -> answers.ItemsJson:
        """Search items by name; without `q`, return the most popular ones.

        Parameters
        ----------
        q : str
            The text to search for. Typos are tolerated.
        n : int, optional
            How many, at most.

        Returns
        -------
        dict
        """
        return cast(answers.ItemsJson, self._ask("GET", "/v1/items", query={"q": q, "n": n}))

    def item(self, item_id: str | int) -> answers.ItemJson:
        """Return one item.

        Parameters
        ----------
        item_id : str or int

        Returns
        -------
        dict
        """
        return cast(answers.ItemJson, self._ask("GET", f"/v1/items/{_part(item_id)}"))

    def similar(
        self, item_id: str | int, n: int | None = None, *, include_unavailable: bool | None = None
    ) -> answers.SimilarItemsJson:
        """Return items similar to a given one.

        Parameters
        ----------
        item_id : str or int
        n : int, optional
            How many, at most.
        include_unavailable : bool, optional
            Also return items that are not available.

        Returns
        -------
        dict
        """
        query = {"n": n, "include_unavailable": include_unavailable}
        return cast(answers.SimilarItemsJson, self._ask("GET", f"/v1/items/{_part(item_id)}/similar", query=query))

    def set_available(self, items: Sequence[Mapping[str, Any]]) -> answers.AvailabilityKeptJson:
        """Set which items are available: `[{"item_id": "i7", "available": False}, …]`.

        Parameters
        ----------
        items : sequence of mappings
            The items and their availability.

        Returns
        -------
        dict
        """
        body = {"items": [dict(each) for each in items]}
        return cast(answers.AvailabilityKeptJson, self._ask("POST", "/v1/items/availability", body))

    def popularity(self) -> answers.CurveJson:
        """Return the popularity of the catalogue as a curve.

        Returns
        -------
        dict
        """
        return cast(answers.CurveJson, self._ask("GET", "/v1/popularity"))

    # ---- the service itself -----------------------------------------------------------------------------------

    def model(self) -> answers.ModelJson:
        """Return a description of the model in use.

        Returns
        -------
        dict
        """
        return cast(answers.ModelJson, self._ask("GET", "/v1/model"))

    def reload(self) -> answers.ModelJson:
        """Make the service load the model that is in its folder now.

        Returns
        -------
        dict
            The model in use afterwards.
        """
        return cast(answers.ModelJson, self._ask("POST", "/v1/model/reload"))

    def report(self, days: int | None = None) -> answers.ReportJson:
        """Return how many lists led to events, for each release of the model.

        Parameters
        ----------
        days : int, optional
            How many days to count.

        Returns
        -------
        dict
        """
        return cast(answers.ReportJson, self._ask("GET", "/v1/report", query={"days": days}))

    def candidate(self) -> answers.CandidateModelJson:
        """Return the state of the candidate model.

        Returns
        -------
        dict
        """
        return cast(answers.CandidateModelJson, self._ask("GET", "/v1/candidate"))

    def share_candidate(self, share: float) -> answers.CandidateModelJson:
        """Change the share of the users that the candidate model serves.

        Parameters
        ----------
        share : float
            From 0 to 1.

        Returns
        -------
        dict
        """
        return cast(answers.CandidateModelJson, self._ask("PUT", "/v1/candidate", {"share": share}))

    def promote_candidate(self) -> answers.CandidateModelJson:
        """Make the candidate the main model.

        Returns
        -------
        dict
        """
        return cast(answers.CandidateModelJson, self._ask("POST", "/v1/candidate/promote"))

    def drop_candidate(self) -> answers.CandidateModelJson:
        """Stop serving from the candidate model.

        Returns
        -------
        dict
        """
        return cast(answers.CandidateModelJson, self._ask("DELETE", "/v1/candidate"))

    def learning(self) -> answers.LearningJson:
        """Return how far the model in use has learned the stored events.

        Returns
        -------
        dict
        """
        return cast(answers.LearningJson, self._ask("GET", "/v1/learning"))

    def health(self) -> answers.HealthJson:
        """Check that the process is alive.

        Returns
        -------
        dict
        """
        return cast(answers.HealthJson, self._ask("GET", "/v1/health"))

    def ready(self) -> answers.HealthJson:
        """Check that requests can be answered; raises ServiceError if not.

        Returns
        -------
        dict
        """
        return cast(answers.HealthJson, self._ask("GET", "/v1/ready"))

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus.

        Returns
        -------
        str
        """
        return str(self._ask("GET", "/v1/metrics"))

    # ---- HTTP -------------------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: object = None, query: Mapping[str, object] | None = None) -> Any:
        """The answer to one request, retried if that may help. All operations may be sent twice."""
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
    """The parts of an address; for an invalid one, an InputError that does not repeat a password."""
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
