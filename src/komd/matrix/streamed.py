"""K between all items, never held: rows of it, or strips of columns, computed when they are asked for.

The matrix is known by its recipe alone: who chose what, and the kernel of the counts. A strip of columns is counted for
all the rows that somebody needs, used, and overwritten by the next. Rows asked for one by one come as a sparse matrix
in which only they are filled.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.kernels.entries import Recipe
from komd.kernels.functions import Linear
from komd.matrix.item_matrix import BlockSums, ItemMatrix, SparseMatrix
from komd.matrix.storage import expected_nonzeros
from komd.matrix.strip_builder import WIDEST, Strip, Workplace

__all__ = ["StreamedMatrix"]

_CHUNK = 1 << 20  # counts made by a thread before they are turned into values
_SPARE = 1.3  # room for the strips' being fuller than expected; where it does not do, the arrays grow


class StreamedMatrix(ItemMatrix):
    """An item-item matrix that is computed again whenever it is read."""

    storage = "streamed"
    names = frozenset({"item_indptr", "item_users"})

    def __init__(
        self,
        recipe: Recipe,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        by_item: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
    ) -> None:
        """`by_item`: the same pairs turned over, where that is at hand."""
        self.recipe = recipe
        self._indptr = indptr
        self._indices = indices
        if by_item is not None:
            self.by_item = by_item

    @property
    def items(self) -> int:
        return len(self.recipe.degree)

    @property
    def bytes(self) -> int:
        """What is kept between calls: the interactions by item."""
        return 4 * len(self._indices) + 8 * (self.items + 1)

    @property
    def nonzeros(self) -> int:
        return sum(int(np.count_nonzero(s.values[: s.places[:, 2].sum()])) for s in self.strips(self._all))

    def row(self, item: int) -> NDArray[np.float32]:
        return self.rows(np.array([item], np.int32)).row(item)

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.rows(np.unique(rows)).entries(rows, columns)

    def diagonal(self) -> NDArray[np.float32]:
        return self.recipe.diagonal if self.recipe.kernel.unit_diagonal else self.rows(self._all).diagonal()

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        # Saved, so that many processes map one copy and none has to turn the pairs over.
        indptr, users = self.by_item
        return {"item_indptr": indptr, "item_users": users}

    def compiled_form(self) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        raise TypeError("a streamed matrix has no form in memory; ask for rows() or strips()")

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        recipe = self.recipe
        if isinstance(recipe.kernel, Linear):
            # Σ_j Σ_{v ∈ U_i ∩ U_j} w_v r_i r_j, taken user by user: no entry of K is needed.
            left, right = recipe.factors
            if recipe.scale is not None:
                left, right = left * recipe.scale, right * recipe.scale
            owner = np.repeat(np.arange(len(self._indptr) - 1, dtype=np.int32), np.diff(self._indptr))
            of_user: NDArray[np.float64] = np.bincount(
                owner, weights=right[self._indices], minlength=len(self._indptr) - 1
            ).astype(np.float64)
            if recipe.user_weights is not None:
                of_user *= recipe.user_weights
            return left * np.bincount(self._indices, weights=of_user[owner], minlength=self.items)
        blocks = self.row_blocks()
        if block_sums is None:
            return _joined(pool.run(self.sums_of, blocks, threads=threads, label="kernel", size=_length))
        return _joined(block_sums(blocks))

    def row_blocks(self) -> list[tuple[int, int]]:
        """All rows in blocks of about equal work, each worth a thread's while."""
        return pool.even_blocks(self.row_bounds(self._all), _CHUNK)

    def sums_of(self, block: tuple[int, int]) -> NDArray[np.float64]:
        """S_i of a block of rows."""
        return SparseMatrix(*self.block(*block, self.counter())).sums()

    # ---- reading it ---------------------------------------------------------------------------------------------

    def row_bounds(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """How many entries each of these rows can have at most."""
        return np.minimum(self.work[rows], self.items)

    def counter(self) -> NDArray[np.generic]:
        """Scratch for `block`, which leaves it as it was: one for a thread."""
        return np.zeros(self.items, self.recipe.number)

    def block(
        self, first: int, last: int, counter: NDArray[np.generic]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Rows first..last of K, compressed."""
        from komd._core.cooccurrence import count_pairs

        recipe = self.recipe
        # One place more than can be filled: the branch-free list writes one ahead of its end.
        room = int(np.minimum(self.work[first:last], self.items).sum()) + 1
        indptr, columns = np.zeros(last - first + 1, np.int64), np.empty(room, np.int32)
        counts = np.empty(room, recipe.number)
        pairs = (*self.by_item, self._indptr, self._indices)
        count_pairs(*pairs, first, last, counter, indptr, columns, counts, recipe.user_weights)
        columns = columns[: indptr[-1]].copy()
        rows = np.repeat(np.arange(first, last, dtype=np.int32), np.diff(indptr))
        return indptr, columns, recipe.values(counts[: indptr[-1]].astype(np.float64), rows, columns)

    def rows(self, rows: NDArray[np.int32], threads: int | None = None) -> SparseMatrix:
        """These rows of K (ascending, distinct) and no others: everything else in the answer is empty."""

        def part(block: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
            counter = self.counter()
            found = [self.block(i, i + 1, counter) for i in rows[block[0] : block[1]].tolist()]
            lengths, columns, values = zip(
                *((indptr[1:], columns, values) for indptr, columns, values in found), strict=True
            )
            return np.concatenate(lengths), np.concatenate(columns), np.concatenate(values)

        pieces = pool.blocks(len(rows), max(1, min(64, -(-len(rows) // (4 * pool.count(threads))))))
        parts = list(pool.run(part, pieces, threads=threads))
        indptr = np.zeros(self.items + 1, np.int64)
        if parts:
            indptr[rows + 1] = np.concatenate([lengths for lengths, _, _ in parts])
        np.cumsum(indptr, out=indptr)
        empty = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
        _, columns, values = (np.concatenate(each) for each in zip(*[*parts, empty], strict=True))
        return SparseMatrix(indptr, columns, values)

    def strips(self, rows: NDArray[np.int32], *, room: int = 1 << 29, threads: int | None = None) -> Iterator[Strip]:
        """Strips of columns, ascending, of these rows (ascending, distinct); each is overwritten by the next.

        `room` bounds the bytes of a strip.
        """
        from komd._core.strip_counting import cut_strip

        n, cuts, (item_indptr, _) = len(self._indptr) - 1, self._cuts(rows, room), self.by_item
        ends, starts = self._indptr[:-1].copy(), np.empty(n + 1, np.uint32)
        inside = np.empty(max((item_indptr[last] - item_indptr[first] for first, last in cuts), default=0), np.uint16)
        active = np.empty(n // 8 + 1, np.uint8)
        row_of = np.full(self.items, -1, np.int32)
        row_of[rows] = np.arange(len(rows), dtype=np.int32)
        work = Workplace(self.recipe, self.by_item, rows, self.work[rows], int(room))
        for first, last in cuts:
            cut_strip(self._indptr, self._indices, first, last, ends, starts, inside, active)
            work.fill(first, last, starts, inside, active, threads)
            yield work.strip(first, last, row_of)

    def gather(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        wanted_indptr: NDArray[np.int64],
        wanted: NDArray[np.int32],
        threads: int | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """K between each person's items and the items they want: blocks one after another, and where each begins.

        Every row of K that anybody has is counted once and read by all who have it.
        """
        from komd._core.gather import deliver, gather_rows

        recipe, (item_indptr, item_users) = self.recipe, self.by_item
        lengths, widths = np.diff(indptr), np.diff(wanted_indptr)
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths * widths, out=starts[1:])
        blocks = np.empty(starts[-1], np.float32)
        order = np.argsort(indices, kind="stable")
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        people = owner[order]
        destinations = (starts[owner] + (np.arange(len(indices)) - indptr[owner]) * widths[owner])[order]
        people_indptr = np.zeros(self.items + 1, np.int64)
        np.cumsum(np.bincount(indices, minlength=self.items), out=people_indptr[1:])
        rows = np.flatnonzero(np.diff(people_indptr)).astype(np.int32)
        sizes = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(widths[people], out=sizes[1:])
        left, right = recipe.factors
        scratch = threading.local()

        def part(block: tuple[int, int]) -> None:
            some = rows[block[0] : block[1]]
            first, last = people_indptr[some[0]], people_indptr[some[-1] + 1]
            size = int(sizes[last] - sizes[first])
            if not hasattr(scratch, "counter"):
                scratch.counter = np.zeros(self.items, recipe.number)
                scratch.touched = np.empty(self.items + 1, np.int32)
                scratch.columns, scratch.products = np.empty(0, np.int32), np.empty(0)
            if len(scratch.columns) < size:
                scratch.columns, scratch.products = np.empty(size, np.int32), np.empty(size)
            gather_rows(
                item_indptr,
                item_users,
                self._indptr,
                self._indices,
                some,
                left,
                right,
                people_indptr,
                people,
                wanted_indptr,
                wanted,
                scratch.counter,
                scratch.touched,
                scratch.columns,
                scratch.products,
                recipe.user_weights,
            )
            products, columns = scratch.products[:size], scratch.columns[:size]
            if recipe.by_product and recipe.scale is None:
                values = recipe.kernel.of_product(products).astype(np.float32)
            else:
                values = recipe.from_products(products, np.repeat(some, written[block[0] : block[1]]), columns)
            deliver(values, destinations[first:last], widths[people[first:last]], blocks)

        written = sizes[people_indptr[rows + 1]] - sizes[people_indptr[rows]]
        pool.for_each(part, pool.even_blocks(self.work[rows] + written, _CHUNK), threads=threads)
        return blocks, starts

    def _cuts(self, rows: NDArray[np.int32], room: int) -> list[tuple[int, int]]:
        """Where to cut: no strip wider than `WIDEST`, nor fuller than `room` allows, as far as can be told."""
        expected = expected_nonzeros(self._popularity[rows], self._popularity, np.diff(self._indptr))
        full = np.cumsum(np.minimum(4.0 * expected, len(rows)) * (6 * _SPARE))
        edges = [0]
        while edges[-1] < self.items:
            first = edges[-1]
            done = full[first - 1] if first else 0.0
            last = int(np.searchsorted(full, done + room, side="right"))
            edges.append(min(max(last, first + 1), first + WIDEST, self.items))
        return list(pairwise(edges))

    def scaled(self, factor: float) -> StreamedMatrix:
        """The same matrix with every entry multiplied by this."""
        scale = np.ones(self.items) if self.recipe.scale is None else self.recipe.scale
        recipe = replace(self.recipe, scale=scale * np.sqrt(factor))
        return StreamedMatrix(recipe, self._indptr, self._indices, self.by_item)

    def prepare(self) -> None:
        """Turn the interactions over to items now, which the first reading would do."""
        self.by_item  # noqa: B018 (kept from now on)

    @cached_property
    def by_item(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Each item's users, ascending."""
        from komd._core import compressed_rows as csr

        item_indptr = np.zeros(self.items + 1, np.int64)
        np.cumsum(np.bincount(self._indices, minlength=self.items), out=item_indptr[1:])
        users = np.empty(len(self._indices), np.int32)
        csr.transpose(self._indptr, self._indices, item_indptr[:-1].copy(), users)
        return item_indptr, users

    @cached_property
    def _popularity(self) -> NDArray[np.int64]:
        return np.diff(self.by_item[0])

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """Counts to be made for each row."""
        of_pair = np.repeat(np.diff(self._indptr), np.diff(self._indptr))
        return np.bincount(self._indices, weights=of_pair, minlength=self.items).astype(np.int64)

    @property
    def _all(self) -> NDArray[np.int32]:
        return np.arange(self.items, dtype=np.int32)


def _joined(pieces: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *pieces])


def _length(block: tuple[int, int]) -> int:
    return block[1] - block[0]
