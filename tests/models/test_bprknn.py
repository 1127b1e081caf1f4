"""BPR-kNN: every step by hand, the same for the same seed, better than popularity."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import komd
from komd._core.bpr_steps import draw, rank_pairs
from tests.reference import splitmix64


def by_hand(rows, items, rate, lam_i, lam_j, steps, state):
    """The update rules of the docstring, one entry at a time, in double precision."""
    C = np.zeros((items, items))
    pairs = [(u, i) for u, row in enumerate(rows) for i in row]
    for _ in range(steps):
        state, z = splitmix64(state)
        u, i = pairs[z % len(pairs)]
        if len(rows[u]) == items:
            continue
        while True:
            state, z = splitmix64(state)
            j = z % items
            if j not in rows[u]:
                break
        x = sum(C[i, l] for l in rows[u] if l != i) - sum(C[j, l] for l in rows[u])
        slope = 1 / (1 + math.exp(x))
        for l in rows[u]:
            if l != i:
                C[i, l] += rate * (slope - lam_i * C[i, l])
            C[j, l] += rate * (-slope - lam_j * C[j, l])
    return C


def test_draws_are_remainders_of_splitmix64():
    state, compiled = 1234567, np.array([1234567], np.uint64)
    for _ in range(3):
        state, z = splitmix64(state)
        assert int(draw(compiled, 10**9)) == z % 10**9


def test_every_step_is_the_rule():
    rng = np.random.default_rng(4)
    rows = [np.sort(rng.choice(9, size, replace=False)) for size in (1, 3, 9, 5, 2, 0, 8)]  # one has all, one nothing
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    indices = np.concatenate(rows).astype(np.int32)
    users = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(indptr))
    C = np.zeros((9, 9), np.float32)
    loss = rank_pairs(C, users, indptr, indices, 0.1, 0.02, 0.3, 2000, np.array([99], np.uint64))
    expected = by_hand([set(r.tolist()) for r in rows], 9, 0.1, 0.02, 0.3, 2000, 99)
    assert pytest.approx(expected, abs=1e-4) == C
    assert (C.diagonal() == 0).all()
    assert 0 < loss < math.log(2)


def test_the_seed_decides(small):
    a, b = (komd.BPRKNN(epochs=3, rng=5).fit(small, threads=t)._matrix.values for t in (1, 2))
    c = komd.BPRKNN(epochs=3, rng=6).fit(small)._matrix.values
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_calls_are_cut_without_trace(small, monkeypatch):
    """How many steps one compiled call takes is nobody's business."""
    from komd.models import bprknn

    whole = komd.BPRKNN(epochs=2).fit(small)._matrix.values
    monkeypatch.setattr(bprknn, "_STEPS", 97)
    assert np.array_equal(whole, komd.BPRKNN(epochs=2).fit(small)._matrix.values)


def test_rows_are_those_of_the_history():
    """Everybody who has item 0 has item 1; item 0 in a history speaks for 1 more than for the others."""
    R = np.zeros((40, 4))
    R[:20, [0, 1]] = 1
    R[20:, [2, 3]] = 1
    model = komd.BPRKNN(epochs=200, learning_rate=0.05).fit(sp.csr_matrix(R))
    assert [r["item_id"] for r in model.recommend(histories=[[0]], n=1).to_arrow().to_pylist()] == [1]
    assert (model._matrix.values.diagonal() == 0).all()


def test_who_has_everything_teaches_nothing():
    model = komd.BPRKNN(epochs=3).fit(sp.csr_matrix(np.ones((5, 4))))
    assert not model._matrix.values.any()


def test_divergence_is_an_error(small):
    with pytest.raises(komd.SolverError, match=r"diverged after .* steps with learning_rate=1e\+06; use a smaller one"):
        komd.BPRKNN(learning_rate=1e6, epochs=50).fit(small)


def test_memory_is_looked_at_first(small):
    with pytest.raises(komd.InputError, match=r"20 kB for 50 items, and the budget is 10 kB"):
        komd.BPRKNN().fit(small, memory="10KB")


@pytest.mark.parametrize(
    "wrong",
    [{"learning_rate": 0}, {"regularization": -1}, {"regularization_negatives": -1}, {"epochs": 0}, {"rng": -1}],
)
def test_wrong_parameters(wrong):
    with pytest.raises(komd.InputError, match=next(iter(wrong))):
        komd.BPRKNN(**wrong)


@pytest.mark.data
def test_movielens(ml_1m):
    """Issue 3: better than Popularity on nDCG@100 (first fold; two epochs are enough)."""
    train, test = next(komd.split.folds(ml_1m, rng=0))
    learned, popular = (
        komd.evaluate(m.fit(train), test, metrics="ndcg@100")["ndcg@100"].mean
        for m in (komd.BPRKNN(epochs=2), komd.Popularity())
    )
    assert learned > popular + 0.1
