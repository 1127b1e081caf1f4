"""SLIM: scikit-learn's regressions column by column, the rows the scorer reads, and what is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import ElasticNet

import komd
from komd.models import slim
from tests import reference


def elastic_net(R, l1, l2):
    """W column by column: alpha = (l1 + l2) / n, l1_ratio = l1 / (l1 + l2)."""
    users, items = R.shape
    W = np.zeros((items, items))
    for j in range(items):
        X = R.copy()
        X[:, j] = 0.0
        net = ElasticNet(
            alpha=(l1 + l2) / users,
            l1_ratio=l1 / (l1 + l2),
            positive=True,
            fit_intercept=False,
            tol=1e-10,
            max_iter=100_000,
        )
        W[:, j] = net.fit(X, R[:, j]).coef_
    return W


def weights(model):
    """W in the order of the data's items."""
    inside = model.catalogue.inside
    W = np.array([model.matrix.row(i) for i in range(len(inside))])
    return W[np.ix_(inside, inside)]


@pytest.mark.parametrize(("l1", "l2"), [(0.5, 1.0), (2.0, 20.0), (0.1, 100.0), (1.0, 0.5)])
def test_scikit_learn_agrees(l1, l2):
    R = (np.random.default_rng(11).random((150, 40)) < 0.15).astype(float)
    model = komd.SLIM(l1=l1, l2=l2, tolerance=1e-7).fit(sp.csr_matrix(R))
    W = weights(model)
    assert pytest.approx(elastic_net(R, l1, l2), abs=1e-4) == W
    assert W.any()


def test_rows_are_those_of_the_history(small):
    """A score is the sum of W[i, candidate] over the history i; columns ascend in every compressed row."""
    model = komd.SLIM(l1=0.2, l2=5).fit(small)
    M = model.matrix
    assert M.storage == "sparse"
    for i in range(M.items):
        assert (np.diff(M.indices[M.indptr[i] : M.indptr[i + 1]]) > 0).all()
    history = small.items.take(np.array([3, 8, 20])).to_pylist()
    served = model.recommend(histories=[history], n=50, exclude_seen=False).to_arrow().to_pylist()
    W = weights(model)
    for row in served:
        j = small.items.find([row["item_id"]])[0]
        assert row["score"] == pytest.approx(W[[3, 8, 20], j].sum(), abs=1e-6)


def test_threads_change_nothing(small):
    one, two = (komd.SLIM(l1=0.2, l2=5).fit(small, threads=t).matrix for t in (1, 2))
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.values, two.values)


def test_unsolved_is_an_error(small):
    with pytest.raises(komd.SolverError, match=r"of 50 regressions were not solved in 1 iterations: .*asked for 1e-09"):
        komd.SLIM(l1=0, l2=0.1, tolerance=1e-9, max_iterations=1).fit(small)


@st.composite
def tables(draw):
    """0/1 tables with items that nobody chose and items that the same users chose."""
    users, columns = draw(st.integers(2, 25)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    R = (rng.random((users, columns)) < draw(st.sampled_from([0.05, 0.3, 0.8]))).astype(float)
    R[rng.integers(users), rng.integers(columns)] = 1.0
    return R[:, rng.integers(0, columns, draw(st.integers(1, 14)))] if draw(st.booleans()) else R


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of l1 = 0: it doubts its own gap
@settings(deadline=None, max_examples=40)
@given(tables(), st.sampled_from([0.0, 0.3, 2.0]), st.sampled_from([0.5, 10.0]), st.sampled_from([0, 10**9]))
def test_every_item_has_the_weights_of_its_own_problem(R, l1, l2, long):
    """Nobody's items and equal items included, with G and without it."""
    if not R.any():
        R = np.hstack([R, np.ones((len(R), 1))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slim, "_LONG", long)
        W = weights(komd.SLIM(l1=l1, l2=l2, tolerance=1e-8).fit(sp.csr_matrix(R)))
    assert pytest.approx(elastic_net(R, l1, l2), abs=1e-4) == W
    for j in range(R.shape[1]):
        assert W[:, j] == pytest.approx(reference.regress_item(R.T @ R, j, l1, l2), abs=1e-4)


@pytest.mark.parametrize("long", [0, 10**9])
@pytest.mark.parametrize("block", [1, 7])
def test_threads_and_blocks_change_nothing(long, block, monkeypatch):
    data = komd.generate(users=150, items=80, activity=12, rng=3)
    monkeypatch.setattr(slim, "_LONG", long)
    expected = komd.SLIM(l1=0.2, l2=5).fit(data, threads=1).matrix
    monkeypatch.setattr(slim, "_BLOCK", block)
    found = komd.SLIM(l1=0.2, l2=5).fit(data, threads=2).matrix
    for name, array in expected.arrays().items():
        assert np.array_equal(array, found.arrays()[name])


def test_with_the_gram_matrix_and_without_it(monkeypatch):
    """Dense data within a budget that cannot hold R'R: the same weights, as far as the tolerance says."""
    R = sp.csr_matrix((np.random.default_rng(5).random((150, 60)) < 0.3).astype(float))
    held = []
    count = slim.dense_from_counts
    monkeypatch.setattr(slim, "dense_from_counts", lambda *given: held.append(1) or count(*given))
    model = komd.SLIM(l1=0.5, l2=20, tolerance=1e-8)
    with_gram = weights(model.fit(R))
    assert held
    held.clear()
    monkeypatch.setattr(slim, "_GRAM_SHARE", 0.0)
    without = weights(model.fit(R))
    assert not held
    assert without == pytest.approx(with_gram, abs=1e-6)
    assert ((without > 0) == (with_gram > 0)).mean() > 0.99


def test_many_items_in_little_memory():
    """3,000 items: R'R would take 36 MB, and the budget is 8 MB."""
    data = komd.generate(users=300, items=3000, activity=8, rng=1)
    little = komd.SLIM(l1=0.5, l2=10).fit(data, memory="8MB", threads=2).matrix
    much = komd.SLIM(l1=0.5, l2=10).fit(data, memory="8GB", threads=2).matrix
    assert np.array_equal(little.indices, much.indices)
    assert np.array_equal(little.values, much.values)


def test_memory_is_looked_at_first(small):
    with pytest.raises(komd.InputError, match=r"needs \d+ kB for 50 items and 2 threads, and the budget is 10 kB"):
        komd.SLIM().fit(small, memory="10KB", threads=2)


def least_budget(model):
    """The least that is not refused, to 4 kB."""

    def accepts(budget):
        try:
            model._build_matrix(model.catalogue, 2, budget)
        except komd.InputError:
            return False
        return True

    accepted = 2**16
    while not accepts(accepted):
        accepted *= 2
    refused = accepted // 2
    while accepted - refused > 2**12:
        middle = (refused + accepted) // 2
        refused, accepted = (refused, middle) if accepts(middle) else (middle, accepted)
    return accepted


@pytest.mark.parametrize(("users", "activity", "share"), [(300, 8, 0.5), (600, 60, 0.0), (600, 60, 1.0)])
def test_the_budget_is_kept(users, activity, share, monkeypatch):
    """The least budget that is accepted is enough: for sparse data, and for dense data without G and with it."""
    monkeypatch.setattr(slim, "_GRAM_SHARE", share)
    model = komd.SLIM(l1=0.5, l2=50).fit(komd.generate(users=users, items=400, activity=activity, rng=1))
    accepted = least_budget(model)
    tracemalloc.start()
    model._build_matrix(model.catalogue, 2, accepted)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most <= accepted


def test_weights_that_do_not_fit_are_refused():
    """One user with 2,000 items, which are one column: the answer has 4 million weights."""
    rows = np.concatenate([np.zeros(2000, int), [1, 1]])
    columns = np.concatenate([np.arange(2000), [2000, 2001]])
    data = sp.csr_matrix((np.ones(len(rows)), (rows, columns)))
    assert len(komd.SLIM(l1=0.5).fit(data).matrix.values) == 2000 * 1999 + 2
    with pytest.raises(komd.InputError, match=r"needs 3\d MB for 2,002 items .*, and the budget is 20 MB"):
        komd.SLIM(l1=0.5).fit(data, memory="20MB", threads=2)


@pytest.mark.parametrize("wrong", [{"l1": -1}, {"l2": "x"}, {"tolerance": 0}, {"max_iterations": 2.5}])
def test_wrong_parameters(wrong):
    with pytest.raises(komd.InputError, match=next(iter(wrong))):
        komd.SLIM(**wrong)


@pytest.mark.data
def test_movielens(ml_1m):
    """Issue 3: within .02 of EASE's nDCG@100 (.554) on the first fold."""
    train, test = next(komd.split.folds(ml_1m, rng=0))
    result = komd.evaluate(komd.SLIM().fit(train), test, metrics=["auc", "ndcg@100"])
    assert result["ndcg@100"].mean > 0.534
    assert result["auc"].mean > 0.91
