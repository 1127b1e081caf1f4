"""Streamed models answer as those that hold their matrix: lists, measures, strangers, explanations, files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import komd
from komd.engine import item_based
from komd.engine import streamed_ranking as streaming
from komd.errors import InputError

MODELS = (
    lambda **k: komd.ECFOMD(**k),
    lambda **k: komd.CFKOMD(kernel="tanimoto", negatives="mean", **k),
    lambda **k: komd.CFKOMD(kernel="jaccard", **k),
    lambda **k: komd.CFKOMD(kernel=komd.kernels.Polynomial(degree=2, c=1), **k),
    lambda **k: komd.MSDW(alpha=0.15, locality=3, **k),
    lambda **k: komd.RP3Beta(**k),
    lambda **k: komd.CFKOMD(user_damping=0.5, popularity=0.2, negatives_weight=0.3, **k),
    lambda **k: komd.CFKOMD(kernel="linear", user_damping=1, popularity=0.4, negatives_weight=0, **k),
    lambda **k: komd.CFKOMD(user_damping=0.5, target=0.6, negatives_weight=0, **k),
    lambda **k: komd.CFKOMD(kernel="linear", popularity=0.2, target=-0.4, **k),
)
NAMES = ("ecfomd", "mean", "jaccard", "polynomial", "msdw", "rp3beta", "stages", "no negatives", "target", "long tail")
MEASURES = ["auc", "map@50", "ndcg@10", "recall@20", "coverage@10", "novelty@5"]


@pytest.fixture(scope="module")
def folds():
    return next(iter(komd.split.folds(komd.generate(users=400, items=150, activity=10, rng=3), rng=0)))


@pytest.fixture(params=["rows at hand", "strips", "strips, groups of users"])
def way(request, monkeypatch):
    """The three ways a streamed model may go about it: the last two are forced here as a large catalogue would."""
    if request.param != "rows at hand":
        monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    if "groups" in request.param:
        monkeypatch.setattr(streaming, "_LEAST_ROOM", 0)
        monkeypatch.setattr(streaming, "room_for", lambda memory: 60_000)
    return request.param


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_streamed_is_dense(make, folds, way):
    train, test = folds
    dense, sparse, streamed = (make(storage=s).fit(train) for s in ("dense", "sparse", "streamed"))
    assert streamed.held.storage == "streamed"
    expected, held, got = (m.recommend(n=40).to_arrow() for m in (dense, sparse, streamed))
    assert held.equals(expected)  # to the last bit
    for name in ("user_id", "item_id", "rank"):
        assert got[name].equals(expected[name]), name
    # ECF-OMD's sums over all items are added in another order where K is streamed.
    assert np.allclose(got["score"], expected["score"], rtol=0, atol=1e-7)
    for seen in (True, False):
        few = [
            m.recommend(n=5, exclude_seen=seen, items=train.items.values[:40].to_pylist()).to_arrow()
            for m in (dense, streamed)
        ]
        assert few[0]["item_id"].equals(few[1]["item_id"])
    measured = [komd.evaluate(m, test, metrics=MEASURES, ties="strict") for m in (dense, streamed)]
    for name in MEASURES:
        assert measured[0][name].mean == pytest.approx(measured[1][name].mean, abs=1e-12), name
        assert np.allclose(measured[0][name].values, measured[1][name].values, equal_nan=True), name


@pytest.mark.parametrize("make", MODELS[:1] + MODELS[4:5] + MODELS[8:9], ids=["ecfomd", "msdw", "target"])
def test_people_without_history_are_served_by_popularity(make, folds, way):
    train, _ = folds
    guests = {"nobody": [], "someone": train.items.values[:3].to_pylist()}
    lists = []
    for storage in ("dense", "streamed"):
        model = make(storage=storage).fit(train)
        with pytest.warns(komd.FallbackWarning):
            lists.append(model.recommend(histories=guests, n=10).to_arrow())
    assert lists[0]["item_id"].equals(lists[1]["item_id"])


def test_ties_stand_as_they_do_in_memory(way):
    """Twins, items chosen by the very same users, have equal scores, which AUC must see as equal in strips, too."""
    rng = np.random.default_rng(0)
    single = rng.random((120, 30)) < 0.15
    R = np.repeat(single, 3, axis=1)
    train, test = R & (rng.random(R.shape) < 0.6), R
    train[:, 0] = test[:, 0] = True
    data = [scipy.sparse.csr_matrix(x.astype(np.float32)) for x in (train, test & ~train)]
    for make in (MODELS[0], MODELS[4]):
        for ties in ("half", "strict", rng.permutation(90)[:70].tolist()):
            areas = [
                komd.evaluate(make(storage=s).fit(data[0]), data[1], metrics=["auc"], ties=ties)["auc"].values
                for s in ("dense", "sparse", "streamed")
            ]
            for others in areas[1:]:
                assert np.allclose(areas[0], others, atol=1e-12)


TILED = (
    lambda **k: komd.CFKOMD(kernel="jaccard", dislikes_weight=0.7, **k),
    lambda **k: komd.CFKOMD(user_damping=0.5, target=0.6, negatives_weight=0.3, **k),
    lambda **k: komd.CFKOMD(prior=0.01, ridge=20, rank=6, **k),
    lambda **k: komd.MSDW(alpha=0.15, locality=3, **k),
)


@pytest.mark.parametrize("make", TILED, ids=["dislikes", "target", "corrected", "msdw"])
@pytest.mark.parametrize("room", [None, 3_000_000])
def test_strips_of_several_tiles_rank_as_rows_in_memory_to_the_last_bit(make, room, monkeypatch):
    """Twins, so that ties stand at the end of lists; items without users; users without items; negative weights.

    The same streamed model ranks by strips and with the rows of the users at hand.
    """
    rng = np.random.default_rng(5)
    single = rng.random((260, 1300)) < 0.4 * np.linspace(1, 0, 1300) ** 4
    R = np.repeat(single, 2, axis=1)
    R[:4] = False
    R[:, rng.random(2600) < 0.05] = False
    hidden = R & (rng.random(R.shape) < 0.3)
    disliked = (rng.random(R.shape) < 0.01) & ~R
    train, test, disliked = (
        komd.Interactions.of(scipy.sparse.csr_matrix(x.astype(np.float32))) for x in (R & ~hidden, hidden, disliked)
    )
    model = make(storage="streamed").fit(train.with_dislikes(disliked))
    some = train.items.values.to_pylist()[::3]
    order = rng.permutation(train.items.values.to_pylist())[:900].tolist()

    def answers():
        with pytest.warns(komd.FallbackWarning):
            lists = [model.recommend(n=70).to_arrow(), model.recommend(n=9, items=some, exclude_seen=False).to_arrow()]
        areas = [komd.evaluate(model, test, metrics=["auc"], ties=ties)["auc"].values for ties in ("half", order)]
        return lists, areas

    lists, areas = answers()
    monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    if room:  # a few strips, the last of them of several tiles, and groups of users
        monkeypatch.setattr(streaming, "_LEAST_ROOM", 0)
        monkeypatch.setattr(streaming, "room_for", lambda memory: room)
    by_strips, measured = answers()
    for found, expected in zip(by_strips, lists, strict=True):
        assert found.equals(expected)
    for found, expected in zip(measured, areas, strict=True):
        assert np.allclose(found, expected, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_items_nobody_chose_come_last_in_every_storage(make, way):
    rng = np.random.default_rng(1)
    R = rng.random((150, 90)) < 0.12 * rng.random(90)
    test = R & (rng.random(R.shape) < 0.4)
    train = R & ~test
    train[:, rng.random(90) < 0.2] = False
    data = [scipy.sparse.csr_matrix(x.astype(np.float32)) for x in (train, test)]
    nobodys = set(np.flatnonzero(~train.any(axis=0)))
    assert len(nobodys) > 10
    models = [make(storage=s).fit(data[0]) for s in ("dense", "sparse", "streamed")]
    with pytest.warns(komd.FallbackWarning):
        lists = [m.recommend(n=90, exclude_seen=False).to_arrow() for m in models]
    for found in lists:
        assert found.drop_columns("score").equals(lists[0].drop_columns("score"))
        assert not nobodys & set(found["item_id"].to_pylist())
        assert len(found) == 150 * (90 - len(nobodys))
    for ties in ("half", "strict"):
        measured = [komd.evaluate(m, data[1], metrics=["auc", "ndcg@90"], ties=ties) for m in models]
        for name in ("auc", "ndcg@90"):
            for found in measured[1:]:
                assert np.array_equal(found[name].values, measured[0][name].values, equal_nan=True)


@pytest.mark.parametrize("make", MODELS[:1] + MODELS[4:5], ids=["ecfomd", "msdw"])
def test_what_was_only_seen_is_left_out_in_every_storage(make, folds, way):
    train, test = folds
    rng = np.random.default_rng(2)
    low = np.nonzero(rng.random(train.shape) < 0.1)
    data = train.with_seen(*(numbers.astype(np.int32) for numbers in low))
    models = [make(storage=s).fit(data) for s in ("dense", "sparse", "streamed")]
    lists = [m.recommend(n=150).to_arrow().drop_columns("score") for m in models]
    assert lists[0].equals(lists[1]) and lists[0].equals(lists[2])
    assert len(lists[0]) == len(train.users) * (train.popularity > 0).sum() - data.pairs - sum(
        train.popularity[data.seen.indices] > 0
    )
    measured = [komd.evaluate(m, test, metrics=["auc", "ndcg@20"]) for m in models]
    assert measured[0].skipped > 0
    for name in ("auc", "ndcg@20"):
        for found in measured[1:]:
            assert np.allclose(found[name].values, measured[0][name].values, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_save_load_explain_similar(make, folds, tmp_path):
    train, _ = folds
    dense, streamed = (make(storage=s).fit(train) for s in ("dense", "streamed"))
    streamed.save(tmp_path / "m.komd")
    files = {file.name.split("-")[0] for file in (tmp_path / "m.komd").iterdir()}
    assert "matrix" not in files
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.text == streamed.text
    assert loaded.recommend(n=7).to_arrow().equals(streamed.recommend(n=7).to_arrow())
    user, item = train.users[5], train.items[11]
    ours, theirs = streamed.explain(user, item), dense.explain(user, item)
    assert ours.score == pytest.approx(theirs.score, abs=1e-7)
    assert ours.score == pytest.approx(sum(ours.table["contribution"].to_pylist()) + ours.global_term, abs=1e-12)
    near = [m.similar_items([item], n=8).to_arrow() for m in (dense, streamed)]
    assert near[0].equals(near[1])


def test_the_planner_streams_what_cannot_be_held():
    data = komd.generate(users=2000, items=12_000, activity=60, tastes=3, user_tail=0.9, rng=0)
    held = komd.ECFOMD().fit(data, memory="2GB")
    assert held.held.storage == "sparse"
    assert held.held.bytes > 55_000_000
    streamed = komd.ECFOMD().fit(data, memory="100MB")
    assert streamed.held.storage == "streamed"
    assert "streamed" in repr(streamed) and repr(streamed).startswith("ECFOMD()  # K: 12,000 items, about ")
    assert komd.model_from_text(repr(streamed)).text == "ECFOMD()"
    few = held.recommend(data.users.values[:20].to_pylist(), n=10).to_arrow()
    assert streamed.recommend(data.users.values[:20].to_pylist(), n=10).to_arrow()["item_id"].equals(few["item_id"])


def test_a_storage_that_cannot_fit_is_refused_with_the_numbers():
    data = komd.generate(users=3000, items=5000, activity=20, rng=0)
    with pytest.raises(InputError, match=r"does not fit dense: 100 MB dense.*the budget is 50 MB"):
        komd.ECFOMD(storage="dense").fit(data, memory="50MB")
    with pytest.raises(InputError, match="storage must be 'dense' or 'sparse' or 'streamed', got 'disk'"):
        komd.MSDW(storage="disk")
