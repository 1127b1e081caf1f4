"""The section of docs/results/performance.md on what a newcomer waits for."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import markdown, wrapped

__all__ = ["section"]


def section(found: dict[str, Any]) -> str:
    """From benchmarks/first_use.json."""
    cold, warm = found["cold"], found["warm"]
    first = sum(cold[name]["seconds"] for name in ("fit", "recommend"))
    next_time = sum(warm[name]["seconds"] for name in ("fit", "recommend"))
    functions = sum(cold[name]["functions"] for name in ("fit", "recommend"))
    text = wrapped(f"""`python -m benchmarks.first_use`, {found["machine"]}, 300 generated users and 200 items.
    `import komd` takes {found["import"]:.3f} s beyond starting Python, `komd --help` {found["help"]:.2f} s from start
    to end. The first fit and recommendation take **{first:.1f} s**, because they compile {functions} functions once per
    machine; in the next process, from the cache on disk, {next_time:.2f} s.""")
    rows = [
        [
            name,
            str(own["functions"]),
            f"{own['compiling']:.2f}",
            f"{own['seconds']:.2f}",
            f"{warm[name]['seconds']:.2f}",
        ]
        for name, own in cold.items()
    ]
    steps = markdown(
        ["one process, step after step", "functions compiled", "compiling, s", "all, s", "next time, s"], rows
    )
    each = [[f"`komd {name}`", f"{own['cold']:.1f}", f"{own['warm']:.2f}"] for name, own in found["commands"].items()]
    table = markdown(["command, with an empty cache", "s", "next time, s"], each)
    return "\n".join(["## First use\n", text, steps, table])
