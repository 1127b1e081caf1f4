"""Who chose what: users × items with the ids of both; weights, times and dislikes where the data have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sparse
from numpy.typing import NDArray

from komd import notebook_html as html
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

_FIRST = 5  # pairs shown in a notebook


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
        How much each pair counts, such as play counts: finite and > 0. A model transforms them as its `weighting` says.
        Without weights, every pair counts 1.
    time_unit : {"ns", "us", "ms", "s", "min", "h", "d"}, optional
        The unit of `times`, counted from 1970; None if it is not known: then only the order of times is used.
    dislikes : Interactions, optional
        Pairs over the same users and items that users dislike: never recommended, and never in the histories.

    Raises
    ------
    InputError
        If the arrays do not fit each other or the ids.

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
        """Make interactions from a scipy sparse matrix or from anything that `komd.read` accepts.

        Parameters
        ----------
        data : Interactions, scipy sparse matrix, path, frame or list of pairs
            For a matrix, ids are row and column numbers. Interactions are returned as they are.
        memory : str or int, optional
            Memory that reading may use.

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If the data cannot be read.

        Examples
        --------
        >>> Interactions.of([("ana", "i7"), ("bo", "i7"), ("bo", "i9")])
        Interactions(2 users × 2 items, 3 pairs, 75 % full...)
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
        """Make interactions from pairs of numbers, in any order. A repeated pair becomes one, with the earliest time.

        Parameters
        ----------
        users, items : Ids
            The ids of rows and columns.
        rows, columns : numpy.ndarray of int32, shape (pairs,)
            Numbers of the users and of the items. A pair that is not chosen and has a number of -1 is left out.
        times : numpy.ndarray of int64, shape (pairs,), optional
            The time of each pair.
        chosen : numpy.ndarray of bool, shape (pairs,), optional
            Which pairs belong to the histories; the others count as seen. By default all pairs that are not disliked.
        weights : numpy.ndarray of float, shape (pairs,), optional
            The weight of each pair.
        repeated : {"sum", "max", "last", "count"}
            The weight of a repeated pair, as in `komd.read`. With "last", its time is the latest.
        time_unit : str, optional
            The unit of the times.
        disliked : numpy.ndarray of bool, shape (pairs,), optional
            Which pairs are dislikes. For a repeated pair, chosen takes precedence over disliked, and disliked over
            seen; with "last", its last row decides.

        Returns
        -------
        Interactions

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> again = komd.Interactions.from_numbers(data.users, data.items, data.rows, data.indices)
        >>> bool((again.indices == data.indices).all())
        True
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
        """Return the same interactions, with a `repr` that names the columns they were read from.

        Parameters
        ----------
        reading : Reading
            The columns.

        Returns
        -------
        Interactions

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> import pyarrow as pa
        >>> read = komd.read(pa.table({"user": ["ana"], "song": ["i7"]}))
        >>> read
        Interactions(1 users × 1 items, ...; user=user, item=song)
        >>> data.with_reading(read.reading)
        Interactions(60 users × 30 items, ...; user=user, item=song)
        """
        same = self._with()
        same.reading = reading
        return same

    def _with(self, **changed: Any) -> Interactions:
        """A copy in which these attributes are others."""
        names = ("indptr", "indices", "times", "seen", "weights", "time_unit", "dislikes")
        return Interactions(self.users, self.items, **{name: getattr(self, name) for name in names} | changed)

    def with_seen(self, rows: Numbers, columns: Numbers) -> Interactions:
        """Return the same histories, with these pairs as seen, except those that are in the histories or disliked.

        Parameters
        ----------
        rows, columns : numpy.ndarray of int32
            Numbers of the users and of the items.

        Returns
        -------
        Interactions

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> chosen, rest = data.keep(data.rows != 3), data.keep(data.rows == 3)
        >>> chosen.with_seen(rest.rows, rest.indices).seen.pairs == rest.pairs
        True
        """
        seen = Interactions.from_numbers(self.users, self.items, rows, columns).difference(self)
        return self._with(seen=seen if self.dislikes is None else seen.difference(self.dislikes))

    def with_dislikes(self, dislikes: Interactions | None) -> Interactions:
        """Return the same histories with other dislikes.

        Parameters
        ----------
        dislikes : Interactions or None
            Pairs over the same users and items; None for no dislikes.

        Returns
        -------
        Interactions

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> chosen, disliked = data.keep(data.rows != 3), data.keep(data.rows == 3)
        >>> chosen.with_dislikes(disliked).dislikes.pairs == disliked.pairs
        True
        """
        return self._with(dislikes=dislikes)

    def with_weights(self, weights: NDArray[np.float32] | None) -> Interactions:
        """Return the same pairs with other weights.

        Parameters
        ----------
        weights : numpy.ndarray of float32, shape (pairs,), or None
            Finite numbers > 0; None for no weights.

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If the weights do not fit the pairs.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> import numpy as np
        >>> data.with_weights(np.full(data.pairs, 2.0)).weights[:2]
        array([2., 2.], dtype=float32)
        """
        return self._with(weights=weights)

    def without_seen(self) -> Interactions:
        """Return the same histories and dislikes, without the pairs that were only seen.

        Returns
        -------
        Interactions

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> chosen, rest = data.keep(data.rows != 3), data.keep(data.rows == 3)
        >>> chosen.with_seen(rest.rows, rest.indices).without_seen().seen is None
        True
        """
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
        """Return the users of each item, ascending, as compressed rows.

        Returns
        -------
        (indptr, indices) : tuple of numpy.ndarray

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> indptr, users = data.by_item()
        >>> bool((indptr[1:] - indptr[:-1] == data.popularity).all())
        True
        """
        return transpose(self.indptr, self.indices, len(self.items))

    def sorted_rows(self) -> tuple[NDArray[np.int64], Numbers]:
        """Return the items of each user in ascending order, as compressed rows.

        Returns
        -------
        (indptr, indices) : tuple of numpy.ndarray

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> indptr, indices = data.sorted_rows()
        >>> bool((indices[: indptr[1]] == sorted(data.indices[: data.indptr[1]])).all())
        True
        """
        return transpose(*self.by_item(), len(self.users))

    def to_csr(self) -> sparse.csr_array:
        """Return a scipy matrix of float32 ones, with sorted indices.

        Returns
        -------
        scipy.sparse.csr_array
            Users × items.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> data.to_csr().shape
        (60, 30)
        """
        indptr, indices = self.sorted_rows()
        matrix = sparse.csr_array((np.ones(self.pairs, np.float32), indices, indptr), shape=self.shape)
        matrix.has_sorted_indices = True
        return matrix

    def history(self, user: Any) -> list[Any]:
        """Return the items of one user, in the order of the data.

        Parameters
        ----------
        user : id

        Returns
        -------
        list
            Item ids.

        Raises
        ------
        UnknownIdError
            If the user is unknown.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> bool(len(data.history("user-00042")) == data.activity[42])
        True
        """
        row = self.users.number(user)
        return list(self.items.take(self.indices[self.indptr[row] : self.indptr[row + 1]]).to_pylist())

    def keep(self, mask: NDArray[np.bool_]) -> Interactions:
        """Return the pairs selected by a mask. All ids, seen pairs and dislikes stay.

        Parameters
        ----------
        mask : numpy.ndarray of bool, shape (pairs,)

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If the mask does not fit the pairs.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> bool(data.keep(data.rows < 10).pairs == data.indptr[10])
        True
        """
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != self.indices.shape:
            raise InputError(f"mask must be {self.pairs:,} booleans, got {mask.dtype} of shape {mask.shape}")
        before = pointers(mask)
        times = None if self.times is None else self.times[mask]
        weights = None if self.weights is None else self.weights[mask]
        return self._with(indptr=before[self.indptr], indices=self.indices[mask], times=times, weights=weights)

    def difference(self, other: Interactions) -> Interactions:
        """Return the pairs that `other` does not have.

        Parameters
        ----------
        other : Interactions
            Pairs over the same users and items.

        Returns
        -------
        Interactions

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> train, test = next(komd.split.folds(data, rng=0))
        >>> data.difference(test).pairs == train.pairs
        True
        """
        from komd._core import compressed_rows as csr

        mask = np.empty(self.pairs, np.bool_)
        marker = np.full(len(self.items), -1, np.int64)
        csr.absent(self.indptr, self.indices, other.indptr, other.indices, marker, mask)
        return self.keep(mask)

    def to_arrow(self) -> pa.Table:
        """Return a table with one row per pair, user by user.

        Returns
        -------
        pyarrow.Table
            Columns `user_id`, `item_id`, and `weight` and `time` if the data has them.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> data.to_arrow().column_names
        ['user_id', 'item_id']
        """
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

    def _percent(self) -> str:
        percent = 100 * self.density
        places = 2 if percent < 10 else 1
        return f"{percent:.{places}f}".rstrip("0").rstrip(".") if percent >= 0.01 or percent == 0 else f"{percent:.2g}"

    def __repr__(self) -> str:
        held = [name for name in ("weights", "times") if getattr(self, name) is not None]
        times = f", with {' and '.join(held)}" if held else ""
        seen = f", and {self.seen.pairs:,} low-rated pairs kept as seen" if self.seen else ""
        seen += f", {self.dislikes.pairs:,} dislikes" if self.dislikes else ""
        return (
            f"Interactions({len(self.users):,} users × {len(self.items):,} items, "
            f"{self.pairs:,} pairs, {self._percent()} % full{times}{seen}{f'; {self.reading}' if self.reading else ''})"
        )

    def _repr_html_(self) -> str:
        first = np.arange(min(_FIRST, self.pairs))
        rows = np.searchsorted(self.indptr, first, side="right") - 1  # of these pairs alone: there may be millions
        known = {"user_id": self.users.take(rows), "item_id": self.items.take(self.indices[: len(first)])}
        for name, values in (("weight", self.weights), ("time", self.times)):
            if values is not None:
                known[name] = pa.array(values[: len(first)])
        table = html.grid(list(known), html.table_rows(pa.table(known), list(known)), left=(0, 1))
        sizes = f"{len(self.users):,} users × {len(self.items):,} items, {self.pairs:,} pairs"
        others = {"low-rated pairs kept as seen": self.seen, "dislikes": self.dislikes}
        remarks = [
            f"The first {len(first)} of {self.pairs:,} pairs." if self.pairs > len(first) else "",
            f"{self._percent()} % of all users × items are pairs.",
            *(f"{pairs.pairs:,} {name}." for name, pairs in others.items() if pairs),
            f"Read from: {self.reading}." if self.reading else "",
        ]
        return html.fragment(f"Interactions: {sizes}", table, *map(html.note, remarks))


def _check_weights(weights: NDArray[np.floating[Any]], pairs: int) -> None:
    if len(weights) != pairs:
        raise InputError(f"there are {len(weights):,} weights for {pairs:,} pairs")
    at = first_unusable(weights)
    if at is not None:
        raise InputError(f"weights must be finite and > 0, got {weights[at]} for pair {at:,}")
