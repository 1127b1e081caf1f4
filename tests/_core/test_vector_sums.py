"""Sums over a line, in vector registers: against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.vector_sums import COMPARED, LANES, above, any_above, dot, fill, padded_length
from tests._core.arrays import compiled_anew

seeds = st.integers(0, 2**32 - 1)


@compiled_anew
def product_of(x, y):
    return dot(x, y)


@compiled_anew
def sums_above(v, c, level):
    return above(v, c, level)


@compiled_anew
def some_above(x, start, level):
    return any_above(x, start, level)


@compiled_anew
def filled(out, value):
    fill(out, value)


def test_a_line_is_filled():
    out = np.arange(5.0)
    filled(out[1:4], 7.0)
    assert out.tolist() == [0.0, 7.0, 7.0, 7.0, 4.0]


def test_lines_are_padded_to_whole_vectors():
    assert [padded_length(items) for items in (0, 1, LANES, LANES + 1)] == [0, LANES, LANES, 2 * LANES]


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(0, 9))
def test_products_and_sums_above_a_level(seed, vectors):
    rng = np.random.default_rng(seed)
    v, c = rng.standard_normal(LANES * vectors), rng.random(LANES * vectors)
    level = float(rng.standard_normal())
    assert product_of(v, c) == pytest.approx(math.fsum(v * c), abs=1e-13)
    positive = v + level * c > 0
    held, slope = sums_above(v, c, level)
    assert held == pytest.approx(math.fsum((v + level * c)[positive]), abs=1e-12)
    assert slope == pytest.approx(math.fsum(c[positive]), abs=1e-12)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("level", [-np.inf, 0.0, np.inf])
def test_one_number_above_a_level_is_seen_wherever_it_is(start, level):
    """Equal numbers, those that are none, and what stands beside the compared ones do not count."""
    around = np.full(COMPARED + start + 3, np.inf)
    x = around[: COMPARED + start + 1]
    x[start : start + COMPARED] = level
    x[start + 7] = np.nan
    assert not some_above(x, start, level)
    for place in range(start, start + COMPARED):
        x[place], before = np.inf, x[place]
        assert some_above(x, start, level) == (level < np.inf)
        x[place] = before


def test_numbers_that_do_not_stand_side_by_side_are_refused():
    with pytest.raises(TypeError, match="any_above takes a contiguous array"):
        some_above(np.zeros(2 * COMPARED)[::2], 0, 0.0)
