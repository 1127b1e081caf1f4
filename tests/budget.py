"""How often random trials are repeated: few times in `make test`, more often in `make test-thorough` and in CI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["THOROUGH", "repeats", "some"]

THOROUGH = bool(os.environ.get("KOMD_THOROUGH"))


def repeats(few: int, many: int) -> int:
    """The number of trials. Each trial checks the same; more of them reach rarer moments and inputs."""
    return many if THOROUGH else few


Case = TypeVar("Case")


def some(cases: Sequence[Case], few: int) -> list[Case]:
    """All cases; in `make test` a few of them, evenly spaced: for slow tests whose cases share most of their code."""
    return list(cases) if THOROUGH else [cases[k * len(cases) // few] for k in range(few)]
