"""docs/results/performance.md, written from whatever has been measured: `python -m benchmarks.page` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import page_filter, page_movielens, page_msd, page_scale
from benchmarks.measure import ROOT

__all__ = ["write"]

_HEAD = """# Performance

Written by `make bench`, `make bench-msd`, `make bench-scale` and `make bench-filter`; the figures of each section come
from one run of its command, in which the peers it names ran as well, on the same machine.
"""
_SECTIONS = {
    "msd": ("msd.json", page_msd.section),
    "kills": ("kills.json", page_msd.kills),
    "scale": ("scale.json", page_scale.section),
    "filter": ("filter.json", page_filter.section),
    "movielens": ("results.json", page_movielens.section),
}


def write(path: Path = ROOT / "docs" / "results" / "performance.md", **given: Path) -> str:
    """Write the page and return it; `given` are files of figures other than those in benchmarks/."""
    parts = [_HEAD]
    for name, (file, section) in _SECTIONS.items():
        figures = given.get(name, ROOT / "benchmarks" / file)
        if figures.exists():
            parts.append(section(json.loads(figures.read_text())))
    text = "\n".join(parts)
    path.write_text(text)
    return text


if __name__ == "__main__":
    write()
