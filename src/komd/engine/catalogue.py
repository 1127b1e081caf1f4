"""What a fitted model knows of its data: users, items, histories, and the order items are worked in.

Inside, items are numbered by falling popularity (equal ones by id), so that the rows and counters used most lie close
together in memory, and so that equal scores go to the more popular item. Ids appear only here, at the edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine.histories import Histories
from komd.rows import pointers

__all__ = ["Catalogue", "OnUnknown"]

OnUnknown: TypeAlias = Literal["error", "skip"]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Users and items of the training data, with every user's history in inside numbers.

    `order[k]` is the outside number (place in `items`) of inside item k.
    """

    users: Ids
    items: Ids
    order: NDArray[np.int32]
    histories: Histories

    @staticmethod
    def of(data: Interactions) -> Catalogue:
        """The catalogue of a data set."""
        order = np.lexsort((np.arange(len(data.popularity)), -data.popularity)).astype(np.int32)
        inside = _inverse(order)
        rows = _sorted_rows(data.indptr, inside[data.indices], len(order))
        if data.seen is not None:
            rows = replace(rows, seen=_sorted_rows(data.seen.indptr, inside[data.seen.indices], len(order)))
        return Catalogue(data.users, data.items, order, rows.known())

    @cached_property
    def inside(self) -> NDArray[np.int32]:
        """The inverse of `order`: from outside numbers to inside ones."""
        return _inverse(self.order)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """How many users chose each item (inside order, so never rising)."""
        return np.bincount(self.histories.indices, minlength=len(self.order)).astype(np.float64)

    @cached_property
    def chosen(self) -> int:
        """How many items somebody chose. They are numbered 0, 1, ...; the items nobody chose follow them."""
        return int(np.count_nonzero(self.popularity))

    def candidates(
        self, items: NDArray[np.int32] | None = None, exclude: NDArray[np.int32] | None = None, *, first: int = 0
    ) -> NDArray[np.int32]:
        """The numbers, ascending, that may be recommended: from `first` on, without `exclude`.

        They are `items` or else every item that somebody chose: one that nobody chose must be asked for.
        """
        found = np.arange(first, self.chosen, dtype=np.int32) if items is None else np.unique(items[items >= first])
        return found if exclude is None else np.setdiff1d(found, exclude)

    def find_users(self, ids: object, on_unknown: OnUnknown) -> NDArray[np.int32]:
        """Rows of these users; -1 for unknown ones when they are to be skipped."""
        return self.users.find(ids, on_unknown=on_unknown)

    def find_items(self, ids: object, on_unknown: OnUnknown) -> NDArray[np.int32]:
        """Inside numbers of these items; -1 for unknown ones when they are to be skipped."""
        found = self.items.find(ids, on_unknown=on_unknown)
        known = found >= 0
        found[known] = self.inside[found[known]]
        return found

    def item_ids(self, numbers: NDArray[np.int32]) -> pa.Array:
        """The ids of inside numbers."""
        return self.items.take(self.order[numbers])

    def translated(self, data: Interactions, on_unknown: OnUnknown) -> tuple[Histories, int]:
        """The rows of another data set in this catalogue's inside numbers, and how many pairs had unknown items.

        What was seen comes along, as far as the items are known.
        """
        rows, skipped = self._translated(data, on_unknown)
        if data.seen is not None:
            rows = replace(rows, seen=self._translated(data.seen, "skip")[0])
        return rows, skipped

    def _translated(self, data: Interactions, on_unknown: OnUnknown) -> tuple[Histories, int]:
        if data.items is self.items or data.items == self.items:
            found = self.inside
        else:
            used = np.unique(data.indices)
            found = np.full(len(data.items), -1, np.int32)
            found[used] = self.find_items(data.items.take(used), on_unknown)
        numbers = found[data.indices]
        known = numbers >= 0
        rows = np.repeat(np.arange(len(data.users)), np.diff(data.indptr))[known]
        indptr = pointers(np.bincount(rows, minlength=len(data.users)))
        return _sorted_rows(indptr, numbers[known], len(self.order)), int((~known).sum())


def _inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """The permutation that undoes this one."""
    out = np.empty_like(order)
    out[order] = np.arange(len(order), dtype=np.int32)
    return out


def _sorted_rows(indptr: NDArray[np.int64], indices: NDArray[np.int32], columns: int) -> Histories:
    from scipy.sparse import csr_array

    matrix = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(len(indptr) - 1, columns))
    matrix.sort_indices()
    # Copies: the data's own arrays are read-only, and compiled code should see one kind of array.
    return Histories(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
