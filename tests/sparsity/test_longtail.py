"""Fits of long tails: known exponents come back, another implementation agrees, degenerate counts give words."""

from __future__ import annotations

import numpy as np
import pytest

from komd.sparsity.longtail import fit_power_law, least_squares, tail


@pytest.mark.parametrize("exponent", [1.7, 2.2, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_exponent_comes_back(exponent, seed):
    """Within three of the fit's own standard errors."""
    counts = np.random.default_rng(seed).zipf(exponent, 8000)
    fit = fit_power_law(np.minimum(counts, 10**12))
    assert abs(fit.exponent - exponent) < 3 * fit.error
    assert fit.error < 0.1 and fit.ks < 0.03


def test_the_standard_error_is_honest():
    """From a known x_min on, 1.96 standard errors cover the exponent about 95 times of 100."""
    rng = np.random.default_rng(0)
    fits = [fit_power_law(np.minimum(rng.zipf(2.3, 1500), 10**12), x_min=1) for _ in range(100)]
    assert 89 <= sum(abs(fit.exponent - 2.3) < 1.96 * fit.error for fit in fits) <= 100


def test_x_min_is_found_where_the_tail_begins():
    rng = np.random.default_rng(1)
    tail_counts = rng.zipf(2.5, 400_000)
    tail_counts = tail_counts[tail_counts >= 10][:6000]
    body = rng.integers(1, 10, 6000)
    fit = fit_power_law(np.concatenate([tail_counts, body]))
    assert 8 <= fit.x_min <= 16
    assert abs(fit.exponent - 2.5) < 3 * fit.error


@pytest.mark.parametrize("kind", ["zipf", "lognormal", "thin"])
def test_against_another_implementation(kind):
    """Exponent, standard error, distance and both likelihood ratios as the powerlaw package has them."""
    powerlaw = pytest.importorskip("powerlaw")
    rng = np.random.default_rng(2)
    counts = {
        "zipf": np.minimum(rng.zipf(2.6, 4000), 5000),
        "lognormal": np.maximum(1, rng.lognormal(3, 1.2, 5000)).astype(np.int64),
        "thin": np.minimum(rng.zipf(1.8, 900), 10**6),
    }[kind]
    ours = fit_power_law(counts)
    theirs = powerlaw.Fit(counts, discrete=True, estimate_discrete=False, xmin=ours.x_min, verbose=False)
    assert ours.exponent == pytest.approx(theirs.power_law.alpha, abs=2e-3)
    assert ours.ks == pytest.approx(theirs.power_law.D, abs=2e-3)
    ratio, p = theirs.distribution_compare("power_law", "lognormal", normalized_ratio=True)
    assert (ours.rivals[0].ratio, ours.rivals[0].p) == (pytest.approx(ratio, abs=0.1), pytest.approx(p, abs=0.05))
    ratio, _ = theirs.distribution_compare("power_law", "exponential", normalized_ratio=True)
    if np.ptp(counts) < 10**5:  # where likelihoods of the exponential vanish, the package sets them to its own least
        assert np.sign(ours.rivals[1].ratio) == np.sign(ratio)


def test_rivals_are_told_apart():
    rng = np.random.default_rng(3)
    lognormal = fit_power_law(np.maximum(1, rng.lognormal(4, 0.8, 20_000)).astype(np.int64), x_min=20)
    assert lognormal.rivals[0].better == "log-normal"
    geometric = fit_power_law(rng.geometric(0.02, 20_000), x_min=20)
    assert {rival.better for rival in geometric.rivals} == {"log-normal", "exponential"}
    law = fit_power_law(np.minimum(rng.zipf(2.0, 20_000), 10**9))
    assert law.rivals[1].better == "power law"


def test_least_squares_finds_its_own():
    line = least_squares(1000 * np.arange(1.0, 200) ** -0.7)
    assert (line.slope, line.factor, line.r2) == (pytest.approx(-0.7), pytest.approx(1000), pytest.approx(1))


def test_shares_and_gini():
    counts = np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 91])
    found = tail("item", counts)
    assert (found.size, found.least, found.most, found.median) == (10, 1, 91, 1)
    assert found.top1 == found.top10 == 0.91
    each = counts[1:]
    slow = np.abs(each[:, None] - each[None, :]).sum() / (2 * 10**2 * each.mean())
    assert found.gini == pytest.approx(slow)
    assert tail("user", np.full(50, 7)).gini == pytest.approx(0)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([], "no item has a pair"),
        ([0, 0], "no item has a pair"),
        ([5], "every item has the same count (5)"),
        ([3] * 500, "every item has the same count (3)"),
        ([1, 2, 3], "3 items are too few"),
        ([1, 2] * 50, "2 different counts are too few"),
        ([50] * 900 + [49, 48, 47, 46, 45, 44, 43], "no range of counts falls like a power law"),
    ],
)
def test_counts_without_a_power_law_give_words(counts, words):
    found = tail("item", np.array(counts, np.int64))
    assert found.fit is None and words in found.why
    assert 0 <= found.gini < 1


def test_a_million_counts_cost_what_their_values_cost():
    """The fit of counts repeated a thousand times is the same, with a standard error √1000 times smaller."""
    counts = np.minimum(np.random.default_rng(4).zipf(2.1, 1000), 10**6)
    one, many = fit_power_law(counts), fit_power_law(np.tile(counts, 1000))
    assert many.exponent == pytest.approx(fit_power_law(counts, x_min=many.x_min).exponent, rel=1e-6)
    assert many.size >= one.size * 100


def test_expected_ranks():
    fit = fit_power_law(np.minimum(np.random.default_rng(5).zipf(2.0, 5000), 10**9))
    assert fit.expected_above(np.array([float(fit.x_min)])) == pytest.approx(fit.size)
    assert (np.diff(fit.expected_above(np.geomspace(fit.x_min, 1000, 20))) < 0).all()
