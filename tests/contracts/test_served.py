"""Every model behind the HTTP API: the lists and the reasons are the library's."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from tests.contracts.variants import ROUNDS_BY_BLOCK

pytest.importorskip("fastapi", reason="no fastapi: the extra serve")

import komd
from komd.data.interactions import Interactions
from komd.engine.histories import Histories
from komd.engine.ranking import RankingRequest
from komd.engine.updates import Updatable
from komd.errors import ModelFileError
from komd.serve.app import create
from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore
from komd.serve.hot_reload import ModelWatcher
from komd.serve.learner import Learner
from komd.serve.publication import Publication
from komd.serve.serve_settings import Settings
from tests.serve.conftest import Running, same_lists


@pytest.fixture
def settings(model, tmp_path):
    model.save(tmp_path / "m.komd")
    return Settings(model=tmp_path / "m.komd", store=f"sqlite:///{tmp_path / 'events.db'}")


def test_lists_reasons_and_similar_items_are_the_librarys(model, settings, small):
    if not model.serves_strangers:
        with pytest.raises(ModelFileError, match=f"{type(model).__name__} serves only .* a service must answer to"):
            create(settings)
        return
    assert_served(model, settings, small)


# Rank and prior are columns of one array: what is learned is strided where a filter changes both.
RANK_AND_PRIOR = [
    komd.CFKOMD(rank=12, prior=0.01, storage=storage, **more)
    for storage in ("dense", "sparse", "streamed")
    for more in ({}, {"ridge": 3.0}, {"head": 0.5, "target": 0.3})
]


@pytest.mark.parametrize("unfitted", RANK_AND_PRIOR, ids=repr)
def test_rank_and_prior_on_every_kind_of_kernel(unfitted, small, tmp_path):
    fitted = unfitted.clone().fit(small)
    fitted.save(tmp_path / "m.komd")
    assert_served(fitted, Settings(model=tmp_path / "m.komd", store=f"sqlite:///{tmp_path / 'events.db'}"), small)
    assert_learned(fitted, small, tmp_path)


def test_what_a_learner_publishes_is_served(model, small, tmp_path):
    """Every model that can learn while it serves: published, loaded as a worker loads it, asked."""
    if isinstance(model, Updatable):
        model.save(tmp_path / "m.komd")
        assert_learned(model, small, tmp_path)


def assert_learned(model, data, folder):
    """An event is learned; the lists are those of a fit with it, and an update from the command line is served too."""
    (folder / "published").mkdir()
    store = f"sqlite:///{folder / 'learned.db'}"
    settings = Settings(model=folder / "m.komd", store=store, learn=True, learn_seconds=0, learned=folder / "published")
    user, item = data.users[0], next(item for item in data.items if item not in data.history(data.users[0]))
    pairs = [(data.users[u], data.items[i]) for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)]
    expected = model.clone().fit(komd.read([*pairs, (user, item)]))
    events, publication = EventStore(store), Publication(folder / "published")
    try:
        learner = Learner(settings, events, publication)
        learner.step()
        watcher = ModelWatcher(settings.model, None, publication)
        assert watcher.learned.publications == 1
        events.add([NewEvent(user, item)]).result(20)
        learner.step()
        assert watcher.refresh() and watcher.learned.publications == 2
    finally:
        events.close()
    komd.load(settings.model).update(added=[(user, item)]).save(settings.model)
    for snapshot in (watcher.current, ModelWatcher(settings.model).current):
        for known in list(data.users)[::7]:
            (ranked,) = snapshot.recommend([snapshot.learned_row(known)], n=5, at=0)
            assert snapshot.item_texts(ranked.items) == expected.recommend(known, n=5).items(known)


def assert_served(model, settings, small):
    close = {"abs": 1e-12} if type(model).__name__ in ROUNDS_BY_BLOCK else {"abs": 0, "rel": 0}
    users = list(small.users)[::5]
    expected = {user: [] for user in users}
    for row in model.recommend(users, n=5).to_arrow().to_pylist():
        expected[row["user_id"]].append(row)
    asks = [{"user_id": user, "n": 5} for user in users]
    asks += [{"history": small.history(user), "n": 5, "explain": True, "reasons": 100} for user in users]
    service = Running(settings)
    try:
        answers = service.post("/v1/recommend/batch", {"requests": asks})["answers"]
        similar = service.get(f"/v1/items/{small.items[3]}/similar", n=4)["items"]
        assert service.get("/v1/model")["model"] == model.text
    finally:
        service.stop()
    for user, found in zip(users * 2, answers, strict=True):
        assert [row["item_id"] for row in found["items"]] == [row["item_id"] for row in expected[user]]
        scores = [row["score"] for row in expected[user]]
        assert [row["score"] for row in found["items"]] == pytest.approx(scores, **close)
        assert not found["fallback"] and found["unknown_items"] == []
    for user, found in zip(users, answers[len(users) :], strict=True):
        for row in found["items"]:
            why = model.explain(user, row["item_id"])
            parts = dict(zip(*(why.to_arrow()[name].to_pylist() for name in ("item_id", "contribution")), strict=True))
            told = {part["item_id"]: part["contribution"] for part in row["why"]["contributions"]}
            assert told == pytest.approx(parts, abs=1e-12)  # of several items at once: sums may round otherwise
            assert row["why"]["global_term"] == pytest.approx(why.global_term, abs=1e-12)
            assert row["why"]["others"]["items"] == 0
    near = model.similar_items([small.items[3]], n=4).to_arrow()
    assert [row["item_id"] for row in similar] == near["item_id"].to_pylist()
    assert [row["similarity"] for row in similar] == pytest.approx(near["score"].to_pylist(), **close)


# ---- weights, times and dislikes ------------------------------------------------------------------------------------

DAY = 86_400
BEGIN = 1_700_000_000  # seconds since 1970
AT = "2024-06-01T00:00:00"
WEIGHTED = [
    komd.CFKOMD(half_life="30d", dislikes_weight=1.0),
    komd.CFKOMD(half_life="30d", weighting="none", kernel="linear"),
    komd.CFKOMD(weighting="linear", dislikes_weight=0.5, negatives="mean"),
    komd.CFKOMD(half_life="10d", dislikes_weight=2.0, storage="sparse"),
    komd.CFOMD(half_life="30d"),
    komd.ECFOMD(),
    komd.EASE(),
]


def weighted_data():
    """Pairs with weights and times, and dislikes that are not among them."""
    data = komd.generate(users=60, items=40, activity=8, tastes=4, rng=5)
    rng = np.random.default_rng(1)
    taken = np.zeros(data.shape, bool)
    taken[data.rows, data.indices] = True
    rows, columns = np.nonzero(~taken & (rng.random(data.shape) < 0.05))
    dislikes = Interactions.from_numbers(data.users, data.items, rows.astype(np.int32), columns.astype(np.int32))
    times = BEGIN + DAY * rng.integers(0, 200, data.pairs)
    weights = rng.choice([0.5, 1, 2, 7], data.pairs).astype(np.float32)
    parts = (data.users, data.items, data.indptr, data.indices, times)
    return Interactions(*parts, weights=weights, time_unit="s", dislikes=dislikes)


@pytest.fixture(params=WEIGHTED, ids=lambda model: model.text)
def weighted(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.UnusedWeightsWarning)
        return request.param.clone().fit(weighted_data())


@pytest.fixture
def service(weighted, tmp_path):
    weighted.save(tmp_path / "w.komd")
    running = Running(Settings(model=tmp_path / "w.komd", store=f"sqlite:///{tmp_path / 'events.db'}"))
    yield running
    running.stop()


def listed(answer):
    return [(row["item_id"], row["score"]) for row in answer["items"]]


def rows_of(table, user):
    return [(row["item_id"], row["score"]) for row in table.to_pylist() if row["user_id"] == user]


def library(model, histories, n=5):
    """What the library says of a history in inside numbers."""
    (block,) = model.ranked_blocks(histories, RankingRequest(n, model.catalogue.candidates()), threads=1)
    items = model.catalogue.item_ids(block.items[0][: block.counts[0]]).to_pylist()
    return list(zip(items, block.scores[0][: block.counts[0]].tolist(), strict=True))


def test_weights_times_and_dislikes_of_known_users_are_the_librarys(weighted, service):
    users = list(weighted.catalogue.users)[::3]
    expected = weighted.recommend(users, n=5, at=AT).to_arrow()
    asks = [{"user_id": user, "n": 5, "at": AT, "explain": True, "reasons": 100} for user in users]
    batch = service.post("/v1/recommend/batch", {"requests": asks})["answers"]
    for user, ask, answer in zip(users, asks, batch, strict=True):
        assert listed(answer) == rows_of(expected, user)
        assert same_lists(answer, service.post("/v1/recommend", ask))
        for row in answer["items"]:
            why = row["why"]
            parts = [part["contribution"] for part in why["contributions"]]
            assert sum(parts) + why["global_term"] == pytest.approx(row["score"], abs=1e-12)
            told = weighted.explain(user, row["item_id"], at=AT).to_arrow().to_pylist()
            assert {part["item_id"]: part["contribution"] for part in why["contributions"]} == pytest.approx(
                {part["item_id"]: part["contribution"] for part in told}, abs=1e-12
            )
            disliked = {part["item_id"] for part in why["contributions"] if part["disliked"]}
            known = service.get(f"/v1/users/{user}")["disliked"] if "dislikes_weight" in weighted.text else []
            assert disliked == {entry["item_id"] for entry in known}


def test_a_known_user_is_a_stranger_with_the_history_that_is_shown(weighted, service):
    """What GET /v1/users says can be sent as a history: ids, weights, times and dislikes."""
    for user in list(weighted.catalogue.users)[::7]:
        about = service.get(f"/v1/users/{user}")
        history = [{name: entry[name] for name in ("item_id", "weight", "time")} for entry in about["items"]]
        dislikes = [entry["item_id"] for entry in about["disliked"]]
        how = {"n": 6, "at": AT, "explain": True}
        known = service.post("/v1/recommend", {"user_id": user, **how})
        stranger = service.post("/v1/recommend", {"history": history[::-1], "dislikes": dislikes, **how})
        assert same_lists(known | {"user_id": None}, stranger)


def test_a_history_with_weights_is_the_librarys(weighted, service):
    items = list(weighted.catalogue.items)
    history, dislikes = {items[2]: 3, items[5]: 1, items[8]: 0.25, items[11]: 1}, [items[20], items[21]]
    with pytest.warns(komd.UnusedWeightsWarning) if not weighted.uses_weights else nullcontext():
        expected = weighted.recommend(histories={"guest": history}, dislikes={"guest": dislikes}, n=5).to_arrow()
    posted = [{"item_id": item, "weight": weight} for item, weight in history.items()]
    posted[1], posted[3] = items[5], {"item_id": items[11]}
    ask = {"history": posted, "dislikes": dislikes, "n": 5}
    assert listed(service.post("/v1/recommend", ask)) == rows_of(expected, "guest")  # no times: no ages
    plain = {"history": items[:3], "n": 5}
    answers = service.post("/v1/recommend/batch", {"requests": [plain, ask, plain | {"at": AT}]})["answers"]
    assert [listed(answer) for answer in answers] == [
        listed(service.post("/v1/recommend", one)) for one in (plain, ask, plain)
    ]
    assert listed(answers[0]) == rows_of(weighted.recommend(histories={"x": items[:3]}, n=5).to_arrow(), "x")


def test_items_without_a_time_have_age_0(weighted, service):
    items = list(weighted.catalogue.items)[:4]
    old = {"item_id": items[0], "time": "2024-03-01"}
    ask = {"at": AT, "n": 5}
    mixed = service.post("/v1/recommend", {"history": [old, *items[1:]], **ask})
    late = {"item_id": items[2], "time": "2030-01-01T00:00:00Z"}  # later than the moment: age 0 as well
    exact = [old, {"item_id": items[1], "time": AT}, late, items[3]]
    assert listed(service.post("/v1/recommend", {"history": exact, **ask})) == listed(mixed)
    untimed = service.post("/v1/recommend", {"history": items, **ask})
    assert (listed(mixed) == listed(untimed)) == ("half_life" not in weighted.text)


def test_ages_and_weights_of_posted_events_count(weighted, service):
    catalogue = weighted.catalogue
    user, moment = catalogue.users[8], np.datetime64(AT, "us").astype(np.int64).item()
    row = catalogue.histories.take(np.array([8], np.int32))
    disliked = row.dislikes.indices if row.dislikes is not None else []
    new = next(k for k in range(40) if k not in row.indices and k not in disliked)
    held = int(row.indices[1])
    names = catalogue.item_ids(np.array([new, held], np.int32)).to_pylist()
    found = []
    for said in ({"time": "2023-06-01T00:00:00Z"}, {"time": "2024-05-31T00:00:00Z"}, {"weight": 9}):
        events = [{"user_id": user, "item_id": names[0], **said}]
        events += [{"user_id": user, "item_id": names[1], "weight": 4, "time": "2020-01-01"}]  # the model's is later
        service.post("/v1/events", {"events": events})
        weights = np.append(row.weights, np.float32(said.get("weight", 1)))
        weights[1] = 4
        when = said.get("time", "2024-06-01T00:00:00Z")  # posted now, which is later than the moment: age 0
        times = np.append(row.times, np.datetime64(when.removesuffix("Z"), "us").astype(np.int64))
        rows = Histories.of_rows([np.append(row.indices, np.int32(new))], [weights], [times])
        rows = replace(rows, at=moment, dislikes=row.dislikes)
        found.append(listed(service.post("/v1/recommend", {"user_id": user, "n": 5, "at": AT})))
        assert found[-1] == library(weighted, rows)
    if "half_life" in weighted.text:
        assert found[0] != found[1]  # an event of yesterday counts more than one of last year


def test_a_batch_may_have_several_moments(weighted, service):
    users = list(weighted.catalogue.users)[:4]
    moments = ["2023-12-01", AT, 1_717_200_000_000, None]
    asks = [{"user_id": user, "at": at, "n": 5} for user in users for at in moments]
    answers = service.post("/v1/recommend/batch", {"requests": asks})["answers"]
    for ask, answer in zip(asks, answers, strict=True):
        if ask["at"] is not None:
            assert same_lists(answer, service.post("/v1/recommend", ask))
    assert listed(answers[1]) == listed(answers[2])  # the same moment in both forms
    table = weighted.recommend(users, n=5, at="now").to_arrow()
    for user, answer in zip(users, answers[3::4], strict=True):
        expected = rows_of(table, user)
        assert [score for _, score in listed(answer)] == pytest.approx([score for _, score in expected], rel=1e-4)
