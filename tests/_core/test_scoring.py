"""Scores: dense = sparse = of single targets = the sum written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.groups import WeightedUsers
from komd._core.scoring import score_dense, score_sparse, score_targets
from tests import reference
from tests._core.arrays import random_rows, rows_of, stored, weighted


def problem(seed, m, users):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((m, m)).astype(np.float32)
    M[rng.random((m, m)) < rng.random()] = 0.0
    lists = random_rows(rng, users, m)
    return rng, M, rng.standard_normal(m), lists, weighted(rng, lists)


def both(M, S, users):
    """Scores from the dense and from the compressed matrix."""
    shape = len(users.offsets), len(S)
    dense, sparse = np.full(shape, np.nan), np.full(shape, np.nan)
    score_dense(M, S, users, dense)
    score_sparse(stored(M, sparse=True), S, users, sparse)
    return dense, sparse


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 5))
def test_dense_is_sparse_is_the_sum(seed, m, users):
    _, M, S, lists, weights = problem(seed, m, users)
    dense, sparse = both(M, S, weights)
    for u, history in enumerate(lists):
        mine = weights.weights[weights.indptr[u] : weights.indptr[u + 1]]
        expected = reference.scores(M, S, history, mine, weights.offsets[u])
        assert np.allclose(dense[u], expected, rtol=1e-13, atol=1e-13)
        assert np.allclose(sparse[u], expected, rtol=1e-13, atol=1e-13)


def test_wider_than_one_strip():
    m = 2500
    _, M, S, lists, users = problem(0, m, 3)
    dense, sparse = both(M, S, users)
    for u, history in enumerate(lists):
        mine = users.weights[users.indptr[u] : users.indptr[u + 1]]
        expected = mine @ M[history].astype(float) - users.offsets[u] * S
        assert np.allclose(dense[u], expected, atol=1e-11)
        assert np.allclose(sparse[u], expected, atol=1e-11)


def test_one_user_scores_as_in_a_block():
    _, M, S, lists, users = problem(1, 1500, 5)
    block, alone = np.empty((5, 1500)), np.empty((1, 1500))
    score_dense(M, S, users, block)
    for u, history in enumerate(lists):
        mine = slice(users.indptr[u], users.indptr[u + 1])
        score_dense(M, S, WeightedUsers(*rows_of([history]), users.weights[mine], users.offsets[u : u + 1]), alone)
        assert np.array_equal(alone[0], block[u])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 5), st.booleans())
def test_targets_score_as_in_the_block_to_the_last_bit(seed, m, users, skip):
    """From K(i, t) gathered; with `skip`, behind the entries between each user's own items."""
    rng, M, S, lists, weights = problem(seed, m, users)
    wanted = random_rows(rng, users, m)
    targets, pieces, starts = rows_of(wanted), [np.zeros(0, np.float32)], [0]
    for history, mine in zip(lists, wanted, strict=True):
        before = np.full((len(history), len(history) if skip else 0), np.nan, np.float32)
        block = np.hstack([before, M[np.ix_(history, mine)]])
        pieces.append(block.ravel())
        starts.append(starts[-1] + block.size)
    scores = np.full(len(targets.indices), np.nan)
    score_targets(np.concatenate(pieces), np.array(starts, np.int64), skip, S, weights, *targets, scores)
    dense, _ = both(M, S, weights)
    assert scores.tolist() == [dense[u, j] for u, mine in enumerate(wanted) for j in mine]
