"""The types of the client from the description of the API: `python -m tools.client_types` writes them.

tests/client/test_client.py checks that they are as this writes them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "src" / "komd" / "client" / "answers.py"
HEAD = '''"""The answers of a service as types, from its description: `python -m tools.client_types` writes them."""

from __future__ import annotations

from typing import TypedDict'''
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def description() -> dict[str, Any]:
    """The OpenAPI description of a service."""
    import httpx

    import komd
    from komd.serve.app import create
    from komd.serve.serve_settings import Settings

    async def asked(settings: Settings) -> Any:
        transport = httpx.ASGITransport(app=create(settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/openapi.json")).json()

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "m.komd"
        komd.Popularity().fit(komd.generate(users=60, items=50, activity=5, rng=0)).save(model)
        return dict(asyncio.run(asked(Settings(model=model, store=f"sqlite:///{folder}/events.db"))))


def answered(about: dict[str, Any]) -> list[str]:
    """The names of the schemas that answers are made of, those that others need first."""
    schemas, found = about["components"]["schemas"], []

    def add(name: str) -> None:
        if name in found:
            return
        for needed in references(schemas[name]):
            add(needed)
        found.append(name)

    for path in about["paths"].values():
        for operation in path.values():
            for code, answer in operation["responses"].items():
                if code.startswith("2"):
                    for name in references(answer):
                        add(name)
    return found


def references(part: Any) -> list[str]:
    """The names of schemas that a part of the description refers to, in their order."""
    if isinstance(part, dict):
        own = [part["$ref"].split("/")[-1]] if "$ref" in part else []
        return own + [name for each in part.values() for name in references(each)]
    if isinstance(part, list):
        return [name for each in part for name in references(each)]
    return []


def annotation(schema: dict[str, Any]) -> str:
    """A schema as a Python type.

    >>> annotation({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]})
    'list[int] | None'
    """
    if "$ref" in schema:
        return f"{schema['$ref'].split('/')[-1]}Json"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(annotation(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list[{annotation(schema['items'])}]"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"dict[str, {annotation(inner) if isinstance(inner, dict) else 'object'}]"
    return _PLAIN.get(str(schema.get("type")), "object")


def types(about: dict[str, Any]) -> str:
    """The module of types. Their names end in Json: classes of the service have the names of the description."""
    schemas, names = about["components"]["schemas"], answered(about)
    parts = [HEAD, f"__all__ = {sorted(f'{name}Json' for name in names)!r}\n"]
    for name in names:
        fields = [f"    {key}: {annotation(each)}" for key, each in schemas[name]["properties"].items()]
        parts.append(f'class {name}Json(TypedDict):\n    """{schemas[name]["description"]}"""\n\n' + "\n".join(fields))
    return formatted("\n\n".join(parts))


def formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "--stdin-filename", FILE.name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    FILE.write_text(types(description()), encoding="utf-8")
    print(f"wrote {FILE.relative_to(ROOT)}")
