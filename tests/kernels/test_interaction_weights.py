"""How much an item of a history counts: transforms of weights, and ages in half-lives."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from komd.errors import InputError
from komd.kernels.interaction_weights import WEIGHTINGS, half_life_text, halved, limited, microseconds_in, transformed

SECOND = 10**6
DAY = 86_400 * SECOND


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_one_counts_one_and_more_counts_no_less(weighting):
    weights = np.array([1, 1.5, 3, 100, 1e6, 3e38], np.float32)
    h = transformed(weights, weighting)
    assert h.dtype == np.float32
    assert h[0] == 1.0
    assert (np.diff(h) >= 0).all() and np.isfinite(h).all()
    assert (transformed(np.array([1e-45, 1e-38, 1e-20], np.float32), weighting) > 0).all()


def test_the_transforms():
    weights = np.array([0.5, 1, 8, 80], np.float32)
    assert transformed(weights, "linear").tolist() == weights.tolist()
    assert transformed(weights, "none").tolist() == [1, 1, 1, 1]
    assert transformed(weights, "sqrt") == pytest.approx(np.sqrt(weights))
    assert transformed(weights, "log") == pytest.approx(np.log2(1 + weights))
    with pytest.raises(InputError, match="weighting must be 'none' or 'log' or 'sqrt' or 'linear', got 'cube'"):
        transformed(weights, "cube")


def slow_halved(rows, half_life, at):
    """The definition, pair by pair."""
    out = []
    for row in rows:
        last = max(row, default=0) if at is None else min(max(row, default=0), at)
        since = 0 if at is None else min((at - last) / half_life, 30)
        out += [2.0 ** -(since + min(max(last - time, 0) / half_life, 60)) for time in row]
    return out


@given(
    st.lists(st.lists(st.integers(-(10**15), 10**15), max_size=5), min_size=1, max_size=6),
    st.sampled_from([SECOND, DAY, 400 * DAY]),
    st.none() | st.integers(-(10**15), 10**15),
)
def test_ages_against_the_definition(rows, half_life, at):
    indptr = np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int64)
    times = np.array([time for row in rows for time in row], np.int64)
    found = halved(times, indptr, half_life, at)
    assert found.dtype == np.float32
    assert found == pytest.approx(slow_halved(rows, half_life, at), rel=1e-6)
    assert (found > 0).all() and (found <= 1).all()


def test_the_last_event_counts_one_and_later_ones_have_no_age():
    times, indptr = np.array([0, 5, 10]) * DAY, np.array([0, 3])
    assert halved(times, indptr, 5 * DAY).tolist() == [0.25, 0.5, 1]
    assert halved(times, indptr, 5 * DAY, at=10 * DAY).tolist() == [0.25, 0.5, 1]
    assert halved(times, indptr, 5 * DAY, at=15 * DAY).tolist() == [0.125, 0.25, 0.5]
    assert halved(times, indptr, 5 * DAY, at=5 * DAY).tolist() == [0.5, 1, 1]
    away = halved(times, indptr, 5 * DAY, at=10**6 * DAY)
    assert (away / away[-1]).tolist() == [0.25, 0.5, 1]  # however long a user was away, the proportions stay


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * 86_400), ("12h", 43_200), ("90min", 5400), ("1.5s", 1.5), ("2 w", 14 * 86_400)]
)
def test_lengths_of_time(text, seconds):
    assert microseconds_in(text) == seconds * SECOND
    assert half_life_text(text) == text


def test_a_timedelta_is_a_half_life():
    assert half_life_text(datetime.timedelta(days=30)) == "30d"
    assert half_life_text(None) is None


@pytest.mark.parametrize("wrong", ["30", "d", "30m", "30 days", "-3d", "0d", 30, 1.5, True, "", "1e9d", "nand"])
def test_what_is_no_half_life(wrong):
    with pytest.raises(InputError, match="half_life must be"):
        half_life_text(wrong)
    with pytest.raises(InputError, match="half_life must be from a microsecond to some 100,000 years"):
        microseconds_in("99999999999d")


def test_h_stays_within_bounds():
    assert limited(np.array([0.0, 1e300])).tolist() == pytest.approx([1e-30, 1e30])
