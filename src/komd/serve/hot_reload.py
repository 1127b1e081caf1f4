"""The model in use, and how a new one replaces it without interrupting requests.

The folder is checked every second. When anything in it has changed, the new model is loaded and tried in a thread,
while the old one serves; then it replaces the old one by one assignment. A request keeps the snapshot it began with. A
model that cannot be loaded is refused and the old one stays, until the folder changes again.
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
from komd.serve.model_snapshot import ModelSnapshot

__all__ = ["ModelWatcher"]

Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]

_VERSION = 12  # letters of the manifest's checksum that name a version

log = logging.getLogger("komd.serve")


class ModelWatcher:
    """The model of a folder: `current` is always the newest that works."""

    def __init__(self, folder: Path, items: Path | None = None) -> None:
        self._folder = folder
        self._items = items
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self._table_signature: Signature | None = None
        self._checked = self._signature()
        self.reloads = 0
        """How many models have replaced another."""
        self.refusals = 0
        """How many were refused."""
        self.current = self._load(None)

    def _signature(self) -> Signature:
        """The checksum of the manifest; size, time and inode of each file it names and of the table of names."""
        files = [self._items] if self._items else []
        manifest = b""
        try:
            manifest = (self._folder / "manifest.json").read_bytes()
            files += [self._folder / str(entry["file"]) for entry in json.loads(manifest)["files"].values()]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass  # loading it will report what is wrong
        found = [(hashlib.sha256(manifest).hexdigest(), 0, 0, 0)]
        for file in files:
            try:
                about = file.stat()
            except (OSError, ValueError):
                continue
            found.append((str(file), about.st_size, about.st_mtime_ns, about.st_ino))
        return tuple(found)

    def _load(self, before: ModelSnapshot | None) -> ModelSnapshot:
        folder = self._folder.resolve()  # a link may be changed to another folder meanwhile
        try:
            version = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()[:_VERSION]
        except OSError:
            version = ""  # loading will report what is missing
        if self._items is not None:
            signature = tuple(entry for entry in self._signature() if entry[0] == str(self._items))
            if signature != self._table_signature or not signature:
                self._table = read_names(self._items)
                self._table_signature = signature
        snapshot = ModelSnapshot.load(folder, version, self._table, before)
        if self._items is not None and not snapshot.names.known:
            raise InputError(
                f"{self._items} names none of the model's {len(snapshot.catalogue.items):,} items (ids like "
                f"{snapshot.about()['example_item']!r})"
            )
        return snapshot

    def reload(self) -> ModelSnapshot:
        """Load the model that is in the folder now. Raises, and keeps the old one, when it cannot be used."""
        with self._lock:
            signature = self._signature()
            try:
                snapshot = self._load(self.current)
            except KomdError:
                self.refusals += 1
                raise
            except Exception as error:  # whatever is wrong with it: the old one works
                self.refusals += 1
                raise ModelFileError(f"the model in {self._folder.name} cannot be used: {error}") from error
            finally:
                self._checked = signature
            self.current = snapshot
            self.reloads += 1
            log.info("loaded model %s: %s", snapshot.version, snapshot.model.text)
            return snapshot

    def _in_use(self, signature: Signature) -> bool:
        """Whether the folder has the model in use with the names in use."""
        names = tuple(entry for entry in signature if entry[0] == str(self._items))
        return signature[0][0][:_VERSION] == self.current.version and names == (self._table_signature or ())

    def refresh(self) -> bool:
        """Check the folder, and load the model if it is new. Returns whether the model changed."""
        signature = self._signature()
        if signature == self._checked:
            return False
        if self._in_use(signature):  # an unfinished save writes some files again before it changes the manifest
            self._checked = signature
            return False
        try:
            self.reload()
        except KomdError as error:
            log.warning("the new model is refused and %s stays: %s", self.current.version, error)
            return False
        return True
