"""`max_per`: lists against the greedy choice over the full ranking."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import komd
from komd.serve import request_context
from komd.serve.candidate_masks import CandidateMasks, ListRules
from komd.serve.item_attributes import ItemAttributes
from komd.serve.item_names import ItemNames, read_names
from komd.serve.list_quotas import ListQuotas
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.serve_settings import Settings
from komd.serve.user_row import UserRow
from tests.serve import attributed
from tests.serve.conftest import Running

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("quotas")


@pytest.fixture(scope="module")
def rows(folder):
    return attributed.make(folder)


@pytest.fixture(scope="module")
def service(folder, rows):
    running = Running(Settings(folder / "shop.komd", f"sqlite:///{folder / 'e.db'}", folder / "items.csv"))
    yield running
    running.stop()


def listed(answer):
    return [(row["item_id"], row["score"]) for row in answer["items"]]


@given(
    chosen=st.lists(st.integers(0, 89), unique=True, max_size=6),
    max_per=st.dictionaries(
        st.sampled_from(["artist", "genre", "year", "label"]), st.integers(1, 4), min_size=1, max_size=3
    ),
    n=st.integers(1, 90),
    exclude_seen=st.booleans(),
    where=st.sampled_from([{}, {"genre": {"not": "Horror"}}, {"artist": ["a0", "a1"]}]),
)
@SETTINGS
def test_the_greedy_list_over_the_full_ranking(service, rows, chosen, max_per, n, exclude_seen, where):
    ids = list(rows)
    ask = {"history": [ids[k] for k in chosen], "exclude_seen": exclude_seen, "where": where}
    ranking = listed(service.post("/v1/recommend", ask | {"n": 90}))
    answer = service.post("/v1/recommend", ask | {"n": n, "max_per": max_per})
    assert listed(answer) == attributed.greedy(ranking, rows, max_per, n)
    assert [row["rank"] for row in answer["items"]] == list(range(1, len(answer["items"]) + 1))


def test_reasons_of_a_list_with_quotas(service, rows):
    ask = {"history": list(rows)[:5], "n": 8, "explain": True}
    answer = service.post("/v1/recommend", ask | {"max_per": {"artist": 1}})
    full = {row["item_id"]: row for row in service.post("/v1/recommend", ask | {"n": 50})["items"]}
    assert len(answer["items"]) == 8
    for row in answer["items"]:
        assert row["item_id"] not in full or row["why"] == full[row["item_id"]]["why"]
        parts = sum(part["contribution"] for part in row["why"]["contributions"])
        total = parts + row["why"]["others"]["contribution"] + row["why"]["global_term"]
        assert total == pytest.approx(row["score"], abs=1e-12)


def test_one_artist_has_almost_everything(tmp_path, monkeypatch):
    """The list is found far down the ranking: what has no room is not ranked again, so a few steps are enough."""
    data = komd.generate(users=300, items=400, activity=12, tastes=3, rng=5)
    model = komd.CFKOMD().fit(data)
    by_number = model.catalogue.item_ids(np.arange(len(data.items))).to_pylist()
    table = {
        item: {"id": item, "name": item, "artist": "Z" if k < 350 else f"a{k}"} for k, item in enumerate(by_number)
    }
    attributed.write_table(tmp_path / "t.csv", table.values())
    names = ItemNames.of(model.catalogue.items, read_names(tmp_path / "t.csv"))
    snapshot = ModelSnapshot(model, "1", names, CandidateMasks.of(model.catalogue, names))
    rows = [UserRow(np.array(some, np.int32)) for some in ([0, 5, 9], [], [399], [3])]
    asked = []
    ranked = type(model).ranked_blocks

    def counted(self, histories, request, **how):
        asked.append(request.n)
        return ranked(self, histories, request, **how)

    monkeypatch.setattr(type(model), "ranked_blocks", counted)
    for most, n in ((1, 10), (2, 60), (3, 400)):
        asked.clear()
        lists = snapshot.recommend(rows, n=n, at=0, rules=ListRules(max_per=(("artist", most),)))
        assert len(asked) <= 1 + 2 * len(rows)
        for found, full in zip(lists, snapshot.recommend(rows, n=400, at=0), strict=True):
            ranking = list(zip(snapshot.item_texts(full.items), full.scores.tolist(), strict=True))
            here = list(zip(snapshot.item_texts(found.items), found.scores.tolist(), strict=True))
            assert here == attributed.greedy(ranking, table, {"artist": most}, n)


@given(data=st.data())
@SETTINGS
def test_any_ranking_with_ties_and_several_values(data):
    """The steps alone, over rankings that are given: the greedy list whatever the depth of each step."""
    m = data.draw(st.integers(1, 60))
    values = data.draw(st.lists(st.sampled_from(["", "a", "b", "a|b", "a|a", "c", "d|c"]), min_size=m, max_size=m))
    scores = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=m, max_size=m))
    ids = [f"{k:03}" for k in range(m)]
    table = pa.table([pa.array(column, pa.string()) for column in (ids, ids, values)], names=["id", "name", "v"])
    attributes = ItemAttributes.of(ItemNames.of(komd.read([("u", one) for one in ids]).items, table))
    most, n = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 12))
    quotas = ListQuotas(attributes, np.arange(m, dtype=np.int32), (("v", most),))
    value = np.array(scores)

    def rank(candidates, depth):
        best = candidates[np.argsort(-value[candidates], kind="stable")][:depth]
        return best, value[best]

    candidates = np.array(sorted(data.draw(st.sets(st.integers(0, m - 1)))), np.int32)
    found, got = quotas.fill(rank(candidates, quotas.depth(n)), n, candidates, rank)
    full, all_scores = rank(candidates, m)
    rows = {k: {"v": values[k]} for k in range(m)}
    expected = attributed.greedy(list(zip(full.tolist(), all_scores.tolist(), strict=True)), rows, {"v": most}, n)
    assert list(zip(found.tolist(), got.tolist(), strict=True)) == expected


def test_work_is_abandoned_after_the_deadline(folder, rows):
    """Between two steps; one step that is enough is answered."""
    model = komd.load(folder / "shop.komd")
    names = ItemNames.of(model.catalogue.items, read_names(folder / "items.csv"))
    snapshot = ModelSnapshot(model, "1", names)
    user = [UserRow(np.array([3], np.int32))]
    request_context.enter(request_context.RequestContext(deadline=0.0))
    try:
        with pytest.raises(request_context.DeadlineExceeded):
            snapshot.recommend(user, n=20, at=0, rules=ListRules(max_per=(("label", 1),)))
    finally:
        request_context.enter(request_context.RequestContext())
    assert len(snapshot.recommend(user, n=20, at=0, rules=ListRules(max_per=(("label", 1),)))[0].items) > 2
