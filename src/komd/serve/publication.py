"""The folder in which a learner publishes its models, and from which the workers of the service load them.

    komd-learn-<process>-…/     private to the service, removed at its end
      model.komd/               the last model, as any saved model
      learned.json              which commits of the store it has

The model is replaced first and `learned.json` then: what it says of a version holds of the model of that version.
Neither is flushed to the disk. The next service learns from the model folder and the store again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from komd import files, journal, store
from komd.engine.recommender import Recommender
from komd.engine.saved_catalogue import catalogue_arrays

__all__ = ["LearnedState", "Publication", "folder_version", "model_version", "publication_folder"]

_VERSION = 12  # letters of the manifest's checksum that name a version
_FOLDER = re.compile(r"komd-learn-(\d+)-\w+")


class LearnedState(NamedTuple):
    """What a published model has learned."""

    version: str
    """Of the model."""
    seq: int
    """The number of the last commit of the store that it has."""
    unlearned_seq: int
    """The number of the last commit whose forgotten users are not in the model folder either."""
    at: float
    """When that was reached: seconds since 1970."""
    skipped: int
    """How many changes could not be learned."""
    events: int
    """How many changes the learner has read since it started."""
    publications: int
    """How many models it has published."""
    base: str = ""
    """The version of the model in the folder that is learned from."""
    base_users: int = 0
    base_items: int = 0
    refused: str = ""
    """Why the model in the folder is not learned from, but an older one; empty if it is."""
    release: str = ""
    """The version of the model in the folder before the learner unlearned users from it: what reports call it."""


class Publication:
    """The folder of one service."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "model.komd"
        self._state = folder / "learned.json"

    def write_model(self, model: Recommender) -> str:
        """Publish a model; returns its version."""
        arrays, ids = catalogue_arrays(model.catalogue)
        learned = model.learned_arrays()
        store.save(self.model, model=model.text, arrays=arrays | learned, ids=ids, durable=False)
        return model_version(store.manifest_text(self.model).encode())

    def write_state(self, state: LearnedState) -> None:
        """Say what the model has learned."""
        files.write_text(self._state, json.dumps(state._asdict()), durable=False)

    def state(self) -> LearnedState | None:
        """What was said last; None before the first model."""
        try:
            return LearnedState(**json.loads(self._state.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


def model_version(manifest: bytes) -> str:
    """The name of the version of a model, from its manifest."""
    return hashlib.sha256(manifest).hexdigest()[:_VERSION]


def folder_version(folder: Path, manifest: bytes) -> str:
    """The version of the model with this manifest and what was appended to its journal."""
    appended = 0
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        appended = journal.size(folder, manifest.decode())
    return model_version(manifest + b"%d" % appended if appended else manifest)


@contextlib.contextmanager
def publication_folder() -> Iterator[Path]:
    """A new private folder, removed at the end. Those of services that were killed are removed first."""
    parent = Path(tempfile.gettempdir())
    for path in parent.glob("komd-learn-*"):
        left = _FOLDER.fullmatch(path.name)
        if left and not _running(int(left[1])):
            shutil.rmtree(path, ignore_errors=True)
    with files.temporary_folder(f"komd-learn-{os.getpid()}-") as folder:
        yield folder


def _running(process: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(process))
