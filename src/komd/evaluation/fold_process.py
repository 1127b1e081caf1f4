"""The child of a comparison: one model, all folds that are missing, one after another, each result kept at once.

A process of its own for every model, so that a crash, a lack of memory or a time limit ends one row and not the run,
and so that peak memory is this model's. The parent holds the other end of standard input: when that closes, whoever
waits for the results is gone, and so is the child.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from komd import memory
from komd.data import split
from komd.errors import KomdError
from komd.evaluation.evaluate import evaluate
from komd.evaluation.work_folder import FoldResult, RowFolder, load_data
from komd.models.registry import model_from_text

__all__ = ["command", "main"]

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from komd.evaluation.fold_process import main; main()"
)
_REASON = 300  # characters


def command(task: Path) -> list[str]:
    """How to start a child on a task: a fresh interpreter that finds modules where this one does."""
    return [sys.executable, "-P", "-c", _START, json.dumps([str(entry) for entry in sys.path]), str(task)]


def main() -> None:
    """Do the task named by the last argument. Exit code 1 when the model failed: the row's folder says why."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is the parent's to explain
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    path = Path(sys.argv[-1])
    task = json.loads(path.read_text(encoding="utf-8"))
    row = RowFolder(path.parent, task["folds"])
    try:
        _measure(task, row)
    except BaseException as error:  # a model may raise anything; the row goes down, with its reason
        import traceback

        traceback.print_exc()
        row.fail(_worded(error))
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # results are on the disk: nothing is left to tidy up


def _measure(task: dict[str, Any], row: RowFolder) -> None:
    data = load_data(Path(task["data"]))
    protocol = {name: task[name] for name in ("folds", "half", "min_activity", "rng")}
    for fold, (train, test) in enumerate(split.folds(data, **protocol)):
        if row.has(fold):
            continue
        start = time.perf_counter()
        how = {"threads": task["threads"], "memory": task["memory"]}
        model = model_from_text(task["model"]).fit(train, **how)
        fitted = time.perf_counter()
        found = evaluate(model, test, metrics=task["metrics"], ties=task["ties"], **how)
        ranked = time.perf_counter()
        means = {name: measured.mean for name, measured in found.metrics.items()}
        values = {name: measured.values for name, measured in found.metrics.items()}
        row.keep(fold, FoldResult(means, values, len(found.users), fitted - start, ranked - fitted, _peak()))


def _worded(error: BaseException) -> str:
    words = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        words = f"not enough memory: {words}" if words else "not enough memory"
    elif not isinstance(error, KomdError):
        words = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return words if len(words) <= _REASON else f"{words[:_REASON]}…"


def _peak() -> int:
    """The most bytes this program has had in memory.

    Linux counts what the process held *before* it became this program, a copy of its parent's memory, in ru_maxrss; the
    high-water mark of the address space itself starts afresh.
    """
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        found = None
    return int(found.group(1)) * 1024 if found else memory.peak()


def _leave_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(3)
