"""The journal of a saved model: records appended after the save, each on the disk when `append` returns.

    plays.komd/
      manifest.json                 the model, as `store` saved it
      journal-9c41...0b.log         what was appended since; named by the checksum of that manifest

    header    "komd journal 1\\n", SHA-256 of the manifest                          once, at the start of the file
    entry     marker, length, SHA-256 of the previous entry's digest and the body,
              check of these three; body: for each record its length and its bytes  one for each append

A journal belongs to one manifest: a save that replaces the manifest ends it (docs/decisions/0011). The content of
records is up to the caller. An entry at the end of the file that is incomplete or has a wrong checksum is what a killed
append left: it was never acknowledged, and is ignored. A wrong entry that others follow was altered later, and is an
error. The check in an entry's head finds those that follow even where a length was altered.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from komd import files
from komd.errors import ModelFileError
from komd.manifest import damaged, manifest_checksum, manifest_text, parsed_manifest, writing

__all__ = [
    "Journal",
    "Parsed",
    "Superseded",
    "append",
    "check_unchanged",
    "is_journal",
    "journal_name",
    "read",
    "remove",
    "size",
]

_NAME = re.compile(r"journal-[0-9a-f]{16}\.log")
_MAGIC = b"komd journal 1\n"
_MARKER = b"\xf5\xc1\xabJ"  # no text has these bytes
_HEAD = struct.Struct("<4sQ32s8s")  # of an entry: marker, bytes of the body, digest, check
_LENGTH = struct.Struct("<Q")  # of a record


class Superseded(ModelFileError):
    """The folder no longer holds what the caller loaded: load it again, and append to that."""


class Journal(NamedTuple):
    """What a journal holds."""

    records: list[bytes]
    tip: str
    """The digest of the last entry, and so of all records: empty if there are none. `append` asks for it."""


def journal_name(manifest: str) -> str:
    """The name of the journal of the model with this manifest (its text)."""
    return f"journal-{manifest_checksum(manifest)[:16]}.log"


def is_journal(name: str) -> bool:
    """Whether this is the name of a journal, of whatever manifest."""
    return _NAME.fullmatch(name) is not None


def size(path: Path, manifest: str) -> int:
    """The bytes of the journal in the folder `path`; 0 if there is none."""
    try:
        return (path / journal_name(manifest)).stat().st_size
    except FileNotFoundError:
        return 0


def read(path: Path, manifest: str) -> Journal:
    """All complete records of the journal that belongs to this manifest, in order. Takes no lock."""
    content = _content(path, manifest)
    while True:
        try:
            found = _parsed(path, manifest, content)
            return Journal(found.records, found.tip)
        except ModelFileError:
            # While the file was read, an append may have replaced what a killed one had left.
            again = _content(path, manifest)
            if again.startswith(content):
                raise
            content = again


def append(path: Path, payloads: Sequence[bytes], *, manifest: str, known: str) -> str:
    """Add records to the model in the folder `path`, all or none; when it returns they are on the disk.

    Parameters
    ----------
    path : Path
        The folder of a saved model.
    payloads : sequence of bytes
        The records, opaque here.
    manifest : str
        The text of the manifest that the caller loaded or saved.
    known : str
        The tip of the journal as the caller knows it: from the load, or from the last append; "" after a save.

    Returns
    -------
    str
        The new tip.

    Raises
    ------
    Superseded
        The manifest or the journal on the disk is not the one that the caller knows.
    """
    manifest_text(path)  # refused before a folder is created for the lock
    failure = f"could not append to the model at {path}"
    try:
        with writing(path, failure) as alone:
            if not alone:
                raise ModelFileError(f"{failure}: its file system has no locks; save the model instead")
            found = check_unchanged(path, manifest, known, failure)
            return _extend(path / journal_name(manifest), manifest, found, payloads) if payloads else known
    except OSError as error:
        raise ModelFileError(f"{failure}: {error.strerror or error}; the model that was there is intact") from error


def check_unchanged(path: Path, manifest: str, known: str, failure: str) -> Parsed:
    """Refuse, with `Superseded`, a folder that was changed since it was loaded. For the holder of the lock."""
    text = manifest_text(path)
    parsed_manifest(path, text)
    if manifest_checksum(text) != manifest_checksum(manifest):
        raise Superseded(f"{failure}: another model was saved there meanwhile; load it again")
    found = _parsed(path, manifest, _content(path, manifest))
    if found.tip != known:
        raise Superseded(f"{failure}: its journal was changed meanwhile; load it again")
    return found


def remove(path: Path, manifest: str) -> None:
    """Remove the journal of a manifest, if there is one, and flush this to the disk. For the holder of the lock."""
    try:
        (path / journal_name(manifest)).unlink()
    except FileNotFoundError:
        return
    files.sync(path)


class Parsed(NamedTuple):
    """What the bytes of a journal hold."""

    records: list[bytes]
    tip: str
    end: int
    """Where the next entry begins; 0 without a complete header."""


def _header(manifest: str) -> bytes:
    return _MAGIC + bytes.fromhex(manifest_checksum(manifest))


def _content(path: Path, manifest: str) -> bytes:
    """The bytes of a journal; none where there is no such file."""
    name = journal_name(manifest)
    try:
        return (path / name).read_bytes()
    except OSError as error:
        if error.errno in (errno.ENOENT, getattr(errno, "ESTALE", None)):  # stale: removed by another machine
            return b""
        raise ModelFileError(f"{path}: {name} cannot be read ({error.strerror})") from error


def _parsed(path: Path, manifest: str, content: bytes) -> Parsed:
    header = _header(manifest)
    if not content.startswith(header):
        if header.startswith(content):
            return Parsed([], "", 0)
        raise damaged(path, "was altered: its journal is that of another model")
    view = memoryview(content)
    key = digest = header[len(_MAGIC) :]
    records: list[bytes] = []
    end = len(header)
    while end < len(content):
        body = _body(view, end, digest, key)
        if body is None:
            if _has_entry(content, end + 1, key):
                words = f"record {len(records) + 1} of its journal is not what was appended"
                raise damaged(path, f"was altered: {words}")
            break
        digest = _digest(digest, body)
        records += _split(path, body)
        end += _HEAD.size + len(body)
    return Parsed(records, "" if digest == key else digest.hex(), end)


def _body(view: memoryview, at: int, previous: bytes, key: bytes) -> memoryview | None:
    """The body of the entry that begins here; None if no entry does, or it is incomplete or wrong."""
    if not _is_head(view, at, key):
        return None
    _, length, digest, _ = _HEAD.unpack_from(view, at)
    body = view[at + _HEAD.size :][:length]
    return body if len(body) == length and _digest(previous, body) == digest else None


def _is_head(view: memoryview, at: int, key: bytes) -> bool:
    head = bytes(view[at : at + _HEAD.size])
    return len(head) == _HEAD.size and head.startswith(_MARKER) and head[-8:] == _check(head[:-8], key)


def _has_entry(content: bytes, start: int, key: bytes) -> bool:
    """Whether an entry begins anywhere from `start` on."""
    view = memoryview(content)
    at = content.find(_MARKER, start)
    while at >= 0:
        if _is_head(view, at, key):
            return True
        at = content.find(_MARKER, at + 1)
    return False


def _check(head: bytes, key: bytes) -> bytes:
    return hashlib.sha256(key + head).digest()[:8]


def _digest(previous: bytes, body: memoryview | bytes) -> bytes:
    state = hashlib.sha256(previous)
    state.update(body)
    return state.digest()


def _split(path: Path, body: memoryview) -> list[bytes]:
    """The records of an entry."""
    records = []
    at = 0
    while at < len(body):
        start = at + _LENGTH.size
        at = start + (_LENGTH.unpack_from(body, at)[0] if start <= len(body) else 0)
        if at > len(body):  # with the right checksum: somebody else's work
            raise damaged(path, "was altered: its journal cannot be read")
        records.append(bytes(body[start:at]))
    return records


def _extend(file: Path, manifest: str, found: Parsed, payloads: Sequence[bytes]) -> str:
    """Write one entry behind those that are complete, and flush it; a failure leaves the file as it was."""
    header = _header(manifest)
    key = header[len(_MAGIC) :]
    body = b"".join(part for payload in payloads for part in (_LENGTH.pack(len(payload)), payload))
    digest = _digest(bytes.fromhex(found.tip) or key, body)
    head = _HEAD.pack(_MARKER, len(body), digest, b"")[:-8]
    entry = head + _check(head, key) + body
    if not found.end:  # a new file: with its first entry, or not at all
        files.write(file, lambda opened: opened.write(header + entry))
        return digest.hex()
    # Not buffered: after a failure nothing may be written when the file is closed.
    with file.open("r+b", buffering=0) as opened:
        opened.truncate(found.end)  # what a killed append left
        opened.seek(found.end)
        try:
            rest = memoryview(entry)
            while rest:
                rest = rest[opened.write(rest) :]
            os.fsync(opened.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                opened.truncate(found.end)
                os.fsync(opened.fileno())
            raise
    return digest.hex()
