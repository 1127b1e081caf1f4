"""Strips of columns of an item-item matrix, built one after another in the same arrays."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import PairValues, Rows, StripArrays
from komd.kernels.entries import KernelEntries

if TYPE_CHECKING:
    from komd._core.strip_counting import CountedStrip, CutStrip

__all__ = ["WIDEST", "StripBuilder"]

WIDEST = 32768  # columns of a strip at most: one counter for each stays in the cache
_CHUNK = 1 << 19  # entries, at most, and users visited by a thread before counts are turned into values


class StripBuilder:
    """Builds one strip after another in the same memory; if a strip does not fit, the memory grows."""

    def __init__(
        self,
        of: KernelEntries,
        by_item: Rows,
        rows: NDArray[np.int32],
        work: NDArray[np.int64],
        room: int,
        values: PairValues | None = None,
    ) -> None:
        """`work`: the number of counts of each row over all columns. `values`: those of pairs, by item and as cut."""
        self._values = values
        self._of, self.by_item, self.rows = of, by_item, rows
        self._visits, self._work = np.diff(by_item.indptr)[rows], work
        self._local = threading.local()
        self._lock = threading.Lock()
        self._bytes = np.empty(max(64, min(room, 6 * len(rows) * min(WIDEST, len(of.degree)))), np.uint8)
        self._all_places = np.empty(0, np.uint32)
        self._row_of = np.full(len(of.degree), -1, np.int32)
        self._row_of[rows] = np.arange(len(rows), dtype=np.int32)

    def filled(self, first: int, last: int, cut: CutStrip, sparse: int, threads: int | None) -> StripArrays:
        """Columns first..last, which were cut, of all rows; of those that are not dense about `sparse` entries."""
        from komd._core.strip_counting import DENSE, FILLED, TILE, RowPlaces, count_strip, lay_out

        width, (left, right) = last - first, self._of.count_factors
        wide = min(TILE, width)
        tiles = -(-width // wide)
        places = self._places(tiles)
        # Dense rows are at the beginning of the memory, others at its end: all strips use the same memory.
        sparse = min(sparse, len(self._bytes) // 6)
        start_of_others = (len(self._bytes) - 6 * sparse) // 64 * 64
        slots = start_of_others // (4 * tiles * wide)
        dense = self._bytes[: 4 * tiles * slots * wide].view(np.float32).reshape(tiles, slots, wide)
        others = self._bytes[start_of_others:]
        found: list[Any] = [others[: 4 * sparse].view(np.float32), others[4 * sparse : 6 * sparse].view(np.uint16)]
        end = [0, 0]  # of columns and entries, of dense rows

        def part(block: tuple[int, int]) -> None:
            a, b = block
            (counted, columns, laid_out), rows = self._buffers(width, b - a), self.rows[a:b]
            weights, values = self._of.user_weights, self._values
            size = count_strip(self.by_item, cut, rows, first, left, right, counted, weights, values)
            entries = self._of.from_products(
                counted.products[:size],
                lambda: np.repeat(rows, counted.lengths),
                lambda: counted.columns[:size].astype(np.int32) + np.int32(first),
            )
            full = int(np.count_nonzero(counted.lengths == width))
            with self._lock:
                start, slot = end
                full = min(full, slots - slot)
                size -= full * width
                end[0] += size
                end[1] += full
                if end[0] >= int(DENSE):
                    raise MemoryError(f"a strip of {width:,} columns has {end[0]:,} entries; give less memory")
            out = RowPlaces(places[:, a:b], dense, slot, full, columns, laid_out, start)
            lay_out(counted.lengths, width, counted.columns, entries, out)
            with self._lock:  # a memory copy, which is short compared with counting
                found[:] = (_long_enough(array, start + size) for array in found)
                found[0][start : start + size] = laid_out[:size]
                found[1][start : start + size] = columns[:size]

        # A row has at most as many entries as counts, or all columns if it is dense.
        most = np.where(self._work * FILLED > width, width, self._work)
        pool.for_each(part, pool.even_blocks(most + self._visits, _CHUNK), threads=threads)
        return StripArrays(self._row_of, places, found[1], found[0], dense)

    def _places(self, tiles: int) -> NDArray[np.uint32]:
        size = 2 * tiles * len(self.rows)
        if len(self._all_places) < size:
            self._all_places = np.empty(size, np.uint32)
        return self._all_places[:size].reshape(tiles, len(self.rows), 2)

    def _buffers(self, width: int, rows: int) -> tuple[CountedStrip, NDArray[np.uint16], NDArray[np.float32]]:
        """Buffers of a thread, into which it counts: columns and entries."""
        from komd._core.strip_counting import CountedStrip

        local = self._local
        if not hasattr(local, "counter") or len(local.counter) < width:
            # A piece may exceed its size by one row, and the list of columns is written one ahead of its end.
            size = _CHUNK + width + 1
            local.listed, local.products, local.counter = (
                np.empty(size, np.uint16),
                np.empty(size),
                np.zeros(width, self._of.number),
            )
            local.columns, local.entries = np.empty(size, np.uint16), np.empty(size, np.float32)
        counted = CountedStrip(local.counter[:width], np.empty(rows, np.int64), local.listed, local.products)
        return counted, local.columns, local.entries


def _long_enough(array: Any, size: int) -> Any:
    """The array, or if it is too short, a longer one that begins with it."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.empty(max(size - len(array), len(array) // 2), array.dtype)])
