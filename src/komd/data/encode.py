"""From a stream of ids to numbers: one dictionary that grows batch by batch, then sorted."""

from __future__ import annotations

import binascii
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.ids import Ids, Numbers
from komd.data.keys import byte_strings, is_bytes, is_text
from komd.errors import InputError

__all__ = ["Encoder", "as_text", "decoded", "encode", "number_sorted"]

_CANONICAL = r"^(0|-?[1-9][0-9]{0,18})$"  # the one way to write an integer in decimal digits
_BATCH = 1 << 16  # values numbered at a time
_SLOTS = 1 << 12
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}  # 64-bit offsets: one type for all batches
_SHORT = {wide: short for short, wide in _WIDE.items()}
_UUID = pa.uuid()
_UUID_BYTES = pa.binary(16)


def encode(values: Any, *, noun: str = "id") -> tuple[Ids, Numbers]:
    """Sorted distinct ids, and the number of each value.

    >>> encode([30, 10, 30])
    (Ids(2 integers: 10, 30), array([1, 0, 1], dtype=int32))
    """
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if array.null_count:
        raise InputError(f"{array.null_count:,} {noun} ids are missing")
    encoder = Encoder(noun)
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        encoder.add(chunk)
    if encoder.type is None:
        return Ids(pa.array([], array.type), noun=noun), np.zeros(0, np.int32)
    return encoder.finish()


class Encoder:
    """Numbers ids as they stream by, holding the bytes of each distinct id once.

    Ids of every kind are byte strings here (an integer is its eight bytes), numbered in the order in which
    they first appear; `finish` sorts them by what they mean and renumbers.
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.type: pa.DataType | None = None  # of the bytes: text is large_string, a UUID 16 bytes
        self._uuid = False
        self._from_text = True
        self._codes: list[Numbers] = []
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._slots = np.zeros(_SLOTS, np.uint64)
        self._hashes = np.zeros(0, np.uint64)
        self._starts = np.zeros(1, np.int64)
        self._stored = np.zeros(0, np.uint8)

    def add(self, array: pa.Array, *, text: bool = False, uuids: bool = False) -> None:
        """Number the ids of one batch, which holds no nulls.

        `text`: they come from a text file, where digits may stand for integers. `uuids`: they are the
        text of UUIDs.
        """
        is_uuid = uuids or (isinstance(array, pa.ExtensionArray) and array.type == _UUID)
        array = _uuid_bytes(array) if uuids else _usable(array, self.noun)
        array = array.cast(_WIDE.get(array.type, array.type))
        self._from_text &= text or not pa.types.is_large_string(array.type)
        if self.type is None:
            self.type, self._uuid = array.type, is_uuid
        elif self.type != array.type or self._uuid != is_uuid:
            array = self._agree(array, is_uuid)
        for start in range(0, len(array), _BATCH):
            self._codes.append(self._number(array.slice(start, _BATCH)))

    @property
    def codes(self) -> Numbers:
        """The number of every value added so far: equal ids have equal numbers, in the order of appearance."""
        return np.concatenate(self._codes) if self._codes else np.zeros(0, np.int32)

    def finish(self, among: NDArray[np.bool_] | None = None) -> tuple[Ids, Numbers]:
        """The ids in sorted order and the number of every value added, in the order of adding.

        `among` (bool, one a value added) says which values give the ids; another value that is none of them gets -1.
        """
        codes = self.codes
        self._codes = []
        known = self._known()
        used = np.full(len(known), among is None)
        if among is not None:
            used[codes[among]] = True
        values = _narrowed(known if among is None else known.filter(pa.array(used)), digits=self._from_text)
        self._forget()
        ids, places = number_sorted(values)
        if self._uuid:
            ids = pa.ExtensionArray.from_storage(_UUID, ids)
        ranks = np.full(len(used), -1, np.int32)
        ranks[used] = places
        for start in range(0, len(codes), 1 << 20):  # in place, in pieces: there may be many millions
            piece = codes[start : start + (1 << 20)]
            piece[:] = ranks[piece]
        return Ids(ids, noun=self.noun), codes

    def _number(self, array: pa.Array) -> Numbers:
        from komd._core import numbering

        offsets, data = byte_strings(array)
        self._make_room(len(array), int(offsets[-1] - offsets[0]))
        hashed = np.empty(len(array), np.uint64)
        numbering.hash_values(offsets, data, hashed)
        codes = np.empty(len(array), np.int32)
        self._count = numbering.number(
            offsets, data, hashed, self._slots, self._hashes, self._starts, self._stored, self._count, codes
        )
        return codes

    def _make_room(self, values: int, size: int) -> None:
        from komd._core import numbering

        self._hashes = _grown(self._hashes, self._count, self._count + values)
        self._starts = _grown(self._starts, self._count + 1, self._count + values + 1)
        used = int(self._starts[self._count])
        self._stored = _grown(self._stored, used, used + size)
        if 2 * (self._count + values) > len(self._slots):
            length = 2 << (2 * (self._count + values)).bit_length()
            self._slots = np.zeros(length, np.uint64)
            numbering.refill(self._slots, self._hashes, self._count)

    def _known(self) -> pa.Array:
        """The distinct ids so far, in the order of their numbers."""
        assert self.type is not None
        starts, size = self._starts[: self._count + 1], int(self._starts[self._count])
        stored = pa.py_buffer(self._stored[:size])
        if pa.types.is_large_string(self.type) or pa.types.is_large_binary(self.type):
            return pa.Array.from_buffers(self.type, self._count, [None, pa.py_buffer(starts), stored])
        return pa.Array.from_buffers(self.type, self._count, [None, stored])

    def _agree(self, array: pa.Array, is_uuid: bool) -> pa.Array:
        """One type for ids that arrive as several (files that disagree): wide integers, or else text."""
        known, wide = self._known(), pa.decimal128(20, 0)
        if {self.type, array.type} <= {pa.int64(), pa.uint64(), wide}:
            known, array = known.cast(wide), array.cast(wide)
        else:
            known = as_text(pa.ExtensionArray.from_storage(_UUID, known) if self._uuid else known)
            array = as_text(pa.ExtensionArray.from_storage(_UUID, array) if is_uuid else array)
            self._uuid = False
        self.type = known.type
        self._forget()
        for start in range(0, len(known), _BATCH):
            self._number(known.slice(start, _BATCH))  # distinct still, so each takes its old number
        return array


def _grown(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    if needed <= len(array):
        return array
    larger = np.zeros(max(needed, len(array) + len(array) // 2), array.dtype)
    larger[:used] = array[:used]
    return larger


def number_sorted(values: pa.Array) -> tuple[pa.Array, Numbers]:
    """Distinct values in ascending order, and for each position in `values` its place in that order."""
    order = pc.array_sort_indices(values)
    ranks = np.empty(len(values), np.int32)
    ranks[order.to_numpy()] = np.arange(len(values), dtype=np.int32)
    return values.take(order), ranks


def as_text(values: pa.Array) -> pa.Array:
    """Ids of any kind written as text (large_string)."""
    if isinstance(values, pa.ExtensionArray):
        return pa.array([str(uuid.UUID(bytes=b)) for b in values.storage.to_pylist()], pa.large_string())
    if is_bytes(values.type):
        return pa.array([b.hex() for b in values.to_pylist()], pa.large_string())
    return values.cast(pa.large_string())


def decoded(array: pa.Array) -> pa.Array:
    """The same values as a plain array: without a dictionary, runs or string views."""
    if pa.types.is_run_end_encoded(array.type):
        runs = np.searchsorted(array.run_ends, np.arange(array.offset, array.offset + len(array)), side="right")
        return decoded(array.values).take(pa.array(runs))
    if pa.types.is_dictionary(array.type):
        return decoded(array.dictionary).take(array.indices)
    if pa.types.is_string_view(array.type):
        try:
            return array.cast(pa.large_string())
        except pa.ArrowNotImplementedError:  # older pyarrow
            return pa.array(array.to_pylist(), pa.large_string())
    return array


def _usable(array: pa.Array, noun: str) -> pa.Array:
    """An array of a type that ids may have, or an `InputError`."""
    array = decoded(array)
    types, t = pa.types, array.type
    if isinstance(array, pa.ExtensionArray):
        return _usable(array.storage, noun)
    if types.is_integer(t):
        return array if t in (pa.int64(), pa.uint64()) else array.cast(pa.int64())
    if types.is_date64(t):
        return array.cast(pa.date32())
    if types.is_floating(t):
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid:
            raise InputError(f"{noun} ids must be whole numbers or text, got numbers with a fraction") from None
    if not (is_text(t) or is_bytes(t) or types.is_date32(t) or types.is_timestamp(t) or types.is_decimal(t)):
        raise InputError(f"{noun} ids cannot be of type {t}; use integers, text, UUIDs, dates or timestamps")
    return array


def _uuid_bytes(array: pa.Array) -> pa.Array:
    """UUIDs given as text, as 16 bytes each."""
    digits = pc.replace_substring(array, "-", "").cast(pa.large_string())
    offsets, data = byte_strings(digits)
    raw = binascii.unhexlify(data[offsets[0] : offsets[-1]].tobytes())
    return pa.Array.from_buffers(_UUID_BYTES, len(array), [None, pa.py_buffer(raw)])


def _narrowed(values: pa.Array, *, digits: bool) -> pa.Array:
    """The type ids keep: int64 where all are integers in range (written as digits too, if `digits`)."""
    t = values.type
    if pa.types.is_large_string(t) and digits and len(values):
        try:
            if pc.all(pc.match_substring_regex(values, _CANONICAL)).as_py():
                return values.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond int64
            pass
    if t == pa.uint64() or (pa.types.is_decimal(t) and t.scale == 0):
        for narrow in (pa.int64(), pa.uint64()):
            try:
                return values.cast(narrow)
            except pa.ArrowInvalid:
                continue
    return values.cast(_SHORT[t]) if t in _SHORT and values.nbytes < 2**31 - 1 else values
