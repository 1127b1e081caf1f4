"""The learner as a process of its own: beside one worker or two, killed, stopped, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest

import komd
from benchmarks.learn_kills import killed
from komd.errors import InputError
from komd.serve.publication import publication_folder
from komd.serve.serve_settings import Settings
from komd.serve.server_process import run
from tests.budget import repeats
from tests.serve.conftest import Command, connected, until
from tests.serve.test_store_updates import assert_same

KILLS = int(os.environ.get("KOMD_LEARN_KILLS", repeats(2, 3)))


@pytest.fixture
def folder(shop, tmp_path):
    return shutil.copytree(shop / "shop.komd", tmp_path / "m.komd")


def learner_of(process):
    found = [one for one in psutil.Process(process).children() if any("learner_process" in w for w in one.cmdline())]
    return found[0] if found else None


def asked(service, path, times=12):
    """Over a connection each, so that every worker is asked."""
    found = []
    for _ in range(times):
        with connected(service.client.base_url, timeout=30) as client:
            found.append(client.get(path).json())
    return found


def test_two_workers_follow_and_a_learner_that_is_killed_is_started_again(folder, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["serve", folder, "--learn", "--learn-seconds", 0.1, "--port", 0, "--workers", 2]
    service = Command(*words, KOMD_STORE=f"sqlite:///{tmp_path / 'e.db'}", TMPDIR=str(scratch)).wait()
    base = komd.load(folder)
    catalogue = base.catalogue
    pairs = {
        (catalogue.users[u], catalogue.items[int(catalogue.order[i])])
        for u in range(len(catalogue.users))
        for i in catalogue.histories.row(u).tolist()
    }

    def post(*posted):
        body = {"events": [{"user_id": user, "item_id": item} for user, item in posted]}
        assert service.client.post("/v1/events", json=body).json()["new"] == len(posted)
        pairs.update(posted)

    def all_follow():
        return until(lambda: all(about["behind"] is False for about in asked(service, "/v1/learning")))

    try:
        others = [catalogue.users[k] for k in range(3)]
        post(*((user, "brand-new") for user in others), ("visitor", "brand-new"))
        assert all_follow()
        assert {about["popularity"] for about in asked(service, "/v1/items/brand-new")} == {4}
        (published,) = scratch.glob("komd-learn-*/model.komd")
        assert_same(komd.load(published), base.clone().fit(komd.read(sorted(pairs))))
        old = learner_of(service.process.pid)
        old.kill()
        post(("visitor", catalogue.items[3]))
        assert all_follow()
        assert learner_of(service.process.pid).pid != old.pid
        assert_same(komd.load(published), base.clone().fit(komd.read(sorted(pairs))))
        gone = service.client.delete("/v1/users/visitor")
        assert gone.status_code == 200 and gone.json()["unlearned"] is True
        assert all_follow()
        rest = sorted(pair for pair in pairs if pair[0] != "visitor")
        assert_same(komd.load(published), base.clone().fit(komd.read(rest)))
        seq = service.client.get("/v1/learning").json()["stored_seq"]
        assert until(lambda: f"komd_learned_seq {seq}.0" in service.client.get("/v1/metrics").text)
    finally:
        _, _, errors = service.stop()
    assert "Traceback" not in errors, errors
    assert "the learner ended with code -9; it is started again" in errors
    assert not list(scratch.iterdir()), list(scratch.iterdir())  # nothing is left behind


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_learner_ends_with_the_service(folder, tmp_path, how):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["serve", folder, "--learn", "--port", 0]
    service = Command(*words, KOMD_STORE=f"sqlite:///{tmp_path / 'e.db'}", TMPDIR=str(scratch)).wait()
    learner = learner_of(service.process.pid)
    assert service.client.get("/v1/learning").json()["learning"]
    _, _, errors = service.stop(how)
    assert "Traceback" not in errors, errors
    assert until(lambda: not learner.is_running())
    assert until(lambda: not list(scratch.iterdir()))


def test_killed_again_and_again(tmp_path):
    """Everything at once, or the learner alone: nothing acknowledged is lost, and the model equals a fit."""
    found = killed(tmp_path, KILLS, workers=1)
    assert found["kills"] == KILLS and found["acknowledged pairs"] > 0


def test_models_that_cannot_learn_are_refused_before_anything_starts(small, tmp_path):
    komd.EASE().fit(small).save(tmp_path / "e.komd")
    settings = Settings(model=tmp_path / "e.komd", store=f"sqlite:///{tmp_path / 'e.db'}", port=0, learn=True)
    with pytest.raises(InputError, match="EASE cannot be updated, so it cannot learn while it serves"):
        run(settings)


def test_folders_of_killed_services_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, running, other = (
        tmp_path / name for name in (f"komd-learn-{ended.pid}-x1", f"komd-learn-{os.getpid()}-x2", "komd-learn-notes")
    )
    for each in (left, running, other):
        each.mkdir()
    with publication_folder() as folder:
        assert folder.parent == tmp_path and folder.stat().st_mode & 0o077 == 0
        assert not left.exists() and running.exists() and other.exists()
    assert not folder.exists()
