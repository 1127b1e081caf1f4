"""A model folder that executors can memory-map: on storage that all of them mount, or shipped to each by Spark."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark import SparkContext, SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from komd import journal, store
from komd.engine.recommender import Recommender
from komd.errors import InputError, ModelFileError
from komd.models.registry import load

__all__ = ["Folder", "check_executors", "context_of", "folder_beside", "save_and_ship", "ship"]

_NUMBERED = re.compile(r"(.+)-([0-9]+)")


@dataclass(frozen=True)
class Folder:
    """Where executors find a saved model: at a `path` that all of them mount or, without one, among Spark's own files.

    `manifest` is the text of the model's manifest: it names every file by its checksum.
    """

    manifest: str
    path: str | None = None

    def here(self) -> Path:
        """The folder on this executor."""
        if self.path is not None:
            found = Path(self.path)
            name = f"{socket.gethostname()} (pid {os.getpid()})"
            if not (found / store.MANIFEST).is_file():
                raise ModelFileError(
                    f"executor {name} cannot see the model folder {found}; put it on storage that every executor "
                    "mounts, or leave sharedFolder out to have Spark ship it"
                )
            if store.manifest_text(found) != self.manifest:
                raise ModelFileError(f"executor {name} sees another model at {found} than the driver does")
            return found
        return Path(SparkFiles.getRootDirectory()).absolute()  # all files that Spark shipped

    def on_driver(self) -> Path:
        """The folder on the driver."""
        return _stage() if self.path is None else Path(self.path)


def ship(context: SparkContext, path: Path, *, shared: bool) -> Folder:
    """Make a saved model known to executors.

    Executors map the arrays and read no journal: a model with updates in its journal is saved anew, with all of them
    taken in, and shipped by Spark, even where the folder is shared.
    """
    manifest = store.manifest_text(path)
    if journal.size(path, manifest):
        return save_and_ship(context, load(path))
    if shared:
        return Folder(manifest, str(path.absolute()))
    try:
        staged = [_staged(path / name) for name in store.named_files(manifest)]
    except FileNotFoundError as error:
        if store.manifest_text(path) != manifest:  # a save has replaced the model in the meantime
            return ship(context, path, shared=shared)
        raise ModelFileError(f"{path} is incomplete: {error.filename} is missing; save the model again") from error
    for file in staged:
        context.addFile(str(file))
    return Folder(manifest)


def save_and_ship(context: SparkContext, model: Recommender, shared: Path | None = None) -> Folder:
    """Save a model to a `shared` folder, or to a temporary one, and make it known to executors."""
    with tempfile.TemporaryDirectory(prefix="komd-model-") as temporary:
        path = shared or Path(temporary) / "model"
        model.save(path)
        return ship(context, path, shared=shared is not None)


def folder_beside(path: Path) -> Path:
    """A new empty folder beside that of a model on shared storage: the next of plays.komd, plays-2.komd, …"""
    numbered = _NUMBERED.fullmatch(path.stem)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (path.stem, 1)
    while True:
        number += 1
        found = path.with_name(f"{stem}-{number}{path.suffix}")
        try:
            found.mkdir()  # which no other driver can have made
            return found
        except FileExistsError:
            continue
        except OSError as error:
            raise ModelFileError(
                f"could not make the folder {found} for the updated model: {error.strerror}; choose another with "
                "sharedFolder"
            ) from error


def _staged(file: Path) -> Path:
    staged = _stage() / file.name
    if not staged.exists():
        try:
            os.link(file, staged)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, or one without links
            shutil.copyfile(file, staged)
    return staged


@cache
def _stage() -> Path:
    """The folder from which Spark ships files, until this process ends.

    Frames are lazy: they may be computed after the model object or its folder is gone. Spark identifies a file by its
    name, so files with the same name, which have the same content, must always come from the same folder.
    """
    path = Path(tempfile.mkdtemp(prefix="komd-spark-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def context_of(session: SparkSession) -> SparkContext:
    """The context of a session; Spark Connect has none."""
    try:
        return session.sparkContext
    except Exception as error:
        raise InputError(
            "komd.spark needs a classic Spark session, not Spark Connect: it ships the model's files to executors; "
            "build the session with .master(...) instead of .remote(...)"
        ) from error


def check_executors(context: SparkContext, folder: Folder | None = None) -> None:
    """Raise InputError if executors lack komd or what it needs, have another version, or do not see the folder."""
    from importlib import metadata

    version, parts = metadata.version("komd"), None if folder is None else (folder.manifest, folder.path)

    # Sent by value, with imports inside: it must run where komd cannot be imported, so no object of ours goes with it.
    def check(_: object) -> list[str]:
        import socket
        import sys

        where = f"executor {socket.gethostname()} ({sys.executable})"
        for name in ("numpy", "pyarrow", "numba", "scipy", "komd"):
            try:
                __import__(name)
            except ImportError as error:
                return [f"{where} has no {name}: {error}; install komd[spark] where its Python runs"]
        from importlib import metadata

        if metadata.version("komd") != version:
            return [f"{where} has komd {metadata.version('komd')}, the driver {version}; install the same"]
        from komd.errors import KomdError
        from komd.spark.executor_tasks import settle
        from komd.spark.model_folder import Folder

        settle()
        try:
            if parts is not None:
                Folder(*parts).here()
        except KomdError as error:
            return [str(error)]
        return []

    slots = max(2, context.defaultParallelism) * 2
    try:
        problems = set(context.parallelize(range(slots), slots).mapPartitions(check).collect())
    except PySparkException as error:
        raise InputError(f"executors cannot run Python work: {error}") from error
    if problems:
        raise InputError("; ".join(sorted(problems)[:3]))
