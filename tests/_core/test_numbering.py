"""Numbering byte strings against a dictionary, also where hashes collide and the table grows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.numbering import hash_values, number, refill
from tests import reference

values = st.lists(st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"\0\0", b"same", b"12345678"]), max_size=60)


def packed(batch):
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in batch])]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(batch) + b"\0", np.uint8)[:-1]


@settings(deadline=None)
@given(values)
def test_hashes(batch):
    out = np.empty(len(batch), np.uint64)
    hash_values(*packed(batch), out)
    assert out.tolist() == [reference.hash_value(value) for value in batch]


@settings(deadline=None)
@given(st.lists(values, max_size=4), st.booleans())
def test_numbers_are_those_of_a_dictionary(batches, collide):
    """`collide` makes all hashes equal: then bytes alone tell values apart."""
    total = sum(map(len, batches))
    hashes, starts = np.empty(total, np.uint64), np.zeros(total + 1, np.int64)
    stored = np.empty(sum(len(value) for batch in batches for value in batch), np.uint8)
    slots = np.zeros(2, np.uint64)
    twin: dict[bytes, int] = {}
    count = 0
    for batch in batches:
        if 2 * (count + len(batch)) > len(slots):
            slots = np.zeros(2 << (2 * (count + len(batch))).bit_length(), np.uint64)
            refill(slots, hashes, count)
        offsets, data = packed(batch)
        hashed = np.zeros(len(batch), np.uint64)
        if not collide:
            hash_values(offsets, data, hashed)
        codes = np.empty(len(batch), np.int32)
        count = number(offsets, data, hashed, slots, hashes, starts, stored, count, codes)
        assert codes.tolist() == [twin.setdefault(value, len(twin)) for value in batch]
    assert count == len(twin)
    assert [stored[starts[c] : starts[c + 1]].tobytes() for c in range(count)] == list(twin)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_refill_enters_every_value_once_where_a_search_finds_it(hashes):
    slots = np.zeros(64, np.uint64)
    refill(slots, np.array(hashes, np.uint64), len(hashes))
    entries = {int(slot) & 0xFFFFFFFF: int(slot) >> 32 for slot in slots if slot}
    assert entries == {c + 1: h >> 32 for c, h in enumerate(hashes)}
    for c, h in enumerate(hashes):
        place = h % 64
        while int(slots[place]) & 0xFFFFFFFF != c + 1:
            assert slots[place] != 0
            place = (place + 1) % 64
