"""BPR-kNN: the same for the same seed, better than popularity."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import komd


def test_the_seed_decides(small):
    a, b = (komd.BPRKNN(epochs=3, rng=5).fit(small, threads=t).matrix.values for t in (1, 2))
    c = komd.BPRKNN(epochs=3, rng=6).fit(small).matrix.values
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_calls_are_cut_without_trace(small, monkeypatch):
    """How many steps one compiled call takes is nobody's business."""
    from komd.models import bprknn

    whole = komd.BPRKNN(epochs=2).fit(small).matrix.values
    monkeypatch.setattr(bprknn, "_STEPS", 97)
    assert np.array_equal(whole, komd.BPRKNN(epochs=2).fit(small).matrix.values)


def test_rows_are_those_of_the_history():
    """Everybody who has item 0 has item 1; item 0 in a history speaks for 1 more than for the others."""
    R = np.zeros((40, 4))
    R[:20, [0, 1]] = 1
    R[20:, [2, 3]] = 1
    model = komd.BPRKNN(epochs=200, learning_rate=0.05).fit(sp.csr_matrix(R))
    assert [r["item_id"] for r in model.recommend(histories=[[0]], n=1).to_arrow().to_pylist()] == [1]
    assert (model.matrix.values.diagonal() == 0).all()


def test_who_has_everything_teaches_nothing():
    model = komd.BPRKNN(epochs=3).fit(sp.csr_matrix(np.ones((5, 4))))
    assert not model.matrix.values.any()


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
