"""The experiment on data of the size of the Million Song Dataset: generate, read, fit, rank, measure.

`python -m benchmarks.msd` writes benchmarks/msd.json and docs/results/performance.md. Each step runs in a process of
its own, and its results are kept in benchmarks/work/: an interrupted run resumes with the missing steps (`--fresh`
starts over). A step that fails or takes too long loses only its own row. With `--users` or `--ranked-users` the run is
a trial, and its page stays in the work folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders import STEPS
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine

USERS, RANKED_USERS = 1_200_000, 100_000
WORK = ROOT / "benchmarks" / "work"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.msd", description=__doc__)
    parser.add_argument("--users", type=int, default=USERS, help="how many users to generate")
    parser.add_argument("--ranked-users", type=int, default=RANKED_USERS, help="how many of them to rank for")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have measured")
    parser.add_argument("--only", nargs="+", choices=STEPS, help="run only these steps (those they need must be there)")
    parser.add_argument("--note", default="", help="what a reader should know of this run, put on the page")
    parser.add_argument("--limit", type=float, default=15, help="minutes that a step may take")
    asked = parser.parse_args()
    trial = (asked.users, asked.ranked_users) != (USERS, RANKED_USERS)
    folder = WORK / (f"msd-{asked.users}-{asked.ranked_users}" if trial else "msd")
    plays = WORK / (f"plays-{asked.users}.parquet" if asked.users != USERS else "plays.parquet")
    if asked.fresh and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    for number, name in enumerate(STEPS, 1):
        if asked.only and name not in asked.only:
            continue
        if name == "generate" and plays.exists():
            continue
        if kept(folder, name).get("done"):
            print(f"[{number}/{len(STEPS)}] {name}: kept from an earlier run", flush=True)
            continue
        print(f"[{number}/{len(STEPS)}] {name}, {(time.perf_counter() - started) / 60:.1f} minutes in", flush=True)
        given = {"generate": [str(plays), str(asked.users)], "read": [str(plays), str(asked.ranked_users)]}.get(
            name, []
        )
        error = step(folder, name, given, asked.limit)
        if error:
            print(f"    {error}", flush=True)
            if name in ("generate", "read"):
                sys.exit(f"{name} failed, and everything else needs it")
    results = {"machine": machine(), "trial": trial, "note": asked.note} | {name: kept(folder, name) for name in STEPS}
    file, page = (
        (folder / "msd.json", folder / "performance.md")
        if trial
        else (ROOT / "benchmarks" / "msd.json", ROOT / "docs" / "results" / "performance.md")
    )
    keep(file, results)
    from benchmarks.page import write

    write(page, msd=file)
    print(f"wrote {file.relative_to(ROOT)} and {page.relative_to(ROOT)}")


def kept(folder: Path, name: str) -> dict[str, Any]:
    """What a step has measured; empty if it has not run."""
    file = folder / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def step(folder: Path, name: str, given: list[str], limit: float) -> str | None:
    """Run one step; the error, if any, which is kept with what was measured before it."""
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.contenders", name, str(folder), *given]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=60 * limit, stderr=subprocess.PIPE, text=True)
    except subprocess.TimeoutExpired:
        error = f"stopped after {limit:g} minutes"
    else:
        if done.returncode == 0:
            return None
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        error = f"ended with {done.returncode}: {last[0]}"
    file.write_text(json.dumps({"name": name} | kept(folder, name) | {"done": False, "error": error}, indent=1) + "\n")
    return error


if __name__ == "__main__":
    main()
