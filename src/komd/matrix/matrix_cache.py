"""Matrices kept between builds that share stages: what was used longest ago makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["MatrixCache"]

Kept = TypeVar("Kept")


class MatrixCache:
    """A least-recently-used cache of at most `room` bytes, or of one value."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def recall(self, key: Hashable, make: Callable[[], Kept], size: Callable[[Kept], int]) -> Kept:
        """What is kept under this key; made now, and its size in bytes measured, if there is nothing."""
        if key not in self._kept:
            made = make()
            self._kept[key] = made, size(made)
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > self._room:
            self._kept.popitem(last=False)
        kept: Kept = self._kept[key][0]
        return kept
