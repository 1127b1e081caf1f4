"""A batch run at the size of the Million Song Dataset, killed ten times: `python -m benchmarks.kills`.

Needs the data of `make bench-msd`. A streamed model is saved; `komd.recommend_to` writes the lists of some people in a
process that is killed (SIGKILL) at a random moment and started again, ten times, then left alone. The parts must be
those of an undisturbed run, row for row. Writes benchmarks/kills.json and the line on docs/performance.md.
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
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--part", nargs=3, metavar=("MODEL", "OUT", "PEOPLE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        model, out, people = asked.part
        fitted = komd.load(model, verify=False)
        komd.recommend_to(fitted, out, np.arange(int(people)), n=500, threads=2, memory="4GB")
        return
    model, whole, broken = WORK / "kills.komd", WORK / "kills-whole", WORK / "kills-broken"
    for folder in (whole, broken):
        shutil.rmtree(folder, ignore_errors=True)
    komd.model_from_text("ECFOMD(storage='streamed')").fit(loaded(WORK / "msd", "train")).save(model)
    start = time.perf_counter()
    assert started(model, whole, asked.people).wait() == 0
    seconds = time.perf_counter() - start
    rng, ended = np.random.default_rng(0), 0
    moments = rng.uniform(0, 1.1 * seconds, KILLS).tolist()
    for moment in moments:
        run = started(model, broken, asked.people)
        try:
            ended += run.wait(timeout=moment) == 0
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
        print(f"killed after {moment:.0f} s: {len(list(broken.glob('*.parquet')))} parts", flush=True)
    assert started(model, broken, asked.people).wait() == 0
    parts = sorted(path.name for path in whole.glob("*.parquet"))
    assert parts == sorted(path.name for path in broken.glob("*.parquet"))
    rows = 0
    for name in parts:
        one, other = pq.read_table(whole / name), pq.read_table(broken / name)
        assert one.equals(other), name
        rows += len(one)
    found = {"people": asked.people, "rows": rows, "parts": len(parts), "undisturbed": seconds, "kills": moments}
    (ROOT / "benchmarks" / "kills.json").write_text(json.dumps(found | {"ended_before": ended}, indent=1) + "\n")
    for folder in (model, whole, broken):
        shutil.rmtree(folder, ignore_errors=True)
    from benchmarks.page import write

    write()
    print(f"{rows:,} rows in {len(parts)} parts, the same")


def started(model: Path, out: Path, people: int) -> subprocess.Popen[bytes]:
    """A process that writes the lists."""
    command = [sys.executable, "-m", "benchmarks.kills", "--part", str(model), str(out), str(people)]
    return subprocess.Popen(command, cwd=ROOT)


if __name__ == "__main__":
    main()
