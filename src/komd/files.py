"""Files and folders that must not outlive an interrupted run."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["discard_unfinished", "unfinished"]

_unfinished: set[Path] = set()


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A file or folder that is removed in the end, unless it was renamed; also if the process has to leave abruptly."""
    _unfinished.add(path)
    try:
        yield path
    finally:
        _remove(path)
        _unfinished.discard(path)


def discard_unfinished() -> None:
    """Remove all of them now: for a process that ends without unwinding."""
    for path in list(_unfinished):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
