"""docs/results/performance.md, from whatever has been measured: `python -m benchmarks.page` writes it again."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import page_filter, page_first_use, page_movielens, page_msd, page_scale, page_updates, page_weighted
from benchmarks.measure import ROOT

__all__ = ["page", "write"]

_HEAD = """# Performance

Written by `make bench`, `make bench-msd`, `make bench-scale`, `make bench-filter` and the commands that sections name.
The figures of each section come from one run of its command, in which the peers it names ran too, on the same machine.
"""
_SECTIONS = {
    "msd": ("msd.json", page_msd.section),
    "kills": ("kills.json", page_msd.kills),
    "scale": ("scale.json", page_scale.section),
    "filter": ("filter.json", page_filter.section),
    "movielens": ("results.json", page_movielens.section),
    "first_use": ("first_use.json", page_first_use.section),
    "weighted": ("weighted.json", page_weighted.section),
    "updates": ("updates.json", page_updates.section),
}


def page(**given: Path) -> str:
    """The text; `given` are files of figures other than those in benchmarks/."""
    parts = [_HEAD]
    for name, (file, section) in _SECTIONS.items():
        figures = given.get(name, ROOT / "benchmarks" / file)
        if figures.exists():
            parts.append(section(json.loads(figures.read_text())))
    return "\n".join(parts)


def write(path: Path = ROOT / "docs" / "results" / "performance.md", **given: Path) -> None:
    """Write the page."""
    path.write_text(page(**given), encoding="utf-8")


if __name__ == "__main__":
    write()
