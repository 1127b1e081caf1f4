"""The model in use, and how another takes its place without a request noticing.

The folder is looked at every second. When anything in it has changed, the model there is loaded and tried beside the
old one, in a thread; only then does it replace it, by one assignment. A request keeps the model it began with. A model
that cannot be loaded is refused, the old one stays, and the folder is looked at again when it changes again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from komd.errors import InputError, KomdError, ModelFileError
from komd.serve.item_names import read_names
from komd.serve.model_snapshot import Shelf

__all__ = ["Live"]

Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]

_VERSION = 12  # letters of the manifest's checksum that name a version

log = logging.getLogger("komd.serve")


class Live:
    """The model of a folder, always the newest that works."""

    def __init__(self, folder: Path, items: Path | None = None) -> None:
        self._folder = folder
        self._items = items
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self._table_seen: Signature | None = None
        self._seen = self._look()
        self.taken = 0
        """How many models have taken the place of another."""
        self.refused = 0
        """How many were refused."""
        self.current = self._load(None)

    def _look(self) -> Signature:
        """The manifest, and size, time and inode of each file it names and of the table of names."""
        files = [self._items] if self._items else []
        manifest = b""
        try:
            manifest = (self._folder / "manifest.json").read_bytes()
            files += [self._folder / str(entry["file"]) for entry in json.loads(manifest)["files"].values()]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass  # loading it will say what is wrong
        seen = [(hashlib.sha256(manifest).hexdigest(), 0, 0, 0)]
        for file in files:
            try:
                about = file.stat()
            except (OSError, ValueError):
                continue
            seen.append((str(file), about.st_size, about.st_mtime_ns, about.st_ino))
        return tuple(seen)

    def _load(self, before: Shelf | None) -> Shelf:
        folder = self._folder.resolve()  # a link may be turned to another folder meanwhile
        try:
            version = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()[:_VERSION]
        except OSError:
            version = ""  # load says what is missing
        if self._items is not None:
            seen = tuple(entry for entry in self._look() if entry[0] == str(self._items))
            if seen != self._table_seen or not seen:
                self._table = read_names(self._items)
                self._table_seen = seen
        shelf = Shelf.load(folder, version, self._table, before)
        if self._items is not None and not shelf.names.known:
            raise InputError(
                f"{self._items} names none of the model's {len(shelf.catalogue.items):,} items (ids like "
                f"{shelf.about()['example_item']!r})"
            )
        return shelf

    def reload(self) -> Shelf:
        """Take up the model that is in the folder now. Raises, and keeps the old one, when it cannot be used."""
        with self._lock:
            seen = self._look()
            try:
                shelf = self._load(self.current)
            except KomdError:
                self.refused += 1
                raise
            except Exception as error:  # whatever is wrong with it: the old one works
                self.refused += 1
                raise ModelFileError(f"the model in {self._folder.name} cannot be used: {error}") from error
            finally:
                self._seen = seen
            self.current = shelf
            self.taken += 1
            log.info("took up model %s: %s", shelf.version, shelf.model.text)
            return shelf

    def _in_use(self, seen: Signature) -> bool:
        """Whether what lies there is the model in use with the names in use."""
        names = tuple(entry for entry in seen if entry[0] == str(self._items))
        return seen[0][0][:_VERSION] == self.current.version and names == (self._table_seen or ())

    def refresh(self) -> bool:
        """Look at the folder, and take up what is new. Returns whether the model changed."""
        seen = self._look()
        if seen == self._seen:
            return False
        if self._in_use(seen):  # a save under way writes some files again before it changes the manifest
            self._seen = seen
            return False
        try:
            self.reload()
        except KomdError as error:
            log.warning("the new model is refused and %s stays: %s", self.current.version, error)
            return False
        return True
