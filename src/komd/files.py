"""Atomic replace of files, checksums, and a lock for one writer at a time.

A file is written under a temporary name beside its place, flushed to the disk, and renamed over its place in one step:
it exists completely or not at all. Temporary names are unique among threads, processes and machines. Files that must
not outlive an interrupted run are remembered until they are renamed or removed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "LockHeld",
    "array_fill",
    "checksum",
    "discard",
    "discard_unfinished",
    "is_temporary",
    "locked",
    "readable_by_others",
    "replace",
    "sweep",
    "sync",
    "temporary_folder",
    "write",
    "write_aside",
    "write_text",
]

_TEMPORARY = re.compile(r"\..+\.(\d+)-[0-9a-f]{8}\.tmp")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)  # errors of a lock that another holds
_POLL = 0.02  # seconds between two tries of a lock or, on Windows, of a rename

_unfinished: set[Path] = set()

Fill = Callable[[IO[bytes]], object]


class LockHeld(Exception):
    """Another process or thread holds the lock."""


def write(path: Path, fill: Fill, *, durable: bool = True, private: bool = False) -> None:
    """Write a file: whatever fails, `path` holds all of the new content or is as it was.

    A file that need not be `durable` is not flushed to the disk: it may be lost if the machine fails. A `private` one
    can be read by its owner alone.
    """
    replace(write_aside(path, fill, durable=durable, private=private), path)
    if durable:
        sync(path.parent)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """`write`, of a text in UTF-8."""
    write(path, lambda file: file.write(text.encode()), durable=durable)


def array_fill(array: NDArray[np.generic]) -> Fill:
    """For `write`: an array in numpy's format, row by row."""
    import numpy as np

    plain = np.ascontiguousarray(array)
    if plain.dtype.hasobject:
        raise ValueError("an array of Python objects: only numbers are saved")

    def fill(file: IO[bytes]) -> None:
        np.lib.format.write_array_header_2_0(file, np.lib.format.header_data_from_array_1_0(plain))
        if plain.size:  # by Python's own write, which names a full disk; numpy's does not
            file.write(plain.data.cast("B"))

    return fill


def write_aside(path: Path, fill: Fill, *, durable: bool = True, private: bool = False) -> Path:
    """Write a file under a temporary name beside `path`, flushed; returns that name, for `replace` or `discard`."""
    aside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    _unfinished.add(aside)
    try:
        with os.fdopen(os.open(aside, _NEW, 0o600), "wb") if private else aside.open("wb") as file:
            fill(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        discard(aside)
        raise
    return aside


def replace(aside: Path, path: Path) -> None:
    """Rename a file that was written aside to its place; on failure it is removed."""
    patience = time.monotonic() + (2.0 if sys.platform == "win32" else 0.0)
    try:
        while True:
            try:
                aside.replace(path)
                return
            except PermissionError:  # Windows refuses while the old file is being read
                if time.monotonic() >= patience:
                    raise
                time.sleep(_POLL)
    finally:
        discard(aside)


def sync(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system supports it."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def checksum(file: Path | IO[bytes]) -> str:
    """The SHA-256 of a file, of an open one from its position on, in hexadecimal digits."""
    if isinstance(file, Path):
        with file.open("rb") as source:
            return checksum(source)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def readable_by_others(path: Path) -> bool:
    """Whether other accounts may read a file. Windows does not say so in a file's mode: there, never."""
    return sys.platform != "win32" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def is_temporary(name: str) -> bool:
    """Whether this is the name of a file that `write` is writing, or left behind when its process was killed."""
    return _TEMPORARY.fullmatch(name) is not None


def sweep(folder: Path) -> None:
    """Remove the temporary files of processes that no longer run on this machine."""
    for path in folder.iterdir():
        half = _TEMPORARY.fullmatch(path.name)
        if half:
            import psutil

            if not psutil.pid_exists(int(half.group(1))):
                _remove(path)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder that is removed at the end; also if Ctrl-C ends the process abruptly."""
    path = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(8)}"
    _unfinished.add(path)  # before it is made: a signal may come between any two statements
    try:
        path.mkdir(mode=0o700)
        yield path
    finally:
        discard(path)


def discard(path: Path) -> None:
    """Remove a file or folder, if it is still there, and forget it."""
    _remove(path)
    _unfinished.discard(path)


def discard_unfinished() -> None:
    """Remove all unfinished files now: for a process that ends without unwinding."""
    for path in list(_unfinished):
        _remove(path)


@contextlib.contextmanager
def locked(path: Path, *, wait: float = 0.0) -> Iterator[bool]:
    """Hold the lock file `path`, alone among threads and processes, and machines where the file system passes locks on.

    Its folder is created if need be. The operating system frees the lock of a process that ends, however it ends; the
    file is removed after use. Yields whether the lock is held: where the file system has no locks it is not, and others
    may be inside too. Raises LockHeld when another has held it for `wait` seconds.
    """
    held = _acquire(path, time.monotonic() + wait)
    try:
        yield held is not None
    finally:
        # Removed while it is held: who waits for this file sees that it is gone, and opens the next.
        _remove(path)
        if held is not None:
            _unlock(held)
            os.close(held)


def _acquire(path: Path, until: float) -> int | None:
    """The open lock file; None where there are no locks."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            opened = _open(path)
        except FileNotFoundError:  # the folder was removed by a save that failed
            continue
        mine = False
        try:
            _lock(opened)
            mine = _same(opened, path)
        except OSError as error:
            if error.errno not in _HELD:
                return None
            if time.monotonic() >= until:
                raise LockHeld(f"{path} is held by another process or thread") from None
            time.sleep(_POLL)
        finally:
            if not mine:
                os.close(opened)
        if mine:
            return opened


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY)  # another account's file: to lock it, it need not be writable


def _same(opened: int, path: Path) -> bool:
    """Whether an open file is still the one under this name."""
    try:
        return os.path.samestat(os.fstat(opened), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(opened: int) -> None:
        msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)

    def _unlock(opened: int) -> None:
        msvcrt.locking(opened, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_UN)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
