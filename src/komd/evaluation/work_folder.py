"""The work folder of a comparison: the data and the tasks of child processes, and every fold's result.

    work/
      data-1f0c…/            the interactions as memory-mapped arrays: text is parsed once
        indptr.npy  indices.npy  times.npy  weights.npy  shape.json
        dislikes/            the same of the dislikes, where there are any
      MSDW-77ab…/            one row: a model under one protocol
        task.json            the task of the child process
        fold-0.npy           values of each metric for each test user of the fold
        fold-0.json          means, seconds, peak memory; written last: where it exists the result is complete
        failed.json  log.txt why the last attempt failed

A row's folder is named by a checksum of everything its results depend on: the data, the split, the metrics, the model
text and the code of komd. So rows of different protocols can share a work folder. Files are replaced atomically: a
process that is killed leaves no incomplete file.
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

__all__ = [
    "ComparisonProtocol",
    "FoldResult",
    "RowFolder",
    "fingerprint",
    "kept_folder",
    "load_data",
    "row_folder",
    "store_data",
]

_ARRAYS = ("indptr", "indices", "times", "weights")
_DISLIKES = "dislikes"


@dataclass(frozen=True)
class ComparisonProtocol:
    """How every model of a comparison is evaluated."""

    folds: int
    half: str
    min_activity: int
    rng: int
    metrics: tuple[str, ...]
    ties: str


@dataclass(frozen=True)
class FoldResult:
    """The result of one model on one fold.

    Attributes
    ----------
    means
        Of each metric.
    values
        Of each metric for each test user; empty for a metric that is one number for all users.
    fit, rank
        Seconds.
    peak
        The peak memory of the child process, in bytes, up to the end of the fold.
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
        """The task of the child process."""
        return self.path / "task.json"

    @property
    def log(self) -> Path:
        """The output of the child process."""
        return self.path / "log.txt"

    def begin(self, task: dict[str, Any]) -> None:
        """Remove the last failure and write the task."""
        self.path.mkdir(parents=True, exist_ok=True)
        sweep(self.path)
        self._failure.unlink(missing_ok=True)
        _write(self.task, _json(task))

    def fail(self, reason: str) -> None:
        """Write why the row failed."""
        _write(self._failure, _json({"reason": reason}))

    @property
    def reason(self) -> str | None:
        """Why the row failed, if it did."""
        try:
            return str(json.loads(self._failure.read_text(encoding="utf-8"))["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, fold: int, result: FoldResult) -> None:
        """Write the result of a fold."""
        by_user = [name for name, values in result.values.items() if len(values)]
        array = np.array([result.values[name] for name in by_user], np.float64).reshape(len(by_user), -1)
        facts = {name: fact for name, fact in vars(result).items() if name != "values"} | {"by_user": by_user}
        _write(self._file(fold, "npy"), array_fill(array))
        _write(self._file(fold, "json"), _json(facts))

    def has(self, fold: int) -> bool:
        """Whether there is a result; does not check that it can be read."""
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

    def done(self) -> list[FoldResult]:
        """The results of the folds that are done; those that cannot be read are removed."""
        found = {fold: self.load(fold) for fold in range(self.folds)}
        for fold, result in found.items():
            if result is None:
                self._file(fold, "json").unlink(missing_ok=True)
        return [result for result in found.values() if result is not None]

    @property
    def _failure(self) -> Path:
        return self.path / "failed.json"

    def _file(self, fold: int, suffix: str) -> Path:
        return self.path / f"fold-{fold}.{suffix}"


def kept_folder(keep: str | Path) -> Path:
    """The folder `keep`, created if it does not exist."""
    path = Path(keep)
    if path.exists() and not path.is_dir():
        raise InputError(f"keep must be a folder, and {path} is a file")
    path.mkdir(parents=True, exist_ok=True)
    return path


def row_folder(work: Path, data: str, protocol: ComparisonProtocol, model: str) -> RowFolder:
    """The folder for the results of a model under a protocol, on data with this fingerprint."""
    settings = (f"{k}={v}" for k, v in sorted(vars(protocol).items()))
    parts = "\n".join([data, metadata.version("komd"), _code_checksum(), model, *settings])
    key = hashlib.sha256(parts.encode()).hexdigest()[:20]
    name = re.split(r"\W", model)[0]
    return RowFolder(work / f"{name}-{key}", protocol.folds)


def fingerprint(data: Interactions) -> str:
    """A checksum of the pairs, their order, times, weights and dislikes; ids do not count, and splits drop `seen`."""
    digest = hashlib.sha256(repr((data.shape, data.times is not None)).encode())
    for array in (data.indptr, data.indices, data.times):
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    # What data may have besides is added where it has it: the checksum of other data stays what it was.
    if data.time_unit is not None:
        digest.update(f"time_unit {data.time_unit}".encode())
    if data.weights is not None:
        digest.update(b"weights")
        digest.update(np.ascontiguousarray(data.weights).data)
    if data.dislikes is not None:
        digest.update(f"dislikes {fingerprint(data.dislikes)}".encode())
    return digest.hexdigest()[:20]


def store_data(work: Path, data: Interactions, checksum: str) -> Path:
    """Write the arrays of the data for child processes, unless they exist; returns their folder."""
    return _stored(work / f"data-{checksum}", data)


def _stored(folder: Path, data: Interactions) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    for name in _ARRAYS:
        array = getattr(data, name)
        if array is not None and not (folder / f"{name}.npy").exists():
            _write(folder / f"{name}.npy", array_fill(array))
    if data.dislikes is not None:
        _stored(folder / _DISLIKES, data.dislikes)
    if not (folder / "shape.json").exists():
        shape = {"users": data.shape[0], "items": data.shape[1]}
        _write(folder / "shape.json", _json(shape | ({"time_unit": data.time_unit} if data.time_unit else {})))
    return folder


def load_data(folder: Path) -> Interactions:
    """The interactions of a data folder, memory-mapped; ids are numbers, and pairs that were only seen are left out."""
    shape = json.loads((folder / "shape.json").read_text(encoding="utf-8"))
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in _ARRAYS
        if (folder / f"{name}.npy").exists()
    }
    users, items = Ids.range(shape["users"], noun="user"), Ids.range(shape["items"], noun="item")
    dislikes = load_data(folder / _DISLIKES) if (folder / _DISLIKES).is_dir() else None
    rest = {"weights": arrays.get("weights"), "time_unit": shape.get("time_unit"), "dislikes": dislikes}
    return Interactions(users, items, arrays["indptr"], arrays["indices"], arrays.get("times"), **rest)


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Replace a file atomically; an error names it."""
    try:
        write(path, fill)
    except OSError as error:
        raise InputError(f"could not write {path}: {error.strerror or error}") from error


def _json(value: object) -> Callable[[IO[bytes]], object]:
    return lambda file: file.write(json.dumps(value, indent=1).encode())


@cache
def _code_checksum() -> str:
    """A checksum of the code that results depend on: a changed komd of the same version computes them again."""
    root = Path(__file__).parents[1]
    folders = ("_core", "data", "kernels", "matrix", "engine", "models")
    files = [path for folder in folders for path in (root / folder).glob("*.py")]
    files += [*root.glob("*.py"), root / "evaluation" / "evaluate.py", root / "evaluation" / "metrics.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()
