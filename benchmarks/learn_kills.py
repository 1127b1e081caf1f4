"""A learning service, killed again and again under load: `python -m benchmarks.learn_kills [--kills 50]`.

`komd serve --learn` runs with two workers while clients post events and users are forgotten. At a random moment all of
its processes are killed (SIGKILL), or the learner alone, and then the service is started again. After the last start
nothing that was acknowledged may be missing from the store, and the published model must equal, array by array, one
fitted to the first data and all stored events, without the forgotten users.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import komd
from komd.engine.saved_catalogue import catalogue_arrays
from komd.serve.event_store import EventStore

START = "from komd.cli.main import run; run()"
POSTERS = 3
WAIT = 60.0  # seconds for the service to start or to catch up


class LearningService:
    """`komd serve --learn` in a process group of its own."""

    def __init__(self, folder: Path, workers: int) -> None:
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        words = ["serve", folder / "m.komd", "--learn", "--learn-seconds", "0.2", "--port", "0", "--workers", workers]
        words += ["--store", f"sqlite:///{folder / 'events.db'}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=(folder / "log").open("a"),
            text=True,
            start_new_session=True,
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        assert self.process.stdout is not None
        line = next((line for line in self.process.stdout if "on http" in line), "")
        found = re.search(r"on (http://\S+)", line)
        assert found, (folder / "log").read_text()[-2000:]
        self.address = found[1]
        assert until(lambda: self.ask("GET", "/v1/ready")[0] == 200), "the service does not answer"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and response; 0 if there is none."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.address + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, None
        except (OSError, ValueError):
            return 0, None

    def learner(self) -> psutil.Process | None:
        """The process of the learner."""
        for one in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just ended
                if any("learner_process" in word for word in one.cmdline()):
                    return one
        return None

    def kill(self) -> None:
        """All processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """As an operator does."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def until(condition: Any, seconds: float = WAIT) -> bool:
    """Whether it comes true in time."""
    latest = time.monotonic() + seconds
    while time.monotonic() < latest:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Posted:
    """What clients posted and what was acknowledged, by pair: the last kind that was answered, and what was not."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, str], str] = {}
        self.unsure: set[tuple[str, str]] = set()
        self.forgotten: set[str] = set()
        self.lock = threading.Lock()

    def run(
        self, service: LearningService, users: list[str], items: list[str], seed: int, stop: threading.Event
    ) -> None:
        """Post until told to stop or the service is gone. Each client has users of its own, so events have an order."""
        rng = random.Random(seed)
        while not stop.is_set():
            if rng.random() < 0.02:
                self._forget(service, rng.choice(users))
                continue
            pairs = {(rng.choice(users), rng.choice(items)) for _ in range(rng.randint(1, 5))}
            kinds = {pair: rng.choice(["chosen", "chosen", "chosen", "withdrawn"]) for pair in pairs}
            body = {"events": [{"user_id": u, "item_id": i, "kind": kind} for (u, i), kind in kinds.items()]}
            status, _ = service.ask("POST", "/v1/events", body)
            with self.lock:
                if status == 200:
                    self.acknowledged |= kinds
                    self.unsure -= pairs
                else:
                    self.unsure |= pairs
                    return

    def _forget(self, service: LearningService, user: str) -> None:
        status, _ = service.ask("DELETE", f"/v1/users/{user}")
        with self.lock:
            if status in (200, 202):
                self.forgotten.add(user)
            theirs = {pair for pair in self.acknowledged if pair[0] == user}
            for pair in theirs:
                del self.acknowledged[pair]
            if status not in (200, 202):
                self.unsure |= theirs  # it may have been forgotten or not


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learn_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        found = killed(Path(made), asked.kills, asked.workers)
    print(", ".join(f"{name} {value:,}" for name, value in found.items()))


def killed(folder: Path, kills: int, workers: int) -> dict[str, int]:
    """Kill the service so often, and check; returns what was counted."""
    data = komd.generate(users=120, items=80, activity=9, tastes=5, rng=3)
    model = komd.CFKOMD().fit(data)
    model.save(folder / "m.komd")
    base = {(data.users[u], data.items[i]) for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)}
    users = [*data.users, *(f"visitor-{k}" for k in range(30))]
    items = [*data.items, *(f"novelty-{k}" for k in range(10))]
    posted, rng, whole = Posted(), random.Random(7), 0
    for kill in range(kills):
        service = LearningService(folder, workers)
        try:
            stop = threading.Event()
            parts = [users[k::POSTERS] for k in range(POSTERS)]
            clients = [
                threading.Thread(target=posted.run, args=(service, part, items, 100 * kill + k, stop))
                for k, part in enumerate(parts)
            ]
            for client in clients:
                client.start()
            time.sleep(rng.uniform(0.0, 2.0))
            learner = service.learner()
            if learner is not None and kill % 3 == 2:  # the learner alone: the service goes on, and starts another
                learner.kill()
                assert until(lambda service=service, old=learner.pid: (new := service.learner()) and new.pid != old)
                time.sleep(rng.uniform(0.0, 1.0))
            whole += 1
        finally:
            service.kill()
            stop.set()
        for client in clients:
            client.join()
    service = LearningService(folder, workers)
    try:
        assert until(lambda: service.ask("GET", "/v1/learning")[1]["behind"] is False), "it does not catch up"
        compared = check(folder, model, base, posted)
    finally:
        service.stop()
    left = list((folder / "scratch").glob("komd-learn-*"))
    assert not left, f"folders are left behind: {left}"
    shutil.rmtree(folder / "scratch")
    return {
        "kills": whole,
        "acknowledged pairs": len(posted.acknowledged),
        "forgotten users": len(posted.forgotten),
    } | compared


def check(folder: Path, model: Any, base: set[tuple[str, str]], posted: Posted) -> dict[str, int]:
    """Nothing acknowledged is lost, and the published model is that of the first data and the store."""
    store = EventStore(f"sqlite:///{folder / 'events.db'}")
    try:
        rows = {(event.user, event.item): event.kind for event in store.changes(0).events}
        forgotten = store.among_forgotten([*model.catalogue.users, *{user for user, _ in rows}, *posted.forgotten])
    finally:
        store.close()
    assert posted.forgotten <= forgotten
    for pair, kind in posted.acknowledged.items():
        if pair not in posted.unsure:
            assert rows.get(pair) == kind, f"{pair}: {kind} was acknowledged, and the store has {rows.get(pair)}"
    pairs = {pair for pair in base if pair[0] not in forgotten}
    pairs |= {pair for pair, kind in rows.items() if kind == "chosen"}
    pairs -= {pair for pair, kind in rows.items() if kind == "withdrawn"}
    expected = model.clone().fit(komd.read(sorted(pairs)))
    (published,) = (folder / "scratch").glob("komd-learn-*/model.komd")
    same(komd.load(published), expected)
    rest = {pair for pair in base if pair[0] not in forgotten}
    same(komd.load(folder / "m.komd"), model.clone().fit(komd.read(sorted(rest))))
    return {"stored pairs": len(rows), "pairs of the model": len(pairs)}


def same(model: Any, expected: Any) -> None:
    """Every array and every id, to the last bit."""
    (arrays, ids), (others, other_ids) = (catalogue_arrays(each.catalogue) for each in (model, expected))
    arrays, others = arrays | model.learned_arrays(), others | expected.learned_arrays()
    assert arrays.keys() == others.keys()
    for name in others:
        assert np.array_equal(arrays[name], others[name]), f"{name} differs"
    assert all(ids[name].equals(other_ids[name]) for name in other_ids)


if __name__ == "__main__":
    main()
