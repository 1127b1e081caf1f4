"""Strips of columns of an item-item matrix, made one after another in the same arrays."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.kernels.entries import Recipe

__all__ = ["WIDEST", "Strip", "Workplace"]

WIDEST = 8192  # columns of a strip at most: a person's scores of it stay in the cache
_CHUNK = 1 << 20  # entries, at most, and users visited by a thread before counts are turned into values


@dataclass
class Strip:
    """Columns first..last of K, for some rows (`_core/strip_counting.py` says how it is laid out)."""

    first: int
    last: int
    row_of: NDArray[np.int32]
    places: NDArray[np.int64]
    columns: NDArray[np.uint16]
    values: NDArray[np.float32]


class Workplace:
    """Where strips are made: arrays that are filled again and again."""

    def __init__(
        self,
        recipe: Recipe,
        by_item: tuple[NDArray[np.int64], NDArray[np.int32]],
        rows: NDArray[np.int32],
        work: NDArray[np.int64],
        room: int,
    ) -> None:
        """`work`: how many counts each row takes over all columns."""
        self._recipe, self._by_item, self._rows = recipe, by_item, rows
        self._visits, self._work = np.diff(by_item[0])[rows], work
        self._scratch = threading.local()
        self._lock = threading.Lock()
        self._places = np.zeros((len(rows), 3), np.int64)
        most = max(1, min(room // 6, len(rows) * min(WIDEST, len(recipe.degree))))
        self._values, self._columns = np.empty(most, np.float32), np.empty(most, np.uint16)

    def strip(self, first: int, last: int, row_of: NDArray[np.int32]) -> Strip:
        """What was filled last."""
        return Strip(first, last, row_of, self._places, self._columns, self._values)

    def fill(
        self,
        first: int,
        last: int,
        starts: NDArray[np.uint32],
        inside: NDArray[np.uint16],
        active: NDArray[np.uint8],
        threads: int | None,
    ) -> None:
        """Count all rows in columns first..last, which `cut_strip` has cut, and keep their values."""
        from komd._core.strip_counting import count_strip, lay_out

        recipe, width = self._recipe, last - first
        left, right = recipe.factors
        end = [0, 0]  # of values, of columns

        def part(block: tuple[int, int]) -> None:
            a, b = block
            columns, products, counter = self._buffers(width)
            lengths, rows = np.empty(b - a, np.int64), self._rows[a:b]
            size = count_strip(
                *self._by_item,
                starts,
                inside,
                active,
                rows,
                first,
                left,
                right,
                counter[:width],
                lengths,
                columns,
                products,
                recipe.user_weights,
            )
            if recipe.by_product and recipe.scale is None:
                values = recipe.kernel.of_product(products[:size]).astype(np.float32)
            else:
                names = columns[:size].astype(np.int32) + np.int32(first)
                values = recipe.from_products(products[:size], np.repeat(rows, lengths), names)
            with self._lock:  # a memory copy, short beside the counting
                if end[0] + size > len(self._values):
                    self._values = np.concatenate(
                        [self._values, np.empty(max(size, len(self._values) // 2), np.float32)]
                    )
                if end[1] + size > len(self._columns):
                    more = np.empty(max(size, len(self._columns) // 2), np.uint16)
                    self._columns = np.concatenate([self._columns, more])
                self._values[end[0] : end[0] + size] = values
                end[1] = lay_out(lengths, width, columns, end[0], end[1], self._columns, self._places[a:b])
                end[0] += size

        # A row has no more entries than counts, and is laid out dense where it has a quarter of the columns.
        most = np.minimum(4 * self._work, width)
        pieces = pool.even_blocks(most + self._visits, _CHUNK)
        pool.for_each(part, pieces, threads=threads)

    def _buffers(self, width: int) -> tuple[NDArray[np.uint16], NDArray[np.float64], NDArray[np.generic]]:
        scratch = self._scratch
        if not hasattr(scratch, "counter") or len(scratch.counter) < width:
            # A piece may be over its size by one row, and the list of columns is written one ahead of its end.
            scratch.columns = np.empty(_CHUNK + width + 1, np.uint16)
            scratch.products = np.empty(_CHUNK + width + 1)
            scratch.counter = np.zeros(width, self._recipe.number)
        return scratch.columns, scratch.products, scratch.counter
