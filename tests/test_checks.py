"""Checks of arguments: what passes, what is refused, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from komd.checks import at_least, generator, one_of, whole
from komd.errors import InputError


def test_whole_numbers_pass_as_ints():
    assert whole("n", 3, 1) == 3
    assert type(whole("n", np.int16(3), 3)) is int
    assert whole("rng", 10**40, 0, most=None) == 10**40


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "3", None, np.float64(2), float("nan")])
def test_what_is_no_count_is_refused(wrong):
    with pytest.raises(InputError, match=r"^n must be a whole number >= 1, got"):
        whole("n", wrong, 1)


def test_too_much_is_said_briefly():
    with pytest.raises(InputError, match=r"^n must be <= 2,147,483,647, got 2147483648"):
        whole("n", 2**31, 1)
    with pytest.raises(InputError, match=r"^n must be <= 7, got 10\^5000$"):
        whole("n", 10**5000, 1, most=7)


@pytest.mark.parametrize("wrong", ["1", True, None, float("inf"), float("nan"), np.array([1.0]), [3]])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(InputError, match=r"^alpha must be a number >= 0, got"):
        at_least("alpha", wrong, 0)


def test_an_open_end_is_open():
    at_least("alpha", np.float32(1e-9), 0, open_end=True)
    with pytest.raises(InputError, match=r"^alpha must be > 0, got 0$"):
        at_least("alpha", 0, 0, open_end=True)


def test_one_of_names_the_choices():
    one_of("ties", "half", ("half", "strict"))
    with pytest.raises(InputError, match=r"^ties must be 'half' or 'strict', got 'some'$"):
        one_of("ties", "some", ("half", "strict"))


def test_a_generator_is_taken_as_it_is_and_a_seed_makes_one():
    given = np.random.default_rng(1)
    assert generator(given) is given
    assert generator(np.int64(7)).random() == np.random.default_rng(7).random()
    for wrong in (-1, True, None, 1.5):
        with pytest.raises(InputError, match=r"^rng must be a seed \(a whole number >= 0\) or a numpy Generator, got"):
            generator(wrong)
