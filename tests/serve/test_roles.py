"""Roles of tokens: what each may do, and that every route says what it takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.routing import APIRoute

from komd.serve import app as application
from komd.serve.roles import DECLARED, ROLES, role_needed

TOKENS = {role: role[0] * 32 for role in ROLES}
EXPECTED = {  # written down once more, so that a slip in the table is seen
    "POST /v1/recommend": "read",
    "POST /v1/recommend/batch": "read",
    "GET /v1/users/{user_id}": "read",
    "GET /v1/items": "read",
    "GET /v1/model": "read",
    "GET /v1/learning": "read",
    "POST /v1/events": "write",
    "DELETE /v1/users/{user_id}": "write",
    "POST /v1/model/reload": "admin",
    "GET /v1/metrics": "metrics",
}


def routes(settings, monkeypatch):
    """(method, path) of everything under /v1, read from the application itself."""
    made = []
    usual = application.AccessControl
    monkeypatch.setattr(application, "AccessControl", lambda app, *more: made.append(app) or usual(app, *more))
    application.create(settings)
    found = [route for route in made[0].routes if isinstance(route, APIRoute) and route.path.startswith("/v1/")]
    return [(method, route.path) for route in found for method in route.methods]


def test_every_route_has_a_role(settings, monkeypatch):
    found = routes(settings, monkeypatch)
    assert len(found) > 15
    for method, path in found:
        role = role_needed(method, path)
        assert role in ROLES
        if method not in ("GET", "HEAD"):
            assert (method, path.split("/")[2]) in DECLARED, f"{method} {path}: declare its role in serve/roles.py"
        elif role != "metrics":
            assert role == "read"
    assert {words: role_needed(*words.split(" ")) for words in EXPECTED} == EXPECTED
    assert {words.split(" ")[1] for words in EXPECTED} <= {path for _, path in found}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "ODD"])
def test_what_nobody_declared_takes_admin(method):
    for path in ("/v1/new", "/v1/", "/v1//events", "/v1/Events", "/v1/%65vents", "/v1/learning"):
        assert role_needed(method, path) == "admin"


@pytest.fixture
def guarded(settings, serving, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("\n".join(f"{token} {role} for-{role}" for role, token in TOKENS.items()) + "\n" + "z" * 32 + "\n")
    return serving(replace(settings, token_file=file))


def test_a_token_does_what_its_roles_allow_and_no_more(guarded):
    asks = {
        "read": [("GET", "/v1/model", None), ("POST", "/v1/recommend", {"history": []}), ("GET", "/v1/users", None)],
        "write": [
            ("POST", "/v1/events", {"events": [{"user_id": "a", "item_id": "b"}]}),
            ("DELETE", "/v1/users/a", None),
        ],
        "admin": [("POST", "/v1/model/reload", None)],
        "metrics": [("GET", "/v1/metrics", None)],
    }
    for needed, some in asks.items():
        for method, path, body in some:
            for role, token in {**TOKENS, "all": "z" * 32}.items():
                answer = guarded.client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})
                assert answer.status_code == (200 if role in (needed, "all") else 403), (
                    method,
                    path,
                    role,
                    answer.text,
                )
                if role not in (needed, "all"):
                    words = f"this token may not {ROLES[needed]}: it takes the role {needed}"
                    assert answer.json() == {"detail": words}
            assert guarded.client.request(method, path, json=body).status_code == 401
    text = guarded.client.get("/v1/metrics", headers={"authorization": f"Bearer {TOKENS['metrics']}"}).text
    assert 'komd_token_requests_total{token="for-read"} 3.0' in text
    assert not any(token in text for token in TOKENS.values())
