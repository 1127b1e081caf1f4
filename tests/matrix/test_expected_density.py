"""Expected densities: the formulas against simulation, against each other, and against real kernels."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.matrix.expected_density import _chance, _fitted, estimate_density, paper_density, saturating_density
from tests.matrix.test_density import EXACT

# The paper's d(K) on the data sets at hand, in per cent.
PAPER = {
    "filmtrust/ratings.txt": 17.739,
    "ciaodvd/movie-ratings.txt": 0.1205,
    "lastfm-hetrec/user_artists.dat": 1.460,
    "ml-1m/ratings.csv.gz": 99.999,
    "delicious-hetrec/user_bookmarks.tsv.gz": 0.120,
    "book-crossing/book_history.tsv.gz": 8.018,
    "netflix-half/ratings.dat.gz": 90.099,
    "msd/10000.txt": 1.364,
    "ml-100k/u.data": 97.663,
}


def test_the_papers_estimate_is_the_mean_over_flat_data():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(30):
        R = rng.random((40, 60)) < 0.08
        K = R.T.astype(int) @ R
        np.fill_diagonal(K, 1)
        found.append(np.count_nonzero(K) / 60**2)
    assert paper_density(40, 60, round(0.08 * 40 * 60)) == pytest.approx(np.mean(found), rel=0.03)
    assert paper_density(0, 5, 0) == paper_density(5, 0, 0) == paper_density(3, 3, 0) == 0.0
    assert paper_density(4, 5, 20) == pytest.approx(1.0)


def test_fitted_chances_have_the_degrees_asked_for():
    rng = np.random.default_rng(1)
    R = rng.random((50, 80)) < np.outer(rng.random(50), rng.random(80))
    R = R[R.any(axis=1)][:, R.any(axis=0)]
    a, d = R.sum(axis=1).astype(float), R.sum(axis=0).astype(float)
    p = _chance(*_fitted(d, np.ones(len(d)), a, np.ones(len(a))))
    assert p.max() < 1
    assert p.sum(axis=1) == pytest.approx(d, rel=1e-3)
    assert p.sum(axis=0) == pytest.approx(a, rel=1e-3)


def shuffled(R, rng, swaps):
    """R after random swaps that keep every degree: u has i and v has j becomes u has j and v has i."""
    R = R.copy()
    users, items = np.nonzero(R)
    pairs = list(zip(users.tolist(), items.tolist(), strict=True))
    for _ in range(swaps):
        a, b = rng.integers(0, len(pairs), 2)
        (u, i), (v, j) = pairs[a], pairs[b]
        if not R[u, j] and not R[v, i]:
            R[u, i] = R[v, j] = False
            R[u, j] = R[v, i] = True
            pairs[a], pairs[b] = (u, j), (v, i)
    return R


def test_saturating_is_the_density_of_random_data_with_these_degrees():
    """Two long tails, short enough for the most active to have most of the popular: the naive estimate misses."""
    rng = np.random.default_rng(2)
    wish = np.outer(np.exp(rng.normal(0, 1.2, 120)), np.arange(1, 151) ** -1.2)
    R = rng.random(wish.shape) < np.minimum(0.97, 3 * wish)
    found = []
    for _ in range(4):
        R = shuffled(R, rng, 6000)
        K = R.T.astype(int) @ R
        found.append(np.count_nonzero(K) / 150**2)
    popularity, activity = R.sum(axis=0), R.sum(axis=1)
    true = float(np.mean(found))
    assert saturating_density(popularity, activity) == pytest.approx(true, rel=0.03)
    assert abs(estimate_density(popularity, activity) - true) > 2 * abs(saturating_density(popularity, activity) - true)


@pytest.mark.parametrize(
    ("popularity", "activity", "density"),
    [([], [], 0.0), ([0, 0], [0], 0.0), ([1], [1], 1.0), ([3, 3], [2, 2, 2], 1.0), ([1] * 10, [1] * 10, 0.1)],
)
def test_cases_with_one_answer(popularity, activity, density):
    found = saturating_density(np.array(popularity, np.int64), np.array(activity, np.int64))
    assert found == pytest.approx(density, abs=1e-6)


def test_binning_costs_little(monkeypatch):
    from komd.matrix import expected_density as expectation

    rng = np.random.default_rng(3)
    R = rng.random((900, 1400)) < np.outer(np.exp(rng.normal(-1, 1, 900)), np.arange(1, 1401) ** -0.7).clip(max=0.9)
    popularity, activity = R.sum(axis=0), R.sum(axis=1)
    assert len(np.unique(popularity)) > 60
    monkeypatch.setattr(expectation, "_BINS", 40)
    coarse = saturating_density(popularity, activity)
    monkeypatch.setattr(expectation, "_BINS", 1200)
    assert coarse == pytest.approx(saturating_density(popularity, activity), rel=0.01)


@pytest.mark.data
@pytest.mark.parametrize("name", EXACT)
def test_estimates_on_real_data(name, real_data):
    """The paper's figure; the degree-aware estimate within 2.3 times of the truth, the saturating one within 1.35."""
    how = {"user": 0, "item": 1, "header": False} if name.startswith("msd") else {}
    data = komd.read(real_data / name, **how)
    assert 100 * paper_density(*data.shape, data.pairs) == pytest.approx(PAPER[name], rel=1e-3)
    degree = 100 * estimate_density(data.popularity, data.activity) / EXACT[name]
    better = 100 * saturating_density(data.popularity, data.activity) / EXACT[name]
    assert 1 / 2.3 < degree < 2.3
    assert 1 / 1.35 < better < 1.35


# PAPER.md, "Sparsity of the linear kernel": density of K here, and the degree-aware estimate (per cent).
TABLE = {
    "delicious-hetrec/user_bookmarks.tsv.gz": (0.129, 0.144),
    "lastfm-hetrec/user_artists.dat": (0.855, 1.003),
    "book-crossing/book_history.tsv.gz": (19.34, 18.93),
    "ml-1m/ratings.csv.gz": (82.37, 74.28),
    "netflix-half/ratings.dat.gz": (59.79, 33.71),
    "ciaodvd/movie-ratings.txt": (2.507, 2.103),
    "filmtrust/ratings.txt": (11.108, 4.986),
}


def slow_estimate(popularity, activity):
    """Pair by pair, from the two tails."""
    rate = sum(a * (a - 1) for a in activity) / sum(activity) ** 2
    m = len(popularity)
    met = 0.0
    for i in range(m):
        for j in range(m):
            if i == j:
                met += popularity[i] > 0
            else:
                met += 1 - np.exp(-rate * popularity[i] * popularity[j])
    return met / m**2


@pytest.mark.parametrize("seed", range(5))
def test_the_estimate_is_the_mean_over_pairs(seed):
    rng = np.random.default_rng(seed)
    R = rng.random((40, 60)) < 0.3 * rng.random(60)
    popularity, activity = R.sum(axis=0), R.sum(axis=1)
    assert estimate_density(popularity, activity) == pytest.approx(slow_estimate(popularity, activity), rel=1e-9)


def test_binning_costs_less_than_one_per_cent():
    rng = np.random.default_rng(1)
    popularity = np.sort(rng.pareto(1.1, 1500) * 50 + 1).astype(np.int64)
    activity = rng.integers(1, 300, 4000)
    assert len(np.unique(popularity)) < 1500
    degrees = np.unique(popularity)
    wide = np.unique(np.concatenate([degrees, np.arange(1, 700)]))  # more than 512 distinct degrees
    rate = (activity * (activity - 1.0)).sum() / activity.sum() ** 2
    meet = -np.expm1(-rate * wide[:, None] * wide[None, :].astype(float))
    exact = (meet.sum() - np.trace(meet) + len(wide)) / len(wide) ** 2
    assert estimate_density(wide, activity) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize(("popularity", "activity"), [([], []), ([0, 0], [0, 0, 0])])
def test_nothing_to_estimate(popularity, activity):
    assert estimate_density(np.array(popularity, np.int64), np.array(activity, np.int64)) == 0.0


@pytest.mark.data
@pytest.mark.parametrize("name", TABLE)
def test_the_papers_table(name, real_data):
    """The estimate is the one in PAPER.md, and within 2.3 times of what K turns out to hold."""
    actual, estimate = TABLE[name]
    data = komd.read(real_data / name)
    found = 100 * estimate_density(data.popularity, data.activity)
    assert found == pytest.approx(estimate, rel=0.02)
    assert 1 / 2.3 < found / actual < 2.3


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["filmtrust/ratings.txt", "lastfm-hetrec/user_artists.dat", "ciaodvd/movie-ratings.txt"]
)
def test_the_density_of_k_itself(name, real_data):
    data = komd.read(real_data / name)
    model = komd.ECFOMD().fit(data)
    assert 100 * model.matrix.nonzeros / data.shape[1] ** 2 == pytest.approx(TABLE[name][0], rel=0.01)
