"""The work folder of a comparison: what children need to know, and every result as soon as it is there.

    work/
      data-1f0c…/            the interactions as arrays: children map them, no text is read twice
        indptr.npy  indices.npy  times.npy
      MSDW-77ab…/            one row: a model under one question
        task.json            what the child is to do
        fold-0.npy           values of each measure for each test user of the fold
        fold-0.json          means, seconds, peak memory; written last, so where it stands the result is whole
        failed.json  log.txt what the last attempt died of

A row's folder is named by a checksum of everything its figures depend on: the data, the split, the measures, the model
text and the komd that computes them. So another question in the same folder has other rows, and nothing mixes. Every
file is written aside, flushed and renamed: whatever is killed, what stands under its name is whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.files import array_fill, sweep, write

__all__ = ["FoldResult", "Question", "RowFolder", "fingerprint", "load_data", "row_folder", "store_data"]

_ARRAYS = ("indptr", "indices", "times")


@dataclass(frozen=True)
class Question:
    """What a comparison asks of every model."""

    folds: int
    half: str
    min_activity: int
    rng: int
    metrics: tuple[str, ...]
    ties: str


@dataclass(frozen=True)
class FoldResult:
    """What one model made of one fold.

    Attributes
    ----------
    means
        Of each measure.
    values
        Of each measure for each test user; empty for a measure that is one number for all.
    fit, rank
        Seconds.
    peak
        The most bytes the child had had in memory when it was done with the fold.
    """

    means: dict[str, float]
    values: dict[str, NDArray[np.float64]]
    test_users: int
    fit: float
    rank: float
    peak: int


@dataclass(frozen=True)
class RowFolder:
    """The folder of one row."""

    path: Path
    folds: int

    @property
    def task(self) -> Path:
        """What the child is to do."""
        return self.path / "task.json"

    @property
    def log(self) -> Path:
        """What the child had to say."""
        return self.path / "log.txt"

    def begin(self, task: dict[str, Any]) -> None:
        """Forget the last failure, write down the task."""
        self.path.mkdir(parents=True, exist_ok=True)
        sweep(self.path)
        self._failure.unlink(missing_ok=True)
        _keep(self.task, _json(task))

    def fail(self, reason: str) -> None:
        """Write down why the row failed."""
        _keep(self._failure, _json({"reason": reason}))

    @property
    def reason(self) -> str | None:
        """Why the child says it failed."""
        try:
            return str(json.loads(self._failure.read_text(encoding="utf-8"))["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, fold: int, result: FoldResult) -> None:
        """Write down a result."""
        by_user = [name for name, values in result.values.items() if len(values)]
        array = np.array([result.values[name] for name in by_user], np.float64).reshape(len(by_user), -1)
        facts = {
            "means": result.means,
            "by_user": by_user,
            "test_users": result.test_users,
            "fit": result.fit,
            "rank": result.rank,
            "peak": result.peak,
        }
        _keep(self._file(fold, "npy"), array_fill(array))
        _keep(self._file(fold, "json"), _json(facts))

    def has(self, fold: int) -> bool:
        """Whether a result stands there: cheap, and not a check that it can be read."""
        return self._file(fold, "json").exists()

    def load(self, fold: int) -> FoldResult | None:
        """The result of a fold; None where there is none, or none that can be read."""
        try:
            facts = json.loads(self._file(fold, "json").read_text(encoding="utf-8"))
            array = np.load(self._file(fold, "npy"), allow_pickle=False)
            rows = dict(zip(facts["by_user"], array, strict=True))
            if len(rows) and array.shape[1] != facts["test_users"]:
                return None
            means = {str(name): float(mean) for name, mean in facts["means"].items()}
            values = {name: rows.get(name, np.zeros(0)) for name in means}
            numbers = int(facts["test_users"]), float(facts["fit"]), float(facts["rank"]), int(facts["peak"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError):
            return None
        return FoldResult(means, values, *numbers)

    def results(self) -> list[FoldResult | None]:
        """The results of all folds, None where there is none yet; what cannot be read is put away."""
        found = [self.load(fold) for fold in range(self.folds)]
        for fold, result in enumerate(found):
            if result is None:
                self._file(fold, "json").unlink(missing_ok=True)
        return found

    @property
    def _failure(self) -> Path:
        return self.path / "failed.json"

    def _file(self, fold: int, suffix: str) -> Path:
        return self.path / f"fold-{fold}.{suffix}"


def row_folder(work: Path, data: str, question: Question, model: str) -> RowFolder:
    """Where the results of a model under a question on data of this fingerprint belong."""
    parts = [data, metadata.version("komd"), _code(), model, *(f"{k}={v}" for k, v in sorted(vars(question).items()))]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
    name = re.match(r"\w*", model)
    return RowFolder(work / f"{name.group() if name else ''}-{key}", question.folds)


def fingerprint(data: Interactions) -> str:
    """A checksum of who chose what, in which order and when; ids do not count."""
    digest = hashlib.sha256(repr((data.shape, data.times is not None)).encode())
    for array in (data.indptr, data.indices, data.times):
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:20]


def store_data(work: Path, data: Interactions, mark: str) -> Path:
    """Write the arrays of the data where children find them, unless they are there; returns their folder."""
    folder = work / f"data-{mark}"
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    for name in _ARRAYS:
        array = getattr(data, name)
        if array is not None and not (folder / f"{name}.npy").exists():
            _keep(folder / f"{name}.npy", array_fill(array))
    if not (folder / "shape.json").exists():
        _keep(folder / "shape.json", _json({"users": data.shape[0], "items": data.shape[1]}))
    return folder


def load_data(folder: Path) -> Interactions:
    """The interactions of a data folder, mapped; ids are numbers."""
    shape = json.loads((folder / "shape.json").read_text(encoding="utf-8"))
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in _ARRAYS
        if (folder / f"{name}.npy").exists()
    }
    users, items = Ids.range(shape["users"], noun="user"), Ids.range(shape["items"], noun="item")
    return Interactions(users, items, arrays["indptr"], arrays["indices"], arrays.get("times"))


def _keep(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole; an error names it."""
    try:
        write(path, fill)
    except OSError as error:
        raise InputError(f"could not write {path}: {error.strerror or error}") from error


def _json(value: object) -> Callable[[IO[bytes]], object]:
    return lambda file: file.write(json.dumps(value, indent=1).encode())


@cache
def _code() -> str:
    """A checksum of the code that figures come from: a changed komd of the same version computes anew."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in ("_core", "interactions", "kernels", "models"):
        for path in sorted((root / part).rglob("*.py")):
            digest.update(path.read_bytes())
    for path in (root / "evaluation" / "evaluate.py", root / "evaluation" / "metrics.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()
