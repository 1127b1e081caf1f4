"""Which role a request takes: one table, by method and by the part of the path after /v1.

A token has all roles, or those that its file gives it. What the table does not name takes `read` if it only reads, and
`admin` otherwise: a route that was forgotten here is closed, not open. tests/serve/test_roles.py goes over all routes.
"""

from __future__ import annotations

__all__ = ["DECLARED", "ROLES", "role_needed"]

ROLES = {
    "read": "read lists, items and users",
    "write": "write events, forget users, and say what is available",
    "admin": "load models, and promote or drop a candidate",
    "metrics": "read metrics and the report",
}
"""The roles, and what each may do."""

DECLARED = {
    ("GET", "metrics"): "metrics",
    ("GET", "report"): "metrics",
    ("POST", "recommend"): "read",
    ("POST", "events"): "write",
    ("DELETE", "events"): "write",
    ("DELETE", "users"): "write",
    ("POST", "items"): "write",
    ("POST", "model"): "admin",
    ("POST", "candidate"): "admin",
    ("PUT", "candidate"): "admin",
    ("DELETE", "candidate"): "admin",
}
"""Role by method and by the first part of the path under /v1; it holds for everything below that part."""


def role_needed(method: str, path: str) -> str:
    """The role that a request to a path under /v1 takes.

    >>> role_needed("GET", "/v1/items/7/similar"), role_needed("POST", "/v1/recommend/batch")
    ('read', 'read')
    >>> role_needed("DELETE", "/v1/users/ana"), role_needed("HEAD", "/v1/metrics"), role_needed("PUT", "/v1/new")
    ('write', 'metrics', 'admin')
    """
    if method == "HEAD":
        method = "GET"
    return DECLARED.get((method, path.split("/", 3)[2])) or ("read" if method == "GET" else "admin")
