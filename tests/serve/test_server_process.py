"""The service as a process of its own: the command, its workers, and what survives kill -9."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import socket
import threading

import httpx
import psutil
import pytest
from typer.testing import CliRunner

import komd
from komd.cli.main import app
from komd.serve.serve_settings import Settings
from komd.serve.server_process import run
from tests.budget import repeats
from tests.serve.conftest import Command, connected, until

TRIES = int(os.environ.get("KOMD_KILLS", repeats(10, 50)))


def test_the_command_and_two_workers(shop, tmp_path):
    store = f"sqlite:///{tmp_path / 'e.db'}"
    words = ["serve", shop / "numbers.komd", "--items", shop / "names.tsv", "--port", 0, "--workers", 2]
    service = Command(*words, KOMD_STORE=store).wait()
    try:
        client = service.client
        started = psutil.Process(service.process.pid)
        assert until(lambda: sum("spawn_main" in " ".join(p.cmdline()) for p in started.children()) == 2)
        answers = []
        for k in range(40):  # each over a connection of its own, so that both workers are asked
            with connected(client.base_url) as one:
                item = str(7 * k + 3)
                assert one.post("/v1/events", json={"events": [{"user_id": "ana", "item_id": item}]}).json()["new"] == 1
            with connected(client.base_url) as one:
                answers.append(one.post("/v1/recommend", json={"user_id": "ana", "n": 1}).json())
            with connected(client.base_url) as one:
                assert len(one.get("/v1/users/ana").json()["items"]) == k + 1
        assert len({answer["model"] for answer in answers}) == 1
        text = client.get("/v1/metrics").text
        asked = re.findall(r'komd_requests_total\{method="POST",route="/v1/events",status="200"\} ([\d.]+)', text)
        assert [float(count) for count in asked] == [40.0]  # both workers together
        mapped = [p for p in started.children() if any("numbers.komd" in m.path for m in p.memory_maps())]
        assert len(mapped) == 2  # both read the model's own file, through the page cache they share
    finally:
        code, _, errors = service.stop()
    assert code == 0 and "Traceback" not in errors, errors


def test_the_demo_serves(tmp_path):
    service = Command("demo", "--serve", "--users", 120, "--items", 60, "--port", 0, TMPDIR=str(tmp_path)).wait()
    try:
        assert service.client.get("/v1/model").json()["items"] == 60
        assert service.client.get("/").status_code == 200
        assert service.client.get("/v1/items", params={"q": "lan"}).status_code == 200
    finally:
        code, _, errors = service.stop(signal.SIGINT)
    assert "Traceback" not in errors and code in (0, 130)
    assert not list(tmp_path.iterdir())  # nothing is left behind


def fails(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 2, result.output
    return result.stderr


def test_what_the_command_refuses(shop, tmp_path):
    model = shop / "shop.komd"
    store = ["--store", f"sqlite:///{tmp_path / 'e.db'}"]
    assert "no model at" in fails("serve", tmp_path / "none", "--port", 0, *store)
    assert "without a token file only this machine" in fails("serve", model, "--host", "0.0.0.0", *store)
    assert "No such file" in fails("serve", model, "--token-file", tmp_path / "none", *store)
    assert "a store is sqlite:///FILE" in fails("serve", model, "--port", 0, "--store", "redis://x")
    assert "no table of names" in fails("serve", model, "--port", 0, "--items", tmp_path / "none", *store)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {port}" in fails("serve", model, "--port", port, *store)


# ---- kill -9 ---------------------------------------------------------------------------------------------------


@pytest.fixture
def preloaded(shop, monkeypatch):
    monkeypatch.setenv("KOMD_PRELOADED", str(shop / "shop.komd"))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_no_acknowledged_event_is_lost_to_kill_9(shop, store, preloaded):
    """Writers write until the service is killed in the middle; what was answered is there after the next start."""
    context = multiprocessing.get_context("forkserver")  # imports once; each try is a new process all the same
    context.set_forkserver_preload(["tests.serve.preloaded"])
    rng = random.Random(5)
    items = komd.load(shop / "shop.komd").catalogue.items.values.to_pylist()
    kept: dict[str, set[str]] = {f"u{k}": set() for k in range(3)}
    tries = TRIES if store.startswith("sqlite") else max(1, TRIES // 5)
    for attempt in range(tries):
        before = sum(map(len, kept.values()))
        enough = before + rng.randint(1, 12)  # so many answers, and then in the middle of whatever it does
        port = free_port()
        settings = Settings(model=shop / "shop.komd", store=store, port=port)
        service = context.Process(target=run, args=(settings,), daemon=True)
        service.start()
        address = f"http://127.0.0.1:{port}"
        assert until(lambda address=address: answers(address)), "the service did not start"
        with connected(address, timeout=10) as client:
            for user, had in kept.items():
                if not had:
                    continue
                shown = {entry["item_id"] for entry in client.get(f"/v1/users/{user}").json()["items"]}
                assert had <= shown, f"try {attempt}: {len(had - shown)} events of {user} are lost"
        writers = [threading.Thread(target=write, args=(address, f"u{k}", attempt, items, kept)) for k in range(3)]
        for writer in writers:
            writer.start()
        assert until(lambda enough=enough: sum(map(len, kept.values())) >= enough, pause=0.001)
        os.kill(service.pid, signal.SIGKILL)
        for writer in writers:
            writer.join()
        service.join()
    assert sum(map(len, kept.values())) > tries


def answers(address):
    try:
        return httpx.get(f"{address}/v1/ready", verify=False).status_code == 200
    except httpx.TransportError:
        return False


def write(address, user, attempt, items, kept):
    """Post until the line goes dead; note what was answered."""
    with connected(address, timeout=10) as client:
        for k in range(10_000):
            item = items[k] if k < len(items) and attempt == 0 else f"{attempt}-{k}"
            try:
                answer = client.post("/v1/events", json={"events": [{"user_id": user, "item_id": item}]})
            except httpx.TransportError:
                return
            if answer.status_code == 200:
                kept[user].add(json.loads(answer.request.content)["events"][0]["item_id"])
