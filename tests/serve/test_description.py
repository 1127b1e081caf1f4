"""The OpenAPI description against the service: generated requests, good and bad, and what they are answered with."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

schemathesis = pytest.importorskip("schemathesis")
EXAMPLES = int(os.environ.get("KOMD_EXAMPLES", "15"))


def operations(running):
    found = schemathesis.openapi.from_url(running.address + "/openapi.json")
    return {operation.ok().label: operation.ok() for operation in found.get_all_operations()}


def examples(running, method, path):
    """The bodies that the description gives as examples of a request."""
    about = running.get("/openapi.json")
    body = about["paths"][path][method.lower()].get("requestBody")
    if body is None:
        return []
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return about["components"]["schemas"][name]["examples"]


LABELS = [
    *(
        "GET /v1/health",
        "GET /v1/ready",
        "GET /v1/metrics",
        "GET /v1/model",
        "POST /v1/model/reload",
        "GET /v1/learning",
    ),
    *("GET /v1/candidate", "PUT /v1/candidate", "DELETE /v1/candidate", "POST /v1/candidate/promote"),
    *("POST /v1/recommend", "POST /v1/recommend/batch", "GET /v1/users/{user_id}/recommendations"),
    *("DELETE /v1/events/{event_id}", "GET /v1/report"),
    *("POST /v1/events", "GET /v1/users", "GET /v1/users/{user_id}", "DELETE /v1/users/{user_id}"),
    *("GET /v1/items", "GET /v1/items/{item_id}", "GET /v1/items/{item_id}/similar", "GET /v1/popularity"),
    "POST /v1/items/availability",
]
OF_CANDIDATE = ("PUT /v1/candidate", "DELETE /v1/candidate", "POST /v1/candidate/promote")  # and there is none


def consistent(body):
    """Change a request for lists to one that keeps the rules which a description cannot say.

    It has a user or a history, and names no filters and columns, which this service does not have.
    """
    for ask in body.get("requests", [body]) if isinstance(body, dict) else ():
        for name in ("filters", "where", "max_per", "dislikes", "user_id"):
            ask.pop(name, None)
        ask["history"] = ask.get("history") or []


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", LABELS)
def test_no_server_error_and_no_answer_outside_the_description(running, label, mode):
    """Well-formed requests are answered as described; malformed ones too, and never with a 5xx."""
    schemathesis.checks.load_all_checks()
    names = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in names]
    operation = operations(running)[label]
    asked = [one for one in operation.iter_parameters() if one.location != "path"]
    if mode == "negative" and not (asked or operation.body.items):
        pytest.skip("almost nothing can be wrong with it: almost any text is an id (test_access.py)")
    seen = []

    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        if mode == "positive" and label.startswith("POST /v1/recommend") and len(seen) % 2:
            consistent(case.body)
        answer = case.call()
        seen.append(answer.status_code)
        case.validate_response(answer, checks=checks)

    ask()
    assert seen
    if mode == "positive" and "{" not in label:
        method, path = label.split()
        for body in examples(running, method, path):
            seen.append(running.client.request(method, path, json=body).status_code)
        assert (409 if label in OF_CANDIDATE else 200) in seen  # the description can be followed


def test_the_list_above_is_whole(running):
    assert sorted(operations(running)) == sorted(LABELS)


def test_every_operation_is_described(running):
    about = running.get("/openapi.json")
    for path, methods in about["paths"].items():
        for method, one in methods.items():
            where = f"{method} {path}"
            assert one["description"].strip(), where
            assert {"401", "403", "421", "422", "503"} <= set(one["responses"]), where
            answer = one["responses"]["200"]["content"]
            assert "text/plain" in answer or answer["application/json"]["schema"]["$ref"], where
            if "requestBody" in one:
                assert {"400", "408", "413"} <= set(one["responses"]), where
