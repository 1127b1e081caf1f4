"""`max_per`: at most so many items of a list for each value of a column.

The list is the greedy one over the full ranking: the next best item whose values all have room. Instead of the full
ranking, a part of it is ranked; if that does not fill the list, the rest is ranked, deeper, without the items that were
passed and those that have a value without room. An item that has no room once never has room again, so the list is the
same. Twin: tests/serve/attributed.py::greedy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd.serve import request_context
from komd.serve.item_attributes import AttributeColumn, ItemAttributes

__all__ = ["ListQuotas", "RankedItems"]

_DEEPER = 20  # items that are ranked besides twice the length of the list

RankedItems: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Items by inside number, best first, and their scores."""


class _Quota(NamedTuple):
    column: AttributeColumn
    most: int


class ListQuotas:
    """The quotas of a request. `order`: the outside numbers of the items by inside number."""

    def __init__(
        self, attributes: ItemAttributes, order: NDArray[np.int32], max_per: Sequence[tuple[str, int]]
    ) -> None:
        self._quotas = [_Quota(attributes.column(title), most) for title, most in max_per]
        self._rows, self._order = attributes.rows, order

    @staticmethod
    def depth(n: int) -> int:
        """How deep to rank for a list of n at first."""
        return 2 * n + _DEEPER

    def fill(
        self,
        first: RankedItems,
        n: int,
        candidates: NDArray[np.int32],
        rank: Callable[[NDArray[np.int32], int], RankedItems],
    ) -> RankedItems:
        """The list of n items, from the `first` best candidates; `rank` gives the best of others to a depth."""
        (items, scores), depth, rest = first, self.depth(n), candidates
        counts: list[Counter[int]] = [Counter() for _ in self._quotas]
        taken: list[RankedItems] = []
        missing = n
        while True:
            places = self._take(items, missing, counts)
            taken.append((items[places], scores[places]))
            missing -= len(places)
            if not missing or len(items) < min(depth, len(rest)):
                break
            request_context.current().check()
            rest = self._with_room(np.setdiff1d(rest, items, assume_unique=True), counts)
            if not len(rest):
                break
            depth *= 2
            items, scores = rank(rest, depth)
        return np.concatenate([part[0] for part in taken]), np.concatenate([part[1] for part in taken])

    def _take(self, items: NDArray[np.int32], most: int, counts: list[Counter[int]]) -> list[int]:
        """The places of the next items that have room, at most so many; they are counted."""
        rows = self._rows[self._order[items]]
        spans = [(column.indptr[rows].tolist(), column.indptr[rows + 1].tolist()) for column, _ in self._quotas]
        taken: list[int] = []
        for k in range(len(items)):
            if len(taken) == most:
                break
            values = [
                set(quota.column.codes[begins[k] : ends[k]].tolist())
                for quota, (begins, ends) in zip(self._quotas, spans, strict=True)
            ]
            parts = list(zip(self._quotas, counts, values, strict=True))
            if all(count[value] < quota.most for quota, count, held in parts for value in held):
                taken.append(k)
                for _, count, held in parts:
                    count.update(held)
        return taken

    def _with_room(self, items: NDArray[np.int32], counts: list[Counter[int]]) -> NDArray[np.int32]:
        """Those of the items whose values all have room."""
        rows = self._rows[self._order[items]]
        room = np.ones(len(items), np.bool_)
        for (column, most), count in zip(self._quotas, counts, strict=True):
            full = np.zeros(len(column.values), np.bool_)
            full[[value for value, held in count.items() if held >= most]] = True
            room &= ~column.having(full)[rows]
        return items[room]
