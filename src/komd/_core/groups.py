"""Arrays that belong together, under one name: how the layers above hand data to compiled functions.

Numba accepts a NamedTuple like its fields. Groups that only one function takes are defined in that function's module.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CountedPairs",
    "DualArrays",
    "OwnEntries",
    "PairValues",
    "Rows",
    "StoredMatrix",
    "StripArrays",
    "TieRule",
    "WeightedUsers",
]


class Rows(NamedTuple):
    """Compressed rows: row r is `indices[indptr[r]:indptr[r + 1]]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


class CountedPairs(NamedTuple):
    """Who chose what, both ways: each item's users and each user's items, ascending."""

    item_indptr: NDArray[np.int64]
    item_users: NDArray[np.int32]
    user_indptr: NDArray[np.int64]
    user_items: NDArray[np.int32]


class PairValues(NamedTuple):
    """x_i(v) of each pair of user v and item i, both ways: beside each user's items, and beside each item's users.

    All are > 0. The product of two float32 numbers is exact in float64: a sum of products over users in ascending order
    is the same for (i, j) and (j, i), with and without fused multiply-add.
    """

    of_user_items: NDArray[np.float32]
    of_item_users: NDArray[np.float32]


class StoredMatrix(NamedTuple):
    """A matrix in memory: `dense`, or compressed rows if that is empty."""

    dense: NDArray[np.float32]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]


class WeightedUsers(NamedTuple):
    """Users as scoring takes them: weights w of their items (compressed rows), and one offset b per user."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]


class DualArrays(NamedTuple):
    """B[i, j] = left_i · (X' Q X)[i, j] · right_j for i ≠ j; X' in compressed rows: the users of each item."""

    indptr: NDArray[np.int64]
    users: NDArray[np.int32]
    Q: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    own: NDArray[np.float64]
    """The value of the formula for i = j, where B is zero: to be subtracted."""


class OwnEntries(NamedTuple):
    """K between each user's own items: to be gathered from `stored`, or gathered before, in `blocks`.

    `blocks` is empty if it is not used. Otherwise it holds K_u row by row from `starts[u]`; each row may be longer than
    needed, up to the next user's `starts`. From entries of `stored`, W W' is still to be subtracted (the last `added`
    columns of W are added instead); W has no columns if there is no such correction.
    """

    stored: StoredMatrix
    blocks: NDArray[np.float32]
    starts: NDArray[np.int64]
    W: NDArray[np.float32]
    added: int = 0


class StripArrays(NamedTuple):
    """A strip of columns that can be read, in tiles: `row_of[i]` is item i's row in it; see `strip_counting.py`.

    `places[t, r]` are two numbers that say where row r of tile t is: `columns` (counted from the tile's first) and
    `values` from the first number up to the second; or, if the second is `DENSE`, all of `dense[t, first number]`.
    """

    row_of: NDArray[np.int32]
    places: NDArray[np.uint32]
    columns: NDArray[np.uint16]
    values: NDArray[np.float32]
    dense: NDArray[np.float32]


class TieRule(NamedTuple):
    """How equal scores count in AUC: the item with the smaller place wins; at equal places the pair counts `share`.

    `places` has one number per item; if it is empty, all places are equal.
    """

    share: float
    places: NDArray[np.int32]
