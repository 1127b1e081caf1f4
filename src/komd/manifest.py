"""The manifest of a model folder: what it says, how it is checked, and the lock of those who change the folder.

A manifest is JSON: format, komd version, model text, and an entry for every file; last a SHA-256 of the above, which
does not depend on the layout of the text. Two manifests with the same checksum are the same model.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from komd import files
from komd.errors import ModelFileError

__all__ = [
    "FILE",
    "FORMAT",
    "LOCK",
    "MANIFEST",
    "damaged",
    "manifest_checksum",
    "manifest_text",
    "named_files",
    "new_manifest",
    "parsed_manifest",
    "writing",
]

FORMAT = 3  # 2 had no journal, and sums that depended on their order; 1 had no checksum of the manifest
MANIFEST = "manifest.json"
LOCK = ".lock"
FILE = re.compile(r"[A-Za-z_]+-[0-9a-f]{16}\.(npy|arrow)")  # the names of files in a manifest
_WAIT = 600.0  # seconds that a writer waits for the lock
_KEYS = {"format", "komd", "model", "files"}  # of a manifest of format 1; later ones have a checksum too


def new_manifest(model: str, entries: dict[str, Any]) -> str:
    """The text of the manifest of a model with these files."""
    manifest = {"format": FORMAT, "komd": metadata.version("komd"), "model": model, "files": entries}
    return json.dumps(manifest | {"sha256": _checksum(manifest)}, indent=1)


def manifest_text(path: Path) -> str:
    """The text of the manifest of a saved model."""
    file = path / MANIFEST
    if not path.exists():
        raise ModelFileError(f"no model at {path}")
    if path.is_file():
        raise ModelFileError(f"{path} is a file; a saved model is a folder: give the folder that holds {MANIFEST}")
    if not file.is_file():
        raise ModelFileError(f"{path} holds no komd model: it has no {MANIFEST}")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise damaged(file, f"cannot be read ({error})") from error


def parsed_manifest(path: Path, text: str) -> dict[str, Any]:
    """What a manifest says, its checksum apart; refuses one that is not as it was written."""
    file = path / MANIFEST
    try:
        manifest = json.loads(text)
        found = manifest["format"]
        if type(found) is not int or found < 1:
            raise ValueError(f"format {found!r}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(file, f"cannot be read ({error})") from error
    if found > FORMAT:
        raise ModelFileError(
            f"{path} was saved by komd {manifest.get('komd', '?')} in format {found}; this komd reads up to format "
            f"{FORMAT}: upgrade komd"
        )
    as_written = set(manifest) == (_KEYS if found == 1 else _KEYS | {"sha256"})
    checksum = manifest.pop("sha256", None)
    if not as_written or (found > 1 and checksum != _checksum(manifest)):
        raise damaged(file, "was altered: it is not what was saved")
    entries = manifest["files"]
    if not isinstance(entries, dict) or not entries or not isinstance(manifest["model"], str):
        raise ModelFileError(f"{file} was altered: it names no files or no model")
    for name, entry in entries.items():
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("file"), str)
            and FILE.fullmatch(entry["file"])
            and isinstance(entry.get("bytes"), int)
            and isinstance(entry.get("sha256"), str)
            and Path(entry["file"]).stem == f"{name}-{entry['sha256'][:16]}"
        ):
            raise ModelFileError(f"{file} was altered: {entry!r} is no file of a model")
    return dict(manifest)


def manifest_checksum(text: str) -> str:
    """The checksum of what a manifest says, in hexadecimal digits: the same for every layout of its text."""
    return _checksum({key: value for key, value in json.loads(text).items() if key != "sha256"})


def named_files(text: str) -> list[str]:
    """The names of the files that the text of a manifest names."""
    return [entry["file"] for entry in json.loads(text)["files"].values()]


@contextlib.contextmanager
def writing(path: Path, failure: str) -> Iterator[bool]:
    """Hold the lock of a model folder, which is created if need be. Yields whether it is held, as `files.locked`.

    When another has held it for ten minutes, raises ModelFileError, whose message begins with `failure`.
    """
    try:
        with files.locked(path / LOCK, wait=_WAIT) as alone:
            yield alone
    except files.LockHeld:
        why = f"another save there has not ended for {_WAIT / 60:.0f} minutes"
        raise ModelFileError(f"{failure}: {why}; try again later, or save to another folder") from None


def damaged(path: Path, what: str) -> ModelFileError:
    """The error for a folder or file that is not as it was saved."""
    return ModelFileError(f"{path} {what}; save the model again")


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
