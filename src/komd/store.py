"""A model on disk: a folder of memory-mapped arrays and one manifest.

    plays.komd/
      manifest.json              format, komd version, model text, and name, type, shape, bytes, SHA-256 of every file
      matrix-3f2a...c1.npy       arrays, one file each, named by their checksum
      users-77b0...9e.arrow      ids

The manifest is the model: a file it does not name is not part of it. A save writes new files beside the old ones,
flushes them, and only then swaps the manifest in one step; the old files go last. So at every moment, whatever fails,
the folder holds one whole model. Nothing is pickled, and nothing in a folder is executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.errors import InputError, ModelFileError

__all__ = ["FORMAT", "MANIFEST", "files", "identity", "load", "replaceable", "save"]

FORMAT = 1
MANIFEST = "manifest.json"
_OURS = re.compile(r"[A-Za-z_]+-[0-9a-f]{16}\.(npy|arrow)|\.([A-Za-z_]+|manifest\.json)\.[0-9]+")

Arrays = dict[str, NDArray[np.generic]]


def save(path: Path, *, model: str, arrays: Arrays, ids: dict[str, pa.Array]) -> None:
    """Write a model to the folder `path`, replacing the model there, if any, only when all is written."""
    old = replaceable(path)
    made: list[Path] = []
    fresh = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        entries = {}
        for name, array in arrays.items():
            entries[name] = _write(path, name, ".npy", array, made)
        for name, values in ids.items():
            entries[name] = _write(path, name, ".arrow", values, made)
        manifest = {"format": FORMAT, "komd": metadata.version("komd"), "model": model, "files": entries}
        temporary = path / f".{MANIFEST}.{os.getpid()}"
        made.append(temporary)
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path / MANIFEST)
    except BaseException as error:
        kept = {entry["file"] for entry in old.values()}
        for part in made:
            if part.name not in kept:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
        if fresh:
            with contextlib.suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            left = "; the model that was there is whole" if old else ""
            raise ModelFileError(f"could not save the model to {path}: {reason}{left}") from error
        raise
    kept = {entry["file"] for entry in entries.values()}
    for remains in path.iterdir():  # the old model's files, and what an interrupted save may have left
        if _OURS.fullmatch(remains.name) and remains.name not in kept:
            with contextlib.suppress(OSError):
                remains.unlink(missing_ok=True)


def load(path: Path, *, verify: bool = True) -> tuple[str, Arrays, dict[str, pa.Array]]:
    """The model text, arrays and ids of a saved model. `verify` reads every byte once to check it."""
    manifest = _manifest(path)
    arrays: Arrays = {}
    ids: dict[str, pa.Array] = {}
    for name, entry in manifest["files"].items():
        file = path / entry["file"]
        if not file.is_file():
            raise ModelFileError(f"{path} is not whole: {entry['file']} is missing; save the model again")
        if file.stat().st_size != entry["bytes"]:
            raise ModelFileError(
                f"{path} is not whole: {entry['file']} has {file.stat().st_size:,} bytes, not {entry['bytes']:,}; "
                "save the model again"
            )
        if verify and _checksum(file) != entry["sha256"]:
            raise ModelFileError(f"{path} was altered: {entry['file']} is not what was saved; save the model again")
        try:
            if file.suffix == ".arrow":
                with pa.memory_map(str(file)) as source:
                    ids[name] = pa.ipc.open_file(source).read_all().column(0).combine_chunks()
            else:
                arrays[name] = _mapped(file)
        except (ValueError, OSError, pa.ArrowException) as error:
            raise ModelFileError(f"{path}: {entry['file']} cannot be read ({error})") from error
        found = _kind(arrays[name] if name in arrays else ids[name])
        if found != {key: entry.get(key) for key in found}:
            raise ModelFileError(
                f"{path} was altered: {entry['file']} is no {name} of this model; save the model again"
            )
    return str(manifest["model"]), arrays, ids


def files(manifest: str) -> list[str]:
    """The names of the files that the text of a manifest names."""
    return [entry["file"] for entry in json.loads(manifest)["files"].values()]


def identity(manifest: str) -> str:
    """A name for the model of a manifest: another for every other content."""
    return f"komd-{hashlib.sha256(manifest.encode()).hexdigest()[:16]}"


def _mapped(file: Path) -> NDArray[np.generic]:
    # Copy-on-write: pages are shared between processes, and compiled code sees an ordinary writable array.
    array = np.load(file, mmap_mode="c", allow_pickle=False) if file.stat().st_size > 4096 else np.load(file)
    return np.asarray(array)


def _manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not path.exists():
        raise ModelFileError(f"no model at {path}")
    if not file.is_file():
        raise ModelFileError(f"{path} holds no komd model: it has no {MANIFEST}")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        found = int(manifest["format"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{file} cannot be read ({error}); save the model again") from error
    if found > FORMAT:
        raise ModelFileError(
            f"{path} was saved by komd {manifest.get('komd', '?')} in format {found}; this komd reads up to format "
            f"{FORMAT}: upgrade komd"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not files or not isinstance(manifest.get("model"), str):
        raise ModelFileError(f"{file} was altered: it names no files or no model")
    for entry in files.values():
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("file"), str)
            and _OURS.fullmatch(entry["file"])
            and isinstance(entry.get("bytes"), int)
            and isinstance(entry.get("sha256"), str)
        ):
            raise ModelFileError(f"{file} was altered: {entry!r} is no file of a model")
    return dict(manifest)


def replaceable(path: Path) -> dict[str, Any]:
    """The files of the model that stands at `path`; refuses what cannot be written, or is no model."""
    if not path.exists():
        parent = next((p for p in path.absolute().parents if p.exists()), Path("/"))
        if not os.access(parent, os.W_OK):
            raise ModelFileError(f"could not save the model to {path}: no permission to write in {parent}")
        return {}
    if not path.is_dir():
        raise InputError(f"{path} is a file; a model is saved to a folder")
    if not os.access(path, os.W_OK):
        raise ModelFileError(
            f"could not save the model to {path}: no permission to write there; what was there is whole"
        )
    if not any(path.iterdir()):
        return {}
    if not (path / MANIFEST).is_file():
        if all(_OURS.fullmatch(file.name) for file in path.iterdir()):
            return {}  # only the remains of a save that never came to its end
        raise InputError(f"{path} is a folder that holds something other than a model; choose another name")
    try:
        return dict(_manifest(path)["files"])
    except ModelFileError:
        return {}  # a damaged model may be replaced


def _write(path: Path, name: str, suffix: str, content: Any, made: list[Path]) -> dict[str, Any]:
    """Write one file under the name of its checksum, flushed to the disk; returns its entry in the manifest."""
    temporary = path / f".{name}.{os.getpid()}"
    made.append(temporary)
    with temporary.open("wb") as file:
        if suffix == ".npy":
            array = np.ascontiguousarray(content)
            if array.dtype.hasobject:
                raise ValueError(f"{name} holds Python objects: only numbers are saved")
            entry = _kind(array)
            np.lib.format.write_array_header_2_0(file, np.lib.format.header_data_from_array_1_0(array))
            if array.size:  # by Python's own write, which names a full disk; numpy's does not
                file.write(array.data.cast("B"))
        else:
            entry = _kind(content)
            table = pa.table({name: content})
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())
    digest = _checksum(temporary)
    final = path / f"{name}-{digest[:16]}{suffix}"
    made.append(final)
    temporary.replace(final)
    return {"file": final.name, "bytes": final.stat().st_size, "sha256": digest} | entry


def _kind(content: Any) -> dict[str, Any]:
    """Type and shape of an array or of a column of ids, as the manifest says them."""
    if isinstance(content, np.ndarray):
        return {"dtype": str(content.dtype), "shape": list(content.shape)}
    return {"dtype": str(content.type), "shape": [len(content)]}


def _checksum(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
