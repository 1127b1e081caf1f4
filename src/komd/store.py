"""A model on disk: a folder of memory-mapped arrays and one manifest.

    plays.komd/
      manifest.json              format, komd version, model text, and name, type, shape, bytes, SHA-256 of every file;
                                 last a SHA-256 of the above
      matrix-3f2a...c1.npy       arrays, one file each, named by their checksum
      users-77b0...9e.arrow      ids

The manifest is the model: a file it does not name is not part of it. A save writes new files beside the old ones,
flushes them, and only then replaces the manifest atomically; the old files are removed last. So at every moment,
whatever fails, the folder holds one complete model. A lock makes saves into one folder wait for each other; a load
takes no lock, writes nothing, and gets the old or the new model (docs/decisions/0004). Nothing is pickled, and nothing
in a folder is executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import re
import time
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import files
from komd.errors import InputError, ModelFileError

__all__ = ["FORMAT", "MANIFEST", "load", "manifest_text", "named_files", "replaceable", "save"]

FORMAT = 2
MANIFEST = "manifest.json"
_LOCK = ".lock"
_WAIT = 600.0  # seconds that a save waits for the lock
_SETTLED = 2.0  # seconds after which another change to a file is sure to change its times
_FILE = re.compile(r"[A-Za-z_]+-[0-9a-f]{16}\.(npy|arrow)")
_OLD_TEMPORARY = re.compile(r"\.([A-Za-z_]+|manifest\.json)\.[0-9]+")  # as format 1 was written
_KEYS = {"format", "komd", "model", "files"}  # of a manifest of format 1; later ones have a checksum too

Arrays = dict[str, NDArray[np.generic]]


def save(path: Path, *, model: str, arrays: Arrays, ids: dict[str, pa.Array], durable: bool = True) -> None:
    """Write a model to the folder `path`, replacing the model there, if any, when all is written.

    One that need not be `durable` is not flushed to the disk: only processes on this machine are sure to see it whole.
    """
    old = _complete(path, replaceable(path))  # refused before waiting for the lock
    fresh = not path.exists()
    try:
        with files.locked(path / _LOCK, wait=_WAIT) as alone:
            try:
                old = _complete(path, replaceable(path))
                entries = {name: _write(path, name, ".npy", array, durable) for name, array in arrays.items()}
                entries |= {name: _write(path, name, ".arrow", values, durable) for name, values in ids.items()}
                if durable:
                    files.sync(path)
                manifest = {"format": FORMAT, "komd": metadata.version("komd"), "model": model, "files": entries}
                text = json.dumps(manifest | {"sha256": _manifest_checksum(manifest)}, indent=1)
                files.write_text(path / MANIFEST, text, durable=durable)
            finally:
                if alone:  # else another save may be about to name what no manifest names yet
                    _clear(path)
    except BaseException as error:
        if fresh:
            with contextlib.suppress(OSError):
                path.rmdir()
        if isinstance(error, files.LockHeld):
            why = f"another save there has not ended for {_WAIT / 60:.0f} minutes"
            raise _unsaved(path, f"{why}; try again later, or save to another folder") from None
        if isinstance(error, OSError):
            left = "; the model that was there is intact" if old else ""
            raise _unsaved(path, f"{error.strerror or error}{left}") from error
        raise


def load(
    path: Path,
    *,
    verify: bool = True,
    manifest: str | None = None,
    marks: Path | None = None,
    trusted: bool = False,
) -> tuple[str, Arrays, dict[str, pa.Array]]:
    """The model text, arrays and ids of a saved model. `verify` reads every byte once to check it.

    Without it the checksums of floating-point arrays are not checked; those of all arrays that compiled code uses
    as positions in memory always are. With a `manifest` (its text) the model must be that very one. `marks` is a
    trusted folder on this machine that remembers which files were checked: a file is checked again when it has changed.
    A `trusted` folder is one that only another process of the same service writes: no checksum is checked.
    """
    text = manifest_text(path) if manifest is None else manifest
    while True:
        about = _parsed(path, text)
        try:
            return str(about["model"]), *_read(path, about["files"], verify, marks, trusted)
        except _Gone as error:
            # A save may have replaced the model after its manifest was read: then the new one is there.
            again = manifest_text(path) if manifest is None else text
            if again == text:
                raise _damaged(path, f"is incomplete: {error} is missing") from None
            text = again


def manifest_text(path: Path) -> str:
    """The text of the manifest of a saved model."""
    file = path / MANIFEST
    if not path.exists():
        raise ModelFileError(f"no model at {path}")
    if not file.is_file():
        raise ModelFileError(f"{path} holds no komd model: it has no {MANIFEST}")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _damaged(file, f"cannot be read ({error})") from error


def named_files(manifest: str) -> list[str]:
    """The names of the files that the text of a manifest names."""
    return [entry["file"] for entry in json.loads(manifest)["files"].values()]


def _damaged(path: Path, what: str) -> ModelFileError:
    return ModelFileError(f"{path} {what}; save the model again")


def _unsaved(path: Path, why: str) -> ModelFileError:
    return ModelFileError(f"could not save the model to {path}: {why}")


class _Gone(Exception):
    """A file that a manifest names is not there."""


def _read(
    path: Path, entries: dict[str, Any], verify: bool, marks: Path | None, trusted: bool
) -> tuple[Arrays, dict[str, pa.Array]]:
    arrays: Arrays = {}
    ids: dict[str, pa.Array] = {}
    with contextlib.ExitStack() as stack:
        # All are opened before any is read: an open file stays readable when a save removes it.
        opened = {name: stack.enter_context(_open(path, entry["file"])) for name, entry in entries.items()}
        for name, file in opened.items():
            entry = entries[name]
            size = os.fstat(file.fileno()).st_size
            if size != entry["bytes"]:
                words = f"{entry['file']} has {size:,} bytes, not {entry['bytes']:,}"
                raise _damaged(path, f"is incomplete: {words}")
            is_array = entry["file"].endswith(".npy")
            checked = verify or not is_array or not str(entry.get("dtype")).startswith("float")
            if checked and not trusted and not _matches(file, entry["sha256"], marks):
                raise _damaged(path, f"was altered: {entry['file']} is not what was saved")
            file.seek(0)
            try:
                found: Any = _mapped(file, size) if is_array else _column(file)
            except Exception as error:  # whatever numpy and Arrow find wrong with it
                raise ModelFileError(f"{path}: {entry['file']} cannot be read ({error})") from error
            kind = _kind(found)
            if kind != {key: entry.get(key) for key in kind}:
                raise _damaged(path, f"was altered: {entry['file']} is no {name} of this model")
            (arrays if is_array else ids)[name] = found
    return arrays, ids


def _matches(file: IO[bytes], digest: str, marks: Path | None) -> bool:
    """Whether an open file has this checksum. With `marks`, it is computed once for each state of the file."""
    about = os.fstat(file.fileno())
    state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, digest)
    mark = marks / f"checked-{hashlib.sha256(repr(state).encode()).hexdigest()}" if marks else None
    if mark and mark.exists():
        return True
    matches = files.checksum(file) == digest
    if mark and matches and time.time() - about.st_ctime > _SETTLED:
        with contextlib.suppress(OSError):
            mark.touch()
    return matches


def _open(path: Path, name: str) -> IO[bytes]:
    try:
        return (path / name).open("rb")
    except OSError as error:
        if error.errno in (errno.ENOENT, getattr(errno, "ESTALE", None)):  # stale: removed by another machine
            raise _Gone(name) from error
        raise ModelFileError(f"{path}: {name} cannot be read ({error.strerror})") from error


def _mapped(file: IO[bytes], size: int) -> NDArray[np.generic]:
    """The array of an open file."""
    version = np.lib.format.read_magic(file)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_column, dtype = header[version](file)
    start = file.tell()
    if dtype.hasobject or by_column or start + dtype.itemsize * int(np.prod(shape, dtype=object)) != size:
        raise ValueError("it is no array of numbers, row by row")
    if size <= 4096:
        file.seek(0)
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    # Copy-on-write: pages are shared between processes, and compiled code sees an ordinary writable array.
    return np.asarray(np.memmap(file, dtype, mode="c", offset=start, shape=shape))


def _column(file: IO[bytes]) -> pa.Array:
    """The ids of an open file."""
    source = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return pa.ipc.open_file(source).read_all().column(0).combine_chunks()


def _parsed(path: Path, text: str) -> dict[str, Any]:
    """What a manifest says; refuses one that is not as it was written."""
    file = path / MANIFEST
    try:
        manifest = json.loads(text)
        found = manifest["format"]
        if type(found) is not int or found < 1:
            raise ValueError(f"format {found!r}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(file, f"cannot be read ({error})") from error
    if found > FORMAT:
        raise ModelFileError(
            f"{path} was saved by komd {manifest.get('komd', '?')} in format {found}; this komd reads up to format "
            f"{FORMAT}: upgrade komd"
        )
    as_written = set(manifest) == (_KEYS if found == 1 else _KEYS | {"sha256"})
    checksum = manifest.pop("sha256", None)
    if not as_written or (found > 1 and checksum != _manifest_checksum(manifest)):
        raise _damaged(file, "was altered: it is not what was saved")
    entries = manifest["files"]
    if not isinstance(entries, dict) or not entries or not isinstance(manifest["model"], str):
        raise ModelFileError(f"{file} was altered: it names no files or no model")
    for name, entry in entries.items():
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("file"), str)
            and _FILE.fullmatch(entry["file"])
            and isinstance(entry.get("bytes"), int)
            and isinstance(entry.get("sha256"), str)
            and Path(entry["file"]).stem == f"{name}-{entry['sha256'][:16]}"
        ):
            raise ModelFileError(f"{file} was altered: {entry!r} is no file of a model")
    return dict(manifest)


def _manifest_checksum(manifest: dict[str, Any]) -> str:
    """The checksum of the content of a manifest, however it is laid out."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def replaceable(path: Path) -> dict[str, Any]:
    """The files of the model at `path`; refuses a place that cannot be written, or holds something else."""
    if not path.exists():
        parent = next((p for p in path.absolute().parents if p.exists()), Path("/"))
        if not os.access(parent, os.W_OK):
            raise _unsaved(path, f"no permission to write in {parent}")
        return {}
    if not path.is_dir():
        raise InputError(f"{path} is a file; a model is saved to a folder")
    if not os.access(path, os.W_OK):
        raise _unsaved(path, "no permission to write there; what was there is intact")
    # Without a manifest it may be empty, or hold the files of a save that was killed or is under way: in that case the
    # manifest may come between these two questions.
    if not (path / MANIFEST).is_file() and not all(f.name == MANIFEST or _ours(f.name) for f in path.iterdir()):
        raise InputError(f"{path} is a folder that holds something other than a model; choose another name")
    try:
        return dict(_parsed(path, manifest_text(path))["files"])
    except ModelFileError:
        return {}  # no model, or a damaged one, which may be replaced


def _ours(name: str) -> bool:
    """Whether a save gives such names, the manifest's apart."""
    return bool(name == _LOCK or _FILE.fullmatch(name) or files.is_temporary(name) or _OLD_TEMPORARY.fullmatch(name))


def _complete(path: Path, entries: dict[str, Any]) -> bool:
    """Whether there is a model whose files are all there, in their sizes."""
    try:
        return bool(entries) and all((path / e["file"]).stat().st_size == e["bytes"] for e in entries.values())
    except OSError:
        return False


def _clear(path: Path) -> None:
    """Remove what no manifest names: the files of the model before, of a save that failed, or of one that was killed.

    Only for the holder of the lock. A manifest that cannot be read may still help to recover the model: then
    only temporary files are removed.
    """
    kept: set[str] | None = set()
    if (path / MANIFEST).exists():
        try:
            kept = {entry["file"] for entry in _parsed(path, manifest_text(path))["files"].values()}
        except ModelFileError:
            kept = None
    for file in path.iterdir():
        named = _FILE.fullmatch(file.name) and (kept is None or file.name in kept)
        if _ours(file.name) and file.name != _LOCK and not named:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


def _write(path: Path, name: str, suffix: str, content: Any, durable: bool) -> dict[str, Any]:
    """Write one file under the name of its checksum, flushed to the disk; returns its entry in the manifest."""

    def column(file: IO[bytes]) -> None:
        table = pa.table({name: content})
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    content = np.ascontiguousarray(content) if suffix == ".npy" else content
    fill = files.array_fill(content) if suffix == ".npy" else column
    aside = files.write_aside(path / name, fill, durable=durable)
    digest, size = files.checksum(aside), aside.stat().st_size
    final = path / f"{name}-{digest[:16]}{suffix}"
    if final.is_file() and files.checksum(final) == digest:  # perhaps memory-mapped: Windows would refuse to replace it
        files.discard(aside)
    else:
        files.replace(aside, final)
    return {"file": final.name, "bytes": size, "sha256": digest} | _kind(content)


def _kind(content: Any) -> dict[str, Any]:
    """Type and shape of an array or of a column of ids, as the manifest says them."""
    if isinstance(content, np.ndarray):
        return {"dtype": str(content.dtype), "shape": list(content.shape)}
    return {"dtype": str(content.type), "shape": [len(content)]}
