"""How full K is, counted and sampled, against K itself and against the table of the paper's summary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

import komd
from komd.matrix import density as module
from komd.matrix.density import density, exact_density, sampled_density, work_of
from tests import reference

binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))
# Density of K in per cent, counted on the data sets at hand.
EXACT = {
    "filmtrust/ratings.txt": 11.108,
    "ciaodvd/movie-ratings.txt": 2.507,
    "lastfm-hetrec/user_artists.dat": 0.855,
    "ml-1m/ratings.csv.gz": 82.374,
    "delicious-hetrec/user_bookmarks.tsv.gz": 0.129,
    "book-crossing/book_history.tsv.gz": 19.338,
    "netflix-half/ratings.dat.gz": 59.789,
    "msd/10000.txt": 3.107,
    "ml-100k/u.data": 69.566,
}


def rows_of(R):
    matrix = csr_array(R.astype(np.int8))
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), R.shape[1]


@settings(deadline=None, max_examples=60)
@given(binary)
def test_exact_is_what_k_holds(R):
    true = np.count_nonzero(reference.cooccurrence(R)) / R.shape[1] ** 2
    found = exact_density(*rows_of(R), threads=1)
    assert found.value == found.low == found.high == true and found.exact
    every = sampled_density(*rows_of(R), threads=1)  # so few rows that all are taken
    assert every.value == pytest.approx(true) and every.exact


def test_order_within_rows_and_threads_change_nothing(small, monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 100)
    turned = np.concatenate([row[::-1] for row in np.split(small.indices, small.indptr[1:-1])])
    found = {
        exact_density(small.indptr, indices, 50, threads=threads).value
        for indices in (small.indices, turned)
        for threads in (1, 3)
    }
    assert len(found) == 1
    samples = {sampled_density(small.indptr, small.indices, 50, threads=threads).value for threads in (1, 3)}
    assert len(samples) == 1


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 4), (3, 4)])
def test_nothing_there(shape):
    indptr = np.zeros(shape[0] + 1, np.int64)
    for count in (exact_density, sampled_density):
        assert count(indptr, np.zeros(0, np.int32), shape[1]).value == 0.0


@pytest.fixture(scope="module")
def made():
    return komd.generate(users=3000, items=2500, activity=12, tastes=10, item_tail=1.0, user_tail=1.0, rng=4)


def test_a_sample_is_a_sample_and_the_same_for_a_seed(made):
    rows = made.indptr, made.indices, made.shape[1]
    first, again = sampled_density(*rows, work=1, rng=5), sampled_density(*rows, work=1, rng=5)
    assert first == again and not first.exact and first.rows < made.shape[1]
    assert sampled_density(*rows, work=1, rng=6) != first
    more = sampled_density(*rows, work=9 * work_of(made.activity) // 10, rng=5)
    assert more.rows > first.rows and more.high - more.low < first.high - first.low
    assert "from" in str(first) and " to " in str(first)


def test_the_limit_decides(made):
    rows = made.indptr, made.indices, made.shape[1]
    assert density(*rows, work_limit=work_of(made.activity)).exact
    assert not density(*rows, work_limit=work_of(made.activity) // 20).exact


def covered(data, work):
    rows = data.indptr, data.indices, data.shape[1]
    true = exact_density(*rows).value
    found = [sampled_density(*rows, work=work, rng=seed) for seed in range(100)]
    assert not any(each.exact for each in found)
    return sum(each.low <= true <= each.high for each in found)


def test_the_interval_covers_generated_data(made):
    assert covered(made, 1) >= 93


@pytest.mark.data
@pytest.mark.parametrize("name", ["ml-1m/ratings.csv.gz", "ciaodvd/movie-ratings.txt"])
def test_the_interval_covers_real_data(name, real_data):
    assert covered(komd.read(real_data / name), 1) >= 93


@pytest.mark.data
@pytest.mark.parametrize("name", EXACT)
def test_exact_densities_of_real_data(name, real_data):
    how = {"user": 0, "item": 1, "header": False} if name.startswith("msd") else {}
    data = komd.read(real_data / name, **how)
    found = exact_density(data.indptr, data.indices, data.shape[1])
    assert 100 * found.value == pytest.approx(EXACT[name], abs=6e-4)
