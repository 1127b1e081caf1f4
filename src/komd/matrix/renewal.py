"""A matrix of counts after an update: rows of changed items are counted again, everything else is copied.

An update changes the counts of few items; those of all others, and so their entries of K, stay as they were, to the
last bit. Rows and columns of changed items are counted from the new pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import Rows
from komd.matrix.streamed import StreamedMatrix

__all__ = ["Renewal", "renewed_sums"]

_CHUNK = 1 << 20  # counts made by a thread before they are turned into values
_SHARE = 0.25  # of all counts: if changed rows need more, all sums are computed again
_EXACT = 2.0**53  # integers up to this are exact in double precision


@dataclass(frozen=True, eq=False)
class Renewal:
    """How K changes in an update.

    Attributes
    ----------
    fresh
        K of the new pairs, streamed.
    source
        The old number of each item; -1 for new items.
    changed
        For each item, whether its row and column are counted again.
    """

    fresh: StreamedMatrix
    source: NDArray[np.int32]
    changed: NDArray[np.bool_]

    @cached_property
    def kept(self) -> NDArray[np.int32]:
        """The old number of each item that did not change; -1 for the others."""
        return np.where(self.changed, -1, self.source).astype(np.int32)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The items that changed."""
        return np.flatnonzero(self.changed).astype(np.int32)

    def numbers(self, old: int) -> NDArray[np.int32]:
        """The new numbers of `old` items; -1 for those that changed or are gone."""
        out = np.full(old, -1, np.int32)
        still = np.flatnonzero(self.kept >= 0)
        out[self.kept[still]] = still
        return out

    @property
    def share(self) -> float:
        """The share of the counts of all of K that the update needs."""
        return _share(self.fresh, self.work)

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """The number of counts needed for each changed row."""
        return self.fresh.work_of(self.rows)

    def counted(self, threads: int | None) -> tuple[Rows, NDArray[np.float32], NDArray[np.float32]]:
        """The rows of changed items, compressed; their entries, and the entries of the columns of the same items.

        The two differ where K is not symmetric: the second is K(j, i) where the first is K(i, j).
        """
        of, fresh = self.fresh.of, self.fresh
        fresh.prepare()

        def part(block: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
            indptr, columns, both = fresh.row_counts(self.rows[slice(*block)], fresh.counter())
            return np.diff(indptr), columns, both

        blocks = pool.even_blocks(np.minimum(self.work, fresh.items) + 1, _CHUNK)
        parts = list(pool.run(part, blocks, threads=threads))
        empty = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))
        lengths, columns, both = (np.concatenate(each) for each in zip(empty, *parts, strict=True))
        indptr = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        rows = np.repeat(self.rows, lengths)
        other = None if of.kernel.symmetric else of.values(both.copy(), columns, rows)
        values = of.values(both, rows, columns)
        return Rows(indptr, columns), values, values if other is None else other


def renewed_sums(
    before: StreamedMatrix, S: NDArray[np.float64], by: Renewal, threads: int | None = None
) -> NDArray[np.float64] | None:
    """The row sums of `by.fresh`, a symmetric K, from those before: what changed rows contribute is replaced.

    The sums are integers, so they equal sums computed again. None if that is not possible, or slower.
    """
    scale, fresh = before.sums_scale, by.fresh
    if fresh.sums_scale != scale or not fresh.of.kernel.symmetric or float(S.max(initial=0)) * scale >= _EXACT:
        return None
    gone = np.flatnonzero(by.numbers(before.items) < 0).astype(np.int32)
    if by.share > _SHARE or _share(before, before.work_of(gone)) > _SHARE:
        return None
    totals = np.rint(S * scale).astype(np.int64)
    _add_rows(before, gone, -1, scale, totals, threads)
    renewed = np.where(by.kept >= 0, totals[by.kept], 0)
    of_rows = _add_rows(fresh, by.rows, 1, scale, renewed, threads)
    renewed[by.rows] = of_rows
    return renewed / scale


def _add_rows(
    matrix: StreamedMatrix,
    rows: NDArray[np.int32],
    sign: int,
    scale: float,
    totals: NDArray[np.int64],
    threads: int | None,
) -> NDArray[np.int64]:
    """Add the entries of these rows to the totals of their columns; returns the sum of each row."""
    matrix.prepare()

    def part(block: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        some = rows[slice(*block)]
        indptr, columns, both = matrix.row_counts(some, matrix.counter())
        lengths = np.diff(indptr)
        values = matrix.of.values(both, np.repeat(some, lengths), columns)
        return columns, np.rint(values * scale).astype(np.int64), lengths

    sums = [np.zeros(0, np.int64)]
    blocks = pool.even_blocks(np.minimum(matrix.work_of(rows), matrix.items) + 1, _CHUNK)
    for columns, entries, lengths in pool.run(part, blocks, threads=threads):
        np.add.at(totals, columns, sign * entries)
        ends = np.cumsum(lengths)
        running = np.append(0, np.cumsum(entries))
        sums.append(running[ends] - running[ends - lengths])
    return np.concatenate(sums)


def _share(matrix: StreamedMatrix, work: NDArray[np.int64]) -> float:
    """These counts as a share of those for all rows of a matrix, Σ_v a_v²."""
    return float(work.sum()) / max(float((np.diff(matrix.pairs.user_indptr) ** 2).sum()), 1.0)
