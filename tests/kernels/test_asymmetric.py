"""Similarities with a direction, and the matrices of weighted counts, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from komd.errors import InputError
from komd.kernels import Jaccard, Linear, kernel_named
from komd.kernels.asymmetric import AsymmetricCosine, CoOccurrence
from komd.matrix import from_counts as gram
from tests.matrix.held import held

binary = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))
unit = st.floats(0, 1)


def matrix(kernel, R, storage, **options):
    rows = csr_array(R.astype(np.int8))
    m = R.shape[1]
    pointers, items = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    K = held(kernel, pointers, items, m, storage, **options)
    assert K.storage == storage
    return np.array([K.row(i) for i in range(m)])


def asymmetric_cosine(R, alpha, locality):
    """w_ij of PAPER for candidate i and history item j, turned so that rows are history items."""
    R = R.astype(float)
    both, d = R.T @ R, R.sum(axis=0)
    w = np.zeros_like(both)
    for i in np.flatnonzero(d):
        for j in np.flatnonzero(d):
            w[i, j] = (both[i, j] / (d[i] ** alpha * d[j] ** (1 - alpha))) ** locality
    return w.T


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@settings(deadline=None, max_examples=60)
@given(R=binary, alpha=unit, locality=st.sampled_from([0.5, 1.0, 2, 3.0]))
def test_asymmetric_cosine(storage, R, alpha, locality):
    M = matrix(AsymmetricCosine(alpha=alpha, locality=locality), R, storage)
    np.testing.assert_allclose(M, asymmetric_cosine(R, alpha, locality), rtol=1e-6)
    assert np.array_equal(M.diagonal(), R.any(axis=0))


def test_the_direction():
    """Everybody who chose the rare item 0 chose the popular item 1, and not the other way about."""
    R = np.array([[1, 1], [0, 1], [0, 1], [0, 1]], bool)
    assert matrix(AsymmetricCosine(alpha=0), R, "dense").tolist() == [[1, 1], [0.25, 1]]
    assert matrix(AsymmetricCosine(alpha=1), R, "dense").tolist() == [[1, 0.25], [1, 1]]


@settings(deadline=None, max_examples=60)
@given(R=binary)
def test_one_half_is_the_cosine(R):
    ours, linear = matrix(AsymmetricCosine(), R, "dense"), matrix(Linear(), R, "dense")
    np.testing.assert_allclose(ours, linear, rtol=1e-6)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@settings(deadline=None, max_examples=60)
@given(R=binary, p=st.floats(0, 2), q=st.floats(0, 2), seed=st.integers(0, 99))
def test_weighted_cooccurrence_over_powers_of_degrees(storage, R, p, q, seed):
    weights = np.random.default_rng(seed).uniform(0.01, 3, len(R))
    both, d = (R.T * weights) @ R, R.sum(axis=0).astype(float)
    safe = np.maximum(d, 1)
    expected = both / (safe[:, None] ** p * safe[None, :] ** q)
    M = matrix(CoOccurrence(history=p, candidate=q), R, storage, user_weights=weights)
    np.testing.assert_allclose(M, expected, rtol=1e-5)


def test_counts_themselves():
    R = np.random.default_rng(3).random((40, 17)) < 0.3
    expected = R.T.astype(int) @ R.astype(int)
    for storage in ("dense", "sparse"):
        assert np.array_equal(matrix(CoOccurrence(), R, storage), expected)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@settings(deadline=None, max_examples=60)
@given(R=binary, seed=st.integers(0, 99))
def test_weights_enter_the_sizes_too(storage, R, seed):
    """The cosine and Jaccard of weighted vectors: the diagonal stays one, and equal weights change nothing."""
    weights = np.random.default_rng(seed).uniform(0.01, 3, len(R))
    both, d = (R.T * weights) @ R, weights @ R
    for kernel, below in (
        (Linear(), np.sqrt(np.outer(d, d))),
        (Jaccard(), d[:, None] + d[None, :] - both),
    ):
        expected = np.divide(both, below, out=np.zeros_like(both), where=below > 0)
        np.testing.assert_allclose(matrix(kernel, R, storage, user_weights=weights), expected, rtol=1e-5)
        plain = matrix(kernel, R, storage)
        assert np.array_equal(matrix(kernel, R, storage, user_weights=np.ones(len(R))), plain)


@pytest.mark.parametrize("kernel", [AsymmetricCosine(alpha=0.3, locality=2), CoOccurrence(history=0.6, candidate=0.4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_threads_blocks_and_storage_change_no_bit(kernel, weighted, monkeypatch):
    rng = np.random.default_rng(11)
    R = rng.random((90, 150)) < rng.uniform(0.01, 0.4, 150)
    R[:, 140:] = False
    options = {"user_weights": rng.uniform(0.01, 3, 90)} if weighted else {}
    seen = []
    for rows, work in ((64, 1 << 22), (7, 500), (1, 1)):
        monkeypatch.setattr(gram, "_DENSE_ROWS", rows)
        monkeypatch.setattr(gram, "_SPARSE_WORK", (work, work))
        for threads in (1, 3):
            seen += [matrix(kernel, R, storage, threads=threads, **options) for storage in ("dense", "sparse")]
    assert all(np.array_equal(seen[0], other) for other in seen[1:])


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], [np.inf, 1.0]])
def test_weights_that_cannot_be(weights):
    with pytest.raises(InputError, match="user_weights must be 2 finite numbers > 0"):
        matrix(CoOccurrence(), np.ones((2, 2), bool), "dense", user_weights=np.array(weights))


def test_no_margin_on_an_asymmetric_kernel():
    with pytest.raises(InputError, match=r"kernel must be symmetric.*AsymmetricCosine"):
        kernel_named(AsymmetricCosine())


@pytest.mark.parametrize(
    ("kernel", "wrong", "words"),
    [
        (AsymmetricCosine, {"alpha": -0.1}, "alpha must be >= 0, got -0.1"),
        (AsymmetricCosine, {"alpha": 1.5}, "alpha must be <= 1, got 1.5"),
        (AsymmetricCosine, {"alpha": "x"}, "alpha must be a number >= 0, got 'x'"),
        (AsymmetricCosine, {"locality": 0}, "locality must be > 0, got 0"),
        (CoOccurrence, {"history": -1}, "history must be >= 0, got -1"),
        (CoOccurrence, {"candidate": np.nan}, "candidate must be a number >= 0, got nan"),
    ],
)
def test_parameters_that_cannot_be(kernel, wrong, words):
    with pytest.raises(InputError) as error:
        kernel(**wrong)
    assert str(error.value) == words
