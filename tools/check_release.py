"""Before a release: the tag, pyproject.toml, CITATION.cff and a dated heading of CHANGELOG.md name the same version.

python tools/check_release.py v0.2.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def versions(root: Path = ROOT) -> dict[str, str]:
    """What each file says; the changelog by its topmost heading, with what is in parentheses."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    heading = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    return {
        "pyproject.toml": project["version"],
        "CITATION.cff": cited[1] if cited else "",
        "CHANGELOG.md": heading[1] if heading else "",
    }


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps this tag from being released; empty if nothing does."""
    wanted, found = tag.removeprefix("v"), versions(root)
    wrong = [
        f"{name} says {found[name]!r}, the tag {tag}"
        for name in ("pyproject.toml", "CITATION.cff")
        if found[name] != wanted
    ]
    if not re.fullmatch(rf"{re.escape(wanted)} \(\d{{4}}-\d\d-\d\d\)", found["CHANGELOG.md"]):
        wrong.append(f"the topmost heading of CHANGELOG.md is {found['CHANGELOG.md']!r}, not '{wanted} (a date)'")
    released = re.search(r"^date-released: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    if released and f"({released[1]})" not in found["CHANGELOG.md"]:
        wrong.append(f"CITATION.cff was released on {released[1]}, CHANGELOG.md says {found['CHANGELOG.md']!r}")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = problems(sys.argv[1])
    sys.exit("\n".join(found) if found else 0)
