"""Latency of small requests of one client, without and with eight clients that ask for as much as is allowed.

    python -m benchmarks.serve fairness

Clients are told apart by their addresses: the small requests come from 127.0.0.1, the large ones from 127.0.0.2 and so
on. The large ones run in a process of their own, so that they take no time of the client that is measured.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import komd
from benchmarks.measure import machine, movielens
from benchmarks.serve.load import Service, load, raise_priority

RATE = 50  # small requests a second
SECONDS = 10
WARM = 3
TURNS = 6
CLIENTS = 8

SECTION = """
## Beside greedy clients

{machine}; {data}; one client posts histories of about 20 items, {rate} a second at
random moments, in {turns} turns of {seconds} s without and {turns} with {clients} other clients{raised}.
Each of those asks without pause for as much as is allowed, and for more: histories of 2,000 items with lists of 1,000,
allow lists of 20,000 ids, 50 items with 100 reasons each, batches of 40 and 256 users.

| small requests | quietest turn: p50 | p99 | median turn: p50 | p99 | failed |
| --- | --- | --- | --- | --- | --- |
{rows}

The 99th percentile is {ratio:.1f} times as long with them (median turns; at most {limit:g} times is the goal). The
greedy clients were answered {answers}.
"""
LIMIT = 5.0


def section(found: dict[str, Any]) -> str:
    """The part of the page."""
    words = {"without": "alone", "with": f"**with {found['clients']} greedy clients**"}
    answers = ", ".join(f"{count:,} times {status}" for status, count in sorted(found["answers"].items()))
    rows = "\n".join(_row(words[name], found[name]) for name in words)
    return SECTION.format(**found | {"answers": answers}, rows=rows, limit=LIMIT)


def _row(words: str, one: dict[str, Any]) -> str:
    quiet, median = one["quietest"], one["median"]
    cells = [quiet["p50"], quiet["p99"], median["p50"], median["p99"]]
    return f"| {words} | {' | '.join(f'{cell:.1f} ms' for cell in cells)} | {one['failed']} |"


def measure(files_of: Any, turns: int = TURNS, seconds: float = SECONDS) -> dict[str, Any]:
    """Both kinds of turns on one service; `files_of(model, folder)` writes the small requests."""
    source, plays = movielens()
    raised = raise_priority()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = komd.CFKOMD().fit(plays)
        model.save(folder / "model.komd")
        file = files_of(model, folder)["strangers"]
        (folder / "greedy").write_text(json.dumps(greedy_bodies([str(item) for item in model.catalogue.items])))
        taken: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
        answers: Counter[str] = Counter()
        with Service.komd(folder / "model.komd", folder / "events.db") as service:
            for turn in range(turns):
                for name, results in taken.items():
                    others = None if name == "without" else Greedy(service.port, folder / "greedy")
                    load(service.port, file, rate=RATE, seconds=WARM, seed=turn)
                    results.append(load(service.port, file, rate=RATE, seconds=seconds, seed=10 + turn))
                    if others is not None:
                        answers.update(others.stop())
                    print(name, {key: results[-1][key] for key in ("p50", "p99", "max", "failed")}, flush=True)
    found: dict[str, Any] = {
        "machine": machine(),
        "data": source,
        "rate": RATE,
        "turns": turns,
        "seconds": seconds,
        "clients": CLIENTS,
        "raised": raised,
        "answers": dict(answers),
    }
    for name, results in taken.items():
        found[name] = {
            "quietest": min(results, key=lambda one: one["p99"]),
            "median": {key: float(np.median([one[key] for one in results])) for key in ("p50", "p99")},
            "failed": int(sum(one["failed"] for one in results)),
        }
    return found | {"ratio": found["with"]["median"]["p99"] / found["without"]["median"]["p99"]}


# ---- the greedy clients -----------------------------------------------------------------------------------------


def greedy_bodies(items: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The largest requests that are allowed, of several kinds: (path, body)."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> list[str]:
        return [items[k] for k in rng.permutation(len(items))[:count].tolist()]

    allowed = [*items, *(f"unknown {k}" for k in range(20_000 - len(items)))][:20_000]
    batch = [{"history": drawn(40), "n": 1000} for _ in range(256)]
    return [
        ("/v1/recommend", {"history": drawn(2000), "n": 1000}),
        ("/v1/recommend", {"history": drawn(2000), "n": 1000, "items": allowed}),
        ("/v1/recommend", {"history": drawn(2000), "n": 50, "explain": True, "reasons": 100}),
        ("/v1/recommend/batch", {"requests": batch}),
        ("/v1/recommend/batch", {"requests": [{"history": drawn(2000), "n": 1000} for _ in range(40)]}),
    ]


class Greedy:
    """The greedy clients, in a process of their own."""

    def __init__(self, port: int, bodies: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.serve.fairness", str(port), str(bodies)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> dict[str, int]:
        """End them; how many answers had which status."""
        out, _ = self._process.communicate("stop\n", timeout=120)
        return dict(json.loads(out))


def ask_for_much(port: int, bodies: list[tuple[str, dict[str, Any]]], clients: int, stop: threading.Event) -> Any:
    """Ask without pause from `clients` addresses until told to stop; how many answers had which status."""
    sent = [(path, json.dumps(body).encode()) for path, body in bodies]
    counts: Counter[str] = Counter()

    def client(number: int) -> None:
        own = ("127.0.0.1", port, f"127.0.0.{2 + number}")
        turn = number
        while not stop.is_set():
            path, body = sent[turn % len(sent)]
            turn += 1
            status, pause = _ask(own, path, body)
            counts[status] += 1
            stop.wait(pause)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def _ask(own: tuple[str, int, str], path: str, body: bytes) -> tuple[str, float]:
    """The status of the answer, and how long to wait: a client that is told to come later does, a tenth of the time."""
    connection = http.client.HTTPConnection(own[0], own[1], timeout=60, source_address=(own[2], 0))
    try:
        connection.request("POST", path, body, {"content-type": "application/json", "host": "127.0.0.1"})
        answer = connection.getresponse()
        answer.read()
        return str(answer.status), 0.1 * float(answer.headers.get("retry-after", 0))
    except OSError as error:
        return type(error).__name__, 0.1
    finally:
        connection.close()


def main(port: str, file: str) -> None:
    stop = threading.Event()
    waiting = threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True)
    waiting.start()
    print(json.dumps(ask_for_much(int(port), json.loads(Path(file).read_text()), CLIENTS, stop)))


if __name__ == "__main__":
    main(*sys.argv[1:])
