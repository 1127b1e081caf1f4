"""Items scaled by popularity: their mean square is kept apart from the entries of K, in memory and on disk."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import komd
from komd import store
from komd.errors import ModelFileError
from tests import reference

STORAGES = ("dense", "sparse", "streamed")
SETTINGS = (
    {},
    {"kernel": "linear", "user_damping": 0.5},
    {"prior": 0.02, "target": 0.4},
    {"negatives_weight": 0.3, "target": -0.5},
    {"negatives": "mean", "prior": 0.01},
)
EARLIER = pathlib.Path(__file__).parents[1] / "fixtures" / "popularity"  # made by fixtures/make_format2.py
WRITTEN = json.loads((EARLIER / "lists.json").read_text(encoding="utf-8"))


def full(model):
    """K."""
    return np.array([model.matrix.row(i) for i in range(model.matrix.items)], float) * (model.factor or 1.0)


def assert_equal(model, other):
    """Two models are the same, to the last bit."""
    model, other = model.view(), other.view()
    arrays, expected = model.learned_arrays(), other.learned_arrays()
    assert arrays.keys() == expected.keys()
    assert all(np.array_equal(arrays[name], array) for name, array in expected.items())
    assert model.recommend(n=9).to_arrow().equals(other.recommend(n=9).to_arrow())


def pairs_of(model):
    """What a model was fitted to."""
    model = model.view()
    histories, catalogue = model.catalogue.histories, model.catalogue
    users = catalogue.users.values.take(np.repeat(np.arange(len(histories)), histories.lengths))
    return list(zip(users.to_pylist(), catalogue.item_ids(histories.indices).to_pylist(), strict=True))


@pytest.mark.parametrize("stages", SETTINGS, ids=repr)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_scores_and_explanations_are_those_of_k(small, storage, stages, beta):
    model = komd.CFKOMD(popularity=beta, **stages, storage=storage, tolerance=1e-11).fit(small)
    K, d, m = full(model), model.catalogue.popularity, len(small.items)
    c, theta, tau = stages.get("prior", 0.0), stages.get("negatives_weight", 1.0), stages.get("target", 0.0)
    p, t = (power / np.sqrt((power**2).mean()) for power in (np.sqrt(d), d**tau))
    assert (np.diag(K) - c * p**2).mean() == pytest.approx(1, abs=1e-6)
    assert model.learned_arrays()["factor"] == [model.factor] and 0.5 <= model.factor <= 2
    rows = model.catalogue.histories.block(0, 6)
    scores = model.block_scores(rows)
    for u in range(len(rows)):
        own = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        others = np.arange(m) if stages.get("negatives") == "mean" else np.setdiff1d(np.arange(m), own)
        mean = theta * K[:, others].mean(axis=1)
        square, q = K[np.ix_(own, own)], mean[own]
        alpha = reference.solve_simplex(square, q, 0.01)
        if stages.get("negatives") == "mean":
            expected = t * (alpha @ K[own]) - mean
        else:  # the user's own items are no negatives: what is subtracted for all items is added for them
            share = theta / len(others)
            expected = t * ((alpha + share) @ K[own]) - share * K.sum(axis=1)
        assert scores[u] == pytest.approx(expected, abs=2e-5 * np.abs(expected).max())
    user, item = small.users[3], small.items[11]
    why, table = model.explain(user, item), model.explain(user, item).to_arrow()
    number = model.catalogue.item_ids(np.arange(m)).to_pylist().index(item)
    history = model.catalogue.histories.block(
        *[model.catalogue.users.values.to_pylist().index(user) + k for k in (0, 1)]
    )
    names = model.catalogue.item_ids(history.indices).to_pylist()
    similar = dict(zip(names, K[history.indices, number], strict=True))
    assert table["similarity"].to_pylist() == pytest.approx(
        [similar[n] for n in table["item_id"].to_pylist()], rel=1e-6
    )
    parts = table["weight"].to_numpy() * table["similarity"].to_numpy() * t[number]
    assert table["contribution"].to_numpy() == pytest.approx(parts, rel=1e-5, abs=1e-7)
    assert why.score == pytest.approx(table["contribution"].to_numpy().sum() + why.global_term, abs=1e-12)
    place = model.catalogue.users.values.to_pylist().index(user)
    assert why.score == pytest.approx(model.block_scores(model.catalogue.histories.block(place, place + 1))[0, number])
    near = model.similar_items(item, n=4).to_arrow()["score"].to_numpy()
    alike = np.delete(K[number] - c * p[number] * p, number)
    assert near == pytest.approx(np.sort(alike)[::-1][:4], rel=1e-5)


def test_gaps_are_those_of_the_problem_of_k(small):
    model = komd.CFKOMD(popularity=0.8, regularization=0.3, tolerance=1e-3).fit(small)
    K, user = full(model), model.catalogue.users[7]
    solution = model.solve(user)
    own = model.catalogue.histories.block(7, 8).indices
    others = np.setdiff1d(np.arange(len(K)), own)
    alpha = np.array(solution.alpha)
    half = (K[np.ix_(own, own)] + 0.3 * np.eye(len(own))) @ alpha - K[np.ix_(own, others)].mean(axis=1)
    assert solution.gap == pytest.approx(half[alpha > 0].max() - half.min(), rel=1e-3) and solution.gap > 1e-7
    assert solution.gap <= 1e-3 and model.factor != 1


@pytest.mark.parametrize("stages", [{}, {"kernel": "linear", "user_damping": 0.5}, {"prior": 0.02}], ids=repr)
@pytest.mark.parametrize("storage", STORAGES)
def test_a_small_update_renews_few_rows(small, storage, stages):
    model = komd.CFKOMD(popularity=0.4, **stages, storage=storage).fit(small)
    fitted = komd.CFKOMD(popularity=0.4, **stages, storage=storage)
    for k in range(4):
        before, pairs = model.factor, pairs_of(model)
        model.update(added=[(f"guest {k}", small.items[k]), (f"guest {k}", small.items[9])], removed=[pairs[5 * k]])
        model.refresh()
        written_out = storage == "dense" and "prior" in stages
        assert (model.last_update.rebuilt is None) == (not written_out)
        assert model.last_update.renewed_items < 25 and model.factor != before
        assert_equal(model, fitted.clone().fit(pairs_of(model)))


@pytest.mark.parametrize("storage", STORAGES)
def test_another_unit_builds_k_anew(small, storage):
    model = komd.CFKOMD(popularity=1.0, storage=storage).fit(small)
    crowd = [(f"guest {k}", item) for k in range(300) for item in list(small.items)[k % 7 :: 7]]
    model.update(added=crowd).refresh()
    assert model.last_update.rebuilt == "lengths of items have another unit, items being so popular"
    assert_equal(model, komd.CFKOMD(popularity=1.0, storage=storage).fit(pairs_of(model)))
    model.update(removed_users=[f"guest {k}" for k in range(300)]).refresh()
    assert "another unit" in model.last_update.rebuilt
    assert_equal(model, komd.CFKOMD(popularity=1.0, storage=storage).fit(small))


@pytest.mark.parametrize("storage", STORAGES)
def test_saved_and_loaded(small, storage, tmp_path):
    model = komd.CFKOMD(popularity=0.4, prior=0.01, target=0.2, storage=storage).fit(small)
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.factor == model.factor
    assert np.array_equal(loaded.target_factors, model.target_factors)
    assert_equal(loaded, model)
    assert "factor" not in komd.CFKOMD(popularity=0.4, ridge=3.0).fit(small).learned_arrays()
    assert "factor" not in komd.CFKOMD(prior=0.01).fit(small).learned_arrays()


@pytest.mark.parametrize(
    "factor",
    [np.zeros(1), np.array([-1.0]), np.array([np.nan]), np.array([np.inf]), np.ones(2), np.ones(1, np.float32)],
)
def test_a_damaged_factor_is_refused(small, factor, tmp_path):
    komd.CFKOMD(popularity=0.4).fit(small).save(tmp_path / "m.komd")
    saved = store.load(tmp_path / "m.komd")
    store.save(tmp_path / "m.komd", model=saved.model, arrays=saved.arrays | {"factor": factor}, ids=saved.ids)
    with pytest.raises(ModelFileError, match="saved factor of the matrix is not one finite number > 0"):
        komd.load(tmp_path / "m.komd")


@pytest.mark.parametrize("text", ["CFKOMD()", "CFKOMD(popularity=0.4, ridge=3.0)", "MSDW()"])
def test_a_factor_too_many_is_refused(small, text, tmp_path):
    komd.model_from_text(text).fit(small).save(tmp_path / "m.komd")
    saved = store.load(tmp_path / "m.komd")
    store.save(tmp_path / "m.komd", model=saved.model, arrays=saved.arrays | {"factor": np.ones(1)}, ids=saved.ids)
    with pytest.raises(ModelFileError, match="not those of"):
        komd.load(tmp_path / "m.komd")


@pytest.mark.parametrize("name", WRITTEN["models"])
def test_folders_of_earlier_versions_answer_as_they_did(name, tmp_path):
    written = WRITTEN["models"][name]
    model = komd.load(EARLIER / name)
    model.save(tmp_path / "again")
    again = komd.load(tmp_path / "again")
    assert_equal(again, model)
    fresh = komd.model_from_text(written["model"]).fit(pairs_of(model))
    assert np.allclose(full(again), full(fresh), rtol=1e-6) and again.factor is None is not fresh.factor
    for user, answer in written["answers"].items():
        asked = {"histories": {user: WRITTEN["guest"]}} if user == "guest" else {"users": user}
        for each in (again, fresh):
            assert each.recommend(**asked, n=5).items(user) == answer["list"]
            found = each.recommend(**asked, n=99, items=WRITTEN["items"], exclude_seen=False).to_arrow()
            scores = dict(zip(found["item_id"].to_pylist(), found["score"].to_pylist(), strict=True))
            assert [scores[item] for item in WRITTEN["items"]] == pytest.approx(answer["scores"], abs=1e-6)
    similar = [each.similar_items(WRITTEN["items"][0], n=3).to_arrow()["score"].to_pylist() for each in (again, fresh)]
    assert similar[0] == pytest.approx(similar[1], rel=1e-5)


@pytest.mark.parametrize("name", WRITTEN["models"])
def test_the_first_update_of_such_a_model_builds_k_anew(name):
    model = komd.load(EARLIER / name)
    model.update(added=[("guest", WRITTEN["items"][0])]).refresh()
    assert model.last_update.rebuilt.startswith("it was saved by an earlier version")
    fresh = komd.model_from_text(WRITTEN["models"][name]["model"]).fit(pairs_of(model))
    assert_equal(model, fresh)
    model.update(added=[("guest", WRITTEN["items"][1])]).refresh()
    assert (model.last_update.rebuilt is None) == (name != "dense-prior")
    assert_equal(model, fresh.fit(pairs_of(model)))
