"""What is counted, in the Prometheus text format, added up over all workers."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["CONTENT_TYPE", "SHARED", "ServiceMetrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which workers share their counts."""

_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class ServiceMetrics:
    """The counters of one worker."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        own = self._own
        self.requests = Counter("komd_requests", "Requests answered", ["method", "route", "status"], registry=own)
        self.seconds = Histogram(
            "komd_request_seconds", "From the head of a request to the end of its answer", ["route"],
            buckets=_SECONDS, registry=own,
        )  # fmt: skip
        self.by_token = Counter("komd_token_requests", "Requests with a named token", ["token"], registry=own)
        self.limited = Counter("komd_rate_limited", "Requests refused by a rate limit", ["limit"], registry=own)
        self.waiting = Gauge(
            "komd_waiting", "Requests in a thread or waiting for one", registry=own, multiprocess_mode="livesum"
        )
        self.wait_seconds = Histogram(
            "komd_queue_wait_seconds", "How long a request waited for a thread", ["queue"],
            buckets=_SECONDS, registry=own,
        )  # fmt: skip
        self.deadline_exceeded = Counter(
            "komd_deadline_exceeded", "Requests that were not answered within their time limit", registry=own
        )
        self.events = Counter("komd_events_new", "Events that were not there before", registry=own)
        self.lists = Counter("komd_recommendations", "Lists served", ["arm"], registry=own)
        self.attributed = Counter(
            "komd_attributed_events", "Events stored that go back to a recommendation, by its arm", ["arm"],
            registry=own,
        )  # fmt: skip
        self.reloads = Counter("komd_model_reloads", "Models loaded after the first", ["arm"], registry=own)
        self.refusals = Counter("komd_model_refusals", "Models refused", ["arm"], registry=own)
        self.weights_found = Counter(
            "komd_weights_found", "Histories whose weights were kept from an earlier request", ["arm"], registry=own
        )
        self.weights_solved = Counter(
            "komd_weights_solved", "Histories whose weights had to be solved", ["arm"], registry=own
        )
        self.loaded = Gauge(
            "komd_model_loaded_timestamp_seconds", "When the model in use was loaded", ["arm"], registry=own,
            multiprocess_mode="livemin",
        )  # fmt: skip
        self.share = Gauge(
            "komd_candidate_share", "The share of users whom the candidate serves", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self.learned_seq = Gauge(
            "komd_learned_seq", "Number of the last commit that the model in use has learned", registry=own,
            multiprocess_mode="livemin",
        )  # fmt: skip
        self.behind = Gauge(
            "komd_learning_behind_seconds", "Age of the oldest event that is not learned", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self.learned_events = Gauge(
            "komd_learned_events", "Changes that the learner has read since it started", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self.publications = Gauge(
            "komd_learner_publications", "Models that the learner has published since it started", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self.circuit_open = Gauge(
            "komd_store_circuit_open", "1 while requests are refused because the store does not answer", registry=own,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self.store_failures = Counter(
            "komd_store_failures", "Reads and commits that failed because the store did not answer", registry=own
        )
        if SHARED not in os.environ:
            ProcessCollector(registry=own)

    def text(self) -> bytes:
        """Everything counted, by all workers."""
        if SHARED not in os.environ:
            return generate_latest(self._own)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
