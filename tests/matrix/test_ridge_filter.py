"""The exact ridge filter: against the spectrum, in both precisions, and where it does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.errors import InputError, SolverError
from komd.kernels import Linear
from komd.matrix import ridge_filter as spectral
from komd.matrix.dense import DenseMatrix
from tests.matrix.held import held


def rows_of(R):
    indptr = np.zeros(len(R) + 1, np.int64)
    np.cumsum(R.sum(axis=1), out=indptr[1:])
    return indptr, np.nonzero(R)[1].astype(np.int32)


def random_choices(seed, users=60, items=40):
    rng = np.random.default_rng(seed)
    R = rng.random((users, items)) < 0.5 * rng.random(items) ** 2
    return R[:, np.argsort(-R.sum(axis=0), kind="stable")]  # by falling popularity, as inside a model


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 20), st.integers(1, 3))
def test_the_inverse(seed, m, block, threads):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, rng.integers(1, 2 * m + 1)))
    A = X @ X.T + rng.uniform(0.1, 10) * np.eye(m)
    got = A.copy()
    before, spectral._BLOCK = spectral._BLOCK, block
    try:
        assert spectral.invert(got, label="", threads=threads)
    finally:
        spectral._BLOCK = before
    expected = np.linalg.inv(A)
    assert np.allclose(np.triu(got), np.triu(expected), atol=1e-10 * np.abs(expected).max() * np.linalg.cond(A))


def a_kernel(seed=5, items=40):
    R = random_choices(seed, items=items)
    R[:, -3:] = False  # nobody's items, the last
    indptr, indices = rows_of(R)
    return held(Linear(), indptr, indices, items)


@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_the_filter_is_the_one_of_the_spectrum(mu, precision, monkeypatch):
    """Against eigenvalues λ → λ / (λ + μ), then scaled; positive semidefinite, symmetric, nobody's items untouched."""
    monkeypatch.setattr(spectral, "_BLOCK", 7)
    K = a_kernel()
    wide = K.values.astype(np.float64)
    chosen = np.count_nonzero(np.diag(wide))
    assert chosen < 38
    values, vectors = np.linalg.eigh(wide)
    expected = (vectors * (values / (values + mu))) @ vectors.T
    expected[np.abs(expected) < 1e-15] = 0.0
    raw_mean = np.diag(expected)[:chosen].mean()
    expected /= raw_mean
    spectral.filter_ridge(K, mu, precision=precision)
    got = K.values
    bound = 1e-6 if precision is np.float64 else 1.2e-7 * (1 + values.max() / mu) / raw_mean + 1e-6
    assert np.abs(got - expected).max() < bound
    assert np.array_equal(got, got.T)
    assert not got[chosen:].any() and not got[:, chosen:].any()
    assert np.diag(got)[:chosen].mean() == pytest.approx(1, abs=1e-6)
    assert np.linalg.eigvalsh(got.astype(float)).min() > -max(bound, 1e-6) * 40


def test_threads_change_not_a_bit_of_the_filter(monkeypatch):
    monkeypatch.setattr(spectral, "_BLOCK", 16)
    found = []
    for threads in (1, 2, 5):
        K = a_kernel()
        spectral.filter_ridge(K, 2.0, threads=threads)
        found.append(K.values)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_the_bound_on_the_largest_eigenvalue_is_one_and_is_close():
    for seed in range(5):
        K = a_kernel(seed).values[:37, :37]
        K = K[np.ix_(np.diag(K) > 0, np.diag(K) > 0)]
        largest = np.linalg.eigvalsh(K.astype(float)).max()
        found = spectral.largest_eigenvalue(K)
        assert largest * (1 - 1e-6) <= found <= 1.2 * largest


def test_single_precision_is_refused_where_it_would_not_do():
    K = DenseMatrix(np.full((50, 50), 1.0, np.float32) + 0.5 * np.eye(50, dtype=np.float32))
    with pytest.raises(SolverError, match=r"needs double precision: with ridge=0.0001 the condition is 5"):
        spectral.filter_ridge(K, 1e-4, precision=np.float32)


def test_what_fits_and_what_does_not():
    # 10,000 items: 400 MB for the result, 800 MB for a copy in double precision, 164 MB of strips.
    assert spectral.ridge_precision(10_000, 10_000, "2GB") is np.float64
    assert spectral.ridge_precision(10_000, 10_000, "1GB") is np.float32
    with pytest.raises(InputError, match=r"10,000 items is dense: 482 MB at least .1.36 GB.*the budget is 450 MB"):
        spectral.ridge_precision(10_000, 10_000, "450MB")


def test_single_precision_where_memory_is_short_gives_the_same_lists(small):
    wide, narrow = (komd.CFKOMD(ridge=5.0) for _ in range(2))
    wide.fit(small)
    narrow.fit(small, memory=4 * 50 * 50 + spectral.inverse_scratch(50, np.float32) + 10)
    assert not np.array_equal(wide.matrix.values, narrow.matrix.values)  # it was another precision
    assert np.abs(wide.matrix.values - narrow.matrix.values).max() < 1e-4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"user_damping": -1}, "user_damping must be >= 0, got -1"),
        ({"popularity": "much"}, "popularity must be a number >= 0, got 'much'"),
        ({"ridge": 0}, "ridge must be >= 1e-06, got 0"),
        ({"negatives_weight": float("nan")}, "negatives_weight must be a number >= 0, got nan"),
    ],
)
def test_refusals(words, message):
    with pytest.raises(InputError, match=message):
        komd.CFKOMD(**words)
    indptr, indices = rows_of(random_choices(0))
    for wrong in ({"scale": np.zeros(40)}, {"scale": np.ones(3)}):
        with pytest.raises(InputError, match="scale must be 40 finite numbers > 0"):
            held(Linear(), indptr, indices, 40, **wrong)
