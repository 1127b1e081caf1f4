"""Signals and the end of the parent, with real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from tests.serve.conftest import START, Command, connected, until

A, B = "a" * 32, "b" * 32


def statuses(service, token, count=12):
    """What several connections, and so all workers, answer."""
    found = set()
    for _ in range(count):
        with connected(service.client.base_url) as one:
            found.add(one.get("/v1/model", headers={"authorization": f"Bearer {token}"}).status_code)
    return found


def workers(service):
    found = psutil.Process(service.process.pid).children()
    return {process.pid for process in found if "spawn_main" in " ".join(process.cmdline())}


@pytest.mark.parametrize("count", [1, 2])
def test_sighup_reads_tokens_and_names_again(shop, tmp_path, count):
    tokens, names = tmp_path / "tokens", tmp_path / "names.tsv"
    tokens.write_text(f"{A}\n")
    names.write_text("id\tname\n3\tOld Name\n")
    words = ["serve", shop / "numbers.komd", "--items", names, "--token-file", tokens, "--port", 0, "--workers", count]
    words += ["--learn"] if count == 1 else []
    # so rarely that nothing is noticed but by the signal
    service = Command(*words, "--watch-seconds", 3600, KOMD_STORE=f"sqlite:///{tmp_path / 'e.db'}").wait()
    try:
        if count > 1:
            assert until(lambda: len(workers(service)) == count)
        assert until(lambda: statuses(service, A) == {200})
        before = {process.pid for process in psutil.Process(service.process.pid).children()}
        tokens.write_text(f"{B}\n")
        names.write_text("id\tname\n3\tNew Name\n")
        service.process.send_signal(signal.SIGHUP)
        if count == 1:  # a terminal that is closed sends it to the learner too
            for pid in before:
                os.kill(pid, signal.SIGHUP)
        assert until(lambda: statuses(service, A) == {401} and statuses(service, B) == {200})

        def name():
            with connected(service.client.base_url, headers={"authorization": f"Bearer {B}"}) as one:
                return one.get("/v1/items/3").json()["name"]

        assert until(lambda: {name() for _ in range(12)} == {"New Name"})
        assert service.process.poll() is None  # nobody was ended
        assert {process.pid for process in psutil.Process(service.process.pid).children()} == before
    finally:
        service.stop()


def test_workers_end_with_their_parent(shop, tmp_path):
    store = f"sqlite:///{tmp_path / 'e.db'}"
    words = ["serve", shop / "shop.komd", "--port", 0, "--workers", 2]
    service = Command(*words, KOMD_STORE=store, TMPDIR=str(tmp_path)).wait()
    assert until(lambda: len(workers(service)) == 2)
    started = [psutil.Process(pid) for pid in workers(service)]
    folders = list(tmp_path.glob("komd-serve-*"))
    assert len(folders) == 1
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    try:
        assert until(lambda: not any(alive(process) for process in started), seconds=20)
    finally:
        for process in started:
            if alive(process):
                process.kill()
    assert until(lambda: not folders[0].exists())  # nothing is left behind
    service.client.close()


def alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_demo_leaves_nothing_behind(tmp_path, number):
    service = Command("demo", "--serve", "--users", 120, "--items", 60, "--port", 0, TMPDIR=str(tmp_path)).wait()
    assert list(tmp_path.glob("komd-demo-*"))
    ended, _, errors = service.stop(number)
    assert "Traceback" not in errors
    assert ended == (130 if number == signal.SIGINT else 143)
    assert not list(tmp_path.iterdir())


def test_the_demo_leaves_nothing_behind_if_it_ends_while_it_fits(tmp_path):
    words = ["demo", "--serve", "--users", "60000", "--items", "3000", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words], env=os.environ | {"TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL
    )
    try:
        assert until(lambda: list(tmp_path.glob("komd-demo-*")), seconds=60, pause=0.01)
        process.terminate()
        assert process.wait(60) == 143
        assert not list(tmp_path.iterdir())
    finally:
        process.kill()
        shutil.rmtree(tmp_path, ignore_errors=True)
