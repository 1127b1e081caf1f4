"""A batch run at the size of the Million Song Dataset, killed ten times: `python -m benchmarks.kills`.

Needs the data of `make bench-msd`. A streamed model is saved; `komd.recommend_to` writes the lists of some users in a
process that is killed (SIGKILL) at a random moment and started again, ten times, then left alone. The parts must be
those of an undisturbed run, row for row. Writes benchmarks/kills.json and the line on docs/results/performance.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import komd
from benchmarks.contenders import loaded
from benchmarks.measure import ROOT

WORK = ROOT / "benchmarks" / "work"
KILLS = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--ranked-users", type=int, default=20_000)
    parser.add_argument("--part", nargs=3, metavar=("MODEL", "OUT", "USERS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        model, out, ranked_users = asked.part
        fitted = komd.load(model, verify=False)
        komd.recommend_to(fitted, out, np.arange(int(ranked_users)), n=500, threads=2, memory="4GB")
        return
    model, whole, broken = WORK / "kills.komd", WORK / "kills-whole", WORK / "kills-broken"
    for folder in (whole, broken):
        shutil.rmtree(folder, ignore_errors=True)
    komd.model_from_text("ECFOMD(storage='streamed')").fit(loaded(WORK / "msd", "train")).save(model)
    start = time.perf_counter()
    assert started(model, whole, asked.ranked_users).wait() == 0
    seconds = time.perf_counter() - start
    rng, kills, ended, rows = np.random.default_rng(0), [], 0, 0
    while len(kills) < KILLS:
        moment = float(rng.uniform(0, 0.95 * seconds))
        run = started(model, broken, asked.ranked_users)
        try:
            assert run.wait(timeout=moment) == 0
            rows, ended = same(whole, broken), ended + 1  # ended before the kill: does not count, start again
            shutil.rmtree(broken)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            kills.append(moment)
            print(f"killed after {moment:.0f} s: {len(list(broken.glob('*.parquet')))} parts", flush=True)
    assert started(model, broken, asked.ranked_users).wait() == 0
    rows = same(whole, broken)
    parts = len(list(whole.glob("*.parquet")))
    found = {
        "ranked_users": asked.ranked_users,
        "rows": rows,
        "parts": parts,
        "undisturbed": seconds,
        "kills": kills,
        "ended": ended,
    }
    (ROOT / "benchmarks" / "kills.json").write_text(json.dumps(found, indent=1) + "\n")
    for folder in (model, whole, broken):
        shutil.rmtree(folder, ignore_errors=True)
    from benchmarks.page import write

    write()
    print(f"{rows:,} rows in {parts} parts, the same")


def same(whole: Path, broken: Path) -> int:
    """The rows of two folders, which must be the same, part by part."""
    names = sorted(path.name for path in whole.glob("*.parquet"))
    assert names == sorted(path.name for path in broken.glob("*.parquet"))
    rows = 0
    for name in names:
        one = pq.read_table(whole / name)
        assert one.equals(pq.read_table(broken / name)), name
        rows += len(one)
    return rows


def started(model: Path, out: Path, ranked_users: int) -> subprocess.Popen[bytes]:
    """A process that writes the lists."""
    command = [sys.executable, "-m", "benchmarks.kills", "--part", str(model), str(out), str(ranked_users)]
    return subprocess.Popen(command, cwd=ROOT)


if __name__ == "__main__":
    main()
