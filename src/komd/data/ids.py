"""The outside ids of users or items, numbered in sorted order.

Inside komd everything is a number 0 .. n - 1; `Ids` turns numbers into ids and back. Because the
numbering follows the sorted order of the ids, nothing depends on the order of rows in a file. (A tie between
two items goes to the more popular one, and between equally popular ones to the smaller id.)
"""

from __future__ import annotations

import bisect
import builtins
import datetime
import difflib
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.checks import one_of
from komd.data.keys import array_of, byte_strings, bytes_of, integers, is_bytes, is_text, is_uuid, plain, show
from komd.errors import InputError, UnknownIdError, argument

__all__ = ["Ids", "Numbers"]

Numbers: TypeAlias = NDArray[np.int32]

_TEXT_LIMIT = 1 << 30  # bytes of text, about, from which 64-bit offsets are used: 32-bit ones end at twice that
_SHOWN = 5  # ids named in a message or a repr
_COMPARED = 20_000  # ids among which the nearest spelling is searched
_REMEMBERED = 50_000  # up to this many ids, small lookups use a dictionary, made at the first of them
_STEP = 16  # one step of a binary search costs about as much as hashing this many ids


class Ids:
    """Distinct ids in ascending order; the position of an id is its number.

    Integers are held as int64 (uint64 only when they need it), text as utf8, UUIDs as UUIDs, dates,
    timestamps and decimals as themselves.

    Parameters
    ----------
    values : pyarrow.Array
        Distinct, ascending, without nulls. Use `Ids.from_arrow` for values that are not.
    noun : str
        What an id stands for, for messages: "user", "item".

    Examples
    --------
    >>> ids = Ids.from_arrow(["cy", "ana", "bo"], noun="user")
    >>> ids
    Ids(3 text: 'ana', 'bo', 'cy')
    >>> ids.find(["cy", "ana"])
    array([2, 0], dtype=int32)
    >>> ids[1]
    'bo'
    """

    __slots__ = ("_bytes", "_length", "_numbers", "_storage", "_values", "noun")

    def __init__(self, values: pa.Array, *, noun: str = "id") -> None:
        self.noun = noun
        self._values: pa.Array | None = values
        self._length = len(values)
        if self._length > np.iinfo(np.int32).max:
            raise InputError(f"at most {np.iinfo(np.int32).max:,} {noun}s can be numbered, got {self._length:,}")
        self._storage = values.storage if isinstance(values, pa.ExtensionArray) else values
        self._bytes: tuple[memoryview, memoryview] | None = None
        self._numbers: dict[bytes, int] | None = None

    @classmethod
    def range(cls, n: int, *, noun: str = "id") -> Ids:
        """The ids 0 .. n - 1, which need no storage."""
        ids = cls(pa.array([], pa.int64()), noun=noun)
        ids._values, ids._storage, ids._length = None, None, int(n)
        return ids

    @classmethod
    def from_arrow(cls, values: Any, *, noun: str = "id") -> Ids:
        """The distinct ids of an Arrow array, or of anything that becomes one, in any order."""
        from komd.data.encode import encode

        return encode(values, noun=noun)[0]

    @property
    def values(self) -> pa.Array:
        """All ids in the order of their numbers."""
        return pa.array(np.arange(self._length, dtype=np.int64)) if self._values is None else self._values

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the ids."""
        return pa.int64() if self._values is None else self._values.type

    @property
    def is_range(self) -> bool:
        """Whether the ids are 0 .. n - 1, held without storage."""
        return self._values is None

    @property
    def word(self) -> str:
        """What kind of ids these are, in a word."""
        t = self.type
        if pa.types.is_integer(t):
            return "integers"
        if is_text(t):
            return "text"
        return "UUIDs" if is_uuid(t) else str(t)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> Any:
        number = int(number)
        if not -self._length <= number < self._length:
            raise IndexError(f"number {number} is out of range for {self._length:,} {self.noun}s")
        number %= self._length
        return number if self._values is None else self._values[number].as_py()

    def __iter__(self) -> Iterator[Any]:
        if self._values is None:
            return (int(number) for number in np.arange(self._length))
        return (value.as_py() for value in self._values)

    def __contains__(self, key: object) -> bool:
        return bool(self._search([key])[0] >= 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        if len(self) != len(other) or self.type != other.type:
            return False
        return self._values is other._values or bool(self.values.equals(other.values))

    def __hash__(self) -> int:
        return hash((self._length, str(self.type)))

    def __repr__(self) -> str:
        shown = [show(key) for key in islice(self, _SHOWN)]
        more = ", …" if self._length > _SHOWN else ""
        return f"Ids({self._length:,} {self.word}{': ' if shown else ''}{', '.join(shown)}{more})"

    def take(self, numbers: NDArray[np.integer[Any]]) -> pa.Array:
        """The ids of these numbers, as an Arrow array of the same length."""
        numbers = np.asarray(numbers)
        if self._values is None:
            return pa.array(numbers.astype(np.int64))
        storage = self._storage
        if pa.types.is_string(storage.type) and len(numbers) * (storage.nbytes / max(self._length, 1)) > _TEXT_LIMIT:
            storage = storage.cast(pa.large_string())
        taken = storage.take(pa.array(numbers))
        if isinstance(self._values, pa.ExtensionArray):
            return pa.ExtensionArray.from_storage(self._values.type, taken)
        return taken

    def number(self, key: Any) -> int:
        """The number of one id; an `UnknownIdError` when there is none."""
        return int(self.find([key])[0])

    def find(self, keys: Any, *, on_unknown: str = "error") -> Numbers:
        """The numbers of these ids, one for each, in their order.

        Parameters
        ----------
        keys : sequence of ids, numpy array, Arrow array, Series or Ids
        on_unknown : {"error", "skip"}
            What an id that is not here leads to: an `UnknownIdError` that names it, or the mark -1 in its
            place (`numbers[numbers >= 0]` are the known ones).

        Returns
        -------
        numpy.ndarray of int32, shape (len(keys),)
            The caller's own, to write to.
        """
        one_of("on_unknown", on_unknown, ("error", "skip"))
        if isinstance(keys, str | bytes) or not (isinstance(keys, Iterable) or hasattr(keys, "__arrow_c_array__")):
            raise InputError(f"expected a list of {self.noun} ids, got {keys!r} (write [{keys!r}] for one)")
        keys = _listed(keys)
        numbers = self._search(keys)
        if on_unknown == "error" and len(numbers) and numbers.min() < 0:
            raise UnknownIdError(self._unknown(keys, np.flatnonzero(numbers < 0)))
        return numbers

    def parse(self, text: str, on_unknown: str = "error") -> Any:
        """The id that command-line text stands for: text stays text, digits become integers, and so on.

        Text that is no id of this kind is refused; with "skip" it is returned as it is, which is an unknown id.

        >>> Ids.range(10).parse("7")
        7
        """
        t = self.type
        try:
            if pa.types.is_integer(t):
                return int(text)
            if is_uuid(t):
                return uuid.UUID(text)
            if is_text(t):
                return text
            if is_bytes(t):
                return bytes.fromhex(text)
            if pa.types.is_timestamp(t) and t.tz is None:
                return datetime.datetime.fromisoformat(text)
            return pc.cast(pa.scalar(text), t).as_py()
        except (ValueError, pa.ArrowInvalid):
            if on_unknown == "skip":
                return text
            raise InputError(f"{text!r} is not a {self.noun} id: these are {self.word}, like {self[0]!s}") from None

    # How ids are looked up. Every way gives -1 for what is not there, whatever its type.

    def _search(self, keys: Any) -> Numbers:
        if self._length == 0:
            return np.full(len(keys), -1, np.int32)
        if pa.types.is_integer(self.type):
            return self._search_integers(keys)
        if pa.types.is_decimal(self.type) or pa.types.is_temporal(self.type):
            return self._search_hashed(array_of(keys, self.type))
        if len(keys) * self._length.bit_length() * _STEP > max(self._length, _REMEMBERED):
            keys = bytes_of(keys, self.type) if is_uuid(self.type) else keys
            return self._search_hashed(array_of(keys, self._storage.type))
        if self._length <= _REMEMBERED:
            return self._search_remembered(bytes_of(keys, self.type))
        return self._search_bytes(bytes_of(keys, self.type))

    def _search_integers(self, keys: Any) -> Numbers:
        dtype = np.uint64 if self.type == pa.uint64() else np.int64
        wanted, usable = integers(keys, dtype)
        if self._values is None:
            found = usable & (wanted >= 0) & (wanted < self._length)
            return np.where(found, wanted, -1).astype(np.int32)
        values = self._values.to_numpy(zero_copy_only=True)
        at = np.minimum(np.searchsorted(values, wanted), self._length - 1)
        return np.where(usable & (values[at] == wanted), at, -1).astype(np.int32)

    def _search_hashed(self, keys: pa.Array) -> Numbers:
        numbers = pc.index_in(keys, value_set=self._storage, skip_nulls=True)
        return cast(Numbers, pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False).astype(np.int32))

    def _search_remembered(self, keys: list[bytes | None]) -> Numbers:
        if self._numbers is None:
            offsets, data = byte_strings(self._storage)
            ends, held = offsets.tolist(), data.tobytes()
            self._numbers = {held[ends[k] : ends[k + 1]]: k for k in builtins.range(self._length)}
        known = self._numbers
        return np.array([known.get(key, -1) if key is not None else -1 for key in keys], np.int32)

    def _search_bytes(self, keys: list[bytes | None]) -> Numbers:
        if self._bytes is None:
            offsets, data = byte_strings(self._storage)
            self._bytes = memoryview(cast(Any, offsets)), memoryview(cast(Any, data))
        ends, held = self._bytes

        def value(number: int) -> bytes:
            return bytes(held[ends[number] : ends[number + 1]])

        numbers = np.full(len(keys), -1, np.int32)
        for k, key in enumerate(keys):
            if key is not None:
                at = bisect.bisect_left(builtins.range(self._length), key, key=value)
                if at < self._length and value(at) == key:
                    numbers[k] = at
        return numbers

    def _unknown(self, keys: Any, missing: NDArray[np.int64]) -> str:
        named = [plain(keys[int(k)]) for k in missing[:_SHOWN]]
        listing = ", ".join(map(show, named)) + (", …" if len(missing) > _SHOWN else "")
        first, words = named[0], f"unknown {self.noun} {listing}"
        if len(missing) > 1:
            words = f"{len(missing):,} unknown {self.noun}s: {listing}"
        if self._length and not isinstance(first, type(self[0])):
            return f"{words} ({self.noun} ids here are {self.word}, like {show(self[0])})"
        if isinstance(first, str) and self._length <= _COMPARED:
            close = difflib.get_close_matches(first, self._storage.to_pylist(), n=1)
            if close:
                words += f" (did you mean {close[0]!r}?)"
        return f"{words}; leave out unknown ids with {argument('on_unknown', 'skip')}"


def _listed(keys: Any) -> Any:
    """Something with a length and positions: a list, a numpy array or an Arrow array."""
    if isinstance(keys, Ids):
        return keys.values
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    if isinstance(keys, list | np.ndarray | pa.Array):
        return keys
    if hasattr(keys, "__arrow_c_stream__"):
        return pa.chunked_array(keys).combine_chunks()
    return pa.array(keys) if hasattr(keys, "__arrow_c_array__") else list(keys)
