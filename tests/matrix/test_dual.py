"""A matrix held between users answers like the same one written out."""

from __future__ import annotations

import numpy as np
import pytest

from komd._core.groups import Rows
from komd.matrix.dual import DualMatrix, active_users
from komd.matrix.item_matrix import Correction
from tests._core.arrays import random_rows, rows_of, weighted
from tests._core.test_dual_scores import arrays


@pytest.fixture(params=range(6))
def case(request):
    rng = np.random.default_rng(request.param)
    dual, B, _ = arrays(rng, int(rng.integers(1, 12)), int(rng.integers(2, 30)))
    return rng, DualMatrix(dual), B


def test_entries_sums_and_products(case):
    rng, matrix, B = case
    m = matrix.items
    close = {"rtol": 1e-5, "atol": 1e-5 * (1 + np.abs(B).max())}
    np.testing.assert_allclose(matrix.written_out().values, B, **close)
    np.testing.assert_allclose([matrix.row(i) for i in range(m)], B, **close)
    rows, columns = (rng.integers(0, m, 5).astype(np.int32) for _ in range(2))
    np.testing.assert_allclose(matrix.entries(rows, columns), B[np.ix_(rows, columns)], **close)
    assert not matrix.diagonal().any()
    np.testing.assert_allclose(matrix.sums(), B.sum(axis=1), rtol=1e-9, atol=1e-8)
    X, done = rng.standard_normal((m, 3)).astype(np.float32), []
    np.testing.assert_allclose(matrix.multiply(X, advance=done.append), B @ X, rtol=1e-4, atol=1e-2)
    assert sum(done) == m
    assert matrix.bytes > 0 and matrix.plan.storage == "dual" and matrix.nonzeros == np.count_nonzero(matrix.dual.Q)


def test_scores_targets_and_contributions(case):
    rng, matrix, B = case
    lists = random_rows(rng, 4, matrix.items)
    users, S = weighted(rng, lists), rng.standard_normal(matrix.items)
    scores = np.empty((4, matrix.items))
    matrix.score(users, S, scores)
    wanted = random_rows(rng, 4, matrix.items)
    targets = rows_of(wanted)
    found = matrix.gather(Rows(users.indptr, users.indices), targets, own=False)
    got = matrix.target_scores(found, users, targets, S)
    assert got.tolist() == [scores[u, j] for u, mine in enumerate(wanted) for j in mine]
    everything = np.arange(matrix.items, dtype=np.int32)
    for u, own in enumerate(lists):
        mine = users.weights[users.indptr[u] : users.indptr[u + 1]]
        similarities, parts = matrix.contributions(rows_of([own]), mine, everything)
        np.testing.assert_allclose(similarities, B[own], rtol=1e-5, atol=1e-5 * (1 + np.abs(B).max()))
        if len(own):
            np.testing.assert_allclose(parts.sum(axis=0) - users.offsets[u] * S, scores[u], rtol=1e-9, atol=1e-9)


def test_scaled_and_corrected(case):
    rng, matrix, B = case
    factors = rng.random(matrix.items) + 0.5
    expected = B * np.outer(factors, factors)
    close = {"rtol": 1e-5, "atol": 1e-5 * (1 + np.abs(B).max())}
    np.testing.assert_allclose(matrix.scaled(factors).written_out().values, expected, **close)
    W = rng.standard_normal((matrix.items, 2)).astype(np.float32)
    changed = matrix.corrected(Correction(W, factor=0.5))
    everything = np.arange(matrix.items, dtype=np.int32)
    np.testing.assert_allclose(changed.entries(everything, everything), 0.5 * B - W @ W.T, **close)


def test_users_with_one_item_are_left_out():
    rows = rows_of([[0, 2], [1], [], [2, 3]])
    found = active_users(rows, 4)
    assert [found.indices[a:b].tolist() for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)] == [
        [0],
        [],
        [0, 1],
        [1],
    ]
