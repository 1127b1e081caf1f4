"""Traces of requests by OpenTelemetry: `komd serve --tracing`, with the extra `tracing`.

Where traces are sent, and how many, is said by the variables of OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, …). A request is a span named by its method and route, a child of the span that
the client's `traceparent` header names. Its parts are spans of their own: waiting for a thread, and working. No span
has an id of a user or an item.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Receive, Scope, Send

from komd.errors import InputError, install
from komd.serve.access import AccessControl

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["TracedApplication", "part"]

_HEADERS = ("traceparent", "tracestate")
_SHUTDOWN_SECONDS = 3.0  # for the last traces: a collector that does not answer is not waited for any longer
_traced: ContextVar[tuple[Tracer, Span] | None] = ContextVar("komd_span", default=None)


def part(name: str, started: float, ended: float) -> None:
    """A part of the present request, by `time.monotonic`; nothing without tracing."""
    traced = _traced.get()
    if traced is not None and traced[1].is_recording():
        from opentelemetry.trace import set_span_in_context

        tracer, span = traced
        now, clock = time.time_ns(), time.monotonic()
        begin, end = (now - int(1e9 * (clock - moment)) for moment in (started, ended))
        tracer.start_span(name, set_span_in_context(span), start_time=begin).end(end)


class TracedApplication:
    """An application whose requests are traced."""

    def __init__(self, app: AccessControl) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise InputError(f"tracing needs {error.name}: {install('serve', 'tracing')}") from error
        self._app = app
        self.limits, self.reread = app.limits, app.reread
        self._provider = TracerProvider(resource=Resource.create(_named()), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        # It is not made the provider of all: FastAPI would add spans of its own, with addresses that have ids.
        self._tracer = self._provider.get_tracer("komd")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self._app(scope, receive, send)
            finally:
                ending = threading.Thread(target=self._provider.shutdown, name="komd-tracing", daemon=True)
                ending.start()
                ending.join(_SHUTDOWN_SECONDS)
            return
        await self._traced(scope, receive, send)

    async def _traced(self, scope: Scope, receive: Receive, send: Send) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        about: dict[str, Any] = {"http.request.method": scope["method"]}
        above = TraceContextTextMapPropagator().extract(_carrier(scope))
        span = self._tracer.start_span(scope["method"], above, kind=trace.SpanKind.SERVER, attributes=about)

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.set_attribute("http.response.status_code", message["status"])
                if message["status"] >= 500:
                    span.set_status(trace.StatusCode.ERROR)
            await send(message)

        token = _traced.set((self._tracer, span))
        try:
            await self._app(scope, receive, send_noted)
        finally:
            _traced.reset(token)
            route = getattr(scope.get("route"), "path", None)
            if route is not None:
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
            span.end()


def _named() -> dict[str, str]:
    """The name of the service, unless the variables of OpenTelemetry give one."""
    given = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {} if given else {"service.name": "komd"}


def _carrier(scope: Scope) -> Mapping[str, str]:
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return {name: given[name] for name in _HEADERS if name in given}
