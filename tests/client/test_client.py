"""The client against a real service: every operation of the description, its fields, its errors, its retries."""

from __future__ import annotations

import http.server
import inspect
import json
import threading

import pytest

pytest.importorskip("fastapi", reason="no fastapi: the extra serve")

from komd.client import Client, ServiceError
from komd.client.http_client import Client as _Client
from komd.errors import InputError
from komd.serve.serve_settings import Settings
from tests.serve.conftest import Running, shop  # noqa: F401 (a fixture)
from tools.client_types import FILE, description, types

# The method of each operation; a short form of another one has none.
METHODS = {
    "POST /v1/recommend": "recommend",
    "POST /v1/recommend/batch": "recommend_batch",
    "GET /v1/users/{user_id}/recommendations": None,
    "POST /v1/events": "post_events",
    "DELETE /v1/events/{event_id}": "withdraw_event",
    "GET /v1/users": "users",
    "GET /v1/users/{user_id}": "user",
    "DELETE /v1/users/{user_id}": "forget_user",
    "GET /v1/items": "search",
    "GET /v1/items/{item_id}": "item",
    "GET /v1/items/{item_id}/similar": "similar",
    "POST /v1/items/availability": "set_available",
    "GET /v1/popularity": "popularity",
    "GET /v1/report": "report",
    "GET /v1/candidate": "candidate",
    "PUT /v1/candidate": "share_candidate",
    "DELETE /v1/candidate": "drop_candidate",
    "POST /v1/candidate/promote": "promote_candidate",
    "GET /v1/model": "model",
    "POST /v1/model/reload": "reload",
    "GET /v1/learning": "learning",
    "GET /v1/health": "health",
    "GET /v1/ready": "ready",
    "GET /v1/metrics": "metrics",
}


@pytest.fixture(scope="module")
def about():
    return description()


@pytest.fixture(scope="module")
def service(shop, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("client")
    running = Running(Settings(model=shop / "shop.komd", store=f"sqlite:///{folder / 'events.db'}"))
    yield running
    running.stop()


@pytest.fixture
def client(service):
    with Client(service.address) as made:
        yield made


def test_the_types_are_those_of_the_description(about):
    assert types(about) == FILE.read_text(encoding="utf-8"), "run python -m tools.client_types"


def test_every_operation_has_its_method_with_its_fields(about):
    found = {
        f"{method.upper()} {path}": operation
        for path, methods in about["paths"].items()
        for method, operation in methods.items()
        if method != "head"
    }
    assert set(found) == set(METHODS)
    for label, name in METHODS.items():
        if name is None:
            continue
        taken = set(inspect.signature(getattr(_Client, name)).parameters) - {"self"}
        operation = found[label]
        needed = {each["name"] for each in operation.get("parameters", [])}
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if body:
            needed |= set(about["components"]["schemas"][body["$ref"].split("/")[-1]]["properties"])
        assert taken == needed, f"{name} takes {taken ^ needed} too much or too little"


def test_what_it_says_is_what_the_service_says(client, service):
    items = [item["item_id"] for item in client.search(n=3)["items"]]
    answer = client.recommend(history=items, n=4, explain=True)
    same = service.post("/v1/recommend", {"history": items, "n": 4, "explain": True})
    assert answer["items"] == same["items"] and len(answer["items"]) == 4
    batch = client.recommend_batch([{"history": items, "n": 4}, {"user_id": "a b/ü", "n": 2}])
    assert [len(each["items"]) for each in batch["answers"]] == [4, 2]
    (withdrawn,) = client.post_events([{"user_id": "a b/ü", "item_id": items[1]}])["event_ids"]
    assert client.withdraw_event(withdrawn)["item_id"] == items[1]
    shown = {"recommendation_id": batch["answers"][1]["recommendation_id"], "type": "purchase"}
    assert client.post_events([{"user_id": "a b/ü", "item_id": items[0], **shown}])["new"] == 1
    assert [entry["item_id"] for entry in client.user("a b/ü")["items"]] == [items[0]]
    assert client.users("a b")["users"] == ["a b/ü"]
    assert client.forget_user("a b/ü")["events"] == 1
    assert client.item(items[0])["item_id"] == items[0]
    near = [each["item_id"] for each in client.similar(items[0], n=2)["items"]]
    assert client.set_available([{"item_id": near[0], "available": False}])["changed"] == 1
    assert near[0] not in [each["item_id"] for each in client.similar(items[0], n=2)["items"]]
    assert client.similar(items[0], n=2, include_unavailable=True)["items"][0]["item_id"] == near[0]
    assert client.set_available([{"item_id": near[0], "available": True}])["changed"] == 1
    assert client.report(days=1)["releases"][0]["types"] == {"purchase": 1}
    assert client.candidate()["state"] == "none"
    for decision in (client.promote_candidate, client.drop_candidate, lambda: client.share_candidate(0.5)):
        with pytest.raises(ServiceError, match="409: there is no candidate"):
            decision()
    assert client.popularity()["ranks"][0] == 1
    assert client.model()["version"] == client.reload()["version"]
    assert client.learning()["learning"] is False
    assert client.health()["status"] == "ok" and client.ready()["status"] == "ready"
    assert "komd_requests_total" in client.metrics()


def test_refusals_are_in_the_words_of_the_service(client):
    with pytest.raises(ServiceError, match="404: nothing is known of this user") as error:
        client.user("nobody")
    assert error.value.status == 404
    with pytest.raises(ServiceError, match="422: give user_id or history"):
        client.recommend()


def test_threads_have_connections_of_their_own(client):
    found = []
    threads = [threading.Thread(target=lambda: found.append(client.search(n=1)["items"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(each == found[0] for each in found)


@pytest.mark.parametrize(
    "address", ["recs.example", "ftp://x", "http://", "http://x?y=1", "http://x:99999", "http://[x"]
)
def test_an_address_that_is_none(address):
    with pytest.raises(InputError, match="an address is like https"):
        Client(address)


def test_secrets_are_in_no_error():
    for token in ("a-secret\n", "a-secret b", "a-secret\x00", "a-secret€", "a-secret\r\nHost: x"):
        with pytest.raises(InputError, match="a token has neither") as error:
            Client("http://127.0.0.1:9", token=token)
        assert "a-secret" not in str(error.value)
    with pytest.raises(InputError, match="an address is like https") as error:
        Client("http://ana:a-secret@recs.example")
    assert "a-secret" not in str(error.value)


def test_retries_that_are_none():
    with pytest.raises(InputError, match="retries must be at least 0, got -1"):
        Client("http://127.0.0.1:9", retries=-1)


def test_threads_that_ended_leave_no_connections(client, service):
    """A thread for each request is common; the connections of all of them would be open at once."""
    for _ in range(20):
        thread = threading.Thread(target=client.health)
        thread.start()
        thread.join()
    assert len(service.server.server_state.connections) < 10


class Flaky(http.server.BaseHTTPRequestHandler):
    """Answers as it was told, one entry a request: a status, or None to hang up."""

    protocol_version = "HTTP/1.1"
    plan: list[int | None]
    asked: list[str]
    together: threading.Barrier | None = None

    def do_GET(self):
        if self.together is not None:
            self.together.wait()
        self.asked.append(self.path)
        status = self.plan.pop(0)
        if status is None:
            self.close_connection = True
            self.connection.close()
            return
        body = json.dumps({"status": "ok", "detail": "busy"}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def flaky():
    handler = type("Planned", (Flaky,), {"plan": [], "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("plan", "tries"),
    [([503, 429, 200], 3), ([None, 200], 2), ([200], 1), ([500], 1), ([301], 1), ([503, 503, 503], 3)],
)
def test_what_is_worth_another_try_is_tried_again(flaky, plan, tries):
    handler, address = flaky
    handler.plan[:], expected = plan, plan[-1]
    with Client(address, retries=2) as client:
        if expected == 200:
            assert client.health()["status"] == "ok"
        else:
            with pytest.raises(ServiceError, match=f"{expected}: busy"):
                client.health()
    assert len(handler.asked) == tries


def test_connections_that_the_service_closed_are_replaced(flaky):
    """All that are kept may be stale: the second try is not by another one of them."""
    handler, address = flaky
    handler.plan[:], handler.together = [200, 200], threading.Barrier(2, timeout=20)
    with Client(address, retries=0) as client:
        threads = [threading.Thread(target=client.health) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        handler.plan[:], handler.together = [None, 200], None
        assert client.health()["status"] == "ok" and len(handler.asked) == 4


def test_a_service_that_is_not_there():
    with pytest.raises(ServiceError, match=r"the service at 127\.0\.0\.1:9 cannot be reached") as error:
        Client("http://127.0.0.1:9", retries=0).health()
    assert error.value.status is None


def test_the_client_needs_python_alone():
    import subprocess
    import sys

    code = "import sys, komd.client; print(*({n.split('.')[0] for n in sys.modules} & {'numpy', 'fastapi', 'httpx'}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
