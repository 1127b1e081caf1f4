"""Ctrl-C at any moment: exit code 130, one line, nothing half written, no process left (time limits are guards)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")

GUARD = 60  # seconds
# A command in whose middle the main thread is in compiled code, or in an error that a library made of the interrupt.
START = """
import sys, threading, time
sys.argv = ["komd", *{words!r}]
import komd.cli.main as main
{patch}
main.run()
"""


def interrupted(code: str, ready: Path, *, folder: Path, group: bool = False) -> tuple[int, str]:
    """Run the code, send SIGINT once the file `ready` is there; returns exit code and stderr."""
    # A shell's background job ignores SIGINT, and so would all that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        deadline = time.monotonic() + GUARD
        while not ready.exists():
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (os.killpg if group else os.kill)(child.pid, signal.SIGINT)
        _, errors = child.communicate(timeout=GUARD)
    finally:
        child.kill()
        child.wait()
    assert "Traceback" not in errors
    return child.returncode, errors


def patched(words: list[object], patch: str) -> str:
    return START.format(words=[str(word) for word in words], patch=patch)


def test_in_python_code(plays, tmp_path):
    ready = tmp_path / "ready"
    patch = f"""
import komd
def slow(*_, **__):
    open({str(ready)!r}, "w").close()
    while True:
        time.sleep(0.01)
komd.load = slow
"""
    code, errors = interrupted(patched(["recommend", plays / "plays.komd"], patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")


def test_in_a_call_that_cannot_be_interrupted(plays, tmp_path):
    """Compiled code keeps the main thread for ever, inside the writing of a file: the half of it is removed."""
    ready, out = tmp_path / "ready", tmp_path / "out"
    out.mkdir()
    patch = f"""
import numba, numpy as np
@numba.njit(nogil=True)
def forever(x):
    while x[0] == 0.0:
        x[1] += 1.0
    return x[1]
from komd.cli import result_files
def slow(tables, file):
    file.write(b"half of a file")
    open({str(ready)!r}, "w").close()
    forever(np.zeros(2))
result_files._write_csv = slow
"""
    words = ["recommend", plays / "plays.komd", "-o", out / "lists.csv"]
    code, errors = interrupted(patched(words, patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")
    assert list(out.iterdir()) == []


def test_in_a_callback_of_a_library(plays, tmp_path):
    """ctypes can only print what is raised there: the interrupt is not shown, and the command ends all the same."""
    ready = tmp_path / "ready"
    patch = f"""
import ctypes
import komd
@ctypes.CFUNCTYPE(ctypes.c_int)
def callback():
    open({str(ready)!r}, "w").close()
    time.sleep(100)
    return 0
def slow(*_, **__):
    while True:
        callback()
komd.load = slow
"""
    code, errors = interrupted(patched(["recommend", plays / "plays.komd"], patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")


def test_an_error_that_a_library_made_of_it(plays, tmp_path):
    ready = tmp_path / "ready"
    patch = f"""
import komd
def slow(*_, **__):
    open({str(ready)!r}, "w").close()
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted") from None
komd.load = slow
"""
    code, errors = interrupted(patched(["recommend", plays / "plays.komd"], patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")


def test_an_interrupt_that_a_library_swallows(plays, tmp_path):
    ready = tmp_path / "ready"
    patch = f"""
import komd
def slow(*_, **__):
    open({str(ready)!r}, "w").close()
    while True:
        try:
            time.sleep(100)
        except BaseException:
            pass
komd.load = slow
"""
    code, errors = interrupted(patched(["recommend", plays / "plays.komd"], patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")


def test_while_threads_compute(plays, tmp_path):
    """Pieces under way are not waited for, and neither are their threads when the interpreter ends."""
    ready = tmp_path / "ready"
    patch = f"""
import komd
from komd import threads
def piece(k):
    open({str(ready)!r}, "w").close()
    time.sleep(1000)
komd.load = lambda *_, **__: list(threads.run(piece, range(8), threads=2))
"""
    code, errors = interrupted(patched(["recommend", plays / "plays.komd"], patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")


def test_in_one_iteration_of_implicit(plays, tmp_path):
    pytest.importorskip("implicit", reason="the extra rivals")
    ready = tmp_path / "ready"
    patch = f"""
from implicit.cpu.als import AlternatingLeastSquares
def slow(self, *_, **__):
    open({str(ready)!r}, "w").close()
    time.sleep(1000)
AlternatingLeastSquares.fit = slow
"""
    words = ["fit", plays / "plays.csv", "--model", "WRMF()", "-o", tmp_path / "m.komd"]
    code, errors = interrupted(patched(words, patch), ready, folder=tmp_path)
    assert (code, errors) == (130, "komd: stopped\n")
    assert not (tmp_path / "m.komd").exists()


def test_before_anything_is_imported(tmp_path):
    ready = tmp_path / "ready"
    code = f"""
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            open({str(ready)!r}, "w").close()
            time.sleep(1000)
sys.meta_path.insert(0, Slow())
sys.argv = ["komd", "--help"]
from komd.__main__ import run
run()
"""
    assert interrupted(code, ready, folder=tmp_path) == (130, "komd: stopped\n")


def test_compare_and_its_children(plays, tmp_path):
    """Without --report the work is in a temporary folder, which goes; the child that computes goes as well."""
    ready = tmp_path / "ready"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    patch = f"""
from komd.evaluation import compare
run = compare.subprocess.Popen
def started(command, **how):
    child = run([sys.executable, "-c", "import time; time.sleep(1000)"], **how)
    open({str(ready)!r}, "w").write(str(child.pid))
    return child
compare.subprocess.Popen = started
"""
    code = patched(["compare", plays / "plays.csv", "--models", "Popularity"], patch)
    found, errors = interrupted(code, ready, folder=temporary)
    assert (found, errors) == (130, "komd: stopped; --report DIR would let it resume\n")
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(ready.read_text()), 0)


def test_ignored_where_the_shell_ignores_it(plays, tmp_path):
    """`nohup komd … &` goes on: a signal that was ignored from the start stays ignored."""
    code = patched(["generate", "-o", tmp_path / "x.csv", "--users", 50, "--items", 20], "import os, signal\n")
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + code
    code = code.replace(
        "main.run()", "import threading\nthreading.Timer(0.05, lambda: os.kill(os.getpid(), 2)).start()\nmain.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.csv").exists()
