"""What K will weigh, before it is built."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.matrix.expected_density import estimate_density
from komd.matrix.storage import plan

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


def test_small_is_dense_large_and_thin_is_sparse():
    few = plan(np.full(100, 3), np.full(100, 3), memory="1GB")
    assert (few.storage, few.bytes) == ("dense", 4 * 100 * 100)
    many = plan(np.full(20_000, 3), np.full(20_000, 3), memory="1GB")
    assert many.storage == "sparse"
    assert many.bytes < 4 * 20_000**2 / 100
    full = plan(np.full(10_000, 5000), np.full(10_000, 5000), memory="1GB")
    assert full.storage == "dense"
    assert "10,000 items" in str(full)
    assert "dense, 400 MB" in str(full)


def test_dense_on_request():
    assert plan(np.full(20_000, 3), np.full(20_000, 3), memory="2GB", storage="dense").storage == "dense"
    with pytest.raises(InputError, match=r"1\.6 GB dense"):
        plan(np.full(20_000, 3), np.full(20_000, 3), memory="1GB", storage="dense")


def test_small_memory_turns_to_sparse():
    assert plan(np.full(1000, 2), np.full(1000, 2), memory="1MB").storage == "sparse"


def test_too_little_memory_is_refused_with_the_numbers():
    with pytest.raises(InputError) as refused:
        plan(np.full(10_000, 5000), np.full(10_000, 5000), memory="50MB")
    words = str(refused.value)
    for part in ("10,000 items", "400 MB dense", "sparse (estimated", "% full", "the budget is 50 MB", "raise memory="):
        assert part in words
    data = komd.generate(users=300, items=300, activity=30, tastes=3, rng=0)
    with pytest.raises(InputError, match="the budget is 10 kB"):
        komd.CFKOMD().fit(data, memory="10KB")
    with pytest.raises(InputError, match=r"CFOMD works on all of K.*the budget is 100 kB"):
        komd.CFOMD().fit(data, memory="100KB")
