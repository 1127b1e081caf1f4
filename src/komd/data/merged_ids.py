"""Ids that come and go: other ids made ids of the same kind, put in at their places, and ids that are dropped."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.ids import Ids
from komd.data.keys import is_text, show
from komd.errors import InputError

__all__ = ["conformed", "merged"]

_FEW = 32  # ids are put in one by one if they are fewer than one in so many


def conformed(ids: Ids, values: pa.Array) -> pa.Array:
    """Ids of another source as ids of the same kind as `ids`: integers as text, "7" as 7, and so on.

    >>> conformed(Ids.range(10), pa.array(["7", "12"])).to_pylist()
    [7, 12]
    """
    if values.type == ids.type:
        return values
    if len(values) == 0:
        return pa.array([], ids.type)
    try:
        if is_text(values.type) and not is_text(ids.type):
            return pa.array([ids.parse(text) for text in values.to_pylist()], ids.type)
        if isinstance(values, pa.ExtensionArray) or pa.types.is_floating(values.type):
            raise TypeError
        return values.cast(ids.type)
    except (pa.ArrowException, OverflowError, TypeError):
        wanted = f"{ids.noun} ids of this model are {ids.word}, like {show(ids[0])}"
        raise InputError(f"{wanted}; {show(values[0])} is not one of that kind") from None


def merged(ids: Ids, added: pa.Array, dropped: NDArray[np.bool_]) -> tuple[Ids, NDArray[np.int64]]:
    """`ids` without the `dropped` (bool, one for each) and with others of the same type, which are not among them.

    Returns them with where each comes from: its number in `ids`, or -1 - k for the k-th that is added.

    >>> merged(Ids.from_arrow(["ana", "bo", "cy"]), pa.array(["dee", "al"]), np.array([False, True, False]))
    (Ids(4 text: 'al', 'ana', 'cy', 'dee'), array([-2,  0,  2, -1]))
    """
    old, new = _plain(ids.values), _plain(added)
    order = pc.array_sort_indices(new).to_numpy().astype(np.int64)
    kept = np.flatnonzero(~dropped)
    at = np.searchsorted(kept, _counts_below(old, new.take(pa.array(order))))
    source = np.insert(kept, at, -1 - order)
    place = np.where(source >= 0, source, len(old) - 1 - source)
    values = pa.concat_arrays([old, new.cast(old.type)]).take(pa.array(place))
    if isinstance(ids.values, pa.ExtensionArray):
        values = pa.ExtensionArray.from_storage(ids.type, values)
    return Ids(values, noun=ids.noun), source


def _plain(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _counts_below(values: pa.Array, keys: pa.Array) -> NDArray[np.int64]:
    """How many of the ascending values are smaller than each of the keys, which ascend too."""
    if pa.types.is_integer(values.type):
        below: NDArray[np.int64] = np.searchsorted(values.to_numpy(), keys.to_numpy())
        return below
    few = len(keys) * _FEW < len(values)
    held: Any = _Lazy(values) if few else values.to_pylist()
    below, at = np.empty(len(keys), np.int64), 0
    for k, key in enumerate(keys.to_pylist()):
        below[k] = at = bisect.bisect_left(held, key, at)
    return below


class _Lazy:
    """A sequence of Python values that are made when they are asked for."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, at: int) -> Any:
        return self._values[at].as_py()
