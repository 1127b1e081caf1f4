import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from komd.kernels.fixed_point import fixed, scale_for


@given(st.floats(1e-200, 1e200), st.integers(1, 2**40))
def test_no_sum_overflows_and_the_scale_is_a_power_of_two(largest, terms):
    scale = scale_for(largest, terms)
    assert np.frexp(scale)[0] == 0.5
    assert largest * scale * terms < 2.0**62.01
    assert largest * scale >= 2.0 ** (min(40, 62 - terms.bit_length()) - 1)


@pytest.mark.parametrize("users", [1, 6040, 2**22 - 1])
def test_the_unit_of_users_weights_stays_while_users_come(users):
    assert scale_for(1.0, users) == 2.0**40


def test_rounded_numbers_are_near_and_never_zero():
    rng = np.random.default_rng(0)
    weights = rng.random(1000) ** 8
    rounded = fixed(weights, 2.0**40)
    assert rounded.dtype == np.int64 and rounded.min() >= 1
    assert np.abs(rounded / 2.0**40 - weights).max() <= 2.0**-40
    assert fixed(np.array([1e-300]), 2.0**40).tolist() == [1]
    assert scale_for(0.0, 10) == 2.0**40
