"""Strips of columns of an item-item matrix, made one after another in the same arrays."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import PairValues, Rows
from komd.kernels.entries import KernelEntries
from komd.matrix.item_matrix import WIDEST

if TYPE_CHECKING:
    from komd._core.strip_counting import CountedStrip, CutStrip

__all__ = ["StripBuilder"]

_CHUNK = 1 << 20  # entries, at most, and users visited by a thread before counts are turned into values


class StripBuilder:
    """Arrays that are filled with one strip after another; they may be replaced by larger ones meanwhile."""

    def __init__(
        self,
        of: KernelEntries,
        by_item: Rows,
        rows: NDArray[np.int32],
        work: NDArray[np.int64],
        room: int,
        values: PairValues | None = None,
    ) -> None:
        """`work`: how many counts each row takes over all columns. `values`: those of pairs, by item and as cut."""
        self._values = values
        self._of, self._by_item, self._rows = of, by_item, rows
        self._visits, self._work = np.diff(by_item.indptr)[rows], work
        self._local = threading.local()
        self._lock = threading.Lock()
        self.places = np.zeros((len(rows), 3), np.int64)
        most = max(1, min(room // 6, len(rows) * min(WIDEST, len(of.degree))))
        self.values, self.columns = np.empty(most, np.float32), np.empty(most, np.uint16)

    def fill(self, first: int, last: int, cut: CutStrip, threads: int | None) -> None:
        """Count all rows in columns first..last, which were cut, and keep their values."""
        from komd._core.strip_counting import count_strip, lay_out

        width, (left, right) = last - first, self._of.count_factors
        end = [0, 0]  # of values, of columns

        def part(block: tuple[int, int]) -> None:
            a, b = block
            counted, rows = self._buffers(width, b - a), self._rows[a:b]
            weights, values = self._of.user_weights, self._values
            size = count_strip(self._by_item, cut, rows, first, left, right, counted, weights, values)
            entries = self._of.from_products(
                counted.products[:size],
                lambda: np.repeat(rows, counted.lengths),
                lambda: counted.columns[:size].astype(np.int32) + np.int32(first),
            )
            with self._lock:  # a memory copy, short beside the counting
                self.values = _long_enough(self.values, end[0] + size)
                self.columns = _long_enough(self.columns, end[1] + size)
                self.values[end[0] : end[0] + size] = entries
                end[1] = lay_out(
                    counted.lengths, width, counted.columns, end[0], end[1], self.columns, self.places[a:b]
                )
                end[0] += size

        # A row has no more entries than counts, and is laid out dense where it has a quarter of the columns.
        most = np.minimum(4 * self._work, width)
        pool.for_each(part, pool.even_blocks(most + self._visits, _CHUNK), threads=threads)

    def _buffers(self, width: int, rows: int) -> CountedStrip:
        from komd._core.strip_counting import CountedStrip

        local = self._local
        if not hasattr(local, "counter") or len(local.counter) < width:
            # A piece may be over its size by one row, and the list of columns is written one ahead of its end.
            local.columns = np.empty(_CHUNK + width + 1, np.uint16)
            local.products = np.empty(_CHUNK + width + 1)
            local.counter = np.zeros(width, self._of.number)
        return CountedStrip(local.counter[:width], np.empty(rows, np.int64), local.columns, local.products)


def _long_enough(array: Any, size: int) -> Any:
    """The array, or a longer one that begins with it."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.empty(max(size - len(array), len(array) // 2), array.dtype)])
