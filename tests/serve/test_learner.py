"""Events reach the model: what is published equals a fit on all data, and forgotten users are in no file."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

import komd
from komd.errors import InputError, KomdError
from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore, StoreError
from komd.serve.experiment_state import ExperimentStates
from komd.serve.hot_reload import ModelWatcher
from komd.serve.learner import Learner
from komd.serve.publication import Publication
from komd.serve.serve_settings import Limits
from tests.serve.conftest import Running, until
from tests.serve.test_store_updates import assert_same

PAIRS = [
    *(("ana", "i1"), ("ana", "i2"), ("bo", "i2"), ("bo", "i3"), ("cy", "i1"), ("cy", "i3"), ("cy", "i4")),
    *(("secret-user-9731", "i1"), ("secret-user-9731", "i2"), ("secret-user-9731", "only-theirs")),
]


class Learned:
    """A learner in this process, stepped by hand, on a model of PAIRS unless another is given."""

    def __init__(self, folder, model=None, **settings):
        from komd.serve.serve_settings import Settings

        self.folder = folder / "m.komd"
        self.fitted = komd.CFKOMD().fit(komd.read(PAIRS)) if model is None else model
        self.fitted.save(self.folder)
        self.scratch = folder / "published"
        self.scratch.mkdir()
        self.settings = Settings(
            model=self.folder,
            store=f"sqlite:///{folder / 'events.db'}",
            learn=True,
            watch_seconds=0,
            learned=self.scratch,
            **{"learn_seconds": 0.0} | settings,
        )
        self.events = EventStore(self.settings.store)
        self.publication = Publication(self.scratch)
        self.learner = Learner(self.settings, self.events, self.publication)
        self.learner.step()

    def post(self, *events):
        self.events.add([NewEvent(*event) for event in events]).result(20)

    @property
    def published(self):
        return komd.load(self.publication.model)

    @property
    def state(self):
        return self.publication.state()


@pytest.fixture
def learned(tmp_path):
    made = Learned(tmp_path)
    yield made
    made.events.close()


def fitted(pairs, like="CFKOMD()"):
    return komd.model_from_text(like).fit(komd.read(sorted(pairs)))


def test_what_is_published_equals_a_fit(learned):
    assert_same(learned.published, learned.fitted)
    assert learned.state.seq == learned.events.last_seq() and learned.state.publications == 1
    learned.post(("dee", "i9"), ("ana", "i9"), ("ana", "i2", "withdrawn"), ("bo", "i4"))
    learned.learner.step()
    expected = set(PAIRS) - {("ana", "i2")} | {("dee", "i9"), ("ana", "i9"), ("bo", "i4")}
    assert_same(learned.published, fitted(expected))
    assert learned.state.seq == learned.events.last_seq() and learned.state.events == 4
    assert_same(komd.load(learned.folder), learned.fitted)  # the model folder is as it was
    before = learned.state
    learned.learner.step()
    assert learned.state == before  # nothing new: nothing is written


def test_when_it_is_time_to_learn(tmp_path):
    learned = Learned(tmp_path, learn_seconds=3600, learn_events=3)
    try:
        learned.post(("dee", "i1"))
        learned.learner.step()
        assert learned.state.publications == 1 and learned.state.seq < learned.events.last_seq()
        learned.post(("dee", "i2"), ("dee", "i3"))  # three wait
        learned.learner.step()
        assert learned.state.publications == 2 and learned.state.seq == learned.events.last_seq()
        learned.post(("dee", "i4"))
        learned.events.forget("cy").result(20)  # users who are forgotten do not wait
        learned.learner.step()
        assert learned.state.publications == 3 and learned.state.unlearned_seq == learned.events.last_seq()
        assert "cy" not in learned.published.catalogue.users
    finally:
        learned.events.close()


def test_events_that_are_old_do_not_wait(tmp_path):
    """They were stored while there was no learner, or while it was busy."""
    learned = Learned(tmp_path, learn_seconds=0.2)
    try:
        learned.post(("dee", "i1"))
        assert until(lambda: learned.learner.step() and learned.state.publications == 2)
    finally:
        learned.events.close()


def all_bytes(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_forgotten_user_is_in_no_file(learned, tmp_path):
    user = "secret-user-9731"
    learned.post((user, "i3"), ("ana", "only-theirs"), ("dee", "i2"))
    learned.learner.step()
    assert any(user.encode() in content for content in all_bytes(learned.folder).values())
    learned.events.forget(user).result(20)
    learned.learner.step()
    assert learned.state.unlearned_seq == learned.events.last_seq()
    rest = {pair for pair in PAIRS if pair[0] != user}
    assert_same(komd.load(learned.folder), fitted(rest))  # the model folder: what was fitted, without the user
    assert_same(learned.published, fitted(rest | {("ana", "only-theirs"), ("dee", "i2")}))
    for path, content in all_bytes(tmp_path).items():  # the model folder, the published one, and the store's files
        assert user.encode() not in content, path
    learned.post((user, "i4"))  # back again, with nothing but this
    learned.learner.step()
    assert_same(learned.published, fitted(rest | {("ana", "only-theirs"), ("dee", "i2"), (user, "i4")}))
    assert_same(komd.load(learned.folder), fitted(rest))


def test_users_who_are_not_in_the_model_folder_cost_no_save(learned):
    manifest = learned.folder / "manifest.json"
    before = manifest.stat().st_ino
    learned.post(("dee", "i1"))
    learned.learner.step()
    learned.events.forget("dee").result(20)
    learned.learner.step()
    assert learned.state.unlearned_seq == learned.events.last_seq()
    assert manifest.stat().st_ino == before
    assert_same(learned.published, learned.fitted)


def test_a_model_folder_that_cannot_be_written(learned, monkeypatch, caplog):
    def refuse(*_, **__):
        raise komd.ModelFileError("could not save the model: the disk is full")

    learned.events.forget("ana").result(20)
    with monkeypatch.context() as patched:
        patched.setattr(komd.CFKOMD, "write", refuse)
        learned.learner.step()
    assert "ana" not in learned.published.catalogue.users  # it is not in use any more,
    assert learned.state.seq == learned.events.last_seq() > learned.state.unlearned_seq  # but not unlearned everywhere
    assert "still in the model folder" in caplog.text
    learned.learner._retry_at = 0.0
    learned.learner.step()
    assert learned.state.unlearned_seq == learned.events.last_seq()
    assert "ana" not in komd.load(learned.folder).catalogue.users


def test_a_model_of_nobody_is_not_published(learned, caplog):
    for user in {user for user, _ in PAIRS}:
        learned.events.forget(user).result(20)
    learned.learner.step()
    assert "would remove all pairs" in caplog.text
    assert learned.state.seq < learned.events.last_seq()
    learned.post(("dee", "i1"), ("dee", "i2"))
    learned.learner._retry_at = 0.0
    learned.learner.step()
    assert_same(learned.published, fitted([("dee", "i1"), ("dee", "i2")]))


# ---- the model folder is replaced -------------------------------------------------------------------------------


def test_a_new_model_is_learned_from(learned, caplog):
    learned.post(("dee", "i9"), ("ana", "i1", "withdrawn"))
    learned.events.forget("bo").result(20)
    learned.learner.step()
    others = [*PAIRS, ("eve", "i2"), ("eve", "i5")]
    fitted(others, "RP3Beta(beta=0.2)").save(learned.folder)
    learned.learner.step()
    rest = {pair for pair in others if pair[0] != "bo" and pair != ("ana", "i1")} | {("dee", "i9")}
    assert_same(learned.published, fitted(rest, "RP3Beta(beta=0.2)"))
    without = fitted([pair for pair in others if pair[0] != "bo"], "RP3Beta(beta=0.2)")
    assert_same(komd.load(learned.folder), without)  # forgotten users are unlearned from a new model too
    assert learned.state.seq == learned.state.unlearned_seq == learned.events.last_seq()


def damaged(folder):
    (folder / "manifest.json").write_text("{")


def gone(folder):
    shutil.rmtree(folder)


def not_updatable(folder):
    komd.EASE().fit(komd.read(PAIRS)).save(folder)


def altered(folder):
    komd.ECFOMD().fit(komd.read(PAIRS)).save(folder)
    name = json.loads((folder / "manifest.json").read_text())["files"]["S"]["file"]
    (folder / name).write_bytes(b"\x00" + (folder / name).read_bytes()[1:])


@pytest.mark.parametrize("damage", [damaged, gone, not_updatable, altered])
def test_a_new_model_that_cannot_be_used_is_refused(learned, damage, caplog):
    damage(learned.folder)
    for item in ("i8", "i9"):
        learned.post(("dee", item))
        learned.learner.step()
    assert_same(learned.published, fitted([*PAIRS, ("dee", "i8"), ("dee", "i9")]))
    assert caplog.text.count("the new model is refused") == 1
    learned.events.forget("ana").result(20)
    learned.learner.step()
    assert "ana" not in learned.published.catalogue.users
    assert learned.state.unlearned_seq < learned.events.last_seq()  # whatever is there now is not written over
    shutil.rmtree(learned.folder, ignore_errors=True)
    learned.fitted.save(learned.folder)
    learned.learner._retry_at = 0.0
    learned.learner.step()
    assert "ana" not in komd.load(learned.folder).catalogue.users
    assert learned.state.unlearned_seq == learned.events.last_seq()


def test_a_model_that_is_replaced_in_the_middle_is_not_written_over(learned, monkeypatch):
    other = fitted([*PAIRS, ("eve", "i5")], "ECFOMD()")
    learned.events.forget("ana").result(20)
    learned.learner._looked_at = float("inf")  # it does not look for a new model now
    other.save(learned.folder)
    learned.learner.step()
    assert_same(komd.load(learned.folder), other)
    assert learned.state.unlearned_seq < learned.events.last_seq()
    learned.learner._looked_at = 0.0
    learned.learner.step()  # at once: what failed was another model
    assert_same(komd.load(learned.folder), fitted([p for p in [*PAIRS, ("eve", "i5")] if p[0] != "ana"], "ECFOMD()"))
    assert learned.state.unlearned_seq == learned.events.last_seq()


def test_models_that_cannot_be_updated(tmp_path):
    with pytest.raises(InputError, match="EASE cannot be updated, so it cannot learn while it serves"):
        Learned(tmp_path, komd.EASE().fit(komd.read(PAIRS)))


def test_a_store_that_does_not_answer_is_waited_for(learned, monkeypatch, caplog):
    from komd.serve.event_store import StoreError

    stopping = threading.Event()

    def fail(after):
        stopping.set()
        raise StoreError("the store does not answer: it is on fire")

    monkeypatch.setattr(learned.events, "pending", fail)
    learned.learner.run(stopping)
    assert "learning waits for the store" in caplog.text


# ---- through the service ----------------------------------------------------------------------------------------


@pytest.fixture
def learning(tmp_path):
    """A learner that is stepped by hand, and a service that serves what it publishes."""
    made = []

    def start(model=None, **settings):
        learned = Learned(tmp_path, model, **settings)
        service = Running(learned.settings)
        made.append((learned, service))
        return learned, service

    yield start
    for learned, service in made:
        service.stop()
        learned.events.close()


def caught_up(learned, service):
    learned.learner.step()
    return until(lambda: service.get("/v1/learning")["learned_seq"] == learned.events.last_seq(), pause=0.02)


def test_the_service_says_how_far_it_is(learning):
    learned, service = learning()
    about = service.get("/v1/learning")
    assert about["learning"] and not about["behind"] and about["learned_seq"] == about["stored_seq"] == 1
    posted = [{"user_id": "dee", "item_id": "brand-new"}, {"user_id": "ana", "item_id": "brand-new"}]
    service.post("/v1/events", {"events": posted})
    about = service.get("/v1/learning")
    assert about["behind"] and about["stored_seq"] == 2 and service.get("/v1/model")["learned_seq"] == 1
    assert service.get("/v1/items/brand-new", 404)
    assert until(lambda: behind_seconds(service) > 0)
    assert caught_up(learned, service)
    about = service.get("/v1/learning")
    assert not about["behind"] and about["model"] == learned.state.version == service.get("/v1/model")["version"]
    assert service.get("/v1/model")["learned_seq"] == 2
    # The new item: it has a name, is similar to what its users have, and is recommended to others who have that.
    assert service.get("/v1/items/brand-new")["popularity"] == 2
    similar = service.get("/v1/items/brand-new/similar")["items"]
    library = learned.published.similar_items(["brand-new"]).to_arrow().to_pylist()
    assert [(row["item_id"], row["similarity"]) for row in similar] == [
        (row["item_id"], row["score"]) for row in library
    ]
    answer = service.post("/v1/recommend", {"history": ["i1", "i2"]})
    assert "brand-new" in [row["item_id"] for row in answer["items"]] and answer["model"] == about["model"]
    assert "dee" in service.get("/v1/users", prefix="d")["users"]
    assert until(lambda: "komd_learned_seq 2.0" in service.client.get("/v1/metrics").text)
    assert until(lambda: behind_seconds(service) == 0)
    assert "komd_learner_publications 2.0" in service.client.get("/v1/metrics").text


def behind_seconds(service):
    lines = service.client.get("/v1/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("komd_learning_behind_seconds "))


def test_without_learning(running):
    about = running.get("/v1/learning")
    assert not about["learning"] and not about["behind"] and about["learned_seq"] is None
    assert running.get("/v1/model")["learned_seq"] is None
    answer = running.client.delete("/v1/users/nobody")
    assert answer.status_code == 200 and answer.json()["unlearned"] is False


def test_unlearning_is_answered_when_it_is_done(learning, monkeypatch):
    learned, service = learning()
    stop = threading.Event()
    stepping = threading.Thread(target=learned.learner.run, args=(stop,))
    stepping.start()
    try:
        service.post("/v1/events", {"events": [{"user_id": "secret-user-9731", "item_id": "i3"}]})
        answer = service.client.delete("/v1/users/secret-user-9731")
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"user_id": "secret-user-9731", "events": 1, "seq": 3, "unlearned": True}
        about = service.get("/v1/learning")
        assert about["unlearned_seq"] == about["learned_seq"] == 3
        assert "secret-user-9731" not in komd.load(learned.folder).catalogue.users
    finally:
        stop.set()
        stepping.join()
    monkeypatch.setattr("komd.serve.api._UNLEARN_SECONDS", 0.1)  # nobody learns any more
    answer = service.client.delete("/v1/users/ana")
    assert answer.status_code == 202 and answer.json()["unlearned"] is False
    assert service.get("/v1/users/ana", 404)  # forgotten all the same
    assert caught_up(learned, service) and service.get("/v1/learning")["unlearned_seq"] == answer.json()["seq"]


def test_ids_that_cannot_be_learned_are_served_and_counted(learning):
    pairs = pa.table({"user": [1, 1, 2, 2, 3], "item": [10, 20, 10, 30, 20]})
    learned, service = learning(komd.CFKOMD().fit(komd.read(pairs)))
    posted = [{"user_id": "x7", "item_id": 10}, {"user_id": 4, "item_id": "ten"}, {"user_id": 4, "item_id": 30}]
    service.post("/v1/events", {"events": posted})
    assert caught_up(learned, service)
    assert service.get("/v1/learning")["skipped"] == 2
    assert [row["item_id"] for row in service.get("/v1/users/x7")["items"]] == ["10"]  # served by what was posted
    assert_same(learned.published, komd.CFKOMD().fit(komd.read([(1, 10), (1, 20), (2, 10), (2, 30), (3, 20), (4, 30)])))


def valued_model():
    """Weights, times and dislikes."""
    times = [1_700_000_000 + 86_400 * k for k in range(len(PAIRS) + 2)]
    table = pa.table(
        {
            "user": [user for user, _ in PAIRS] + ["ana", "bo"],
            "item": [item for _, item in PAIRS] + ["i4", "i1"],
            "rating": [5.0] * len(PAIRS) + [1.0, 1.0],
            "plays": [float(1 + k % 3) for k in range(len(PAIRS) + 2)],
            "time": times,
        }
    )
    data = komd.read(table, rating="rating", weight="plays", time="time", liked=4, disliked=2, time_unit="s")
    return komd.CFKOMD(half_life="30d", dislikes_weight=1.0).fit(data)


def test_the_models_history_and_the_stored_one_are_the_same_events(learning):
    """What is known of a user is the same before and after events are learned: joining them twice changes nothing."""
    learned, service = learning(valued_model())
    users = ["ana", "bo", "cy", "dee", "eve"]
    events = [
        {"user_id": "ana", "item_id": "i1", "weight": 7, "time": "2024-01-01T00:00:00Z"},
        {"user_id": "ana", "item_id": "i2", "kind": "withdrawn"},
        {"user_id": "ana", "item_id": "i4", "time": "2024-01-02T00:00:00Z"},  # which the model has as a dislike
        {"user_id": "bo", "item_id": "i2", "kind": "disliked"},
        {"user_id": "bo", "item_id": "i1", "kind": "withdrawn"},
        {"user_id": "cy", "item_id": "i1", "time": "2020-01-01T00:00:00Z"},  # the model's time is later
        {"user_id": "dee", "item_id": "i1", "weight": 0.5},
        {"user_id": "dee", "item_id": "i3", "kind": "disliked"},
        {"user_id": "eve", "item_id": "i3", "kind": "disliked"},
    ]
    service.post("/v1/events", {"events": events})

    def known():
        histories = [service.client.get(f"/v1/users/{user}").json() for user in users]
        for history in histories:
            for entry in history["items"] + history["disliked"]:
                del entry["popularity"], entry["popularity_rank"]
        return histories

    before = known()
    assert caught_up(learned, service) and learned.state.publications == 2
    assert known() == before
    at = "2024-02-01T00:00:00Z"
    lists = learned.published.recommend(users[:4], n=5, at=at).to_arrow().to_pylist()
    for user in users[:4]:  # and so the service's lists are those of the published model
        answer = service.post("/v1/recommend", {"user_id": user, "n": 5, "at": at})
        expected = [(row["item_id"], row["score"]) for row in lists if row["user_id"] == user]
        assert [(row["item_id"], row["score"]) for row in answer["items"]] == expected


def test_a_forgotten_user_who_came_back_has_the_new_events_alone(learning):
    learned, service = learning()
    learned.events.forget("ana").result(20)
    assert service.get("/v1/users/ana", 404)  # still in the model, and not used
    service.post("/v1/events", {"events": [{"user_id": "ana", "item_id": "i4"}]})
    assert [row["item_id"] for row in service.get("/v1/users/ana")["items"]] == ["i4"]
    assert caught_up(learned, service)
    assert [row["item_id"] for row in service.get("/v1/users/ana")["items"]] == ["i4"]
    assert learned.published.catalogue.histories.row(learned.published.catalogue.users.number("ana")).tolist() == (
        learned.published.catalogue.find_items(["i4"], "error").tolist()
    )
    answer = service.post("/v1/recommend", {"user_id": "ana", "n": 3})
    library = learned.published.recommend(["ana"], n=3).to_arrow().to_pylist()
    assert [row["item_id"] for row in answer["items"]] == [row["item_id"] for row in library]


def test_a_damaged_publication_is_refused_and_the_old_model_stays(learning):
    learned, service = learning()
    before = service.get("/v1/model")["version"]
    damaged = learned.folder.with_name("damaged.json")
    damaged.write_text("{")
    damaged.replace(learned.publication.model / "manifest.json")  # at once: it is refused once
    assert until(lambda: 'komd_model_refusals_total{arm="main"} 1.0' in service.client.get("/v1/metrics").text)
    assert service.get("/v1/model")["version"] == before
    learned.post(("dee", "i1"))
    assert caught_up(learned, service)
    assert_same(learned.published, fitted([*PAIRS, ("dee", "i1")]))


def test_a_table_of_items_that_cannot_be_used_does_not_stop_learning(learning, tmp_path, caplog):
    items = tmp_path / "items.csv"
    items.write_text("id,name,genre\ni1,One,Comedy\ni2,Two,Drama\n")
    learned, service = learning(items=items, filters={"fun": {"genre": "Comedy"}})
    for k, table in enumerate(["id,name\ni1,Other\n", "id\n", None]):  # without the column, no table, no file
        if table is None:
            items.unlink()
        else:
            whole = items.with_name("whole.csv")
            whole.write_text(table)
            whole.replace(items)  # at once: it is refused once
        for user in ("dee", "eve"):
            learned.post((f"{user}{k}", "i1"))
            assert caught_up(learned, service), table
        assert [
            row["item_id"] for row in service.post("/v1/recommend", {"history": ["i2"], "filters": ["fun"]})["items"]
        ]
    warnings = [record.getMessage() for record in caplog.records if "names are refused" in record.getMessage()]
    assert len(warnings) == 3 and "filters.fun: the table of items has no column 'genre'" in warnings[0]
    assert not any(str(tmp_path) in words for words in warnings)
    items.write_text("id,name,genre\ni1,The First,Comedy\n")
    assert until(lambda: service.get("/v1/items/i1")["name"] == "The First")


def test_a_worker_that_starts_while_a_model_is_published(learned):
    """It has loaded the new model, of which nothing is said yet."""
    before = learned.state
    learned.post(("dee", "i1"))
    learned.learner._model.take_in(learned.learner._follower.next_batch(learned.learner._model))
    version = learned.publication.write_model(learned.learner._model.view())
    watcher = ModelWatcher(learned.folder, None, learned.publication)
    assert watcher.current.version == version != before.version
    assert watcher.learned.seq == watcher.learned.unlearned_seq == 0 and watcher.release == before.base
    learned.publication.write_state(before._replace(version=version, seq=2))
    watcher.refresh()
    assert watcher.learned.seq == 2


def test_unlearning_is_waited_for_until_the_deadline_of_the_request(learning, monkeypatch):
    monkeypatch.setattr("komd.serve.api._UNLEARN_SECONDS", 1e9)
    # Nobody learns. The store has forgotten the user long before the deadline, also on a busy machine.
    _, service = learning(limits=Limits(request_seconds=2))
    answer = service.client.delete("/v1/users/ana")
    assert answer.status_code == 202 and answer.json()["unlearned"] is False


def test_settings_that_are_refused(learned):
    for wrong, words in (({"learn_seconds": -1.0}, "between 0 and a day"), ({"learn_events": 0}, "at least 1, got 0")):
        with pytest.raises(KomdError, match=words):
            replace(learned.settings, **wrong).check()


# ---- models that shrink, and candidates -------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [False, True])
def test_a_model_that_lost_most_of_its_users_is_not_learned_from(tmp_path, caplog, allowed):
    learned = Learned(tmp_path, allow_shrink=allowed)
    try:
        learned.post(("dee", "i1"))
        learned.learner.step()
        fitted([("ana", "i1"), ("ana", "i2")]).save(learned.folder)
        learned.learner.step()
        assert ("it has 1 users and 2 items where the model in use has 4 and 5" in caplog.text) != allowed
        assert ("bo" in learned.published.catalogue.users) != allowed
        assert ("less than half" in learned.state.refused) != allowed
        if not allowed:  # a learner that is started again refuses it as well
            with pytest.raises(KomdError, match="less than half"):
                Learner(learned.settings, learned.events, learned.publication)
            watcher = ModelWatcher(learned.folder, None, learned.publication)
            assert watcher.refusals == 1 and "--allow-shrink" in watcher.refused()
            learned.fitted.save(learned.folder)  # the old one again
            learned.learner.step()
            assert watcher.refused() == "" and watcher.refusals == 1
    finally:
        learned.events.close()


def test_most_users_may_be_unlearned(learned):
    for user in ("ana", "bo", "secret-user-9731"):
        learned.events.forget(user).result(20)
    learned.learner.step()
    assert list(learned.published.catalogue.users) == list(komd.load(learned.folder).catalogue.users) == ["cy"]
    Learner(learned.settings, learned.events, learned.publication)
    learned.post(("dee", "i9"))
    learned.learner.step()
    assert len(learned.published.catalogue.users) == 2


def test_what_was_decided_of_a_candidate_holds_when_users_are_unlearned(tmp_path, monkeypatch):
    learned = Learned(tmp_path, candidate=tmp_path / "m.komd", share=0.5)  # the settings of a candidate's learner
    try:
        states = ExperimentStates(learned.events, 0.5)
        first = learned.state.base
        states.change(first, lambda state: state._replace(decision="dropped"))
        learned.events.forget("ana").result(20)
        learned.learner.step()
        assert learned.state.base != first and states.read(learned.state.base).decision == "dropped"
        with monkeypatch.context() as patch:  # the store fails when the folder is saved already
            patch.setattr(ExperimentStates, "change", lambda *_: (_ for _ in ()).throw(StoreError("gone")))
            second = learned.state.base
            learned.events.forget("bo").result(20)
            learned.learner.step()
        assert "bo" not in komd.load(learned.folder).catalogue.users
        assert learned.state.base == second  # workers are not told of the new one yet
        learned.learner._retry_at = 0.0
        learned.learner.step()
        third = learned.state.base
        assert third != second and states.read(third).decision == "dropped"
        interrupted = states.renewed(learned.state.base)
        interrupted.__enter__()  # killed after the folder was saved, before the state was carried over
        komd.load(learned.folder).update(removed_users=["cy"]).save(learned.folder)
        learner = Learner(learned.settings, learned.events, learned.publication)
        learner.step()
        assert states.read(learned.state.base).decision == "dropped"
    finally:
        learned.events.close()
