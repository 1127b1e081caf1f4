"""The page of the service and its parts, from the package, held in memory."""

from __future__ import annotations

import hashlib
from importlib import resources

from fastapi import FastAPI, Request, Response

__all__ = ["add_pages"]

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGES = {"index.html": "/", "api.html": "/docs"}


def add_pages(app: FastAPI) -> None:
    """The page and its parts, from the package, held in memory."""
    folder = resources.files("komd.serve") / "static"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        kind = _TYPES.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            _add_page(app, _PAGES.get(file.name, f"/static/{file.name}"), file.read_bytes(), kind)


def _add_page(app: FastAPI, address: str, content: bytes, kind: str) -> None:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    about = {"etag": tag, "cache-control": "no-cache"}

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=about)
        return Response(content, media_type=kind, headers=about)

    app.add_api_route(address, page, methods=["GET", "HEAD"], include_in_schema=False)
