"""The child process of a comparison: evaluates one model on all folds that are missing, and saves each result at once.

Every model has its own process, so that a crash, a lack of memory or a time limit ends one row and not the run, and
so that peak memory is this model's. The parent has the other end of standard input: when it closes, the parent has
ended, and the child ends too.
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
from komd.evaluation.evaluate import evaluate_round
from komd.evaluation.work_folder import FoldResult, RowFolder, load_data
from komd.models.registry import model_from_text

__all__ = ["command", "main"]

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from komd.evaluation.fold_process import main; main()"
)
_LONGEST_REASON = 300  # characters


def command(task: Path) -> list[str]:
    """The command that starts a child process: a new interpreter with the same module path."""
    return [sys.executable, "-P", "-c", _START, json.dumps([str(entry) for entry in sys.path]), str(task)]


def main() -> None:
    """Do the task named by the last argument. Exit code 1 when the model failed: the row's folder says why."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent reports Ctrl-C
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    path = Path(sys.argv[-1])
    task = json.loads(path.read_text(encoding="utf-8"))
    row = RowFolder(path.parent, task["folds"])
    try:
        _evaluate_folds(task, row)
    except BaseException as error:  # a model may raise anything; the row fails, with its reason
        import traceback

        traceback.print_exc()
        row.fail(_reason(error))
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # results are on the disk: there is nothing to clean up


def _evaluate_folds(task: dict[str, Any], row: RowFolder) -> None:
    data = load_data(Path(task["data"]))
    protocol = {name: task[name] for name in ("folds", "half", "min_activity", "rng")}
    for fold, (train, test) in enumerate(split.folds(data, **protocol)):
        if row.has(fold):
            continue
        start = time.perf_counter()
        resources = {"threads": task["threads"], "memory": task["memory"]}
        model = model_from_text(task["model"]).fit(train, **resources)
        fitted = time.perf_counter()
        evaluation = evaluate_round(model, train, test, metrics=task["metrics"], ties=task["ties"], **resources)
        ranked = time.perf_counter()
        means = {name: measured.mean for name, measured in evaluation.metrics.items()}
        values = {name: measured.values for name, measured in evaluation.metrics.items()}
        row.save(fold, FoldResult(means, values, len(evaluation.users), fitted - start, ranked - fitted, _peak()))


def _reason(error: BaseException) -> str:
    words = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        words = f"not enough memory: {words}" if words else "not enough memory"
    elif not isinstance(error, KomdError):
        words = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return words if len(words) <= _LONGEST_REASON else f"{words[:_LONGEST_REASON]}…"


def _peak() -> int:
    """The peak memory of this program, in bytes.

    On Linux ru_maxrss includes what the process had *before* it started this program, a copy of its parent's memory;
    VmHWM does not.
    """
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return int(found.group(1)) * 1024 if found else memory.peak()


def _exit_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(3)
