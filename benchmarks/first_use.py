"""What a newcomer waits for: import, help, and the compilation of a first fit and recommendation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

_JOB = """
import time, komd
data = komd.generate(users=300, items=200, activity=10, rng=0)
start = time.perf_counter()
komd.CFKOMD(kernel="tanimoto").fit(data).recommend(n=10)
print(time.perf_counter() - start)
"""


def run() -> dict[str, Any]:
    """Seconds of each, in fresh processes; the best of three, except where compilation is measured."""

    def once(*command: str, cache: str | None = None) -> tuple[float, str]:
        environment = dict(os.environ) | ({"NUMBA_CACHE_DIR": cache} if cache else {})
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return time.perf_counter() - start, done.stdout

    python = sys.executable
    bare = min(once(python, "-c", "pass")[0] for _ in range(3))
    with tempfile.TemporaryDirectory() as cache:
        cold = float(once(python, "-c", _JOB, cache=cache)[1])
        warm = float(once(python, "-c", _JOB, cache=cache)[1])
    return {
        "first_use": {
            "python": bare,
            "import": min(once(python, "-c", "import komd")[0] for _ in range(3)) - bare,
            "help": min(once(python, "-m", "komd", "--help")[0] for _ in range(3)),
            "cold": cold,
            "warm": warm,
        }
    }
