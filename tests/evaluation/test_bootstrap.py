"""Bootstrap intervals against scipy's, and what a paired one is about."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from komd.evaluation import bootstrap
from komd.evaluation.bootstrap import bootstrap_interval, paired_interval


def test_as_scipy_has_it():
    values = np.random.default_rng(0).gamma(2.0, size=400)
    found = bootstrap_interval(values, np.random.default_rng(1), 4000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=2).confidence_interval
    assert found == pytest.approx(tuple(theirs), abs=0.01)


def test_the_memory_bound_changes_nothing(monkeypatch):
    values = np.random.default_rng(0).random(50)
    expected = bootstrap_interval(values, np.random.default_rng(1))
    monkeypatch.setattr(bootstrap, "_TOGETHER", 120)
    assert bootstrap_interval(values, np.random.default_rng(1)) == expected


def test_pairs_leave_out_what_users_share():
    """Two models that differ by little on users who differ by much: only the paired interval sees it."""
    rng = np.random.default_rng(0)
    users = rng.random(500)
    first, second = users + 0.01 + rng.normal(0, 0.005, 500), users + rng.normal(0, 0.005, 500)
    mean, low, high = paired_interval(first, second, np.random.default_rng(1))
    assert 0 < low < mean < high < 0.02
    assert mean == pytest.approx(float((first - second).mean()), abs=1e-12)
    one, other = (bootstrap_interval(values, np.random.default_rng(1)) for values in (first, second))
    assert one[0] < other[1]  # the intervals of both alone overlap


def test_coverage():
    """A 95 % interval of the difference of equal models holds zero about 95 times in 100."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        a, b = rng.random((2, 200))
        _, low, high = paired_interval(a, b, rng, 500)
        held += low <= 0 <= high
    assert 0.91 <= held / 300 <= 0.98


def test_nobody():
    assert np.isnan(bootstrap_interval(np.zeros(0), np.random.default_rng(0))).all()
    assert np.isnan(paired_interval(np.array([np.nan]), np.array([0.5]), np.random.default_rng(0))).all()
