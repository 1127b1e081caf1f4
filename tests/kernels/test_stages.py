"""The stages of K as one value: equal when equal, cut off after each stage, weights and scales by their formulas."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.kernels.functions import Linear, Tanimoto
from komd.kernels.stages import Stages
from tests._core.arrays import random_rows, rows_of

FILTER = {"user_damping": 0.5, "popularity": 0.2, "ridge": 10.0, "rank": 8, "head": 1.0}
PRIOR = {"prior": 0.01, "prior_power": 1.0}
FULL = Stages(Tanimoto(), **FILTER, **PRIOR, target=0.3)


def test_one_value():
    again = Stages(Tanimoto(), **FILTER, **PRIOR, target=0.3)
    assert again == FULL and hash(again) == hash(FULL)
    assert Stages(Linear()) != Stages(Tanimoto())
    with pytest.raises(FrozenInstanceError):
        FULL.prior = 1.0


def test_cut_off_after_each_stage():
    kernel, damped = Tanimoto(), {"user_damping": 0.5}
    assert FULL.before_target() == Stages(kernel, **FILTER, **PRIOR)
    assert FULL.before_prior() == Stages(kernel, **FILTER)
    assert FULL.before_filter() == Stages(kernel, **damped, popularity=0.2, normalised=True)
    unfiltered = Stages(kernel, **damped, popularity=0.2)
    assert unfiltered.before_filter() == unfiltered != FULL.before_filter()  # what a filter takes is another K
    assert replace(FULL, popularity=0.0).before_filter() == Stages(kernel, **damped)
    assert FULL.before_scaling() == Stages(kernel, **damped)
    weighted = replace(FULL, weighting="log")
    assert weighted.before_scaling() == Stages(kernel, **damped, weighting="log") != FULL.before_scaling()
    assert repr(weighted) != repr(replace(FULL, weighting="sqrt")) != repr(FULL)
    assert Stages(kernel, **damped).before_scaling() == Stages(kernel, **damped)


def test_what_is_a_filter_and_when_it_is_of_low_rank():
    def of(**stages):
        made = Stages(Linear(), **stages)
        return made.filtered, made.low_rank

    assert of() == of(target=1.0, prior=1.0) == (False, False)
    assert of(ridge=1.0) == (True, False)
    assert of(ridge=1.0, rank=8) == of(head=0.1) == of(ridge=1.0, head=0.1) == (True, True)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.2, 3.0]))
def test_user_weights_item_scales_and_the_prior(seed, gamma, beta):
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 20))
    lists = [[], *random_rows(rng, 6, items)]
    rows = rows_of(lists)
    popularity = np.bincount(rows.indices, minlength=items)
    stages = Stages(Linear(), user_damping=gamma, popularity=beta, prior=0.04, prior_power=beta)
    entries = stages.entries(rows, items)
    if gamma:
        assert (entries.user_weights * entries.unit).tolist() == pytest.approx(
            [max(len(row), 1) ** -gamma for row in lists]
        )
    else:
        assert entries.user_weights is None
    assert (entries.scale is None) == (beta == 0)
    chosen = popularity > 0
    if chosen.any():
        powers = np.maximum(popularity, 1.0) ** beta
        expected = powers / np.sqrt((powers[chosen] ** 2).mean())
        factor = stages.factor(popularity)
        assert (factor is None) == (beta == 0)
        scale = stages.item_scale(popularity)
        assert scale * np.sqrt(factor or 1.0) == pytest.approx(expected)
        assert replace(stages, normalised=True).item_scale(popularity) == pytest.approx(expected)
        prior = stages.prior_factor(popularity) * np.sqrt(factor or 1.0)
        assert prior == pytest.approx(0.2 * expected * chosen, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.floats(-4, 4))
def test_target_factors_are_powers_of_mean_square_1(popularity, tau):
    popularity = np.array(popularity)
    chosen, found = popularity > 0, Stages(Linear(), target=tau).target_factors(popularity)
    if tau == 0:
        assert found is None
        return
    assert found.dtype == np.float64 and np.isfinite(found).all() and (found > 0).all()
    if chosen.any():
        powers = np.maximum(popularity, 1.0) ** tau
        assert found == pytest.approx(powers / np.sqrt((powers[chosen] ** 2).mean()))


def test_no_power_overflows():
    popularity = np.array([10**9, 10**6, 1, 0])
    for beta, filtered in product((1e-300, 1.0, 30.0, 300.0, 1e6, 1e308), (False, True)):
        stages = Stages(Linear(), popularity=beta, ridge=1.0 if filtered else None)
        scale, factor = stages.item_scale(popularity), stages.factor(popularity)
        assert np.isfinite(scale).all() and (scale > 0).all()
        assert (scale[:3] ** 2).mean() * (factor or 1.0) == pytest.approx(1)
        assert filtered or 0.499 < factor < 2.001
    for tau in (-10.0, 10.0):
        factors = Stages(Linear(), target=tau).target_factors(popularity)
        assert np.isfinite(factors).all() and (factors > 0).all() and np.isfinite(1 / factors).all()
        assert (factors[:3] ** 2).mean() == pytest.approx(1)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=30), st.floats(0.01, 8), st.integers(0, 2**32 - 1))
def test_a_length_depends_on_one_popularity_and_the_unit(popularity, beta, seed):
    """Where the unit stays as it was, items whose popularity did not change have the same length, to the last bit."""
    rng, before = np.random.default_rng(seed), np.array(popularity)
    after = np.where(rng.random(len(before)) < 0.3, before + rng.integers(0, 20, len(before)), before)
    order = rng.permutation(len(after))
    stages = Stages(Linear(), popularity=beta)
    same = before[order] == after[order]
    old, new = stages.item_scale(before)[order], stages.item_scale(after[order])
    if stages.scaled_otherwise(before, after[order]) is None:
        assert np.array_equal(old[same], new[same])
    else:
        ratio = np.log2(new[same] / old[same])
        assert np.allclose(ratio, np.rint(ratio), atol=1e-9) and (np.abs(ratio) > 0.5).all()


def test_what_makes_every_entry_depend_on_all_pairs():
    def why(*, written_out=False, **stages):
        return Stages(Linear(), **stages).shared_by_all(written_out=written_out)

    assert why() is why(popularity=0.5) is why(popularity=0.5, prior=0.1) is why(target=1.0, written_out=True) is None
    assert why(popularity=0.5, ridge=1.0) == "the filter is made of all of K"
    assert why(popularity=0.5, prior=0.1, written_out=True) == "the prior, written into K, is relative to all items"
    assert "saved by an earlier version" in why(popularity=0.5, normalised=True)
    few, many = np.array([3, 1, 1]), np.array([300, 100, 100])
    assert Stages(Linear(), popularity=1.0).scaled_otherwise(few, few) is None
    assert "another unit" in Stages(Linear(), popularity=1.0).scaled_otherwise(few, many)
    assert Stages(Linear(), popularity=1.0, ridge=1.0).scaled_otherwise(few, many) is None
    assert Stages(Linear()).scaled_otherwise(few, many) is None
