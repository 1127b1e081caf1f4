"""What a newcomer waits for: import, help, and what the first fit, list, reason, figure and commands compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine

_PHASES = """
import json, time
from numba.core import event
import komd

class Compiled(event.Listener):
    depth = functions = 0
    seconds = start = 0.0

    def on_start(self, event):
        if self.depth == 0:
            self.start = time.perf_counter()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        self.functions += event.data["dispatcher"].py_func.__module__.startswith("komd.")
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.start

compiled = Compiled()
event.register("numba:compile", compiled)
found = {}

def phase(name, work):
    functions, seconds, start = compiled.functions, compiled.seconds, time.perf_counter()
    result = work()
    took = time.perf_counter() - start
    compiling, number = compiled.seconds - seconds, compiled.functions - functions
    found[name] = {"seconds": took, "compiling": compiling, "functions": number}
    return result

data = phase("generate", lambda: komd.generate(users=300, items=200, activity=10, rng=0))
train, test = komd.split.leave_out(data, rng=0)
model = phase("fit", lambda: komd.CFKOMD(kernel="tanimoto").fit(train))
lists = phase("recommend", lambda: model.recommend(n=10))
user = data.users[0]
phase("explain", lambda: model.explain(user, lists.items(user)[0]))
phase("evaluate", lambda: komd.evaluate(model, test))
print(json.dumps(found))
"""

_COMMANDS = {
    "fit": ["fit", "plays.csv", "-o", "plays.komd"],
    "recommend": ["recommend", "plays.komd", "-o", "lists.csv"],
    "evaluate": ["evaluate", "plays.csv"],
    "demo": ["demo"],
}


def once(*arguments: str, cache: str | None = None, folder: str | None = None) -> tuple[float, str]:
    """Seconds and output of Python with these arguments, in a process of its own."""
    environment = dict(os.environ) | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, cwd=folder
    )
    return time.perf_counter() - start, done.stdout


def run() -> dict[str, Any]:
    """Seconds of each, in fresh processes; the best of three, except where compilation is measured."""
    bare = min(once("-c", "pass")[0] for _ in range(3))
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (json.loads(once("-c", _PHASES, cache=cache)[1]) for _ in range(2))
    return {
        "machine": machine(),
        "python": bare,
        "import": min(once("-c", "import komd")[0] for _ in range(3)) - bare,
        "help": min(once("-m", "komd", "--help")[0] for _ in range(3)),
        "cold": cold,
        "warm": warm,
        "commands": commands(),
    }


def commands() -> dict[str, dict[str, float]]:
    """Seconds of commands from start to end: with an empty cache of machine code, and once more."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        size = ["--users", "300", "--items", "200", "--activity", "10"]
        once("-m", "komd", "generate", *size, "-o", "plays.csv", folder=folder)
        for name, arguments in _COMMANDS.items():
            cache = str(Path(folder) / f"{name}-cache")
            cold, warm = (once("-m", "komd", *arguments, cache=cache, folder=folder)[0] for _ in range(2))
            found[name] = {"cold": cold, "warm": warm}
    return found


def main() -> None:
    found = run()
    keep(ROOT / "benchmarks" / "first_use.json", found)
    page.write()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
