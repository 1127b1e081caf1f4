"""A new model takes the place of the old one without a request noticing; a broken one does not."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import komd
from komd.errors import ModelFileError
from komd.serve.hot_reload import ModelWatcher
from tests.serve.conftest import connected, same_lists


@pytest.fixture
def folder(shop, tmp_path):
    return shutil.copytree(shop / "shop.komd", tmp_path / "watcher.komd")


def other_data():
    return komd.generate(users=80, items=70, activity=8, tastes=4, rng=9)


def until(condition, seconds=20):
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_models_come_and_go_under_load(settings, serving, folder):
    """Four clients ask all the time while the model changes eight times, by itself or when told: no request fails."""
    service = serving(replace(settings, model=folder, watch_seconds=0.1))
    first, second = komd.load(folder), komd.CFKOMD(kernel="linear").fit(other_data())
    history = [first.catalogue.items[3]]
    stop, bad, versions = threading.Event(), [], set()

    def ask():
        with connected(service.address) as client:
            while not stop.is_set():
                answer = client.post("/v1/recommend", json={"history": history, "user_id": None, "n": 3})
                if answer.status_code != 200 or len(answer.json()["items"]) != 3:
                    bad.append(answer.text)
                else:
                    versions.add(answer.json()["model"])

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        for k in range(8):
            (second if k % 2 == 0 else first).save(folder)
            if k % 3 == 0:
                service.client.post("/v1/model/reload").raise_for_status()
            assert until(lambda k=k: service.get("/v1/model")["items"] == (70 if k % 2 == 0 else 90))
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert bad == []
    assert len(versions) == 2
    assert until(lambda: counted(service, "komd_model_reloads_total") >= 8)


def counted(service, name, arm="main"):
    lines = service.client.get("/v1/metrics").text.splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f'{name}{{arm="{arm}"}} ')), 0.0)


def test_histories_stay_when_the_model_changes(settings, serving, folder):
    service = serving(replace(settings, model=folder, watch_seconds=60))
    data = other_data()
    known, future = komd.load(folder).catalogue.items[3], data.items[0]
    service.post(
        "/v1/events", {"events": [{"user_id": "ana", "item_id": known}, {"user_id": "ana", "item_id": future}]}
    )
    old = {entry["item_id"]: entry["in_model"] for entry in service.get("/v1/users/ana")["items"]}
    new = komd.CFKOMD().fit(data)
    new.save(folder)
    assert service.client.post("/v1/model/reload").json()["items"] == 70
    shown = {entry["item_id"]: entry["in_model"] for entry in service.get("/v1/users/ana")["items"]}
    assert set(shown) == set(old) == {known, future} and shown[future]
    united = [item for item, there in shown.items() if there]
    answer = service.post("/v1/recommend", {"user_id": "ana", "n": 5})
    assert [row["item_id"] for row in answer["items"]] == new.recommend(histories={"x": united}, n=5).items("x")


def break_manifest(folder):
    (folder / "manifest.json").write_text("{")


def break_array(folder):
    name = json.loads((folder / "manifest.json").read_text())["files"]["S"]["file"]
    content = (folder / name).read_bytes()
    (folder / "fresh").write_bytes(content[:-8] + b"\x00" * 8)
    (folder / "fresh").replace(folder / name)


def remove_array(folder):
    name = json.loads((folder / "manifest.json").read_text())["files"]["S"]["file"]
    (folder / name).unlink()


def remove_all(folder):
    shutil.rmtree(folder)


def stranger_to_strangers(folder):
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"CFKOMD()"', '"BPR()"'))


@pytest.mark.parametrize("damage", [break_manifest, break_array, remove_array, remove_all, stranger_to_strangers])
def test_a_broken_model_is_refused_and_the_old_one_stays(settings, serving, folder, shop, damage):
    service = serving(replace(settings, model=folder, watch_seconds=0.1))
    before = service.get("/v1/model")
    ask = {"history": [komd.load(folder).catalogue.items[3]], "explain": True}
    answer = service.post("/v1/recommend", ask)
    damage(folder)
    refused = service.client.post("/v1/model/reload")
    assert refused.status_code == 409 and "the old model stays" in refused.json()["detail"]
    assert not re.search(r"(?<!\w)/", refused.json()["detail"])  # where the folder lies is not told
    assert until(lambda: counted(service, "komd_model_refusals_total") >= 1)
    time.sleep(0.3)
    assert service.get("/v1/model") == before and same_lists(service.post("/v1/recommend", ask), answer)
    assert service.get("/v1/ready")
    shutil.rmtree(folder, ignore_errors=True)  # mended: it is taken up without being told
    shutil.copytree(shop / "numbers.komd", folder)
    assert until(lambda: service.get("/v1/model")["version"] != before["version"])


def test_what_cannot_be_served_does_not_start(folder, tmp_path):
    with pytest.raises(ModelFileError, match="no model at"):
        ModelWatcher(tmp_path / "none.komd")
    stranger_to_strangers(folder)
    with pytest.raises(ModelFileError):
        ModelWatcher(folder)


def test_models_of_known_users_only_are_refused(tmp_path, small):
    pytest.importorskip("implicit")
    komd.BPR(factors=2, iterations=1).fit(small).save(tmp_path / "bpr.komd")
    with pytest.raises(ModelFileError, match="BPR serves only the users it was fitted on"):
        ModelWatcher(tmp_path / "bpr.komd")


def test_the_same_model_again_is_not_loaded_again(folder):
    watcher = ModelWatcher(folder)
    komd.load(folder).save(folder)  # the same bytes in new files
    assert not watcher.refresh() and watcher.reloads == 0
    watcher.reload()  # but when told
    assert watcher.reloads == 1


def test_a_link_that_is_changed(shop, tmp_path):
    link = tmp_path / "current.komd"
    link.symlink_to(shop / "shop.komd")
    watcher = ModelWatcher(link)
    assert not watcher.refresh()
    old = watcher.current
    link.unlink()
    link.symlink_to(shop / "numbers.komd")
    assert watcher.refresh() and watcher.current is not old and watcher.reloads == 1
    assert not watcher.refresh()


def test_new_names_are_loaded(shop, tmp_path):
    names = shutil.copy(shop / "names.tsv", tmp_path / "names.tsv")
    watcher = ModelWatcher(shop / "numbers.komd", names)
    index = watcher.current.names.index
    watcher.reload()
    assert watcher.current.names.index is index  # nothing changed: the index is kept
    names.write_text("id\tname\n10\tAnother Name Altogether\n")
    assert watcher.refresh()
    number = int(watcher.current.item_numbers(["10"])[0])
    assert watcher.current.search("altogether", 5).tolist() == [number]
    names.write_text("id\n")
    assert not watcher.refresh() and watcher.refusals == 1
    assert watcher.current.item_names(np.array([number])) == ["Another Name Altogether"]


def test_names_are_kept_while_the_items_are_the_same(shop, tmp_path):
    """Popularity changes the inside numbers, not the index; search follows the popularity."""
    pairs = [(f"u{k}", item) for k, item in enumerate(["song a", "song a", "song a", "song b", "song b", "song c"])]
    komd.ECFOMD().fit(komd.read(pairs)).save(tmp_path / "m.komd")
    watcher = ModelWatcher(tmp_path / "m.komd")
    index, labels = watcher.current.names.index, watcher.current.names.labels

    def found():
        return watcher.current.item_texts(watcher.current.search("song", 5))

    assert found() == ["song a", "song b", "song c"]
    komd.ECFOMD().fit(komd.read(pairs + [(f"v{k}", "song c") for k in range(5)])).save(tmp_path / "m.komd")
    assert watcher.refresh() and found() == ["song c", "song a", "song b"]
    assert watcher.current.names.index is index and watcher.current.names.labels is labels
    assert watcher.current.item_names(np.arange(3)) == found()
    assert watcher.current.item_numbers(["song b", "song d"]).tolist() == [2, -1]
    komd.ECFOMD().fit(komd.read([*pairs, ("v", "song d")])).save(tmp_path / "m.komd")
    assert watcher.refresh() and "song d" in found() and watcher.current.names.index is not index


def test_a_model_that_lost_most_of_its_users_or_items_is_refused(settings, serving, folder):
    service = serving(replace(settings, model=folder, watch_seconds=0.1))
    before = service.get("/v1/model")
    for users, items in ((74, 90), (150, 44)):
        komd.CFKOMD().fit(komd.generate(users=users, items=items, activity=6, tastes=3, rng=1)).save(folder)
        held = komd.load(folder).catalogue
        told = f"it has {len(held.users)} users and {len(held.items)} items where the model in use has 150 and 90"
        refused = service.client.post("/v1/model/reload")
        assert refused.status_code == 409 and told in refused.json()["detail"]
        assert "--allow-shrink" in refused.json()["detail"]
    assert until(lambda: counted(service, "komd_model_refusals_total") >= 2)
    assert service.get("/v1/model") == before and counted(service, "komd_model_reloads_total") == 0
    komd.CFKOMD().fit(komd.generate(users=75, items=90, activity=20, tastes=3, rng=1)).save(folder)
    assert until(lambda: service.get("/v1/model")["users"] == 75)  # half of the users is enough


def test_a_model_may_shrink_when_it_is_allowed(folder):
    watcher = ModelWatcher(folder, allow_shrink=True)
    komd.CFKOMD().fit(komd.generate(users=20, items=10, activity=5, tastes=2, rng=1)).save(folder)
    assert watcher.refresh() and len(watcher.current.catalogue.users) == 20
    assert watcher.refusals == 0


def test_the_log_says_why_a_model_that_shrank_is_refused(folder, caplog):
    watcher = ModelWatcher(folder)
    komd.CFKOMD().fit(komd.generate(users=20, items=10, activity=5, tastes=2, rng=1)).save(folder)
    assert not watcher.refresh() and not watcher.refresh() and watcher.refusals == 1
    assert "the new model is refused" in caplog.text and "it has 20 users and 10 items where" in caplog.text
    assert "--allow-shrink" in caplog.text


def test_names_that_came_with_a_refused_model_are_loaded_with_the_old_one(shop, tmp_path):
    folder = shutil.copytree(shop / "numbers.komd", tmp_path / "numbers.komd")
    names = shutil.copy(shop / "names.tsv", tmp_path / "names.tsv")
    watcher = ModelWatcher(folder, names)
    komd.CFKOMD().fit(komd.read([(1, 10), (1, 17), (2, 10)])).save(folder)
    names.write_text("id\tname\n10\tAnother Name Altogether\n")
    assert not watcher.refresh() and watcher.refusals == 1  # it shrank
    komd.load(shop / "numbers.komd").save(folder)
    assert watcher.refresh()
    number = watcher.current.item_numbers(["10"])
    assert watcher.current.item_names(number) == ["Another Name Altogether"]
