"""Who chose what: users × items with the ids of both; weights, times and dislikes where the data have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sparse
from numpy.typing import NDArray

from komd.checks import one_of
from komd.data.columns import Reading
from komd.data.ids import Ids, Numbers
from komd.data.repeated_pairs import REPEATED, decided_by_last, grouped
from komd.data.weights import first_unusable
from komd.errors import InputError, argument, nearest
from komd.rows import frozen, pointers, transpose

__all__ = ["ACCEPTED", "TIME_UNITS", "Interactions"]

ACCEPTED = (
    "a path, a pattern such as 'plays/*.parquet', a list of paths, SQL with database=, a frame "
    "(pandas, polars, pyarrow, duckdb), a list of pairs, a numpy array of pairs or a scipy sparse matrix"
)
TIME_UNITS = {
    "ns": 0,  # a thousandth of a microsecond
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""Microseconds in each unit of times."""


class Interactions:
    """Which users chose which items. Immutable.

    Row u holds the items of user u as numbers, in the order in which the data gave them; every pair
    appears once. Made by `komd.read`, `komd.generate` or `Interactions.of`.

    Parameters
    ----------
    users, items : Ids
        The ids of rows and columns.
    indptr : numpy.ndarray of int64, shape (users + 1,)
        Row u is `indices[indptr[u]:indptr[u + 1]]`.
    indices : numpy.ndarray of int32, shape (pairs,)
        Numbers of items, distinct within a row.
    times : numpy.ndarray of int64, shape (pairs,), optional
        The time of each pair.
    seen : Interactions, optional
        Pairs over the same users and items that are not part of the histories, yet known to the user: those rated
        below `liked`. Models learn nothing from them and do not recommend them.
    weights : numpy.ndarray of float32, shape (pairs,), optional
        How much each pair counts, as given (play counts, say): finite and > 0. A model's `weighting` says what it
        makes of them. Without weights every pair counts 1.
    time_unit : {"ns", "us", "ms", "s", "min", "h", "d"}, optional
        The unit of `times`, counted from 1970; None if it is not known: then times have an order and no more.
    dislikes : Interactions, optional
        Pairs over the same users and items that users dislike: never recommended, and never in the histories.

    Examples
    --------
    >>> import scipy.sparse
    >>> data = Interactions.of(scipy.sparse.csr_array([[1, 1, 0], [0, 0, 1]]))
    >>> data
    Interactions(2 users × 3 items, 3 pairs, 50 % full)
    >>> data.history(0)
    [0, 1]
    """

    __slots__ = (
        "dislikes",
        "indices",
        "indptr",
        "items",
        "reading",
        "seen",
        "time_unit",
        "times",
        "users",
        "weights",
    )

    def __init__(
        self,
        users: Ids,
        items: Ids,
        indptr: NDArray[np.int64],
        indices: Numbers,
        times: NDArray[np.int64] | None = None,
        seen: Interactions | None = None,
        *,
        weights: NDArray[np.float32] | None = None,
        time_unit: str | None = None,
        dislikes: Interactions | None = None,
    ) -> None:
        if len(indptr) != len(users) + 1 or int(indptr[-1]) != len(indices):
            raise InputError(f"indptr does not fit {len(users):,} users and {len(indices):,} pairs")
        if times is not None and len(times) != len(indices):
            raise InputError(f"there are {len(times):,} times for {len(indices):,} pairs")
        for noun, others in (("pairs seen", seen), ("dislikes", dislikes)):
            if others is not None and others.shape != (len(users), len(items)):
                raise InputError(f"the {noun} are of {others.shape} users and items, not {(len(users), len(items))}")
        if weights is not None:
            _check_weights(weights, len(indices))
        if time_unit is not None and time_unit not in TIME_UNITS:
            raise InputError(f"unknown time_unit {time_unit!r}: {nearest(str(time_unit), TIME_UNITS)}")
        self.users = users
        self.items = items
        self.indptr = frozen(indptr, np.int64)
        self.indices = frozen(indices, np.int32)
        self.times = None if times is None else frozen(times, np.int64)
        self.seen = seen if seen is not None and seen.pairs else None
        self.weights = None if weights is None else frozen(weights, np.float32)
        self.time_unit = time_unit if times is not None else None
        self.dislikes = dislikes if dislikes is not None and dislikes.pairs else None
        self.reading: Reading | None = None  # which columns of a source these are, if they were just read

    @classmethod
    def of(cls, data: Any, *, memory: str | int | None = None) -> Interactions:
        """Interactions from a scipy sparse matrix (ids are row and column numbers) or from what `komd.read` takes.

        `memory` is what DuckDB may use to read it.
        """
        if isinstance(data, cls):
            return data
        from komd.data.read import read
        from komd.data.scipy_matrix import from_matrix

        if sparse.issparse(data):
            return from_matrix(data)
        return read(data, memory=memory)

    @classmethod
    def from_numbers(
        cls,
        users: Ids,
        items: Ids,
        rows: Numbers,
        columns: Numbers,
        times: NDArray[np.int64] | None = None,
        chosen: NDArray[np.bool_] | None = None,
        *,
        weights: NDArray[np.floating[Any]] | None = None,
        repeated: str = "sum",
        time_unit: str | None = None,
        disliked: NDArray[np.bool_] | None = None,
    ) -> Interactions:
        """Group pairs of numbers by user; of repeated ones the first stays, at the earliest time.

        `repeated` says what weight a repeated pair has, as in `komd.read`; "last" also gives it the last time. With
        `chosen` (bool, one a pair) the other pairs are only seen, and with `disliked` those are dislikes (without
        `chosen`, all others are chosen). A pair that is several of these is chosen before disliked before seen, or
        with "last" what the last of its rows is. Numbers of -1 among pairs that are not chosen are left out.
        """
        one_of("repeated", repeated, REPEATED)
        if chosen is None and disliked is not None:
            chosen = ~disliked
        if chosen is None or chosen.all():
            found = grouped(rows, columns, (len(users), len(items)), times, weights, repeated)
            indptr, indices, times, single = found
            return cls(users, items, indptr, indices, times, weights=single, time_unit=time_unit)
        disliked = np.zeros(len(chosen), np.bool_) if disliked is None else disliked
        known = (rows >= 0) & (columns >= 0)
        if repeated == "last":
            moments = None if times is None else times[known]
            now_chosen, now_disliked = decided_by_last(
                rows[known], columns[known], moments, chosen[known], disliked[known]
            )
            chosen, disliked = np.zeros_like(chosen), np.zeros_like(disliked)
            chosen[known], disliked[known] = now_chosen, now_disliked

        def those(mask: NDArray[np.bool_], weights: NDArray[np.floating[Any]] | None, repeated: str) -> Interactions:
            at = None if times is None else times[mask]
            weights = None if weights is None else weights[mask]
            return cls.from_numbers(
                users, items, rows[mask], columns[mask], at, weights=weights, repeated=repeated, time_unit=time_unit
            )

        data = those(chosen, weights, repeated)
        if disliked.any():
            dislikes = those(disliked & known, None, "last" if repeated == "last" else "sum")
            data = data.with_dislikes(dislikes.difference(data))
        others = ~chosen & ~disliked & known
        return data.with_seen(rows[others], columns[others])

    def with_reading(self, reading: Reading) -> Interactions:
        """The same interactions, whose repr names the columns they were read from."""
        same = self._with()
        same.reading = reading
        return same

    def _with(self, **changed: Any) -> Interactions:
        """A copy in which these attributes are others."""
        names = ("indptr", "indices", "times", "seen", "weights", "time_unit", "dislikes")
        return Interactions(self.users, self.items, **{name: getattr(self, name) for name in names} | changed)

    def with_seen(self, rows: Numbers, columns: Numbers) -> Interactions:
        """The same histories, with these pairs as seen, except those that are in the histories or disliked."""
        seen = Interactions.from_numbers(self.users, self.items, rows, columns).difference(self)
        return self._with(seen=seen if self.dislikes is None else seen.difference(self.dislikes))

    def with_dislikes(self, dislikes: Interactions | None) -> Interactions:
        """The same histories, with these pairs over the same users and items as dislikes."""
        return self._with(dislikes=dislikes)

    def with_weights(self, weights: NDArray[np.float32] | None) -> Interactions:
        """The same pairs with these weights, shape (pairs,), or without."""
        return self._with(weights=weights)

    def without_seen(self) -> Interactions:
        """The same histories and dislikes, without the pairs that were only seen."""
        return self._with(seen=None) if self.seen else self

    @property
    def known_time_unit(self) -> str:
        """The unit of the times. InputError where there are none, or their unit is not known."""
        if self.times is None:
            raise InputError(f"the data has no times: read it with {argument('time')} (the column that holds them)")
        if self.time_unit is None:
            least, most = (int(self.times.min()), int(self.times.max())) if self.pairs else (0, 0)
            raise InputError(
                f"the unit of the times is not known (numbers from {least:,} to {most:,}); read the data with "
                f"{argument('time_unit')}, one of {', '.join(TIME_UNITS)}"
            )
        return self.time_unit

    @property
    def microseconds(self) -> NDArray[np.int64]:
        """The times as microseconds since 1970, shape (pairs,); errors as of `known_time_unit`."""
        per = TIME_UNITS[self.known_time_unit]
        assert self.times is not None
        out: NDArray[np.int64] = self.times // 1000 if per == 0 else self.times * per
        return out

    @property
    def shape(self) -> tuple[int, int]:
        """(users, items)."""
        return len(self.users), len(self.items)

    @property
    def pairs(self) -> int:
        """The number of distinct (user, item) pairs."""
        return len(self.indices)

    @property
    def density(self) -> float:
        """The share of all users × items that are pairs."""
        cells = len(self.users) * len(self.items)
        return self.pairs / cells if cells else 0.0

    @property
    def activity(self) -> NDArray[np.int64]:
        """The number of items of each user, shape (users,)."""
        counts: NDArray[np.int64] = np.diff(self.indptr)
        return counts

    @property
    def popularity(self) -> NDArray[np.int64]:
        """The number of users of each item, shape (items,)."""
        counts = np.zeros(len(self.items), np.int64)
        for start in range(0, self.pairs, 1 << 22):  # in pieces: bincount copies to 8 bytes
            counts += np.bincount(self.indices[start : start + (1 << 22)], minlength=len(self.items))
        return counts

    @property
    def rows(self) -> Numbers:
        """The user of each pair as a number, shape (pairs,)."""
        return np.repeat(np.arange(len(self.users), dtype=np.int32), self.activity)

    @property
    def items_by_appearance(self) -> pa.Array:
        """The ids of the items in the order of their first pair; items without a pair are not among them.

        Pairs are read user by user, in the order of `users` (ascending ids), and each user's in the order in which the
        data gave them. The order of a file's lines is lost where the file is not grouped by ascending user.

        >>> import scipy.sparse
        >>> Interactions.of(scipy.sparse.csr_array([[0, 0, 1], [1, 0, 1]])).items_by_appearance.to_pylist()
        [2, 0]
        """
        found, first = np.unique(self.indices, return_index=True)
        return self.items.take(found[np.argsort(first)])

    def by_item(self) -> tuple[NDArray[np.int64], Numbers]:
        """(indptr, indices) of the transpose: the users of each item, ascending."""
        return transpose(self.indptr, self.indices, len(self.items))

    def sorted_rows(self) -> tuple[NDArray[np.int64], Numbers]:
        """(indptr, indices) with the items of each user in ascending order."""
        return transpose(*self.by_item(), len(self.users))

    def to_csr(self) -> sparse.csr_array:
        """A scipy matrix of float32 ones, indices sorted within rows."""
        indptr, indices = self.sorted_rows()
        matrix = sparse.csr_array((np.ones(self.pairs, np.float32), indices, indptr), shape=self.shape)
        matrix.has_sorted_indices = True
        return matrix

    def history(self, user: Any) -> list[Any]:
        """The ids of the items of one user, in the order of the data."""
        row = self.users.number(user)
        return list(self.items.take(self.indices[self.indptr[row] : self.indptr[row + 1]]).to_pylist())

    def keep(self, mask: NDArray[np.bool_]) -> Interactions:
        """The pairs where `mask` (bool, shape (pairs,)) is true; all ids, seen pairs and dislikes stay."""
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != self.indices.shape:
            raise InputError(f"mask must be {self.pairs:,} booleans, got {mask.dtype} of shape {mask.shape}")
        before = pointers(mask)
        times = None if self.times is None else self.times[mask]
        weights = None if self.weights is None else self.weights[mask]
        return self._with(indptr=before[self.indptr], indices=self.indices[mask], times=times, weights=weights)

    def difference(self, other: Interactions) -> Interactions:
        """The pairs that `other`, over the same users and items, does not have."""
        from komd._core import compressed_rows as csr

        mask = np.empty(self.pairs, np.bool_)
        marker = np.full(len(self.items), -1, np.int64)
        csr.absent(self.indptr, self.indices, other.indptr, other.indices, marker, mask)
        return self.keep(mask)

    def to_arrow(self) -> pa.Table:
        """A table `user_id, item_id` (and `weight`, `time`) with one row for each pair, user by user."""
        columns = {"user_id": self.users.take(self.rows), "item_id": self.items.take(self.indices)}
        if self.weights is not None:
            columns["weight"] = pa.array(self.weights)
        if self.times is not None:
            columns["time"] = pa.array(self.times)
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interactions):
            return NotImplemented
        alike = ("users", "items", "seen", "dislikes", "time_unit")
        same = all(getattr(self, name) == getattr(other, name) for name in alike)
        arrays = ("indptr", "indices", "times", "weights")  # the last two may be None, which equals None only
        return same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        percent = 100 * self.density
        places = 2 if percent < 10 else 1
        full = f"{percent:.{places}f}".rstrip("0").rstrip(".") if percent >= 0.01 or percent == 0 else f"{percent:.2g}"
        held = [name for name in ("weights", "times") if getattr(self, name) is not None]
        times = f", with {' and '.join(held)}" if held else ""
        seen = f", and {self.seen.pairs:,} low-rated pairs kept as seen" if self.seen else ""
        seen += f", {self.dislikes.pairs:,} dislikes" if self.dislikes else ""
        return (
            f"Interactions({len(self.users):,} users × {len(self.items):,} items, "
            f"{self.pairs:,} pairs, {full} % full{times}{seen}{f'; {self.reading}' if self.reading else ''})"
        )


def _check_weights(weights: NDArray[np.floating[Any]], pairs: int) -> None:
    if len(weights) != pairs:
        raise InputError(f"there are {len(weights):,} weights for {pairs:,} pairs")
    at = first_unusable(weights)
    if at is not None:
        raise InputError(f"weights must be finite and > 0, got {weights[at]} for pair {at:,}")
