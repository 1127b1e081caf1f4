"""Pairs of users and items in their order, with repetitions: to be scored, not learned from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import scipy.sparse as sparse

from komd.data.columns import Column, ColumnRequest
from komd.data.encode import as_text
from komd.data.ids import Ids, Numbers
from komd.data.interactions import Interactions
from komd.data.read_rows import ReadRows, RowRequest, read_rows
from komd.memory import budget

__all__ = ["Pairs", "read_pairs"]


class Pairs:
    """Pairs whose ids are not yet looked up."""

    def __init__(self, rows: ReadRows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows.user_numbers)

    def ids(self) -> tuple[pa.Array, pa.Array]:
        """The users and the items of all pairs."""
        rows = self._rows
        return rows.users.take(rows.user_numbers), rows.items.take(rows.item_numbers)

    def find_users(self, among: Ids, on_unknown: str) -> Numbers:
        """The number of each pair's user among these ids; -1 for unknown ones when they are to be skipped."""
        return self._find(self._rows.users, among, on_unknown)[self._rows.user_numbers]

    def find_items(self, among: Ids, on_unknown: str) -> Numbers:
        """The number of each pair's item, likewise."""
        return self._find(self._rows.items, among, on_unknown)[self._rows.item_numbers]

    def histories(self, items: Ids, on_unknown: str) -> tuple[Interactions, int]:
        """The pairs as interactions with these items, and how many pairs of unknown ones were skipped."""
        found = self.find_items(items, on_unknown)
        known = found >= 0
        rows = self._rows
        data = Interactions.from_numbers(rows.users, items, rows.user_numbers[known], found[known])
        return data, int((~known).sum())

    def _find(self, ids: Ids, among: Ids, on_unknown: str) -> Numbers:
        if not self._rows.text or ids.word == among.word:
            return among.find(ids, on_unknown=on_unknown)
        # In a text file "7" may stand for 7, or, where all its ids are digits, 7 for "7".
        keys = [among.parse(text, on_unknown) for text in as_text(ids.values).to_pylist()]
        return among.find(keys, on_unknown=on_unknown)


def read_pairs(
    source: Any,
    *,
    user: Column = None,
    item: Column = None,
    header: bool | None = None,
    separator: str | None = None,
    database: Any = None,
    memory: str | int | None = None,
) -> Pairs:
    """The pairs of whatever `komd.read` takes, with its parameters; ratings and times are not read."""
    request = RowRequest(ColumnRequest(user, item, None, None, every=True))
    if isinstance(source, Pairs):
        return source
    if isinstance(source, Interactions) or sparse.issparse(source):
        source = Interactions.of(source).to_arrow()
    return Pairs(read_rows(source, request, header, separator, database, budget(memory)))
