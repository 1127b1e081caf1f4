"""Comparing models on the same folds, each model in its own process; interrupted runs are resumed."""

from __future__ import annotations

import math
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from komd import threads as pool
from komd.checks import one_of, whole
from komd.data import split
from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.evaluation import fold_process
from komd.evaluation.comparison import Comparison, rows_of
from komd.evaluation.evaluate import APPEARANCE
from komd.evaluation.grid import models_of
from komd.evaluation.metrics import TIES, parse_metrics
from komd.evaluation.work_folder import (
    ComparisonProtocol,
    FoldResult,
    RowFolder,
    fingerprint,
    kept_folder,
    row_folder,
    store_data,
)
from komd.files import temporary_folder
from komd.memory import budget
from komd.progress import progress

__all__ = ["compare", "seconds"]

_UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_VERSIONS = ("komd", "numpy", "scipy", "numba", "implicit")
_POLL = 0.05  # seconds between checks of a child process


def compare(
    data: Any,
    models: Any,
    *,
    metrics: str | Iterable[str] = ("auc", "ndcg@100", "recall@20"),
    folds: int = 5,
    half: str = "random",
    min_activity: int = 5,
    rng: int = 0,
    ties: str = "half",
    time_limit: float | str | None = None,
    keep: str | Path | None = None,
    threads: int | None = None,
    memory: str | int | None = None,
    say: Callable[[str], None] | None = None,
) -> Comparison:
    """Measure several models on the same folds, one after another, each in a process of its own.

    Parameters
    ----------
    data : Interactions or anything that `komd.read` accepts
        All data; folds are made from it.
    models : str, Recommender, or list of these
        Models, or texts that describe them. A text may list several with commas, and a list as the value of a parameter
        is a grid: `"ECFOMD, MSDW(alpha=[0, 0.5, 1])"` is four rows.
    metrics : str or iterable of str
        As in `komd.evaluate`.
    folds : int
        Number of folds, as in `komd.split.folds`.
    half : {"random", "given", "time", "rolling"}
        Which half of a history is tested, as in `komd.split.folds`.
    min_activity : int
        Users with fewer items are never tested. Not used with "rolling".
    rng : int
        Seed; not a generator, so that an interrupted run can be resumed.
    ties : {"half", "strict", "appearance"}
        As in `komd.evaluate`. "appearance": of equal scores, the item wins that appears first in the training part
        (`Interactions.items_by_appearance`).
    time_limit : float or str, optional
        Limit for each model over all its folds: seconds, or a text such as "90s", "10m" or "1.5h". Time spent on folds
        in an earlier run counts.
    keep : str or Path, optional
        Folder for results. If the same comparison is run again with the same folder, only missing results are computed,
        and models that failed are retried. By default nothing is kept.
    threads : int, optional
        Number of threads of each model; all cores by default.
    memory : str or int, optional
        Memory budget of each model, as in `fit`.
    say : callable, optional
        Called with one line if results of an earlier run are used; by default it is printed to standard error.

    Returns
    -------
    Comparison
        Mean ± standard deviation over the folds, the best model of each metric and those statistically tied with it
        (see `komd.evaluation.significance`), times and peak memory. A model that fails, crashes or exceeds the limit is
        a row with the reason.

    Raises
    ------
    InputError
        If a model, a metric or the protocol is invalid, or a fold has no test user.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=10, rng=0)
    >>> found = komd.compare(data, "Popularity, ECFOMD", metrics="auc", folds=2)
    >>> found["ECFOMD()"]["auc"].mean > found["Popularity()"]["auc"].mean
    True
    """
    texts = models_of(models)
    names = tuple(str(metric) for metric in parse_metrics(metrics))
    one_of("ties", ties, (*TIES, APPEARANCE))
    limit = None if time_limit is None else seconds(time_limit)
    workers = pool.count(threads)
    if memory is not None:
        budget(memory)
    whole("rng", rng, 0, most=None)
    interactions = Interactions.of(data)
    tested = _test_users(interactions, folds=folds, half=half, min_activity=min_activity, rng=rng)
    protocol = ComparisonProtocol(int(folds), half, int(min_activity), int(rng), names, ties)
    resources = {"threads": threads, "memory": memory}
    with temporary_folder("komd-compare-") if keep is None else nullcontext(kept_folder(keep)) as folder:
        checksum = fingerprint(interactions)
        folders = [row_folder(folder, checksum, protocol, text) for text in texts]
        done = sum(len(row.done()) for row in folders)
        total = len(folders) * protocol.folds
        if done:
            (say or partial(print, file=sys.stderr))(f"resuming: {done} of {total} fold results are there")
        stored = store_data(folder, interactions, checksum) if done < total else folder
        results: list[list[FoldResult] | str] = []
        with progress("compare", total) as advance:
            for text, row in zip(texts, folders, strict=True):
                task = vars(protocol) | {"model": text, "data": str(stored.resolve())} | resources
                results.append(_finish(row, task, limit, advance))
    rows = rows_of(texts, results, names)
    size = *interactions.shape, interactions.pairs
    return Comparison(rows, protocol, repr(interactions), *size, tested, _versions(), workers)


def seconds(limit: float | str, name: str = "time_limit") -> float:
    """A limit of time in seconds; `name` is that of the argument.

    >>> seconds("10m"), seconds("1.5 h"), seconds(30)
    (600.0, 5400.0, 30.0)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([a-z]*)\s*", str(limit).lower())
    if found is None or found.group(2) not in _UNITS or float(found.group(1)) <= 0:
        raise InputError(f"{name} must be seconds or a text such as '90s', '10m' or '1.5h', got {limit!r}")
    return float(found.group(1)) * _UNITS[found.group(2)]


def _test_users(data: Interactions, *, folds: int, half: str, min_activity: int, rng: int) -> int:
    """The number of test users over all folds; refuses a split in which a fold has none."""
    total = 0
    for fold, (_, test) in enumerate(split.folds(data, folds=folds, half=half, min_activity=min_activity, rng=rng)):
        users = int((test.activity > 0).sum())
        if not users:
            raise InputError(
                f"no test users in fold {fold + 1} of {folds}: no user in it has at least max(2, min_activity="
                f"{min_activity}) items; use fewer folds, a smaller min_activity, or more data than {data!r}"
            )
        total += users
    return total


def _finish(
    row: RowFolder, task: dict[str, Any], limit: float | None, advance: Callable[[int], None]
) -> list[FoldResult] | str:
    """All results of a row, missing ones computed by a child process; or why there are none."""
    done = row.done()
    advance(len(done))
    if len(done) == row.folds:
        return done
    row.begin(task)
    spent = sum(result.fit + result.rank for result in done)
    reason = _run(row, limit, spent, advance)
    done = row.done()
    if len(done) == row.folds:
        return done
    advance(row.folds - len(done))
    reason = reason or "the process ended without a result and without a reason"
    row.fail(reason)
    return reason


def _run(row: RowFolder, limit: float | None, spent: float, advance: Callable[[int], None]) -> str | None:
    """Run a child process on a row until the limit of time, of which some is spent. Returns what went wrong, if any."""
    left = math.inf if limit is None else limit - spent
    exceeded = f"exceeded {_duration(limit or 0.0)}"
    if left <= 0:
        return exceeded
    waiting = [fold for fold in range(row.folds) if not row.has(fold)]
    started = time.monotonic()
    with row.log.open("wb") as log:
        child = subprocess.Popen(
            fold_process.command(row.task), stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, close_fds=True
        )
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_POLL)
                while waiting and row.has(waiting[0]):  # folds are done in order
                    waiting.pop(0)
                    advance(1)
                if child.returncode is not None:
                    break
                if time.monotonic() - started > left:
                    return exceeded
        finally:  # also on Ctrl-C: the child must not go on
            child.kill()
            child.wait()
            if child.stdin is not None:
                child.stdin.close()
    return row.reason or _exit_reason(child.returncode, row.log)


def _exit_reason(code: int, log: Path) -> str | None:
    """Why a child process ended that gave no reason itself; None if it ended well."""
    if code == 0:
        return None
    if code < 0:
        name = ""
        with suppress(ValueError):
            name = f" ({signal.Signals(-code).name})"
        guess = ": perhaps the machine ran out of memory" if -code == 9 else ""
        return f"killed by signal {-code}{name}{guess}"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
    return f"ended with code {code}{': ' if last else ''}{last[:300]}"


def _duration(limit: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if limit >= length and limit % length == 0:
            return f"{limit / length:g} {unit}"
    return f"{limit:g} s"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in _VERSIONS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
