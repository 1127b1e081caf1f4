"""How time and memory grow when users, items and activity double in turn: `python -m benchmarks.scale`.

From one small data set in the shape of the Million Song Dataset each of the three doubles alone, step by step. At every
point a process of its own fits `ECFOMD(storage="streamed")`, lists the 100 best for a fixed number of users, and then
counts the whole kernel, nothing else. Writes benchmarks/scale.json, docs/results/figures/scale.svg and
docs/results/performance.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.history import keep
from benchmarks.measure import ROOT, machine

BASE = {"users": 60_000, "items": 8_000, "activity": 40}
RANKED_USERS, BEST, THREADS, STEPS, ROUNDS = 1_000, 100, 2, 4, 3
LONG = 12.0  # seconds; what takes longer is not repeated


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS, help="points on each line, the first included")
    parser.add_argument("--generate", nargs=4, metavar=("FILE", *BASE), help=argparse.SUPPRESS)
    parser.add_argument("--measure", metavar="FILE", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.generate:
        generate(*asked.generate)
    elif asked.measure:
        print(json.dumps(measure(asked.measure)))
    else:
        run(asked.steps)


def run(steps: int) -> None:
    """Every point, then the page."""
    points: dict[tuple[int, ...], dict[str, Any]] = {}
    lines: dict[str, list[dict[str, Any]]] = {}
    for doubled in BASE:
        lines[doubled] = []
        for step in range(steps):
            size = BASE | {doubled: BASE[doubled] << step}
            key = tuple(size.values())
            if key not in points:
                points[key] = point(size)
                seconds, growth = points[key]["seconds"], points[key]["growth"]
                print(f"{size}: {seconds:.2f} s, {growth / 1e6:.0f} MB above the data", flush=True)
            lines[doubled].append(points[key])
    setting = {"ranked_users": RANKED_USERS, "best": BEST, "threads": THREADS, "base": BASE}
    results = {"machine": machine()} | setting | {"lines": lines}
    keep(ROOT / "benchmarks" / "scale.json", results)
    from benchmarks.page import write
    from benchmarks.page_scale import figure

    (ROOT / "docs" / "results" / "figures" / "scale.svg").write_text(figure(results))
    write()
    print("wrote benchmarks/scale.json, docs/results/figures/scale.svg and docs/results/performance.md")


def point(size: dict[str, int]) -> dict[str, Any]:
    """The figures of one size, generated and measured in two processes, so that the second's memory is its own."""
    me = [sys.executable, "-m", "benchmarks.scale"]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        subprocess.run([*me, "--generate", file, *map(str, size.values())], cwd=ROOT, check=True)
        done = subprocess.run([*me, "--measure", file], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return size | found


def generate(file: str, users: str, items: str, activity: str) -> None:
    """Write data of this size to a file."""
    import komd

    data = komd.generate_like("msd", users=int(users), items=int(items), activity=float(activity))
    np.savez(file, indptr=data.indptr, indices=data.indices, items=len(data.items))


def measure(file: str) -> dict[str, Any]:
    """Seconds (the best of some rounds), memory, and the work that was done."""
    import komd
    from benchmarks.phases import Clock
    from komd.data.ids import Ids
    from komd.memory import peak, resident

    clock, text = Clock(), "ECFOMD(storage='streamed')"
    komd.model_from_text(text).fit(komd.generate_like("msd", users=500)).recommend(n=BEST, threads=THREADS)
    clock.lap()
    with np.load(file) as arrays:
        indptr, indices, items = arrays["indptr"], arrays["indices"], int(arrays["items"])
    data = komd.Interactions(Ids.range(len(indptr) - 1), Ids.range(items), indptr, indices)
    del indptr, indices
    ranked_users = np.random.default_rng(0).choice(len(data.users), RANKED_USERS, replace=False)
    before = resident()
    best, phases, busy, most, counting = float("inf"), {}, 0.0, 0, float("inf")
    for turn in range(ROUNDS):
        start, cpu = time.perf_counter(), time.process_time()
        model = komd.model_from_text(text).fit(data, threads=THREADS)
        model.recommend(ranked_users, n=BEST, threads=THREADS)
        seconds, cpu, lap = time.perf_counter() - start, time.process_time() - cpu, clock.lap()
        most = most if turn else peak()  # before anything else takes memory
        if seconds < best:
            best, phases, busy = seconds, lap, cpu
        start = time.perf_counter()
        for _ in model.matrix.row_strips(np.arange(len(data.items), dtype=np.int32), threads=THREADS):
            pass
        counting = min(counting, time.perf_counter() - start)
        clock.lap()
        if seconds > LONG:
            break
    own = data.activity[ranked_users].astype(float)
    return {
        "pairs": data.pairs,
        "squares": float((data.activity.astype(float) ** 2).sum()),
        "touched": phases["work"]["multiply-adds"],
        "own_squares": float((own**2).sum()),
        "seconds": best,
        "processor_seconds": busy,
        "counting": counting,
        "phases": phases,
        "peak": most,
        "growth": most - before,
    }


if __name__ == "__main__":
    main()
