"""The child process: its own peak memory, and it ends with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import komd
from komd.evaluation import fold_process
from komd.evaluation import work_folder as work


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=150, items=60, activity=10, tastes=4, rng=3)


def test_peak_memory_is_the_childs_own(data):
    """Not that of the process it was started from, which Linux would count in ru_maxrss."""
    ballast = np.ones(100_000_000)  # 800 MB
    row = komd.compare(data, "Popularity", metrics="auc", folds=2)["Popularity()"]
    assert ballast[-1] == 1 and row.peak_memory < 700e6


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def test_a_child_ends_when_its_parent_is_killed(data, tmp_path):
    """Also where only the parent is hit, as by a lack of memory: the child must not go on computing."""
    row = work.row_folder(
        tmp_path, "x", work.ComparisonProtocol(2, "random", 5, 0, ("auc",), "half"), "BPRKNN(epochs=1000000)"
    )
    stored = work.store_data(tmp_path, data, "x")
    question = {"folds": 2, "half": "random", "min_activity": 5, "rng": 0, "metrics": ["auc"], "ties": "half"}
    row.begin(question | {"model": "BPRKNN(epochs=1000000)", "data": str(stored), "threads": 1, "memory": None})
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE); "
        "print(p.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *fold_process.command(row.task)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(1.0)
        assert alive(child)
        parent.kill()
        parent.wait()
        end = time.monotonic() + 30
        while alive(child) and time.monotonic() < end:
            time.sleep(0.05)
        assert not alive(child)
