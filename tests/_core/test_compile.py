"""Machine code on disk is used again, and made anew when anything that went into it changed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

GROUPS = """
from typing import NamedTuple

class {name}(NamedTuple):
    first: float
    second: float
"""
CALLEE = """
from komd._core.compile import inner

@inner
def part(x):
    return x * {factor}
"""
CALLER = """
import callee
import groups
from komd._core.compile import compiled

@compiled
def total(group):
    return callee.part(group.first) + group.second

if __name__ == "__main__":
    print(total(groups.{name}(10.0, 1.0)), sum(total.stats.cache_hits.values()))
"""


@pytest.fixture
def run(tmp_path):
    """Write the three modules and call the function in a process of its own: (result, loaded from the cache)."""

    def call(name="Pair", factor=2):
        for file, text in (("groups", GROUPS), ("callee", CALLEE), ("caller", CALLER)):
            content = text.format(name=name, factor=factor)
            path = tmp_path / f"{file}.py"
            if not path.exists() or path.read_text() != content:
                path.write_text(content)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        done = subprocess.run(
            [sys.executable, "caller.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        result, hits = done.stdout.split()
        return float(result), int(hits)

    return call


def test_the_cache_is_used_and_follows_every_file_of_the_folder(run):
    assert run() == (21.0, 0)
    assert run() == (21.0, 1)
    assert run(factor=3) == (31.0, 0)  # only the callee's file changed
    assert run(factor=3) == (31.0, 1)
    assert run(factor=3, name="Two") == (31.0, 0)  # the index on disk names a class that is gone
    assert run(factor=3, name="Two") == (31.0, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
def test_a_disk_that_is_full_stops_only_the_cache(run):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))  # the children inherit it
    try:
        assert run() == run() == (21.0, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
