"""K between all items, never held: rows of it, or strips of columns, computed when they are asked for.

The matrix is defined by the pairs and its `KernelEntries`. A strip of columns is counted for all rows that are needed,
used, and overwritten by the next. Single rows are returned as a sparse matrix in which only these rows are filled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import CountedPairs, OwnEntries, PairValues, Rows, WeightedUsers
from komd.kernels.entries import KernelEntries
from komd.kernels.fixed_point import scale_for
from komd.kernels.functions import Linear
from komd.matrix.expected_density import expected_sums
from komd.matrix.item_matrix import (
    Advance,
    Arrays,
    BlockSums,
    Correction,
    Gathered,
    ItemMatrix,
    Strip,
    Vectors,
    multiplied,
)
from komd.matrix.low_rank import LowRankMatrix
from komd.matrix.sparse import SparseMatrix
from komd.matrix.storage import Plan, plan
from komd.matrix.strip_builder import WIDEST, StripBuilder
from komd.rows import places, pointers, transpose

if TYPE_CHECKING:
    from komd.matrix.renewal import Renewal

__all__ = ["StreamedMatrix"]

_COUNTED = 4  # time of one count, in units of reading an entry of a dense row
_FEW = 64  # if fewer than one row in so many is needed, its work is computed for each of them alone
_CHUNK = 1 << 20  # counts made by a thread before they are turned into values
_SUMMED = 1 << 17  # entries that are computed and summed at a time
_SPARE = 1.3  # margin for strips that are fuller than expected; if it is not enough, the arrays grow
_NO_TARGETS = np.zeros(0, np.int32)


class StreamedMatrix(ItemMatrix):
    """An item-item matrix that is computed again whenever it is read."""

    storage = "streamed"
    recomputed = True

    def __init__(
        self, of: KernelEntries, rows: Rows, by_item: Rows | None = None, pair_values: PairValues | None = None
    ) -> None:
        """`rows` are users' items, ascending; `by_item` the same pairs transposed, if they exist already.

        `pair_values` are the values of pairs, in both orders, if they exist already.
        """
        self.of = of
        self._rows = rows
        if by_item is not None:
            self.by_item = by_item
        if pair_values is not None:
            self.pair_values = pair_values

    @property
    def items(self) -> int:
        return len(self.of.degree)

    @property
    def bytes(self) -> int:
        """The memory kept between calls: the pairs by item, and the values of pairs in both orders."""
        of_pair = 4 if self.of.pair_values is None else 12
        return of_pair * len(self._rows.indices) + 8 * (self.items + 1)

    @property
    def nonzeros(self) -> int:
        from komd._core.strip_counting import count_entries

        return sum(count_entries(strip.arrays, strip.last - strip.first) for strip in self.row_strips(self._all))

    @property
    def plan(self) -> Plan:
        weighted = self.of.pair_values is not None
        return plan(self._popularity, np.diff(self._rows.indptr), storage="streamed", weighted=weighted)

    @property
    def row_work(self) -> float:
        lengths = np.diff(self._rows.indptr).astype(np.float64)
        return self.items + _COUNTED * float(lengths @ lengths) / self.items  # the mean of `work`

    def row(self, item: int) -> NDArray[np.float32]:
        return self._some_rows(np.array([item], np.int32)).row(item)

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        return self._some_rows(np.unique(rows)).entries(rows, columns)

    def diagonal(self) -> NDArray[np.float32]:
        return self.of.diagonal if self.of.kernel.unit_diagonal else self._some_rows(self._all).diagonal()

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        if isinstance(self.of.kernel, Linear):
            return self._linear_sums(threads)
        blocks = self.row_blocks()
        if block_sums is None:
            self.prepare()
            return _joined(pool.run(self.sums_of, blocks, threads=threads, label="kernel", size=_length))
        return _joined(block_sums(blocks))

    def sums_of(self, block: tuple[int, int]) -> NDArray[np.float64]:
        """Entries are summed as integers, in the order in which they are counted: the order makes no difference."""
        from komd._core.exact_sums import sum_rows
        from komd._core.gather import GatheredEntries, gather_scratch, list_products

        of, (left, right), rows = self.of, self.of.count_factors, np.arange(*block, dtype=np.int32)
        work = self.work[rows]
        most, totals = np.minimum(work, self.items), np.empty(len(rows), np.int64)
        pieces = pool.even_blocks(most, _SUMMED)
        size = max((int(most[a:b].sum()) for a, b in pieces), default=0)
        scratch, out = gather_scratch(self.items, of.number), GatheredEntries(np.empty(size, np.int32), np.empty(size))
        for a, b in pieces:
            some, indptr = rows[a:b], np.zeros(b - a + 1, np.int64)
            list_products(
                self.pairs, some, left, right, work[a:b], scratch, indptr, out, of.user_weights, self.pair_values
            )
            end = indptr[-1]
            at = partial(np.repeat, some, np.diff(indptr)), partial(out.columns.__getitem__, slice(end))
            sum_rows(indptr, of.from_products(out.products[:end], *at), self.sums_scale, totals[a:b])
        return totals / self.sums_scale

    @cached_property
    def sums_scale(self) -> float:
        """The factor of entries before they are rounded and summed: the same for all blocks."""
        of = self.of
        if of.kernel.symmetric and of.kernel.unit_diagonal:
            return scale_for(float(of.diagonal.max(initial=0)), self.items)
        most = 1.0 if of.user_weights is None else float(of.weights_of(of.user_weights).max(initial=1))
        scale = 1.0 if of.scale is None else float(of.scale.max(initial=1)) ** 2
        return scale_for(max(1.0, most * float(self._popularity.max(initial=1))) * scale, self.items)

    def sums_after(
        self,
        before: ItemMatrix,
        S: NDArray[np.float64],
        source: NDArray[np.int32],
        changed: NDArray[np.bool_],
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        from komd.matrix.renewal import Renewal, renewed_sums

        if isinstance(self.of.kernel, Linear) or not isinstance(before, StreamedMatrix):
            return self.sums(threads)
        found = renewed_sums(before, S, Renewal(self, source, changed), threads)
        return self.sums(threads) if found is None else found

    def _linear_sums(self, threads: int | None) -> NDArray[np.float64]:
        """Σ_j Σ_{v ∈ U_i ∩ U_j} w_v r_i r_j, computed user by user: no entry of K is needed."""
        of, values, (left, right) = self.of, self.pair_values, self.of.factors
        ones, scale = np.ones(len(self._rows.indptr) - 1), 1.0 if of.scale is None else of.scale
        left, right = left * scale, right * scale
        if values is None:
            totals = _gathered_sums(self._rows, ones, right, float(right.max(initial=0)), threads)
            if of.user_weights is not None:
                totals *= of.weights_of(of.user_weights)
            most = float(totals.max(initial=0)) * float(left.max(initial=0))
            return _gathered_sums(self.by_item, left, totals, most, threads)
        longest = float(np.max(scale, initial=0))  # of the items' vectors: no component is larger
        totals = _gathered_sums(self._rows, ones, right, longest, threads, values.of_user_items)
        most = float(totals.max(initial=0)) * longest
        return _gathered_sums(self.by_item, left, totals, most, threads, values.of_item_users)

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        from komd._core.factor_products import multiply_rows

        def part(block: tuple[int, int], out: Vectors) -> None:
            multiply_rows(*self.block(*block, self.counter()), X, out)

        self.prepare()
        return multiplied(part, self.row_blocks(), X, threads, advance)

    def score(self, users: WeightedUsers, S: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        self._some_rows(np.unique(users.indices)).score(users, S, scores)

    def own_entries(self, rows: Rows) -> OwnEntries:
        return self.gather(rows, None, own=True).own

    # ---- rows of it -----------------------------------------------------------------------------------------------

    def row_blocks(self) -> list[tuple[int, int]]:
        """All rows in blocks of about equal work, each enough for a thread to be efficient."""
        return pool.even_blocks(np.minimum(self.work, self.items), _CHUNK)

    def counter(self) -> NDArray[np.generic]:
        """Scratch for `block`, which leaves it as it was: one for a thread."""
        return np.zeros(self.items, self.of.number)

    def block(
        self, first: int, last: int, counter: NDArray[np.generic]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Rows first..last of K, compressed."""
        rows = np.arange(first, last, dtype=np.int32)
        indptr, columns, both = self.row_counts(rows, counter)
        return indptr, columns, self.of.values(both, np.repeat(rows, np.diff(indptr)), columns)

    def row_counts(
        self, rows: NDArray[np.int32], counter: NDArray[np.generic]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """The total weight of the users that two items share, for these rows, compressed."""
        from komd._core.cooccurrence import count_pairs

        # One place more than needed: the branch-free list writes one ahead of its end.
        room = int(np.minimum(self.work_of(rows), self.items).sum()) + 1
        indptr, columns = np.zeros(len(rows) + 1, np.int64), np.empty(room, np.int32)
        of, counts = self.of, np.empty(room, self.of.number)
        count_pairs(self.pairs, rows, counter, indptr, columns, counts, of.user_weights, self.pair_values)
        return indptr, columns[: indptr[-1]].copy(), of.weights_of(counts[: indptr[-1]])

    def in_memory(
        self, items: NDArray[np.int32], room: Callable[[], int] | None = None, threads: int | None = None
    ) -> SparseMatrix | None:
        rows = np.unique(items)
        if room is not None and 8 * int(np.minimum(self.work_of(rows), self.items).sum()) > room():
            return None
        return self._some_rows(rows, threads)

    def _some_rows(self, rows: NDArray[np.int32], threads: int | None = None) -> SparseMatrix:
        """A sparse matrix in which only these rows (distinct, ascending) are filled."""

        def part(block: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
            some = rows[slice(*block)]
            indptr, columns, both = self.row_counts(some, self.counter())
            lengths = np.diff(indptr)
            return lengths, columns, self.of.values(both, np.repeat(some, lengths), columns)

        self.prepare()
        pieces = pool.blocks(len(rows), max(1, min(64, -(-len(rows) // (4 * pool.count(threads))))))
        parts = list(pool.run(part, pieces, threads=threads))
        indptr = np.zeros(self.items + 1, np.int64)
        if parts:
            indptr[rows + 1] = np.concatenate([lengths for lengths, _, _ in parts])
        np.cumsum(indptr, out=indptr)
        empty = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
        _, columns, values = (np.concatenate(each) for each in zip(*[*parts, empty], strict=True))
        return SparseMatrix(indptr, columns, values)

    # ---- all of it, for many users --------------------------------------------------------------------------------

    def gathered_bytes(self, lengths: NDArray[np.int64], targets: NDArray[np.int64], own: bool) -> NDArray[np.int64]:
        return 4 * lengths * (targets + lengths * own)

    def gather(self, rows: Rows, targets: Rows | None, *, own: bool, threads: int | None = None) -> Gathered:
        """Every row of K that some user needs is counted once and read by all these users."""
        targets = targets or Rows(np.zeros(len(rows.indptr), np.int64), _NO_TARGETS)
        wanted = _side_by_side(rows, targets) if own else targets
        blocks, starts = self._gathered(rows, wanted, threads)
        nothing = super().own_entries(rows)
        return Gathered(nothing._replace(blocks=blocks, starts=starts) if own else nothing, blocks, starts, skip=own)

    def _gathered(self, rows: Rows, wanted: Rows, threads: int | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """K between each user's items and the `wanted` ones: blocks one after another, and where each begins."""
        from komd._core.gather import GatheredEntries, copy_pieces, gather_rows, gather_scratch

        of, (left, right) = self.of, self.of.count_factors
        lengths, widths = np.diff(rows.indptr), np.diff(wanted.indptr)
        starts = pointers(lengths * widths)
        blocks = np.empty(starts[-1], np.float32)
        order = np.argsort(rows.indices, kind="stable")
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        within = np.arange(len(rows.indices)) - rows.indptr[owner]
        destinations = (starts[owner] + within * widths[owner])[order]
        users_of = Rows(pointers(np.bincount(rows.indices, minlength=self.items)), owner[order])
        needed = np.flatnonzero(np.diff(users_of.indptr)).astype(np.int32)
        sizes = pointers(widths[users_of.indices])
        written = sizes[users_of.indptr[needed + 1]] - sizes[users_of.indptr[needed]]
        pairs, of_pairs, local = self.pairs, self.pair_values, threading.local()

        def part(block: tuple[int, int]) -> None:
            some = needed[block[0] : block[1]]
            first, last = users_of.indptr[some[0]], users_of.indptr[some[-1] + 1]
            size = int(sizes[last] - sizes[first])
            if not hasattr(local, "scratch"):
                local.scratch = gather_scratch(self.items, of.number)
                local.columns, local.products = np.empty(0, np.int32), np.empty(0)
            if len(local.columns) < size:
                local.columns, local.products = np.empty(size, np.int32), np.empty(size)
            out = GatheredEntries(local.columns[:size], local.products[:size])
            gather_rows(pairs, some, left, right, users_of, wanted, local.scratch, out, of.user_weights, of_pairs)
            values = of.from_products(
                out.products, lambda: np.repeat(some, written[block[0] : block[1]]), lambda: out.columns
            )
            copy_pieces(values, destinations[first:last], widths[users_of.indices[first:last]], blocks)

        pool.for_each(part, pool.even_blocks(self.work[needed] + written, _CHUNK), threads=threads)
        return blocks, starts

    def strips(self, users: WeightedUsers, *, room: int = 1 << 29, threads: int | None = None) -> Iterator[Strip]:
        return self.row_strips(np.unique(users.indices), room=room, threads=threads)

    def row_strips(
        self, rows: NDArray[np.int32], *, room: int = 1 << 29, threads: int | None = None
    ) -> Iterator[Strip]:
        """`strips` of these rows (distinct, ascending)."""
        from komd._core.strip_counting import CutStrip, cut_strip

        n = len(self._rows.indptr) - 1
        cuts, pairs = self._cuts(rows, room), self.by_item.indptr
        most = max((pairs[last] - pairs[first] for first, last, _ in cuts), default=0)
        cut = CutStrip(np.empty(n + 1, np.uint32), np.empty(most, np.uint16), np.empty(n // 8 + 1, np.uint8))
        ends = self._rows.indptr[:-1].copy()
        values = self.pair_values
        cut_values = None if values is None else values._replace(of_user_items=np.empty(most, np.float32))
        builder = StripBuilder(self.of, self.by_item, rows, self.work[rows], int(room), cut_values)
        for first, last, sparse in cuts:
            cut_strip(self._rows, first, last, ends, cut, values, cut_values)
            yield Strip(first, last, builder.filled(first, last, cut, sparse, threads))

    def _cuts(self, rows: NDArray[np.int32], room: int) -> list[tuple[int, int, int]]:
        """Where to cut the strips, and the expected number of entries of rows that are not dense.

        No strip is wider than `WIDEST` or expected to take more than `room`.
        """
        from komd._core.strip_counting import FILLED, TILE

        degrees = self._popularity[rows], self._popularity, np.diff(self._rows.indptr)
        dense = expected_sums(*degrees, lambda chance: np.where(chance * FILLED > 1, 1.0, 0.0))
        sparse = 1.0 + expected_sums(*degrees, lambda chance: np.where(chance * FILLED > 1, 0.0, chance))
        place = len(rows) * 8 / TILE  # bytes per column for the places of the rows in its tile
        full, named = (np.cumsum(each) for each in (_SPARE * (4.0 * dense + 6.0 * sparse) + place, _SPARE * sparse))
        cuts, first = [], 0
        while first < self.items:
            done = full[first - 1] if first else 0.0
            width = min(max(int(np.searchsorted(full, done + room, side="right")) - first, 1), WIDEST)
            last = min(first + width, self.items)
            if width > TILE and last < self.items:
                last -= width % TILE
            cuts.append((first, last, int(named[last - 1] - named[first] + _SPARE * sparse[first]) + 1))
            first = last
        return cuts

    # ---- stages and files -----------------------------------------------------------------------------------------

    @property
    def pairs_by_item(self) -> Rows | None:
        return self.by_item

    def renewed(self, by: Renewal, threads: int | None = None, *, in_place: bool = False) -> StreamedMatrix:
        return by.fresh

    def scaled(self, factors: NDArray[np.float64], threads: int | None = None) -> StreamedMatrix:
        before = 1.0 if self.of.scale is None else self.of.scale
        return StreamedMatrix(replace(self.of, scale=before * factors), self._rows, self.by_item, self.pair_values)

    def corrected(self, by: Correction, *, in_place: bool = False, threads: int | None = None) -> LowRankMatrix:
        base = self if by.factor == 1.0 else self.scaled(np.full(self.items, np.sqrt(by.factor)))
        return LowRankMatrix(base, by)

    def arrays(self) -> Arrays:
        # Saved, so that many processes map one copy and need not transpose the pairs.
        return {"item_indptr": self.by_item.indptr, "item_users": self.by_item.indices}

    @cached_property
    def by_item(self) -> Rows:
        """Each item's users, ascending."""
        return Rows(*transpose(*self._rows, self.items))

    @cached_property
    def pairs(self) -> CountedPairs:
        """The pairs both ways."""
        return CountedPairs(*self.by_item, *self._rows)

    @cached_property
    def pair_values(self) -> PairValues | None:
        """The values of pairs in both orders; None if pairs have none."""
        values = self.of.pair_values
        return None if values is None else PairValues(values, values[places(self._rows.indices, self.by_item.indptr)])

    def prepare(self) -> None:
        """Compute what threads share, before they start."""
        self.pairs  # noqa: B018
        self.pair_values  # noqa: B018

    @cached_property
    def _popularity(self) -> NDArray[np.int64]:
        return np.diff(self.by_item.indptr)

    def work_of(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """`work` of these rows."""
        if "work" in self.__dict__ or len(rows) * _FEW > self.items:
            return self.work[rows]
        lengths = np.diff(self._rows.indptr)
        indptr, users = self.by_item
        return np.array([lengths[users[indptr[i] : indptr[i + 1]]].sum() for i in rows.tolist()], np.int64)

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """The number of counts needed for each row."""
        from komd._core.cooccurrence import reach

        out = np.zeros(self.items, np.int64)
        reach(*self._rows, out)
        return out

    @property
    def _all(self) -> NDArray[np.int32]:
        return np.arange(self.items, dtype=np.int32)


def _side_by_side(rows: Rows, targets: Rows) -> Rows:
    """Each user's items, then their targets (not in order: only to be gathered)."""
    lengths = np.diff(rows.indptr)
    indptr = rows.indptr + targets.indptr
    indices = np.empty(indptr[-1], np.int32)
    for part, start in ((rows, indptr[:-1]), (targets, indptr[:-1] + lengths)):
        place = np.arange(len(part.indices)) + np.repeat(start - part.indptr[:-1], np.diff(part.indptr))
        indices[place] = part.indices
    return Rows(indptr, indices)


def _joined(pieces: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *pieces])


def _length(block: tuple[int, int]) -> int:
    return block[1] - block[0]


def _gathered_sums(
    rows: Rows,
    of_rows: NDArray[np.float64],
    of_columns: NDArray[np.float64],
    largest: float,
    threads: int | None,
    values: NDArray[np.float32] | None = None,
) -> NDArray[np.float64]:
    """Σ of_rows[r] · of_columns[c] · value over the entries of each row; no term exceeds `largest` by much."""
    from komd._core.exact_sums import sum_gathered

    lengths = np.diff(rows.indptr)
    scale, totals = scale_for(largest, 2 * int(lengths.max(initial=1))), np.empty(len(lengths), np.int64)

    def part(block: tuple[int, int]) -> None:
        a, b = block
        some = Rows(rows.indptr[a : b + 1], rows.indices)
        sum_gathered(some, of_rows[a:b], of_columns, scale, totals[a:b], values)

    pool.for_each(part, pool.even_blocks(lengths + 1, _CHUNK), threads=threads)
    return totals / scale
