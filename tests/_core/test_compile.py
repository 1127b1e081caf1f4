"""Machine code on disk is used again, and made anew when anything that went into it changed."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core import event
from numba.core.errors import NumbaError
from numba.core.targetconfig import ConfigStack

from komd._core.compile import compiled, inner

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
TOGETHER = """
import pathlib
import sys
import time
import caller
import groups

pathlib.Path(f"ready-{sys.argv[1]}").touch()
while len(list(pathlib.Path().glob("ready-*"))) < 3:
    time.sleep(0.001)
print(caller.total(groups.Pair(10.0, 1.0)), sum(caller.total.stats.cache_hits.values()))
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


def test_of_processes_that_start_together_one_compiles(run, tmp_path):
    assert run() == (21.0, 0)  # writes the modules
    (tmp_path / "together.py").write_text(TOGETHER)
    (tmp_path / "callee.py").write_text(CALLEE.format(factor=4))  # what was compiled is old
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    started = [
        subprocess.Popen([sys.executable, "together.py", str(k)], cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
        for k in range(3)
    ]
    said = sorted(process.communicate(timeout=120)[0].split() for process in started)
    assert said == [[b"41.0", b"0"], [b"41.0", b"1"], [b"41.0", b"1"]]
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
def test_a_disk_that_is_full_stops_only_the_cache(run):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))  # the children inherit it
    try:
        assert run() == run() == (21.0, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


FIRST_USE = """
import json
from numba.core import event

class Compiled(event.Listener):
    found = []

    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("komd._core."):
            self.found.append([function.__qualname__, str(event.data["args"])])

    def on_end(self, event):
        pass

event.register("numba:compile", Compiled())
import komd
komd.CFKOMD(kernel="tanimoto").fit(komd.generate(users=300, items=200, activity=10, rng=0)).recommend(n=10)
print(json.dumps(Compiled.found))
"""
MOST = 42  # specialisations of functions of the core; 40 when this was written


def test_a_first_fit_and_recommendation_compile_little(tmp_path):
    """Not more functions than a first answer needs, and each for one set of types."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = [(name, types) for name, types in json.loads(done.stdout) if "<locals>" not in name]
    names = [name for name, _ in found]
    assert len(found) <= MOST, f"{len(found)} specialisations: {', '.join(names)}"
    assert len(set(names)) == len(names)


def test_a_part_is_compiled_once_for_all_constants():
    """Numba has a type for each constant, and would compile a part for each."""

    @inner
    def shifted(x, by):
        return x + by

    @compiled
    def total(x, y):
        return shifted(x, 1) + shifted(x, 2) + shifted(x, y) + shifted(x, by=4)

    assert total(1.0, 3) == 14.0
    assert len(shifted.signatures) == 1


class Options(event.Listener):
    """The options of each compilation."""

    def __init__(self):
        self.found = []

    def on_start(self, event):
        self.found.append(ConfigStack.top_or_none())

    def on_end(self, event):
        pass


def test_options_are_compared_by_what_is_set():
    """Numba would compare the values of all options, which takes it a tenth of the time: these stand in their place."""

    @inner
    def part(x):
        return x + 1.0

    @compiled
    def total(x):
        return part(x)

    with event.install_listener("numba:run_pass", Options()) as during:
        assert total(1.0) == 2.0
    assert {type(options).__name__ for options in during.found} == {"_Flags"}
    entry, part_of_it = during.found[0], next(each for each in during.found if each != during.found[0])
    assert entry.nrt
    assert not part_of_it.nrt
    assert entry.copy() == entry
    assert hash(entry.copy()) == hash(entry)
    entry = entry.copy()
    entry.nrt = False
    assert entry != during.found[0]


def test_a_part_that_allocates_is_said_to_do_so():
    """`inner` counts no references; a function that allocates is `compiled`, whoever calls it."""

    @inner
    def refused(x):
        return np.full(2, x)[1]

    @compiled
    def allowed(x):
        return np.full(2, x)[1]

    @inner
    def between(x):
        return allowed(x)

    assert compiled(lambda x: between(x))(1.0) == 1.0
    with pytest.raises(NumbaError, match="NRT required"):
        compiled(lambda x: refused(x))(1.0)


def test_python_cannot_call_a_part():
    @inner
    def half(x):
        return x / 2

    with pytest.raises(TypeError, match="half is a part of compiled functions"):
        half(1.0)
    assert compiled(lambda x: half(x))(1.0) == 0.5


def test_a_function_called_by_another_is_compiled_alike_for_python():
    @compiled
    def half(x):
        return x / 2.0

    @compiled
    def quarter(x):
        return half(half(x))

    assert quarter(6.0) == 1.5
    assert half(6.0) == 3.0
    assert quarter(6) == 1.5


def test_an_error_with_a_value_leaves_a_part():
    """Its message is made by Python objects that belong to the part, not to the function that Python calls."""

    @compiled
    def root(x):
        if x < 0.0:
            raise ValueError("negative", x)
        return x**0.5

    @compiled
    def twice(x):
        return 2.0 * root(x)

    assert twice(9.0) == 6.0
    with pytest.raises(ValueError, match=r"negative.*-4"):
        twice(-4.0)


class Collecting(event.Listener):
    """Whether garbage is collected at the beginning of each pass of a compilation."""

    def __init__(self):
        self.found = set()

    def on_start(self, event):
        self.found.add(gc.isenabled())

    def on_end(self, event):
        pass


def test_garbage_is_not_collected_while_a_function_is_compiled():
    @compiled
    def third(x):
        return x / 3.0

    third.py_func.__module__ = "komd._core.third"
    with event.install_listener("numba:run_pass", Collecting()) as during:
        third(6.0)
    assert during.found == {False}
    assert gc.isenabled()
    gc.disable()
    try:
        third(6)
        assert not gc.isenabled()  # as it was
    finally:
        gc.enable()
