"""Ten minutes of everything at once: learning, new models, a candidate, a store that is restarted, and load.

    python -m benchmarks.serve soak [MINUTES]

wrk posts histories, which need no store: none of them may fail. Beside it clients of `komd.client` read lists of users,
post events that name them, withdraw some, forget users and say what is available. They try again what is answered
503, as the service asks them to: after that nothing may fail, and every event that was acknowledged must be there at
the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import komd
from benchmarks.measure import machine, movielens
from benchmarks.serve.load import Service, load
from komd.client import Client, ServiceError

MINUTES = 10.0
RATE = 100  # histories a second
CLIENTS = 3
PAUSE = 0.1  # seconds between two requests of a client
NEW_MODEL, RESTART, DECISION = 30.0, 60.0, 45.0  # seconds between two models, restarts of the store, shares
SHARES = (0.1, 0.5, 0.3)

SECTION = """
## {minutes:g} minutes of everything

{machine}; {data}; `komd serve --learn --candidate … --share 30%` with {store}. Every
{new_model:g} s a new model is saved over the main one, every {decision:g} s the candidate's share is changed, half-way
the candidate is promoted and another one takes its place{restarts_told}.

- {rate} histories a second, which need no store: **{requests:,} requests, {failed} failed**; p50 {p50:.2f} ms, p99
  {p99:.1f} ms.
- {clients} clients that read lists of users, post events, withdraw some of them, forget users and change what is
  available, and try again what is answered 503: **{asked:,} requests, {client_failed} failed**. Of {events:,}
  acknowledged events {lost} were missing at the end.
- {models} models were saved and {published} published by the learner, {restarts} times the store was restarted, and the
  report at the end has {impressions:,} impressions of {releases} releases.
- Resident memory of the worker: {before:.0f} MB after warm-up, {after:.0f} MB at the end, {highest:.0f} MB at most.
"""


def section(found: dict[str, Any]) -> str:
    """The part of the page."""
    told = f", and every {RESTART:g} s the store is restarted" if found["restarts"] else ""
    return SECTION.format(**found, restarts_told=told)


def measure(files_of: Callable[[Any, Path], dict[str, Path]], minutes: float = MINUTES) -> dict[str, Any]:
    """Run it; `files_of(model, folder)` writes the histories."""
    source, plays = movielens()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = [komd.CFKOMD(regularization=value).fit(plays) for value in (0.01, 0.02)]
        models[0].save(folder / "model.komd")
        models[1].save(folder / "candidate.komd")
        file = files_of(models[0], folder)["strangers"]
        database = stack.enter_context(_database())
        store = f"sqlite:///{folder / 'events.db'}" if database is None else database.address
        more = ("--learn", "--candidate", str(folder / "candidate.komd"), "--share", "30%", "--store", store)
        key = ("--forget-key-file", str(folder / "key"))
        service = stack.enter_context(Service.komd(folder / "model.komd", folder / "unused.db", *more, *key))
        stop = threading.Event()
        tasks = [_Saving(folder, models), _Deciding(service.port, folder, models, 30 * minutes), _Watching(service)]
        if database is not None:
            tasks.append(_Restarting(database))
        users = [_Using(service.port, models[0], k) for k in range(CLIENTS)]
        for each in (*tasks, *users):
            each.begin(stop)
        try:
            load(service.port, file, rate=RATE, seconds=35, seed=1)  # a new model and learning belong to the warm-up
            tasks[2].memory.clear()
            found: dict[str, Any] = dict(load(service.port, file, rate=RATE, seconds=60 * minutes, seed=2))
        finally:
            stop.set()
            for each in (*tasks, *users):
                each.join()
        saving, deciding, watching = tasks[:3]
        with Client(f"http://127.0.0.1:{service.port}", retries=10) as client:
            lost = sum(user.missing(client) for user in users)
            report = client.report()["releases"]
            published = int(_metric(client.metrics(), "komd_learner_publications"))
    memory = np.array(watching.memory) / 1e6
    edge = max(1, len(memory) // 10)
    return found | {
        "machine": machine(),
        "data": source,
        "store": "SQLite" if database is None else "PostgreSQL",
        "minutes": minutes,
        "rate": RATE,
        "clients": CLIENTS,
        "new_model": NEW_MODEL,
        "decision": DECISION,
        "asked": sum(user.asked for user in users),
        "client_failed": sum(user.failed for user in users) + deciding.failed,
        "events": sum(len(user.acknowledged) for user in users),
        "lost": lost,
        "models": saving.done,
        "published": published,
        "restarts": 0 if database is None else tasks[3].done,
        "impressions": sum(each["impressions"] for each in report),
        "releases": len({each["release"] for each in report}),
        "before": float(np.median(memory[:edge])),
        "after": float(np.median(memory[-edge:])),
        "highest": float(memory.max()),
    }


def _metric(text: str, name: str) -> float:
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " ")), 0.0)


class _Task(threading.Thread):
    """Something that is done again and again until the end."""

    every = 1.0

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = self.failed = 0

    def begin(self, stop: threading.Event) -> None:
        self._stop_event = stop
        self.start()

    def run(self) -> None:
        while not self._stop_event.wait(self.every):
            self.step()
            self.done += 1

    def step(self) -> None:
        raise AssertionError


class _Saving(_Task):
    every = NEW_MODEL

    def __init__(self, folder: Path, models: list[Any]) -> None:
        super().__init__()
        self._folder, self._models = folder, models

    def step(self) -> None:
        self._models[(self.done + 1) % 2].save(self._folder / "model.komd")


class _Deciding(_Task):
    every = DECISION

    def __init__(self, port: int, folder: Path, models: list[Any], half: float) -> None:
        super().__init__()
        self._client = Client(f"http://127.0.0.1:{port}", retries=10, timeout=60)
        self._folder, self._models = folder, models
        self._half, self._promoted = time.monotonic() + 35 + half, False

    def step(self) -> None:
        try:
            if not self._promoted and time.monotonic() > self._half:
                self._promoted = True
                self._client.promote_candidate()
                self._models[0].save(self._folder / "candidate.komd")
            elif self._client.candidate()["state"] == "serving":
                self._client.share_candidate(SHARES[self.done % len(SHARES)])
        except ServiceError as error:
            print("deciding:", error, flush=True)
            self.failed += 1


class _Watching(_Task):
    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service
        self.memory: list[float] = []

    def step(self) -> None:
        self.memory.append(self._service.memory())


class _Using(_Task):
    """A client with users of its own."""

    every = PAUSE

    def __init__(self, port: int, model: Any, number: int) -> None:
        super().__init__()
        self._client = Client(f"http://127.0.0.1:{port}", retries=10, timeout=60)
        self._rng = np.random.default_rng(number)
        self._users = [str(1_000_000 + 1000 * number + k) for k in range(50)]  # of the model's kind, else not learned
        self._known = [str(model.catalogue.users[k]) for k in range(number, 3000, CLIENTS)]
        self._items = [str(item) for item in model.catalogue.items]
        self.asked = 0
        self.acknowledged: Counter[tuple[str, str]] = Counter()

    def step(self) -> None:
        user = str(self._rng.choice(self._users))
        try:
            self._act(user, int(self._rng.integers(100)))
        except ServiceError as error:
            print("client:", error, flush=True)
            self.failed += 1

    def _act(self, user: str, dice: int) -> None:
        self.asked += 1
        if dice < 35:
            self._client.recommend(str(self._rng.choice(self._known)))
        elif dice < 90:
            shown = self._client.recommend(user)
            self.asked += 1
            item = shown["items"][0]["item_id"]
            event = {"user_id": user, "item_id": item, "type": "like", "recommendation_id": shown["recommendation_id"]}
            (event_id,) = self._client.post_events([event])["event_ids"]
            if dice >= 85:
                self.asked += 1
                self._client.withdraw_event(event_id)
            else:
                self.acknowledged[user, item] += 1
        elif dice < 98:
            item = str(self._rng.choice(self._items))
            self._client.set_available([{"item_id": item, "available": bool(dice % 2)}])
        else:
            self._client.forget_user(user)
            for pair in [pair for pair in self.acknowledged if pair[0] == user]:
                del self.acknowledged[pair]

    def missing(self, client: Client) -> int:
        """How many acknowledged events are not in the histories of their users."""
        found = 0
        for user in {pair[0] for pair in self.acknowledged}:
            held = {entry["item_id"] for entry in client.user(user)["items"]}
            found += sum(pair[0] == user and pair[1] not in held for pair in self.acknowledged)
        self._client.close()
        return found


class _Database:
    """A PostgreSQL server of our own, on a socket file."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self.address = f"postgresql://komd@/postgres?host={folder}"
        who = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}  # the server refuses to be root
        if who:
            shutil.chown(folder, "postgres", "postgres")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._how: dict[str, Any] = {"cwd": folder, "check": True, "timeout": 120, **quiet, **who}
        initdb = [programs / "initdb", "-D", folder / "data", "-U", "komd", "-A", "trust", "-E", "UTF8"]
        subprocess.run(initdb, **self._how)
        self.control("start")

    def control(self, what: str) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder}"
        words = ["-D", self._folder / "data", "-w", "-m", "fast", "-l", self._folder / "log", "-o", options, what]
        subprocess.run([self._programs / "pg_ctl", *words], **self._how)


class _Restarting(_Task):
    every = RESTART

    def __init__(self, database: _Database) -> None:
        super().__init__()
        self._database = database

    def step(self) -> None:
        self._database.control("restart")


@contextlib.contextmanager
def _database() -> Iterator[_Database | None]:
    """A server, if PostgreSQL is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    own = shutil.which("initdb")
    if not found and own is None:
        yield None
        return
    programs = found[-1].parent if found else Path(own or "").parent
    folder = Path(tempfile.mkdtemp(prefix="komd-soak-"))
    database = _Database(programs, folder)
    try:
        yield database
    finally:
        database.control("stop")
        shutil.rmtree(folder, ignore_errors=True)
