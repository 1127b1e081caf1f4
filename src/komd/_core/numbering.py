"""Number distinct byte strings in the order in which they first appear: a growing hash table.

Value k of a batch is `data[offsets[k]:offsets[k + 1]]`. The table keeps every distinct value once, one
after another in `stored` (value c is `stored[starts[c]:starts[c + 1]]`), its hash in `hashes`, and in
`slots` (a power of two of them, linear probing) the upper half of the hash beside c + 1; 0 is empty.
Equal hashes prove nothing: bytes are always compared.

A lookup waits for memory three times (slot, start, bytes). Prefetching all three some values ahead makes
the loop two to three times as fast once the table is larger than the cache.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from komd._core.compile import compiled
from komd._core.prefetch import prefetch

__all__ = ["hash_values", "number", "refill"]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xD6E8FEB86659FD93)
_UPPER = np.uint64(0xFFFFFFFF00000000)
_LOWER = np.uint64(0x00000000FFFFFFFF)
_AHEAD = np.uint64(8)  # values between one stage of prefetching and the next


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _word(context, data, at):  # type: ignore[no-untyped-def]
    """Eight bytes of `data` from place `at`, as one word; need not be aligned."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        first = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(first, [args[1]]), ir.IntType(64).as_pointer())
        word = builder.load(pointer)
        word.align = 1
        return word

    return types.uint64(data, types.uint64), generate


@compiled
def hash_values(offsets: Ints, data: Bytes, out: Words) -> None:
    """The hash of each value of a batch, shape (values,). Twin: tests/reference.py::hash_value."""
    for k in range(out.size):
        at, last = uint64(offsets[k]), uint64(offsets[k + 1])
        h = (last - at) * _MIX
        while at + uint64(8) <= last:
            h = (h ^ _word(data, at)) * _MIX
            h ^= h >> uint64(32)
            at += uint64(8)
        word = uint64(0)
        while at < last:
            word = (word << uint64(8)) | uint64(data[at])
            at += uint64(1)
        h = (h ^ word) * _STIR
        h ^= h >> uint64(29)
        h *= _MIX
        out[k] = h ^ (h >> uint64(32))


@compiled
def number(
    offsets: Ints,
    data: Bytes,
    hashed: Words,
    slots: Words,
    hashes: Words,
    starts: Ints,
    stored: Bytes,
    count: int,
    codes: NDArray[np.int32],
) -> int:
    """Write the number of each value to `codes`, new values taking the next free ones; returns the new count.

    `hashed` comes from `hash_values`. The caller leaves room: `stored` for all bytes of the batch,
    `hashes` and `starts` for all its values, and `slots` so many that empty ones remain.
    Twin: a dict, in tests/_core/test_numbering.py.
    """
    mask = uint64(slots.size - 1)
    total = uint64(codes.size)
    for k in range(total):
        ahead = k + _AHEAD * uint64(3)
        if ahead < total:
            prefetch(slots, hashed[ahead] & mask)
            ahead -= _AHEAD
            entry = slots[hashed[ahead] & mask]
            if entry != uint64(0):
                prefetch(starts, (entry & _LOWER) - uint64(1))
            ahead -= _AHEAD
            entry = slots[hashed[ahead] & mask]
            if entry != uint64(0):
                prefetch(stored, uint64(starts[(entry & _LOWER) - uint64(1)]))
        first = uint64(offsets[k])
        length = uint64(offsets[k + uint64(1)]) - first
        h = hashed[k]
        tag = h & _UPPER
        slot = h & mask
        while True:
            entry = slots[slot]
            if entry == uint64(0):
                slots[slot] = tag | uint64(count + 1)
                hashes[count] = h
                start = uint64(starts[count])
                for b in range(length):
                    stored[start + b] = data[first + b]
                starts[count + 1] = start + length
                codes[k] = count
                count += 1
                break
            if entry & _UPPER == tag:
                c = (entry & _LOWER) - uint64(1)
                start = uint64(starts[c])
                if uint64(starts[c + uint64(1)]) - start == length and _equal(data, first, stored, start, length):
                    codes[k] = np.int32(c)
                    break
            slot = (slot + uint64(1)) & mask
    return count


@compiled
def _equal(data: Bytes, first: int, stored: Bytes, start: int, length: int) -> bool:
    differ = uint64(0)
    b = uint64(0)
    while b + uint64(8) <= length:
        differ |= _word(data, first + b) ^ _word(stored, start + b)
        b += uint64(8)
    while b < length:
        differ |= uint64(data[first + b] ^ stored[start + b])
        b += uint64(1)
    return bool(differ == uint64(0))


@compiled
def refill(slots: Words, hashes: Words, count: int) -> None:
    """Enter values 0 .. count - 1 into empty `slots`."""
    mask = uint64(slots.size - 1)
    for c in range(count):
        slot = hashes[c] & mask
        while slots[slot] != uint64(0):
            slot = (slot + uint64(1)) & mask
        slots[slot] = (hashes[c] & _UPPER) | uint64(c + 1)
