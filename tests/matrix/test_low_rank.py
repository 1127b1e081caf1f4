"""The prior that all items share: against K + c p p' written out, however K is held."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd._core.groups import WeightedUsers
from komd._core.solve import own_gathered
from komd.errors import InputError, ModelFileError
from komd.kernels.functions import Linear
from komd.kernels.stages import Stages


def data():
    return komd.generate(users=300, items=120, activity=9, rng=4)


def full(model):
    return np.array([model.matrix.row(i) for i in range(model.matrix.items)], float)


STAGES = [{}, {"user_damping": 0.5, "popularity": 0.3}, {"popularity": 0.2, "ridge": 20.0, "rank": 16}]


@pytest.mark.parametrize("stages", STAGES, ids=["plain", "stretched", "filtered"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_it_is_k_and_a_product(stages, storage, power):
    without = komd.CFKOMD(**stages, storage=storage).fit(data())
    model = komd.CFKOMD(**stages, storage=storage, prior=0.02, prior_power=power).fit(data())
    d = model.catalogue.popularity
    p = d**power * (d > 0)
    p /= np.sqrt((p[d > 0] ** 2).mean())
    factor = model.factor or 1.0
    K, S = full(model) * factor, model.S * factor
    assert model.factor == without.factor and (model.factor is None) == ("user_damping" not in stages)
    assert np.allclose(K, full(without) * factor + 0.02 * np.outer(p, p), atol=2e-6)
    assert np.allclose(S, K.sum(axis=1), atol=1e-4)
    users = model.catalogue.histories.block(0, 40)
    for u in range(3):  # the problem that is solved is the one of this K
        own = users.block(u, u + 1)
        weights, offsets = model.weigh(own, model.matrix.own_entries(own.rows))
        alpha, square = weights - offsets[0], K[np.ix_(own.indices, own.indices)]
        q = (K[own.indices].sum(axis=1) - square.sum(axis=1)) / (len(K) - len(own.indices))
        half = (square + 0.01 * np.eye(len(alpha))) @ alpha - q
        assert alpha.min() > -1e-12 and alpha.sum() == pytest.approx(1)
        assert half[alpha > 1e-9].max() - half.min() < 1e-5  # nothing to gain by moving weight
    weights, offsets = model.weigh(users, model.matrix.own_entries(users.rows))
    scores = model.block_scores(users)
    for u in range(len(users)):
        own = slice(users.indptr[u], users.indptr[u + 1])
        expected = weights[own] @ K[users.indices[own]] - offsets[u] * S
        assert np.allclose(scores[u], expected, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
    st.floats(0, 3),
    st.floats(1e-6, 10),
)
def test_what_items_share_weighs_what_was_asked_for(popularity, power, share):
    popularity = np.array(popularity)
    p = Stages(Linear(), prior=share, prior_power=power).prior_factor(popularity).astype(float)
    chosen = popularity > 0
    assert not p[~chosen].any() and (p >= 0).all()
    if chosen.any():
        assert (p[chosen] ** 2).mean() == pytest.approx(share, rel=1e-4)
        order = np.argsort(popularity)
        assert (np.diff(p[order]) >= -1e-6 * p.max()).all()


@pytest.mark.parametrize("stages", STAGES, ids=["plain", "stretched", "filtered"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_it_travels(stages, storage, tmp_path):
    model = komd.CFKOMD(**stages, storage=storage, prior=0.01).fit(data())
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert np.array_equal(full(loaded), full(model))
    assert loaded.recommend(n=7).to_arrow().equals(model.recommend(n=7).to_arrow())
    assert repr(loaded) == repr(model)


@pytest.mark.parametrize("stages", STAGES, ids=["plain", "stretched", "filtered"])
def test_strips_give_what_rows_give(stages, monkeypatch):
    from komd.engine import item_based

    train, test = next(komd.split.folds(data(), rng=0))
    model = komd.CFKOMD(**stages, prior=0.01, storage="streamed").fit(train)
    rows, areas = model.recommend(n=20).to_arrow(), komd.evaluate(model, test, metrics=["auc"])["auc"].values
    monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    assert model.recommend(n=20).to_arrow().equals(rows)
    assert np.array_equal(komd.evaluate(model, test, metrics=["auc"])["auc"].values, areas)


@pytest.mark.parametrize("stages", STAGES, ids=["plain", "stretched", "filtered"])
@pytest.mark.parametrize("storage", ["sparse", "streamed"])
def test_every_way_to_read_it_gives_the_same_bits(stages, storage):
    model = komd.CFKOMD(**stages, prior=0.01, storage=storage).fit(data())
    M, users = model.matrix, model.catalogue.histories.block(0, 23)
    weighted = WeightedUsers(*users.rows, *model.weigh(users, M.gather(users.rows, None, own=True).own))
    scores = np.empty((len(users), M.items))
    M.score(weighted, model.S, scores)
    for u in range(len(users)):
        part = slice(users.indptr[u], users.indptr[u + 1])
        one = WeightedUsers(*users.block(u, u + 1).rows, weighted.weights[part], weighted.offsets[u : u + 1])
        alone = np.empty((1, M.items))
        M.score(one, model.S, alone)
        assert np.array_equal(alone[0], scores[u])
    targets = model.catalogue.histories.block(30, 53).rows
    found = M.target_scores(M.gather(users.rows, targets, own=False), weighted, targets, model.S)
    owner = np.repeat(np.arange(23), np.diff(targets.indptr))
    assert np.array_equal(found, scores[owner, targets.indices])
    own = own_gathered(M.own_entries(users.rows), users.rows, always=False)
    for u in range(len(users)):
        mine = users.indices[users.indptr[u] : users.indptr[u + 1]]
        square = own.blocks[own.starts[u] : own.starts[u + 1]].reshape(len(mine), -1)[:, : len(mine)]
        assert np.array_equal(square, M.entries(mine, mine)) and np.array_equal(square, square.T)
        assert all(np.array_equal(M.row(i)[mine], line) for i, line in zip(mine[:3], square, strict=False))


def test_items_that_share_nobody_with_a_history_come_by_popularity():
    pairs = [(f"u{k}", item) for k in range(6) for item in ("a", "b")]
    pairs += [(f"v{k}", item) for k in range(4) for item in ("c", "d")[: 1 + (k < 2)]]
    model = komd.CFKOMD(prior=0.01, storage="sparse", negatives_weight=0)
    model.fit(pa.table({"user_id": [u for u, _ in pairs], "item_id": [i for _, i in pairs]}))
    assert model.recommend(histories={"guest": ["a"]}, n=3).to_arrow()["item_id"].to_pylist() == ["b", "c", "d"]
    why = model.explain(history=["a"], item="c")
    assert why.to_arrow()["contribution"].to_pylist() == [pytest.approx(why.score)] and why.score > 0


@pytest.mark.parametrize("stages", STAGES, ids=["plain", "stretched", "filtered"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_what_all_share_makes_no_two_alike(stages, storage):
    without = komd.CFKOMD(**stages, storage=storage).fit(data())
    model = komd.CFKOMD(**stages, storage=storage, prior=0.02, prior_power=1.0).fit(data())
    for item in (0, 7, 60):
        expected, alike = without.similarities_to(item), model.similarities_to(item)
        assert np.allclose(alike, expected, atol=1e-5)
        assert not alike[expected == 0].any()
    ids = model.catalogue.items.values[:5].to_pylist()
    mine, theirs = (each.similar_items(ids, n=5).to_arrow() for each in (model, without))
    assert mine["item_id"].to_pylist() == theirs["item_id"].to_pylist()


def test_a_damaged_prior_is_refused():
    model = komd.CFKOMD(prior=0.01, storage="sparse").fit(data())
    histories = model.catalogue.histories
    arrays = model.learned_arrays() | {"order": model.catalogue.order, "prior": np.zeros(3, np.float32)}
    arrays |= {"history_indptr": histories.indptr, "history_indices": histories.indices}
    with pytest.raises(ModelFileError, match="saved prior is not one of these items"):
        komd.CFKOMD()._restore(arrays)
    kept = {name: arrays[name] for name in ("order", "history_indptr", "history_indices")}
    arrays = komd.CFKOMD(storage="dense").fit(data()).learned_arrays() | kept
    with pytest.raises(ModelFileError, match="saved prior is not one of these items"):
        komd.CFKOMD()._restore(arrays | {"prior": np.zeros(120, np.float32)})


def test_what_is_no_share_is_refused():
    with pytest.raises(InputError, match="prior must be"):
        komd.CFKOMD(prior=-1)
    with pytest.raises(InputError, match="prior_power must be"):
        komd.CFKOMD(prior=0.1, prior_power=-1)
