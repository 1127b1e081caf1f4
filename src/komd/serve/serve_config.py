"""The configuration of a service as a TOML file: `komd serve --config komd.toml`.

The keys at the top are the options of the command; tables hold what options cannot say:

    model = "plays.komd"
    items = "songs.csv"
    [limits]           # see serve_settings.py
    address_rate = 20
    [events]           # types of events: a weight, a kind, or both
    view = 0.2
    skip = "disliked"
    [filters.kids]     # conditions on the columns of items
    genre = ["Animation", "Children's"]

Options given on the command line come before the file. Paths are relative to the file.
"""

from __future__ import annotations

import json
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from komd.errors import InputError, nearest
from komd.serve.event_types import EVENT_TYPES, EventType, event_type
from komd.serve.serve_settings import RUNTIME_LIMITS, Limits, Settings

__all__ = ["OPTIONS", "as_toml", "read_config", "settings_of", "share_of"]

_TABLES = ("limits", "events", "filters")
_INTERNAL = ("learned", "learned_candidate")
OPTIONS = tuple(each.name for each in fields(Settings) if each.name not in (*_TABLES, *_INTERNAL))
"""The names of the options at the top of a configuration, which are also those of the command line."""

_HINTS = typing.get_type_hints(Settings)
_LIMIT_HINTS = typing.get_type_hints(Limits)
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path as text"}


def read_config(path: Path) -> dict[str, Any]:
    """The options and tables of a file, checked, with paths relative to its folder."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the configuration {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    try:
        return _checked(said, path.absolute().parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _checked(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in said.items():
        if name == "share":
            found[name] = share_of(value)
        elif name in OPTIONS:
            value = _value(name, value, _HINTS[name])
            if isinstance(value, Path):
                value = folder / value
            if name == "store":
                value = _beside(value, folder)
            found[name] = value
        elif name in _TABLES:
            if not isinstance(value, dict):
                raise InputError(f"{name} is a table: [{name}]")
            found[name] = value
        else:
            raise InputError(f"unknown option {name!r}: {nearest(name, (*OPTIONS, *_TABLES))}")
    for name, value in found.get("limits", {}).items():
        if name not in RUNTIME_LIMITS:
            raise InputError(f"unknown limit {name!r}: {nearest(name, RUNTIME_LIMITS)}")
        if not _value(f"limits.{name}", value, _LIMIT_HINTS[name]) > 0:
            raise InputError(f"limits.{name} must be above 0, got {value!r}")
    return found


def share_of(value: Any) -> float:
    """A share as it is written: 0.1 or "10%".

    >>> share_of("10%"), share_of(0.25)
    (0.1, 0.25)
    """
    try:
        if isinstance(value, str) and value.strip().endswith("%"):
            return float(value.strip()[:-1]) / 100
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise InputError(f"share is a number between 0 and 1 or text like 10%, got {value!r}")


def _value(name: str, value: Any, hint: Any) -> Any:
    """A value as the type of its option has it."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for kind in kinds:
        if typing.get_origin(kind) is tuple:
            if isinstance(value, list) and all(isinstance(each, str) for each in value):
                return tuple(value)
            raise InputError(f"{name} is a list of texts, got {value!r}")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if kind is Path and isinstance(value, str):
            return Path(value)
        if isinstance(kind, type) and type(value) is kind:
            return value
    raise InputError(f"{name} is {_WORDS[kinds[0]]}, got {value!r}")


def _beside(store: str, folder: Path) -> str:
    """An SQLite file named without a folder is in that of the configuration."""
    kind, separator, file = store.partition(":///")
    return f"{kind}:///{folder / file}" if separator and kind.startswith("sqlite") else store


def settings_of(values: Mapping[str, Any]) -> Settings:
    """The settings of options and tables: those of a configuration, and of the command line."""
    given = dict(values)
    if given.get("model") is None:
        raise InputError("no model: name its folder on the command line, or as model in the configuration")
    if "share" in given and given.get("candidate") is None:
        raise InputError("share is that of a candidate, and none is given: name its folder with candidate")
    folder = Path(given["model"]).absolute()
    given.setdefault("store", f"sqlite:///{folder.with_name(folder.name + '.events.db')}")
    declared = {name: event_type(name, said) for name, said in given.pop("events", {}).items()}
    limits = Limits(**given.pop("limits", {}))
    return Settings(**given, events={**EVENT_TYPES, **declared}, limits=limits)


def as_toml(settings: Settings) -> str:
    """The settings as a configuration that gives the same service. A password in the store's address is not shown."""
    said = [name for name in OPTIONS if name != "share" or settings.candidate is not None]
    lines = [line for name in said if (line := _line(name, getattr(settings, name)))]
    tables: list[tuple[str, Mapping[str, Any]]] = [
        ("limits", {name: getattr(settings.limits, name) for name in RUNTIME_LIMITS}),
        ("events", settings.events),
        *((f"filters.{_key(name)}", conditions) for name, conditions in settings.filters.items()),
    ]
    for name, values in tables:
        lines += ["", f"[{name}]", *(line for key, value in values.items() if (line := _line(_key(key), value)))]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    if value is None or value == ():
        return ""
    if key == "store":
        value = _without_password(value)
    return f"{key} = {_toml(value)}"


def _without_password(store: str) -> str:
    import sqlalchemy as sql

    try:
        return sql.make_url(store).render_as_string(hide_password=True)
    except sql.exc.SQLAlchemyError:
        return store


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, EventType):
        value = {name: part for name, part in value._asdict().items() if part is not None}
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(name))} = {_toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, Path):
        return json.dumps(str(value.absolute()))
    return json.dumps(value)
