"""How often random trials are repeated: few times in `make test`, more often in `make test-thorough` and in CI."""

from __future__ import annotations

import os

__all__ = ["THOROUGH", "repeats"]

THOROUGH = bool(os.environ.get("KOMD_THOROUGH"))


def repeats(few: int, many: int) -> int:
    """The number of trials. Each trial checks the same; more of them reach rarer moments and inputs."""
    return many if THOROUGH else few
