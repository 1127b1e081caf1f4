"""Timing side by side, and the machine it was done on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import komd

ROOT = Path(__file__).resolve().parent.parent


def side_by_side(contenders: dict[str, Callable[[], Any]], *, rounds: int = 5) -> dict[str, float]:
    """Best seconds of each contender; they take turns, so that other work on the machine slows all alike."""
    best = dict.fromkeys(contenders, float("inf"))
    for turn in range(rounds + 1):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            if turn:  # the first turn warms up
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def machine() -> str:
    """What this ran on, in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    number = "1 core" if cores == 1 else f"{cores} cores"
    return f"{number} of {model}, Python {platform.python_version()}"


def data_folder() -> Path:
    """Where data sets are looked for."""
    return Path(os.environ.get("KOMD_DATA", ROOT.parent / "shared" / "data"))


def movielens() -> tuple[str, komd.Interactions]:
    """MovieLens 1M where it is present, else generated data of its shape."""
    file = data_folder() / "ml-1m" / "ratings.csv.gz"
    if file.exists():
        return "MovieLens 1M", komd.read(file, weight=False)
    data = komd.generate(users=6040, items=3706, activity=165, tastes=18, user_tail=0.9, rng=0)
    return "generated data of the shape of MovieLens 1M", data
