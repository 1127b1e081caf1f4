"""The paired test against scipy's, Holm's correction against its definition, and what counts as tied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.evaluation.significance import LEVEL, compared_with_best, holm, paired_t


@pytest.mark.parametrize("users", [2, 3, 10, 1000])
@pytest.mark.parametrize("shift", [0.0, 0.02, 1.0])
def test_against_scipy(users, shift):
    from scipy import stats

    rng = np.random.default_rng(users)
    first, second = rng.random(users), rng.random(users) + shift
    assert paired_t(first, second) == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-9, abs=1e-300)
    assert paired_t(first, second) == paired_t(second, first)


def test_users_without_a_value_are_left_out_in_pairs():
    rng = np.random.default_rng(0)
    first, second = rng.random(50), rng.random(50)
    holes, others = first.copy(), second.copy()
    holes[[3, 7]] = np.nan
    others[[7, 20]] = np.nan
    kept = np.setdiff1d(np.arange(50), [3, 7, 20])
    assert paired_t(holes, others) == paired_t(first[kept], second[kept])


def test_nothing_to_tell_apart_and_a_difference_without_spread():
    values = np.random.default_rng(1).random(20)
    assert paired_t(values, values.copy()) == 1.0
    assert paired_t(np.array([0.5]), np.array([0.1])) == 1.0
    assert paired_t(np.full(3, np.nan), values[:3]) == 1.0
    assert paired_t(np.full(10, 1.0), np.full(10, 0.5)) == 0.0


def slow_holm(p):
    """From the definition: go up from the smallest while p_(k) <= level / (m − k + 1); all from the first miss stay."""
    order = np.argsort(p, kind="stable")
    rejected = np.zeros(len(p), bool)
    for k, index in enumerate(order):
        if p[index] * (len(p) - k) > LEVEL:
            break
        rejected[index] = True
    return rejected


@settings(deadline=None, max_examples=200)
@given(st.lists(st.one_of(st.floats(0, 0.1), st.floats(0, 1)), max_size=12))
def test_holm(p):
    corrected = holm(p)
    assert [each <= LEVEL for each in corrected] == slow_holm(p).tolist()
    assert all(before <= after <= 1 for before, after in zip(p, corrected, strict=True))


def test_the_level_holds_when_all_models_are_alike():
    """Ten equal models, one of them chosen beforehand: with the correction, seldom is any other called different."""
    rng = np.random.default_rng(0)
    wrong = bare = 0
    for _ in range(300):
        values = rng.normal(size=(10, 200))
        p = [paired_t(values[0], other) for other in values[1:]]
        wrong += min(holm(p)) <= LEVEL
        bare += min(p) <= LEVEL
    assert wrong <= 0.08 * 300 < bare


def test_the_best_and_its_ties():
    rng = np.random.default_rng(2)
    best = rng.random(400)
    noisy = best - 0.001 + rng.normal(0, 0.2, 400) - 0.0
    noisy -= noisy.mean() - best.mean() + 0.001
    worse = best - 0.05 + rng.normal(0, 0.05, 400)
    values = [worse, best, noisy, best.copy()]
    found, p = compared_with_best([v.mean() for v in values], values)
    assert found == 1
    assert p[0] <= LEVEL and p[1] == 1.0 and p[2] > LEVEL and p[3] == 1.0


def test_one_number_for_all_users_is_tied_only_when_equal():
    nothing = [np.zeros(0)] * 3
    found, p = compared_with_best([0.5, 0.4, 0.5], nothing)
    assert found == 0 and p == [1.0, 0.0, 1.0]


def test_undefined_means():
    nan = float("nan")
    found, p = compared_with_best([nan, 0.4], [np.full(3, nan), np.array([0.3, 0.4, 0.5])])
    assert found == 1 and np.isnan(p[0]) and p[1] == 1.0
    assert compared_with_best([nan], [np.full(3, nan)])[0] is None
    assert compared_with_best([], [])[0] is None
