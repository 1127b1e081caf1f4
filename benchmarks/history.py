"""The ratios of all benchmarks over time: benchmarks/history.jsonl, one line for each run that was kept.

Benchmarks write their figures by `keep`, which also appends the ratios (benchmarks/ratios.py) with the commit, the day
and the machine, and writes docs/results/history.md. `python -m benchmarks.history` adds the runs whose figures were
committed but not appended: it reads all versions of the json files from git. Running it again changes nothing.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.ratios import BENCHMARKS, ratios

__all__ = ["HISTORY", "Run", "add", "add_committed", "committed", "keep", "runs"]

HERE = ROOT / "benchmarks"
HISTORY = HERE / "history.jsonl"

Run = dict[str, Any]
"""benchmark (the json file), commit, date, machine, ratios (name -> number)"""


def keep(file: Path, figures: dict[str, Any]) -> None:
    """Write the figures of a benchmark to its json file; if that is in benchmarks/, also its ratios to the history."""
    from benchmarks.page_history import write

    file.write_text(json.dumps(figures, indent=1) + "\n")
    name = file.relative_to(HERE).as_posix() if file.is_relative_to(HERE) else ""
    if name in BENCHMARKS and (ROOT / ".git").exists():  # of a source archive no commit is known
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src")
        commit = _git("rev-parse", "--short=7", "HEAD").strip() + ("+" if changed.strip() else "")
        add([_run(name, commit, datetime.now(UTC).isoformat(timespec="seconds"), figures)])
        write()


def runs(history: Path = HISTORY) -> list[Run]:
    """All runs, the oldest first."""
    return [json.loads(line) for line in history.read_text().splitlines()] if history.exists() else []


def add(new: list[Run], history: Path = HISTORY) -> None:
    """Append runs, in order of their dates. A commit has one run of a benchmark: the last."""
    kept = runs(history)
    for run in new:
        kept = [other for other in kept if not _same(run, other, "commit")] + [run] * bool(run["ratios"])
    kept.sort(key=lambda run: (run["date"], run["benchmark"]))
    history.write_text("".join(json.dumps(run, ensure_ascii=False) + "\n" for run in kept), encoding="utf-8")


def committed(name: str) -> list[Run]:
    """The runs of a benchmark whose figures are in git, one for each commit that changed them."""
    path = f"benchmarks/{name}"
    found = []
    for line in _git("log", "--reverse", "--format=%h %cI", "--abbrev=7", "--diff-filter=AM", "--", path).splitlines():
        commit, date = line.split()
        moment = datetime.fromisoformat(date).astimezone(UTC).isoformat(timespec="seconds")
        found.append(_run(name, commit, moment, json.loads(_git("show", f"{commit}:{path}"))))
    return found


def add_committed(new: list[Run], history: Path = HISTORY) -> None:
    """`add` those runs of `committed` whose figures are not in the history yet.

    They may be there under the commit that they were measured at, which is an earlier one than that which brought them
    into the project.
    """
    for run in new:
        if not any(_same(run, other, "ratios") for other in runs(history)):
            add([run], history)


def _run(name: str, commit: str, date: str, figures: dict[str, Any]) -> Run:
    machine = figures.get("machine", "")
    return {"benchmark": name, "commit": commit, "date": date, "machine": machine, "ratios": ratios(name, figures)}


def _same(run: Run, other: Run, key: str) -> bool:
    return bool(run["benchmark"] == other["benchmark"] and run[key] == other[key])


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout


def main() -> None:
    from benchmarks.page_history import write

    for name in BENCHMARKS:
        add_committed(committed(name))
    write()
    print(f"{len(runs())} runs; wrote docs/results/history.md")


if __name__ == "__main__":
    main()
