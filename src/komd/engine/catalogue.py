"""What a fitted model knows of its data: users, items, histories, and the internal order of items.

Internally, items are numbered by descending popularity (ties by id). So the rows and counters that are used most are
close together in memory, and of equal scores the more popular item wins. Ids appear only here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine.histories import Histories
from komd.rows import pointers, transpose

__all__ = ["Catalogue", "OnUnknown"]

OnUnknown: TypeAlias = Literal["error", "skip"]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Users and items of the training data, with every user's history in internal item numbers.

    `order[k]` is the external number (the place in `items`) of the item with internal number k. In names and comments,
    "inside" means internal and "outside" external.
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
        return Catalogue(data.users, data.items, order, _sorted_rows(data, inside).known())

    @cached_property
    def inside(self) -> NDArray[np.int32]:
        """The inverse of `order`: from outside numbers to inside ones."""
        return _inverse(self.order)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """How many users chose each item, in internal order: descending."""
        return np.bincount(self.histories.indices, minlength=len(self.order)).astype(np.float64)

    @cached_property
    def by_item(self) -> Rows:
        """The users of each item, ascending."""
        return Rows(*transpose(*self.histories.rows, len(self.order)))

    @cached_property
    def chosen(self) -> int:
        """How many items somebody chose. They are numbered 0, 1, ...; the items nobody chose follow them."""
        return int(np.count_nonzero(self.popularity))

    def candidates(
        self, items: NDArray[np.int32] | None = None, exclude: NDArray[np.int32] | None = None, *, first: int = 0
    ) -> NDArray[np.int32]:
        """The numbers of items that may be recommended, ascending: from `first` on, without `exclude`.

        They are `items` if given, else all items that somebody chose. An item that nobody chose must be in `items`.
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
        """The rows of another data set in this catalogue's inside numbers, and the number of pairs with unknown items.

        Pairs that were only seen are included, if their items are known.
        """
        if data.items is self.items or data.items == self.items:
            found = self.inside
        else:
            used = np.unique(data.indices)
            found = np.full(len(data.items), -1, np.int32)
            found[used] = self.find_items(data.items.take(used), on_unknown)
            for others in (data.seen, data.dislikes):
                if others is not None:
                    rest = np.setdiff1d(others.indices, used)
                    found[rest] = self.find_items(data.items.take(rest), "skip")
        return _sorted_rows(data, found), int((found[data.indices] < 0).sum())


def _inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """The permutation that undoes this one."""
    out = np.empty_like(order)
    out[order] = np.arange(len(order), dtype=np.int32)
    return out


def _sorted_rows(data: Interactions, inside: NDArray[np.int32]) -> Histories:
    """The rows of a data set in inside numbers, ascending; without the items that have none (-1)."""
    numbers, indptr = inside[data.indices], data.indptr
    aligned = {"weights": data.weights, "times": None if data.time_unit is None else data.microseconds}
    held: dict[str, Any] = {name: array for name, array in aligned.items() if array is not None}
    if numbers.min(initial=0) < 0:
        known = numbers >= 0
        indptr, numbers = pointers(known)[indptr], numbers[known]
        held = {name: array[known] for name, array in held.items()}
    items = int(inside.max(initial=-1)) + 1
    if held:
        from scipy.sparse import csr_array

        matrix = csr_array((np.arange(len(numbers)), numbers, indptr), shape=(len(indptr) - 1, items))
        matrix.sort_indices()
        # Copies: the data's own arrays are read-only, and compiled code would be compiled again for such arrays.
        indptr, numbers = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
        held = {name: array[matrix.data] for name, array in held.items()}
    else:
        indptr, numbers = transpose(*transpose(indptr, numbers, items), len(indptr) - 1)
    return Histories(
        indptr,
        numbers,
        seen=None if data.seen is None else _sorted_rows(data.seen, inside),
        dislikes=None if data.dislikes is None else _sorted_rows(data.dislikes, inside),
        **held,
    )
