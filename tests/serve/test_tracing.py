"""Traces as a collector receives them: a real service, and a receiver of OpenTelemetry's protocol over HTTP."""

from __future__ import annotations

import http.server
import threading

import pytest

pytest.importorskip("opentelemetry.sdk", reason="no opentelemetry: the extra tracing")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.serve.conftest import Command, until

TRACE, ABOVE = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector():
    """The spans that were received, and the address to send them to."""
    spans, services = [], set()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                services.update(
                    each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
                )
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield spans, services, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_requests_are_traced_without_ids(shop, tmp_path, collector):
    spans, services, address = collector
    service = Command(
        *("serve", shop / "shop.komd", "--port", "0", "--tracing", "--store", f"sqlite:///{tmp_path / 'e.db'}"),
        OTEL_EXPORTER_OTLP_ENDPOINT=address,
        OTEL_BSP_SCHEDULE_DELAY="100",
    ).wait()
    try:
        above = {"traceparent": f"00-{TRACE}-{ABOVE}-01"}
        assert service.client.get("/v1/users/a-secret-user/recommendations", headers=above).status_code == 200
        assert service.client.get("/v1/users/a-secret-user").status_code == 404
        assert until(lambda: any(span.name == "GET /v1/users/{user_id}" for span in spans))
    finally:
        service.stop()
    assert services == {"komd"}
    (top,) = [span for span in spans if span.name == "GET /v1/users/{user_id}/recommendations"]
    assert top.trace_id.hex() == TRACE and top.parent_span_id.hex() == ABOVE
    about = {each.key: each.value for each in top.attributes}
    assert about["http.response.status_code"].int_value == 200
    parts = {span.name: span for span in spans if span.parent_span_id == top.span_id}
    assert {"wait", "work"} <= set(parts)
    for part in parts.values():
        assert part.trace_id == top.trace_id
        assert top.start_time_unix_nano <= part.end_time_unix_nano <= top.end_time_unix_nano + 1_000_000
    assert not any(b"secret" in span.SerializeToString() for span in spans)


def test_without_the_option_nothing_is_loaded(shop, tmp_path):
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from komd.serve.app import create; "
        "from komd.serve.serve_settings import Settings; "
        f"create(Settings(model=Path({str(shop / 'shop.komd')!r}), store='sqlite:///{tmp_path / 'e.db'}')); "
        "print(any(name.startswith('opentelemetry.sdk') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_collector_that_is_gone_delays_nothing(shop, tmp_path):
    """It is tried for a minute here, and `stop` waits half of that."""
    service = Command(
        *("serve", shop / "shop.komd", "--port", "0", "--tracing", "--store", f"sqlite:///{tmp_path / 'e.db'}"),
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="60",
        OTEL_BSP_SCHEDULE_DELAY="100",
    ).wait()
    assert service.client.head("/v1/health").status_code == 200
    assert until(lambda: service.client.get("/v1/model").status_code == 200)
    _, _, errors = service.stop()
    assert all(line[:2] == "20" for line in errors.splitlines() if "export" in line), "lines of the log have a time"
