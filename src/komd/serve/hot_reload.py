"""The model in use, and how a new one replaces it without interrupting requests.

The folder is checked every second. When anything in it has changed, the new model is loaded and tried in a thread,
while the old one serves; then it replaces the old one by one assignment. A request keeps the snapshot it began with. A
model that cannot be loaded is refused and the old one stays, until the folder changes again.

So is one that has lost most of its users or items, unless the service was told that it may (`model_size.py`).

With a learner beside the service, the folder is the one in which it publishes: nothing else writes there, so checksums
are not checked, and `learned` says which commits of the store the model in use has.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from komd import store
from komd.errors import InputError, KomdError, ModelFileError
from komd.serve.candidate_masks import ItemRules
from komd.serve.item_names import read_names
from komd.serve.model_size import ModelSize
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.path_names import names_only
from komd.serve.publication import LearnedState, Publication, folder_version, model_version

__all__ = ["ModelWatcher"]

Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]

_TURN = 0.0005  # seconds that a thread keeps the GIL while others wait; 0.005 by default
_KEPT = 0.5  # seconds that a model is kept after it was replaced: longer than requests take

log = logging.getLogger("komd.serve")


class ModelWatcher:
    """The model of a folder: `current` is always the newest that works."""

    def __init__(
        self,
        folder: Path,
        items: Path | None = None,
        publication: Publication | None = None,
        *,
        images: str | None = None,
        allow_shrink: bool = False,
        rules: ItemRules | None = None,
    ) -> None:
        self._folder = folder if publication is None else publication.model
        self._items = items
        self._images = images
        self._publication = publication
        self._allow_shrink = allow_shrink or publication is not None  # the learner checks what it learns from
        self._rules = ItemRules() if rules is None else rules
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self._table_signature: Signature | None = None
        self._refused_table: Signature | None = None
        self._checked = self._signature()
        self._retired: list[tuple[float, ModelSnapshot]] = []
        self.reloads = 0
        """How many models have replaced another."""
        self.refusals = 0
        """How many were refused."""
        self.current = self._load(None)
        self.learned: LearnedState | None = None
        """What the model in use has learned, at least; None without a learner."""
        self._read_learned()
        if publication is not None and self.learned is None and (state := publication.state()) is not None:
            # A model is being published at this moment: nothing is known of this one but what it is learned from.
            self.learned = state._replace(seq=0, unlearned_seq=0)

    @property
    def release(self) -> str:
        """The version of the model that was saved to the folder: updates, and what was learned since, are not in it."""
        return self.current.release if self.learned is None else self.learned.base

    @property
    def reported_release(self) -> str:
        """What reports call the model: users who are unlearned from the folder do not make it another one."""
        return self.current.release if self.learned is None else self.learned.release

    def _read_learned(self) -> None:
        """What was said of another version, older or newer, is not known of the model in use."""
        state = None if self._publication is None else self._publication.state()
        if state is not None and state.version == self.current.version:
            if state.refused and (self.learned is None or state.refused != self.learned.refused):
                self.refusals += 1
            self.learned = state

    def _signature(self) -> Signature:
        """The version of the model; size, time and inode of each file it names and of the table of names."""
        files = [self._items] if self._items else []
        manifest = b""
        try:
            manifest = (self._folder / "manifest.json").read_bytes()
            if self._publication is None:
                files += [self._folder / name for name in store.named_files(manifest.decode())]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass  # loading it will report what is wrong
        found = [(folder_version(self._folder, manifest), 0, 0, 0)]
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
            manifest = (folder / "manifest.json").read_bytes()
        except OSError:
            manifest = b""  # loading will report what is missing
        table, table_signature = self._read_table(before)
        trusted, version = self._publication is not None, folder_version(folder, manifest)
        snapshot = ModelSnapshot.load(folder, version, table, before, trusted=trusted, rules=self._rules)
        snapshot.release = model_version(manifest)
        if self._items is not None and not snapshot.names.known:
            raise InputError(
                f"{self._items} names none of the model's {len(snapshot.catalogue.items):,} items (ids like "
                f"{snapshot.about()['example_item']!r})"
            )
        if before is not None and not self._allow_shrink:
            ModelSize.of(before.model).check_successor(ModelSize.of(snapshot.model))
        self._table, self._table_signature = table, table_signature
        return snapshot

    def _read_table(self, before: ModelSnapshot | None) -> tuple[pa.Table | None, Signature | None]:
        """The table of names as it is now, and its signature.

        A learner publishes a model every second, and they must reach the lists: one table that cannot be used is
        reported once, and the old one stays.
        """
        if self._items is None:
            return None, None
        signature = tuple(entry for entry in self._signature() if entry[0] == str(self._items))
        if signature in (self._refused_table, self._table_signature or None):
            return self._table, self._table_signature
        try:
            table = read_names(self._items, self._images)
            try:
                self._rules.check(table)
            except InputError as error:
                raise InputError(f"{self._items.name}: {error}") from None
        except KomdError as error:
            if self._publication is None or before is None:
                raise
            self._refused_table = signature
            self.refusals += 1
            log.warning("the new names are refused and the old ones stay: %s", names_only(str(error), self._items))
            return self._table, self._table_signature
        self._refused_table = None
        return table, signature

    def reload(self) -> ModelSnapshot:
        """Load the model that is in the folder now. Raises, and keeps the old one, when it cannot be used."""
        with self._lock, _short_turns() if self._publication is not None else contextlib.nullcontext():
            signature = self._signature()
            try:
                snapshot = self._load(self.current)
            except Exception as error:  # whatever is wrong with it: the old one works
                self.refusals += 1
                words = str(error) if isinstance(error, KomdError) else f"{self._folder.name} cannot be used: {error}"
                raise ModelFileError(names_only(words, self._folder, self._items)) from error
            finally:
                self._checked = signature
            self._retired.append((time.monotonic(), self.current))
            self.current = snapshot
            self.reloads += 1
            level = logging.INFO if self._publication is None else logging.DEBUG  # they come every second
            log.log(level, "loaded model %s: %s", snapshot.version, snapshot.model.text)
            return snapshot

    def refused(self) -> str:
        """Why the learner does not learn from the model in the folder; empty if it does, and without a learner."""
        self._read_learned()
        return "" if self.learned is None else self.learned.refused

    def _in_use(self, signature: Signature) -> bool:
        """Whether the folder has the model in use with the names in use."""
        names = tuple(entry for entry in signature if entry[0] == str(self._items))
        return signature[0][0] == self.current.version and names == (self._table_signature or ())

    def refresh(self) -> bool:
        """Check the folder, and load the model if it is new. Returns whether the model changed."""
        changed = self._refresh_model()
        self._read_learned()
        self._release()
        return changed

    def reread(self) -> None:
        """Read the table of names again, and the model if it is new, whether or not the files look changed."""
        if self._items is None:
            self.refresh()
            return
        self._table_signature = self._refused_table = None
        try:
            self.reload()
        except KomdError as error:
            log.warning("the names are not read again, and the old ones stay: %s", error)

    def _release(self) -> None:
        """Release the models that were replaced a while ago, so that it is not left to the last request that used one.

        The system takes up to a tenth of a second to free a large file that was removed and is not mapped any more.
        """
        latest = time.monotonic() - _KEPT
        self._retired = [(when, model) for when, model in self._retired if when > latest]

    def _refresh_model(self) -> bool:
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


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads that answer requests wait for the GIL as briefly as can be while a model is loaded beside them."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
