"""Two models side by side: who is served by which, and how the candidate is promoted or dropped."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import komd
from komd.errors import InputError, KomdError, ModelFileError
from komd.serve.app import check
from komd.serve.candidate_masks import ItemRules
from komd.serve.event_store import EventStore
from komd.serve.model_arms import CandidateError, ModelArms, fraction_of, watchers
from komd.serve.recommendation_id import recommendation_of
from komd.serve.schemas import Ask
from komd.serve.serve_settings import Settings
from komd.serve.server_process import run
from komd.serve.service import Service
from tests.budget import repeats
from tests.serve.conftest import Command, connected, same_lists, until
from tests.serve.test_store_updates import assert_same

NEW_ITEM = "only the candidate's"
KILLS = int(os.environ.get("KOMD_PROMOTE_KILLS", repeats(2, 3)))


@pytest.fixture(scope="module")
def fitted(shop):
    """The shop's model, and one with other parameters, one user and one item more."""
    main = komd.load(shop / "shop.komd")
    catalogue = main.catalogue
    pairs = [
        (catalogue.users[u], catalogue.items[int(catalogue.order[i])])
        for u in range(len(catalogue.users))
        for i in catalogue.histories.row(u).tolist()
    ]
    pairs += [(catalogue.users[k], NEW_ITEM) for k in range(60)] + [("newcomer", NEW_ITEM)]
    return main, komd.CFKOMD(kernel="linear", regularization=0.5).fit(komd.read(pairs))


@pytest.fixture
def both(shop, fitted, tmp_path):
    """The settings of a service with both models in folders of its own."""
    shutil.copytree(shop / "shop.komd", tmp_path / "main.komd")
    fitted[1].save(tmp_path / "new.komd")
    lines = ["id,name,colour", f"{NEW_ITEM},The Newest,blue", f"{fitted[0].catalogue.items[4]},Fourth,red"]
    (tmp_path / "names.csv").write_text("\n".join(lines) + "\n")
    return Settings(
        model=tmp_path / "main.komd",
        store=f"sqlite:///{tmp_path / 'events.db'}",
        items=tmp_path / "names.csv",
        candidate=tmp_path / "new.komd",
        share=0.5,
        watch_seconds=0.1,
    )


def arm_of(user, share):
    """The slow twin: the first 53 bits of the hash, as a binary fraction."""
    bits = "".join(f"{byte:08b}" for byte in hashlib.sha256(b"komd candidate\0" + user.encode()).digest())[:53]
    return "candidate" if sum(int(bit) / 2 ** (k + 1) for k, bit in enumerate(bits)) < share else "main"


# ---- assignment -----------------------------------------------------------------------------------------------


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
@examples(max_examples=200, deadline=None)
def test_who_is_in_a_share_is_in_every_larger_one(user, one, other):
    low, high = sorted((one, other))
    place = fraction_of(user)
    assert place == fraction_of(user) and 0 <= place < 1
    assert not place < low or place < high
    with suppress(UnicodeEncodeError):  # a lone surrogate has no UTF-8
        assert (place < one) == (arm_of(user, one) == "candidate")


def test_shares_are_what_they_say():
    places = [fraction_of(f"user {k}") for k in range(20_000)]
    for share in (0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 1.0):
        found = sum(place < share for place in places) / len(places)
        assert abs(found - share) <= 5 * (share * (1 - share) / len(places)) ** 0.5  # five standard deviations
    assert fraction_of("ana") != fraction_of("bo")


# ---- lists ----------------------------------------------------------------------------------------------------


def test_every_user_gets_the_lists_of_their_model(both, serving, fitted):
    service = serving(both)
    models = dict(zip(("main", "candidate"), fitted, strict=True))
    users = list(fitted[0].catalogue.users)[::3]
    versions, counts = {}, {"main": 0, "candidate": 0}
    asks = [{"user_id": user, "n": 6, "explain": True, "reasons": 100} for user in users]
    batch = service.post("/v1/recommend/batch", {"requests": asks})["answers"]
    for user, ask, answer in zip(users, asks, batch, strict=True):
        arm = arm_of(user, 0.5)
        assert answer["arm"] == arm
        versions.setdefault(arm, set()).add(answer["model"])
        expected = models[arm].recommend(user, n=6).to_arrow().to_pylist()
        assert [(row["item_id"], row["score"]) for row in answer["items"]] == [
            (row["item_id"], row["score"]) for row in expected
        ]
        why = answer["items"][0]["why"]
        told = models[arm].explain(user, expected[0]["item_id"])
        assert why["global_term"] == pytest.approx(told.global_term, abs=1e-12)
        assert same_lists(answer, service.post("/v1/recommend", ask))
        short = service.get(f"/v1/users/{user}/recommendations", n=6)
        assert (short["arm"], [row["item_id"] for row in short["items"]]) == (
            arm,
            [row["item_id"] for row in expected],
        )
        counts[arm] += 3
    assert min(counts.values()) > 0
    assert all(len(found) == 1 for found in versions.values()) and versions["main"] != versions["candidate"]
    assert service.get("/v1/model")["version"] in versions["main"]
    shown = [f'komd_recommendations_total{{arm="{arm}"}} {count}.0' for arm, count in counts.items()]
    assert until(lambda: all(line in service.client.get("/v1/metrics").text for line in shown))
    text = service.client.get("/v1/metrics").text
    assert "komd_candidate_share 0.5" in text
    assert 'komd_model_loaded_timestamp_seconds{arm="candidate"}' in text


def test_sessions_and_items_that_only_the_candidate_knows(both, serving, fitted):
    service = serving(both)
    inside = next(f"s{k}" for k in range(100) if arm_of(f"s{k}", 0.5) == "candidate")
    outside = next(f"s{k}" for k in range(100) if arm_of(f"s{k}", 0.5) == "main")
    history = [fitted[0].catalogue.items[3], NEW_ITEM]
    ask = {"history": history, "n": 90}
    main = service.post("/v1/recommend", ask)
    assert main["arm"] == "main" and main["unknown_items"] == [NEW_ITEM]
    assert same_lists(service.post("/v1/recommend", ask | {"session_id": outside}), main)
    line = 'komd_recommendations_total{arm="unassigned"} 1.0'  # the one without a session
    assert until(lambda: line in service.client.get("/v1/metrics").text)
    answer = service.post("/v1/recommend", ask | {"session_id": inside})
    assert answer["arm"] == "candidate" and answer["unknown_items"] == []
    assert [row["item_id"] for row in answer["items"]] == fitted[1].recommend(histories={"x": history}, n=90).items("x")
    shown = service.post("/v1/recommend", {"history": history[:1], "n": 91, "session_id": inside})["items"]
    (row,) = (row for row in shown if row["item_id"] == NEW_ITEM)
    assert row["name"] == "The Newest" and row["details"] == {"colour": "blue"} and row["popularity"] == 61
    lists = service.post(
        "/v1/recommend/batch",
        {"requests": [ask | {"session_id": inside}, ask, {"user_id": inside, "items": [NEW_ITEM]}]},
    )["answers"]
    assert same_lists(lists[0], answer) and same_lists(lists[1], main)
    assert lists[2]["arm"] == "candidate" and [row["item_id"] for row in lists[2]["items"]] == [NEW_ITEM]
    assert service.get(f"/v1/items/{NEW_ITEM}", 404)  # items are those of the main model
    assert service.post("/v1/recommend", ask | {"session_id": ""}, 422)
    number = next(k for k in range(100) if arm_of(str(k), 0.5) == "candidate")
    assert service.post("/v1/recommend", ask | {"session_id": number})["arm"] == "candidate"


# ---- decisions ------------------------------------------------------------------------------------------------


class Worker(ModelArms):
    """What a worker has, in this process."""

    def __init__(self, settings):
        self.events = EventStore(settings.store, key_file=settings.key_file)
        super().__init__(settings, watchers(settings, ItemRules()), self.events)

    def refresh(self):
        for arm in self.all:
            arm.watcher.refresh()
        self.follow()


@pytest.fixture
def worker(both):
    started = []

    def start(**changes):
        started.append(Worker(replace(both, **changes)))
        return started[-1]

    yield start
    for each in started:
        each.events.close()


def test_workers_share_what_was_decided_and_it_survives(worker, store):
    changes = {"store": store}
    first, second = worker(**changes), worker(**changes)
    assert first.share == second.share == 0.5
    first.set_share(0.25)
    second.follow()
    assert first.share == second.share == worker(**changes).share == 0.25
    second.drop()
    first.follow()
    assert first.share == second.share == worker(**changes).share == 0.0
    assert first.state()[1].decision == "dropped"
    with pytest.raises(CandidateError, match="was dropped; give it a share again"):
        first.promote()
    first.set_share(0.75)
    second.follow()
    assert second.share == 0.75 and worker(**changes).share == 0.75
    again = worker(**changes, share=0.125)  # started with another share: that one holds
    first.follow()
    assert again.share == first.share == 0.125
    again.drop()
    assert worker(**changes, share=0.9).share == 0.0  # a new share does not bring back what was dropped


def test_another_model_begins_another_experiment(worker, both, fitted):
    first, second = worker(), worker()
    first.drop()
    second.refresh()
    assert second.share == 0
    komd.CFKOMD(kernel="linear").fit(fitted_data(fitted[1])).save(both.candidate)
    second.refresh()
    assert second.share == 0.5 and second.state()[1].decision == "serving"
    first.follow()
    assert first.share == 0  # it has not loaded the new one yet
    first.refresh()
    assert first.share == 0.5
    fitted[1].save(both.candidate)  # the one that was dropped
    first.refresh()
    assert first.share == 0 and worker().share == 0


def fitted_data(model):
    catalogue = model.catalogue
    return komd.read(
        [
            (catalogue.users[u], catalogue.items[int(catalogue.order[i])])
            for u in range(len(catalogue.users))
            for i in catalogue.histories.row(u).tolist()
        ]
    )


def test_the_updates_of_a_candidate_are_promoted_with_it(worker, both, fitted):
    """They are in the journal of its folder; the experiment is the same one, before and after them."""
    first = worker()
    first.set_share(0.25)
    added = ("newcomer", fitted[0].catalogue.items[7])
    komd.update(both.candidate, added=[added])
    assert list(both.candidate.glob("journal-*.log"))
    first.refresh()
    assert first.share == 0.25 and first.candidate.watcher.reloads == 1
    first.promote()
    assert_same(komd.load(both.model), komd.load(both.candidate))
    updated = first.main.watcher.current
    assert updated.item_numbers([added[1]])[0] in updated.learned_row(added[0]).items


def test_users_stay_with_the_candidate_until_the_main_model_is_loaded(worker, both, fitted):
    first, second = worker(), worker()
    first.promote()
    assert first.share == 0 and first.main.watcher.current.model.text == fitted[1].text
    second.follow()
    assert second.share == 0.5 and second.main.watcher.current.model.text == fitted[0].text
    second.refresh()
    assert second.share == 0 and second.main.watcher.current.model.text == fitted[1].text
    assert worker().share == 0
    assert_same(komd.load(both.model), fitted[1])
    for decision in (first.promote, lambda: second.set_share(0.1)):
        with pytest.raises(CandidateError, match="was promoted, it is the main model now"):
            decision()
    fitted[0].save(both.model)  # back to the old one: what was promoted does not serve again
    second.refresh()
    assert second.share == 0 and second.main.watcher.current.model.text == fitted[0].text


def test_promoting_again_after_an_interruption(worker, both, monkeypatch):
    """The model was saved, and what was decided was not."""
    first = worker()
    with monkeypatch.context() as patch:
        patch.setattr(first._states, "change", lambda *_: (_ for _ in ()).throw(KomdError("interrupted")))
        with pytest.raises(KomdError, match="interrupted"):
            first.promote()
    second = worker()
    assert second.share == 0.5 and second.state()[1].decision == "serving"
    second.promote()
    first.refresh()
    assert first.share == second.share == 0 and first.state()[1].decision == "promoted"


def test_what_is_answered(both, serving, running):
    service = serving(both)
    about = service.get("/v1/candidate")
    assert about["state"] == "serving" and about["share"] == 0.5 and about["users"] == 75
    assert about["model"].startswith("CFKOMD(kernel='linear'") and about["since"] <= time.time()
    put = service.client.put("/v1/candidate", json={"share": 0.25})
    assert put.status_code == 200 and put.json()["share"] == 0.25
    for bad in ({"share": 1.5}, {"share": "x"}, {}, {"share": 0.1, "more": 1}):
        assert service.client.put("/v1/candidate", json=bad).status_code == 422
    assert service.client.delete("/v1/candidate").json()["state"] == "dropped"
    assert service.get("/v1/candidate")["share"] == 0
    refused = service.client.post("/v1/candidate/promote")
    assert refused.status_code == 409 and "dropped" in refused.json()["detail"]
    assert both.candidate.is_dir()
    # a service without a candidate
    assert running.get("/v1/candidate") == {
        "state": "none", "model": None, "version": None, "share": 0, "users": 0, "since": None
    }  # fmt: skip
    for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/promote")):
        answer = running.client.request(method, "/v1/candidate" + path, json={"share": 1} if method == "PUT" else None)
        assert answer.status_code == 409 and "there is no candidate" in answer.json()["detail"]


def test_a_folder_that_cannot_be_written(both, serving, monkeypatch):
    service = serving(both)
    monkeypatch.setattr("komd.files.write_aside", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "disk is full")))
    refused = service.client.post("/v1/candidate/promote")
    words = refused.json()["detail"]
    assert refused.status_code == 409 and "disk is full" in words and str(both.model.parent) not in words
    assert service.get("/v1/candidate")["state"] == "serving"


# ---- models that lost most of their items or users --------------------------------------------------------------


def tiny():
    return komd.CFKOMD().fit(komd.generate(users=60, items=80, activity=9, tastes=5, rng=3))


def test_a_small_candidate_is_refused(both, worker):
    tiny().save(both.candidate)
    plain = replace(both, items=None)
    words = "the candidate cannot be used: it has 60 users and 80 items where the model in use has 150 and 90: less"
    with pytest.raises(ModelFileError, match=words):
        check(plain)
    check(replace(plain, allow_shrink=True))
    started = worker(items=None, allow_shrink=True)
    started._settings = plain  # as if it had been started without the option
    with pytest.raises(ModelFileError, match="start the service with --allow-shrink"):
        started.promote()
    assert len(komd.load(both.model).catalogue.users) == 150
    started._settings = replace(plain, allow_shrink=True)
    started.promote()
    assert len(komd.load(both.model).catalogue.users) == 60


# ---- before it starts -----------------------------------------------------------------------------------------


def test_what_is_refused_before_it_starts(both, small, tmp_path):
    with pytest.raises(InputError, match="the candidate is the model itself"):
        replace(both, candidate=both.model.parent / "." / both.model.name).check()
    with pytest.raises(ModelFileError, match="the candidate cannot be used: no model at"):
        run(replace(both, candidate=tmp_path / "none.komd", port=0))
    komd.EASE().fit(fitted_data(komd.load(both.model))).save(tmp_path / "ease.komd")
    with pytest.raises(InputError, match="EASE cannot be updated, so it cannot learn while it serves"):
        run(replace(both, items=None, candidate=tmp_path / "ease.komd", port=0, learn=True))


# ---- real processes -------------------------------------------------------------------------------------------


def asked(service, path, times=12):
    """Over a connection each, so that every worker is asked."""
    found = []
    for _ in range(times):
        with connected(service.client.base_url, timeout=30) as client:
            found.append(client.get(path).json())
    return found


def test_two_workers_promote(both, fitted):
    words = ["serve", both.model, "--candidate", both.candidate, "--share", "50%", "--port", 0, "--workers", 2]
    service = Command(*words, KOMD_STORE=both.store).wait()
    user = next(user for user in fitted[0].catalogue.users if arm_of(user, 0.4) == "candidate")
    lists = {model: fitted[model].recommend(user, n=10).items(user) for model in (0, 1)}
    assert lists[0] != lists[1]
    failed, stop = [], threading.Event()

    def ask():
        """The user gets the candidate's list all the time: of the one arm, then of the other."""
        while not stop.is_set():
            with connected(service.client.base_url, timeout=30) as client:
                answer = client.get(f"/v1/users/{user}/recommendations")
                if answer.status_code != 200 or [row["item_id"] for row in answer.json()["items"]] != lists[1]:
                    failed.append(answer.text)

    client = threading.Thread(target=ask)
    try:
        assert {about["share"] for about in asked(service, "/v1/candidate")} == {0.5}
        assert service.client.put("/v1/candidate", json={"share": 0.4}).json()["share"] == 0.4
        assert until(lambda: {about["share"] for about in asked(service, "/v1/candidate")} == {0.4})
        client.start()
        assert service.client.post("/v1/candidate/promote").json()["state"] == "promoted"
        path = f"/v1/users/{user}/recommendations"
        assert until(lambda: {about["arm"] for about in asked(service, path)} == {"main"})
        assert until(lambda: {about["model"] for about in asked(service, "/v1/model")} == {fitted[1].text})
        decided = {("promoted", 0)}  # a worker reads the decision a moment after it has loaded the model
        assert until(lambda: {(at["state"], at["share"]) for at in asked(service, "/v1/candidate")} == decided)
    finally:
        stop.set()
        if client.ident:
            client.join()
        _, _, errors = service.stop()
    assert failed == [] and "Traceback" not in errors, errors
    service = Command("serve", both.model, "--port", 0, KOMD_STORE=both.store).wait()  # without --candidate
    try:
        assert service.client.get("/v1/model").json()["model"] == fitted[1].text
    finally:
        service.stop()


def promote(service):
    with suppress(httpx.HTTPError):
        service.client.post("/v1/candidate/promote")


def test_killed_while_promoting(both, fitted):
    """The main folder has the old model or the new one, whatever the moment; promoting again succeeds."""
    words = ["serve", both.model, "--candidate", both.candidate, "--port", 0]
    for k in range(KILLS):
        service = Command(*words, KOMD_STORE=both.store).wait()
        before, seen = set(both.model.iterdir()), set()
        promotion = threading.Thread(target=promote, args=[service])
        promotion.start()
        while promotion.is_alive() and len(seen) < 6 * k:  # so many files were written
            seen |= set(both.model.iterdir()) - before
        service.stop(signal.SIGKILL)
        promotion.join()
        found = komd.load(both.model)
        assert_same(found, fitted[1] if found.text == fitted[1].text else fitted[0])
    service = Command(*words, KOMD_STORE=both.store).wait()
    try:
        if service.client.get("/v1/candidate").json()["state"] != "promoted":
            assert service.client.post("/v1/candidate/promote").status_code == 200
        assert service.client.get("/v1/candidate").json()["state"] == "promoted"
        assert service.client.get("/v1/model").json()["model"] == fitted[1].text
    finally:
        service.stop()
    assert_same(komd.load(both.model), fitted[1])


def test_both_models_learn_and_unlearn(both, fitted, tmp_path):
    """With --learn each has a learner; what was decided stays when the folders are saved without a forgotten user."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["serve", both.model, "--candidate", both.candidate, "--share", "50%", "--learn", "--learn-seconds", 0.1]
    service = Command(*words, "--port", 0, "--workers", 2, KOMD_STORE=both.store, TMPDIR=str(scratch)).wait()
    gone, *others = [user for user in fitted[0].catalogue.users if arm_of(user, 0.4) == "candidate"][:4]
    try:
        assert service.client.put("/v1/candidate", json={"share": 0.4}).status_code == 200
        versions = {folder: komd.store.manifest_text(folder) for folder in (both.model, both.candidate)}
        body = {"events": [{"user_id": user, "item_id": "brand-new"} for user in (gone, *others)]}
        assert service.client.post("/v1/events", json=body).status_code == 200

        def all_learned():
            found = asked(service, "/v1/learning")
            return not any(about["behind"] or about["candidate"]["behind"] for about in found)

        assert until(all_learned)
        answer = service.client.delete(f"/v1/users/{gone}")
        assert answer.status_code == 200 and answer.json()["unlearned"] is True
        published = sorted(scratch.glob("komd-learn-*/model.komd"))
        assert len(published) == 2
        for folder in (both.model, both.candidate, *published):
            catalogue = komd.load(folder).catalogue
            assert gone not in catalogue.users and others[0] in catalogue.users
            assert ("brand-new" in catalogue.items) == (folder in published)
        assert all(komd.store.manifest_text(folder) != before for folder, before in versions.items())
        about = service.client.get("/v1/learning").json()
        assert about["unlearned_seq"] == about["candidate"]["unlearned_seq"] == answer.json()["seq"]
        assert about["model"] != about["candidate"]["model"]
        time.sleep(1.5)  # two looks at what was decided
        assert {found["share"] for found in asked(service, "/v1/candidate")} == {0.4}
        path = f"/v1/users/{others[0]}/recommendations"
        assert {found["arm"] for found in asked(service, path)} == {"candidate"}
        base = komd.load(both.candidate)
        assert service.client.post("/v1/candidate/promote").status_code == 200
        assert_same(komd.load(both.model), base)
        assert until(lambda: {found["arm"] for found in asked(service, path)} == {"main"})
        assert {found["model"] for found in asked(service, "/v1/model")} == {fitted[1].text}
        assert until(all_learned)
        items = {row["item_id"]: row for row in service.client.get("/v1/items", params={"q": "brand"}).json()["items"]}
        assert items["brand-new"]["popularity"] == 3
    finally:
        _, _, errors = service.stop()
    assert "Traceback" not in errors and "refused" not in errors, errors
    assert not list(scratch.iterdir())


def test_a_list_belongs_to_the_release_that_made_it(worker, both, fitted):
    """Also if another model is loaded before a batch is done."""
    arms = worker(items=None)
    service = Service(arms, arms.events, both, ItemRules())
    release = arms.main.watcher.release
    answers = service.answers([Ask(history=[], n=1), Ask(history=[], n=2)])
    next(answers)
    fitted[1].save(both.model)
    arms.main.watcher.reload()
    assert arms.main.watcher.release != release
    _, second = next(answers)
    assert recommendation_of(second["recommendation_id"]).release == release
    assert {key.release for key in service.impressions.take()} == {release}
