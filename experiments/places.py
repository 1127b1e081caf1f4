"""Where things are: the data sets, the work that is kept, the pages that are written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import komd
from komd import files

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "experiments" / "work"
RESULTS = ROOT / "docs" / "results"  # pages and figures that commands write


def data_folder() -> Path:
    """KOMD_DATA, or else the shared folder beside the checkout."""
    folder = Path(os.environ.get("KOMD_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_absolute() else ROOT / folder


def load(name: str) -> komd.Interactions | None:
    """A data set by name; None, and a message, where it is absent."""
    try:
        return komd.datasets.load(name, path=data_folder())
    except komd.InputError as error:
        print(f"{name} left out: {error}\n")
        return None


def keep(name: str, results: dict[str, Any]) -> None:
    """Write results to `experiments/work/<name>.json` by atomic replace."""
    WORK.mkdir(parents=True, exist_ok=True)
    files.write_text(WORK / f"{name}.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def kept(name: str) -> dict[str, Any]:
    """What `keep` wrote; empty where there is nothing yet."""
    path = WORK / f"{name}.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return results


def short(value: float) -> str:
    """A share as tables have it.

    >>> short(0.5)
    '.5000'
    """
    return f"{value:.4f}".removeprefix("0")
