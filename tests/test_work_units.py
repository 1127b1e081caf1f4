"""Tests are divided among processes as tests/work_units.py says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.work_units import order, unit

ROOT = Path(__file__).parents[1]
# The first test of a process waits for the other process, so that each gets something to do.
NOTED = """
import os, time
from pathlib import Path

import pytest

@pytest.mark.parametrize("k", range(3))
def test(k):
    with Path("noted").open("a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {__file__}\\n")
    limit = time.monotonic() + 30
    while len({line.split()[0] for line in Path("noted").read_text().splitlines()}) < 2 and time.monotonic() < limit:
        time.sleep(0.01)
"""


def test_units_and_their_order():
    assert unit("tests/spark/test_spark.py::test_a[x::y]") == unit("tests/spark/test_every_variant.py::test_b")
    assert unit("tests/serve/test_page.py::test_a[@b]") == "tests/serve/test_page.py"
    ids = ["tests/test_store.py::a", "tests/data/test_read.py::a", "tests/serve/test_api.py::a", "tests/spark/t.py::a"]
    ids.append("tests/test_site.py::a[x/y]")
    assert sorted(ids, key=order) == [ids[3], ids[4], ids[2], ids[0], ids[1]]


def test_a_file_runs_in_one_process_and_spark_as_well(tmp_path):
    pytest.importorskip("xdist")
    files = ["tests/spark/test_a.py", "tests/spark/test_b.py", "tests/serve/test_c.py", "tests/test_d.py"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(NOTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2", "-p", "tests.work_units", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "12 passed" in done.stdout, done.stdout + done.stderr
    noted = [line.split() for line in (tmp_path / "noted").read_text().splitlines()]
    processes = {name: {process for process, file in noted if file.endswith(name)} for name in files}
    assert all(len(found) == 1 for found in processes.values())
    assert processes[files[0]] == processes[files[1]] != processes[files[2]]
