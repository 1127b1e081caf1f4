"""Ids that come after others were numbered: they get the numbers that follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.data.ids import Ids
from komd.data.merged_ids import conformed
from komd.errors import InputError

__all__ = ["NewIds"]


class NewIds:
    """The numbers of ids: those of the catalogue, and for new ids those that follow."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.added: list[Any] = []
        self._numbers: dict[Any, int] = {}

    @property
    def mark(self) -> int:
        """How many are new; setting it to less takes back the last."""
        return len(self.added)

    @mark.setter
    def mark(self, size: int) -> None:
        for value in self.added[size:]:
            del self._numbers[value]
        del self.added[size:]

    @property
    def values(self) -> pa.Array:
        """The new ids, in the order of their numbers."""
        return pa.array(self.added, self._ids.type)

    def find(self, ids: pa.Array, on_unknown: str, *, grow: bool = False) -> NDArray[np.int64]:
        """The number of each id; unknown ones become new if they may `grow`, and else are errors or -1."""
        try:
            wanted = conformed(self._ids, ids)
        except InputError:
            if grow or on_unknown == "error":
                raise
            return np.full(len(ids), -1, np.int64)
        distinct, places = _distinct(wanted)
        found = self._ids.find(distinct, on_unknown="skip").astype(np.int64)
        unknown = np.flatnonzero(found < 0)
        for k in unknown.tolist():
            value = distinct[k].as_py()
            number = self._numbers.get(value, -1)
            if number < 0 and grow:
                number = len(self._ids) + len(self.added)
                self._numbers[value] = number
                self.added.append(value)
            found[k] = number
        if on_unknown == "error" and len(found) and found.min() < 0:
            self._ids.find(distinct.take(pa.array(np.flatnonzero(found < 0))))  # which says what is wrong
        return found[places]


def _distinct(values: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """The distinct values, and for each of the values which of them it is."""
    if len(values) == 1:
        return values, np.zeros(1, np.int64)
    if isinstance(values, pa.ExtensionArray):
        distinct, places = _distinct(values.storage)
        return pa.ExtensionArray.from_storage(values.type, distinct), places
    encoded = values.dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
