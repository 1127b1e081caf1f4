"""splitmix64: the published numbers, and the twin in Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.splitmix import mixed, next_word
from tests import reference


def test_the_published_numbers():
    """The first outputs for seed 1234567, as in the reference implementation's test vector."""
    state = np.array([1234567], np.uint64)
    seen = [int(next_word(state)) for _ in range(3)]
    assert seen == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_as_the_twin(seed):
    assert int(mixed(np.uint64(seed))) == reference.mixed(seed)
    state = np.array([seed], np.uint64)
    for _ in range(3):
        seed, word = reference.splitmix64(seed)
        assert int(next_word(state)) == word
        assert int(state[0]) == seed
