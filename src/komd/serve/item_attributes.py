"""The columns of the table of items as values that can be compared: which items meet conditions.

The values of an item are the parts of its text between `|`, without blanks at their ends: "Comedy|Drama" has two. A
column is divided and encoded when it is first asked for; after that, a condition is a look-up by code over all values.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.errors import InputError, nearest
from komd.serve.item_filters import ColumnCondition, FilterError, ItemConditions
from komd.serve.item_names import ItemNames

__all__ = ["AVAILABLE", "AttributeColumn", "AttributeTable", "BoundedCache", "ItemAttributes"]

AVAILABLE = "available"
"""The column that says which items are available when nothing was posted of them."""

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_NUMBER = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
_MASKS = 64  # of conditions that are cached: a byte an item each

Made = TypeVar("Made")


class BoundedCache(Generic[Made]):
    """The values used last. Safe to use from several threads; two of them may make the same value."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: OrderedDict[Hashable, Made] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value of a key; made now if there is none."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            self._held[key] = made
            while len(self._held) > self._size:
                self._held.popitem(last=False)
        return made


@dataclass(frozen=True, eq=False)
class AttributeColumn:
    """The values of one column: row rows[k] of the table has the value values[codes[k]]. `rows` ascend.

    A table of R rows has a row R for the items that are not in it, without a value.
    """

    values: pa.Array
    codes: NDArray[np.int32]
    rows: NDArray[np.int64]
    numbers: NDArray[np.float64]
    """The values as numbers; NaN where they are none."""
    indptr: NDArray[np.int64]
    """The codes of row r are codes[indptr[r]:indptr[r + 1]]."""

    @staticmethod
    def of(texts: pa.Array) -> AttributeColumn:
        """The column with these texts."""
        parts = pc.split_pattern(texts, "|")
        rows = pc.list_parent_indices(parts).to_numpy()
        each = pc.utf8_trim_whitespace(pc.list_flatten(parts))
        filled = pc.not_equal(each, "")
        encoded = each.filter(filled).dictionary_encode()
        rows = rows[filled.to_numpy(zero_copy_only=False)]
        values = encoded.dictionary
        plain = pc.if_else(pc.match_substring_regex(values, _NUMBER), values, pa.scalar(None, pa.string()))
        numbers = np.array(pc.fill_null(plain.cast(pa.float64()), np.nan).to_numpy(), np.float64)
        numbers[np.isinf(numbers)] = np.nan
        indptr = np.zeros(len(texts) + 2, np.int64)
        np.cumsum(np.bincount(rows, minlength=len(texts) + 1), out=indptr[1:])
        return AttributeColumn(values, encoded.indices.to_numpy(), rows, numbers, indptr)

    def having(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The rows that have one of the values whose codes are `wanted`."""
        found = np.zeros(len(self.indptr) - 1, np.bool_)
        found[self.rows[wanted[self.codes]]] = True
        return found

    def matching(self, condition: ColumnCondition) -> NDArray[np.bool_]:
        """The rows that meet a condition."""
        found = np.ones(len(self.indptr) - 1, np.bool_)
        if condition.any_of is not None:
            found &= self.having(self._equal(condition.any_of))
        if condition.none_of:
            found &= ~self.having(self._equal(condition.none_of))
        if condition.least is not None or condition.most is not None:
            least = -np.inf if condition.least is None else condition.least
            most = np.inf if condition.most is None else condition.most
            found &= self.having((self.numbers >= least) & (self.numbers <= most))
        return found

    def _equal(self, values: Sequence[str | float]) -> NDArray[np.bool_]:
        """The codes of the values that equal one of these."""
        texts = pa.array([value for value in values if isinstance(value, str)], pa.string())
        numbers = [value for value in values if not isinstance(value, str)]
        found = np.isin(self.numbers, numbers)
        if len(texts):
            found |= pc.is_in(self.values, value_set=texts).to_numpy(zero_copy_only=False)
        return found


class AttributeTable:
    """The columns of a table of items (`read_names`), by row; each is encoded when it is first asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.titles: list[str] = table.column_names[1:]
        self._columns: dict[str, AttributeColumn] = {}

    def column(self, title: str) -> AttributeColumn:
        """A column; FilterError if there is none of this name."""
        self._require(title)
        if title not in self._columns:
            self._columns[title] = AttributeColumn.of(self.table.column(title).combine_chunks())
        return self._columns[title]

    def _require(self, title: str) -> None:
        if title not in self.titles:
            raise FilterError(f"the table of items has no column {title!r}: {nearest(title, self.titles)}")

    def check(self, conditions: ItemConditions) -> None:
        """Raise FilterError if there cannot be such conditions on this table."""
        for condition in conditions:
            if condition.column == AVAILABLE:
                raise FilterError(
                    "'available' takes no condition: items that are not available are in no list, unless "
                    "include_unavailable is true"
                )
            self._require(condition.column)

    def matching(self, conditions: ItemConditions) -> NDArray[np.bool_]:
        """The rows that meet all conditions."""
        self.check(conditions)
        found = np.ones(self.table.num_rows + 1, np.bool_)
        for condition in conditions:
            found &= self.column(condition.column).matching(condition)
        return found

    def available(self) -> NDArray[np.bool_] | None:
        """Which rows are available by the table; None if it does not say."""
        if AVAILABLE not in self.titles:
            return None
        said = self.table.column(AVAILABLE).combine_chunks()
        texts = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(said, "")))
        odd_ones = texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array([*_YES, *_NO, ""]))))
        if len(odd_ones):
            odd = odd_ones[0].as_py()
            raise InputError(
                f"the column 'available' of the table of items has {odd[:50]!r}; write true or false, 1 or 0, yes or "
                "no, or nothing (which is true)"
            )
        return np.append(~np.asarray(pc.is_in(texts, value_set=pa.array(_NO))), True)


class ItemAttributes:
    """The attributes of a model's items, by outside number. Depends on the items and the table alone, as the names."""

    def __init__(self, names: ItemNames, table: AttributeTable | None) -> None:
        self.names = names
        self.table = table
        self._masks: BoundedCache[NDArray[np.bool_]] = BoundedCache(_MASKS)
        self.rows = np.zeros(0, np.int64)
        """The row of each item in the table; the one after the last where it has none."""
        if table is not None:
            at = pc.index_in(names.texts, value_set=table.table.column(0).combine_chunks())
            self.rows = np.asarray(pc.fill_null(at, table.table.num_rows), np.int64)

    @staticmethod
    def of(names: ItemNames, before: ItemAttributes | None = None) -> ItemAttributes:
        """The attributes of items with these names; those of `before` as far as they are the same."""
        if before is not None and before.names is names:
            return before
        if names.table is None:
            return ItemAttributes(names, None)
        same = before is not None and before.table is not None and before.table.table is names.table
        return ItemAttributes(names, before.table if before is not None and same else AttributeTable(names.table))

    def column(self, title: str) -> AttributeColumn:
        """A column of the table, by its rows."""
        return self._known_table().column(title)

    def mask(self, conditions: ItemConditions) -> NDArray[np.bool_]:
        """The items that meet all conditions. Not to be written to."""
        table = self._known_table()
        return self._masks.get(conditions, lambda: table.matching(conditions)[self.rows])

    def available(self) -> NDArray[np.bool_] | None:
        """The items that are available by the table; None if it does not say."""
        found = None if self.table is None else self.table.available()
        return None if found is None else found[self.rows]

    def _known_table(self) -> AttributeTable:
        if self.table is None:
            raise FilterError("there is no table of items, so there are no columns; start the service with --items")
        return self.table
