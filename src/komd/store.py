"""A model on disk: a folder of memory-mapped arrays and one manifest.

    plays.komd/
      manifest.json              format, komd version, model text, and name, type, shape, bytes, SHA-256 of every file;
                                 last a SHA-256 of the above
      matrix-3f2a...c1.npy       arrays, one file each, named by their checksum
      users-77b0...9e.arrow      ids
      journal-9c41...0b.log      records appended since the save, if any: see `journal`

The manifest and its journal are the model: a file that is not theirs is not part of it. A save writes new files beside
the old ones, flushes them, and only then replaces the manifest atomically; the old files are removed last. So at every
moment, whatever fails, the folder holds one complete model. A lock makes saves into one folder wait for each other; a
load takes no lock, writes nothing, and gets the old or the new model (docs/decisions/0004 and 0011). Nothing is
pickled, and nothing in a folder is executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import re
import time
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import files, journal
from komd.errors import InputError, ModelFileError
from komd.manifest import (
    FILE,
    FORMAT,
    LOCK,
    MANIFEST,
    damaged,
    manifest_checksum,
    manifest_text,
    named_files,
    new_manifest,
    parsed_manifest,
    writing,
)

__all__ = ["FORMAT", "MANIFEST", "SavedModel", "load", "manifest_text", "named_files", "replaceable", "save"]

_SETTLED = 2.0  # seconds after which another change to a file is sure to change its times
_OLD_TEMPORARY = re.compile(r"\.([A-Za-z_]+|manifest\.json)\.[0-9]+")  # as format 1 was written

Arrays = dict[str, NDArray[np.generic]]


class SavedModel(NamedTuple):
    """What a folder holds."""

    model: str
    """The text that makes the model."""
    arrays: Arrays
    ids: dict[str, pa.Array]
    records: list[bytes]
    """What was appended to the model since it was saved, in order."""
    manifest: str
    """The text of the manifest: with `tip`, what `journal.append` asks for."""
    tip: str
    """The tip of the journal, as `journal.Journal` has it."""
    format: int
    """The format of the folder."""


def save(
    path: Path,
    *,
    model: str,
    arrays: Arrays,
    ids: dict[str, pa.Array],
    expected: SavedModel | None = None,
    durable: bool = True,
) -> None:
    """Write a model to the folder `path`, replacing the model there and its journal, if any, when all is written.

    With `expected`, what was loaded, it replaces that only: `journal.Superseded` if the folder was changed meanwhile.
    One that need not be `durable` is not flushed to the disk: only processes on this machine are sure to see it whole.
    """
    old = _complete(path, replaceable(path))  # refused before waiting for the lock
    fresh = not path.exists()
    try:
        with writing(path, f"could not save the model to {path}") as alone:
            try:
                old = _complete(path, replaceable(path))
                if expected is not None:
                    journal.check_unchanged(
                        path, expected.manifest, expected.tip, f"could not save the model to {path}"
                    )
                entries = {name: _write(path, name, ".npy", array, durable) for name, array in arrays.items()}
                entries |= {name: _write(path, name, ".arrow", values, durable) for name, values in ids.items()}
                if durable:
                    files.sync(path)
                _swap(path, new_manifest(model, entries), durable)
            finally:
                if alone:  # else another save may be about to name what no manifest names yet
                    _clear(path)
    except BaseException as error:
        if fresh:
            with contextlib.suppress(OSError):
                path.rmdir()
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
) -> SavedModel:
    """A saved model and the records of its journal. `verify` reads every byte once to check it.

    Without it the checksums of floating-point arrays are not checked; those of all arrays that compiled code uses
    as positions in memory always are. With a `manifest` (its text) the model must be that very one, and its journal is
    not read. `marks` is a trusted folder on this machine that remembers which files were checked: a file is checked
    again when it has changed. A `trusted` folder is one that only another process of the same service writes: no
    checksum is checked.
    """
    text = manifest_text(path) if manifest is None else manifest
    while True:
        about = parsed_manifest(path, text)
        try:
            with contextlib.ExitStack() as stack:
                # All are opened before any is read: an open file stays readable when a save removes it.
                opened = {e["file"]: stack.enter_context(_open(path, e["file"])) for e in about["files"].values()}
                kept = _journal(path, text) if manifest is None else journal.Journal([], "")
                arrays, ids = _read(path, about["files"], opened, verify, marks, trusted)
            return SavedModel(str(about["model"]), arrays, ids, kept.records, text, kept.tip, about["format"])
        except _Gone as error:
            # A save may have replaced the model after its manifest was read: then the new one is there.
            again = manifest_text(path) if manifest is None else text
            if again == text:
                raise damaged(path, f"is incomplete: {error} is missing") from None
            text = again
        except _Replaced as error:
            text = str(error)


def _unsaved(path: Path, why: str) -> ModelFileError:
    return ModelFileError(f"could not save the model to {path}: {why}")


class _Gone(Exception):
    """A file that a manifest names is not there."""


class _Replaced(Exception):
    """The manifest is another one now: its text."""


def _journal(path: Path, text: str) -> journal.Journal:
    """The journal of this manifest. If there is none, a save may have ended it since the manifest was read."""
    found = journal.read(path, text)
    if not found.records:
        again = manifest_text(path)
        if again != text:
            raise _Replaced(again)
    return found


def _read(
    path: Path, entries: dict[str, Any], opened: dict[str, IO[bytes]], verify: bool, marks: Path | None, trusted: bool
) -> tuple[Arrays, dict[str, pa.Array]]:
    """The arrays and ids in open files."""
    arrays: Arrays = {}
    ids: dict[str, pa.Array] = {}
    for name, entry in entries.items():
        file = opened[entry["file"]]
        size = os.fstat(file.fileno()).st_size
        if size != entry["bytes"]:
            words = f"{entry['file']} has {size:,} bytes, not {entry['bytes']:,}"
            raise damaged(path, f"is incomplete: {words}")
        is_array = entry["file"].endswith(".npy")
        checked = verify or not is_array or not str(entry.get("dtype")).startswith("float")
        if checked and not trusted and not _matches(file, entry["sha256"], marks):
            raise damaged(path, f"was altered: {entry['file']} is not what was saved")
        file.seek(0)
        try:
            found: Any = _mapped(file, size) if is_array else _column(file)
        except Exception as error:  # whatever numpy and Arrow find wrong with it
            raise ModelFileError(f"{path}: {entry['file']} cannot be read ({error})") from error
        kind = _kind(found)
        if kind != {key: entry.get(key) for key in kind}:
            raise damaged(path, f"was altered: {entry['file']} is no {name} of this model")
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
        return dict(parsed_manifest(path, manifest_text(path))["files"])
    except ModelFileError:
        return {}  # no model, or a damaged one, which may be replaced


def _swap(path: Path, text: str, durable: bool) -> None:
    """Replace the manifest, whose files are all there, and end the journals of both: in one step, whatever happens.

    A journal of an equal manifest may be there: of the model itself, if it is saved once more, or of an earlier save,
    if the one between was killed before it removed it. It must not come back to life.
    """
    try:
        old = manifest_text(path)
        parsed_manifest(path, old)
        again = manifest_checksum(old) == manifest_checksum(text)
    except ModelFileError:  # none, or a damaged one
        again = False
    if again:  # only the journal is to go: its removal is the step
        files.write_text(path / MANIFEST, text, durable=durable)
        journal.remove(path, text)
    else:
        journal.remove(path, text)
        files.write_text(path / MANIFEST, text, durable=durable)


def _ours(name: str) -> bool:
    """Whether a save or an append gives such names, the manifest's apart."""
    known = name == LOCK or FILE.fullmatch(name) or journal.is_journal(name)
    return bool(known or files.is_temporary(name) or _OLD_TEMPORARY.fullmatch(name))


def _complete(path: Path, entries: dict[str, Any]) -> bool:
    """Whether there is a model whose files are all there, in their sizes."""
    try:
        return bool(entries) and all((path / e["file"]).stat().st_size == e["bytes"] for e in entries.values())
    except OSError:
        return False


def _clear(path: Path) -> None:
    """Remove what is not of the manifest: the files of the model before, of a save that failed or that was killed.

    Only for the holder of the lock. A manifest that cannot be read may still help to recover the model: then
    only temporary files are removed.
    """
    kept: set[str] | None = set()
    if (path / MANIFEST).exists():
        try:
            text = manifest_text(path)
            kept = {entry["file"] for entry in parsed_manifest(path, text)["files"].values()}
            kept.add(journal.journal_name(text))
        except ModelFileError:
            kept = None
    for file in path.iterdir():
        lasting = FILE.fullmatch(file.name) or journal.is_journal(file.name)
        named = lasting and (kept is None or file.name in kept)
        if _ours(file.name) and file.name != LOCK and not named:
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
