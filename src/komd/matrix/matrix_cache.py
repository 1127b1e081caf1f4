"""A least-recently-used cache of matrices, for builds that share stages."""

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
        """The value of this key; if there is none, it is made, and its size in bytes measured."""
        if key not in self._kept:
            made = make()
            self._kept[key] = made, size(made)
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > self._room:
            self._kept.popitem(last=False)
        kept: Kept = self._kept[key][0]
        return kept
