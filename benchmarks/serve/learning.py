"""Latency of reads while events are posted, without and with learning, in alternating turns."""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import komd
from benchmarks.measure import machine, movielens
from benchmarks.serve.load import Service, load, raise_priority

READS = 100  # a second
EVENTS = 200  # a second, in posts of ten
SECONDS = 10
WARM = 3
TURNS = 8
_POSTED = 10

SECTION = """
## While learning

{machine}; {data}; {reads} reads a second (three posted histories for each user
id), while {events} events a second are posted to the same service, of known users and items and of new users. The two
services take turns of {seconds} s, {turns} each{raised}. {publications} models were
published, each with a K of {megabytes:.0f} MB; at the end of a turn the oldest event that the model in use had not
learned was {behind:.1f} s old (median; at most {most_behind:.1f} s).

| reads | quietest turn: p50 | p99 | p99.9 | median turn: p50 | p99 | failed |
| --- | --- | --- | --- | --- | --- | --- |
{rows}
"""


def section(found: dict[str, Any]) -> str:
    """The part of the page."""
    return SECTION.format(**found, rows="\n".join(_row(name, found[name]) for name in ("without", "with")))


def _row(name: str, one: dict[str, Any]) -> str:
    quiet, median = one["quietest"], one["median"]
    cells = [*(quiet[key] for key in ("p50", "p99", "p999")), median["p50"], median["p99"]]
    words = {"without": "without learning", "with": "**with `--learn`**"}[name]
    return f"| {words} | {' | '.join(f'{cell:.1f} ms' for cell in cells)} | {one['failed']} |"


def measure(files_of: Any) -> dict[str, Any]:
    """Both services in alternating turns; `files_of(model, folder)` writes the requests."""
    source, plays = movielens()
    raised = raise_priority()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = komd.CFKOMD().fit(plays)
        services, turns = {}, {"without": [], "with": []}  # type: ignore[var-annotated]
        file = files_of(model, folder)["reads"]
        behind = []
        for name, more in (("without", []), ("with", ["--learn"])):
            model.save(folder / f"{name}.komd")
            services[name] = Service.komd(folder / f"{name}.komd", folder / f"{name}.db", *more)
        with services["without"], services["with"]:
            for turn in range(TURNS):
                for name, service in services.items():
                    stop = threading.Event()
                    posting = threading.Thread(target=_post, args=(service.port, model, turn, stop))
                    posting.start()
                    try:
                        load(service.port, file, rate=READS, seconds=WARM, seed=turn)
                        turns[name].append(load(service.port, file, rate=READS, seconds=SECONDS, seed=10 + turn))
                        if name == "with":
                            behind.append(_gauge(service.port, "komd_learning_behind_seconds"))
                    finally:
                        stop.set()
                        posting.join()
                    print(name, {key: turns[name][-1][key] for key in ("p50", "p99", "p999", "max")}, flush=True)
            publications = int(_gauge(services["with"].port, "komd_learner_publications"))
    found: dict[str, Any] = {
        "machine": machine(),
        "data": source,
        "reads": READS,
        "events": EVENTS,
        "seconds": SECONDS,
        "turns": TURNS,
        "raised": raised,
        "publications": publications,
        "megabytes": model.held.bytes / 1e6,
        "behind": float(np.median(behind)),
        "most_behind": max(behind),
    }
    for name, results in turns.items():
        found[name] = {
            "quietest": min(results, key=lambda one: one["p99"]),
            "median": {key: float(np.median([one[key] for one in results])) for key in ("p50", "p99", "p999")},
            "failed": int(sum(one["failed"] for one in results)),
        }
    return found


def _post(port: int, model: Any, seed: int, stop: threading.Event) -> None:
    """Post events at a steady rate until told to stop."""
    rng = np.random.default_rng(seed)
    users, items = [str(user) for user in model.catalogue.users], [str(item) for item in model.catalogue.items]
    users += [str(10**6 + k) for k in range(200)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        due += _POSTED / EVENTS
        pairs = zip(rng.integers(len(users), size=_POSTED), rng.integers(len(items), size=_POSTED), strict=True)
        body = json.dumps({"events": [{"user_id": users[u], "item_id": items[i]} for u, i in pairs]})
        connection.request("POST", "/v1/events", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"events were answered {answer.status}")
    connection.close()


def _gauge(port: int, name: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/v1/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))
