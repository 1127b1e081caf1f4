"""Latency beside an echo, while learning, or a soak: benchmarks/serve/*.json, and docs/results/latency.md of them."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import komd
from benchmarks.measure import ROOT, machine, movielens
from benchmarks.serve import fairness, learning, soak
from benchmarks.serve.load import Service, load

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "results" / "latency.md"
RATE = 300  # requests a second
SECONDS = 12
WARM = 3
TURNS = 6

ASKED = {
    "echo": "plain FastAPI echo",
    "strangers": "**a posted history of about 20 items**",
    "reasons": "the same, with reasons",
    "users": "a user id (about 165 items, and the database is asked)",
}
HEAD = """# How fast `komd serve` answers

Written by `python -m benchmarks.serve`, `python -m benchmarks.serve learning` and `python -m benchmarks.serve soak`.
[guide/serving.md](../guide/serving.md) describes the service.
"""
LATENCY = """
## Latency

{machine}; {data}; wrk on the same cores, {rate} requests a second at
random moments, in {turns} turns of {seconds} s. Other work shares the machine, so there are two figures: the quietest
turn (by its 99th percentile) and the median over turns. The echo is the least FastAPI can do with the same bodies.

| requests | quietest turn: p50 | p99 | median turn: p50 | p99 | failed |
| --- | --- | --- | --- | --- | --- |
{rows}

Search by name is measured in [search.md](search.md).
"""


def main(words: list[str]) -> None:
    if words[:1] == ["soak"]:
        found = soak.measure(lines, float(words[1]) if len(words) > 1 else soak.MINUTES)
        (HERE / "soak.json").write_text(json.dumps(found, indent=1) + "\n")
    elif words == ["learning"]:
        found = learning.measure(lines)
        (HERE / "learning.json").write_text(json.dumps(found, indent=1) + "\n")
    elif words == ["fairness"]:
        found = fairness.measure(lines)
        (HERE / "fairness.json").write_text(json.dumps(found, indent=1) + "\n")
    elif words != ["page"]:
        found = latency()
        (HERE / "latency.json").write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def page() -> str:
    """The page, from what has been measured."""
    parts = [HEAD]
    if (HERE / "latency.json").exists():
        found = json.loads((HERE / "latency.json").read_text())
        rows = "\n".join(_line(words, found[name]) for name, words in ASKED.items())
        parts.append(LATENCY.format(**found, rows=rows))
    if (HERE / "learning.json").exists():
        parts.append(learning.section(json.loads((HERE / "learning.json").read_text())))
    if (HERE / "fairness.json").exists():
        parts.append(fairness.section(json.loads((HERE / "fairness.json").read_text())))
    if (HERE / "soak.json").exists():
        parts.append(soak.section(json.loads((HERE / "soak.json").read_text())))
    return "".join(parts)


def _line(words: str, one: dict[str, Any]) -> str:
    quiet, median = one["quietest"], one["median"]
    cells = [f"{quiet['p50']:.2f} ms", f"{quiet['p99']:.1f} ms", f"{median['p50']:.2f} ms", f"{median['p99']:.1f} ms"]
    return f"| {words} | {' | '.join(cells)} | {one['failed']} |"


# ---- what is asked ---------------------------------------------------------------------------------------------


def lines(model: Any, folder: Path, users: int = 2000) -> dict[str, Path]:
    """Files of requests: strangers with about 20 items, the same with reasons, users; reads of both; and events too."""
    rng = np.random.default_rng(0)
    catalogue = model.catalogue
    asked: dict[str, list[tuple[str, Any]]] = {name: [] for name in ("strangers", "reasons", "users", "mixed", "reads")}
    for k in rng.choice(len(catalogue.users), users, replace=False).tolist():
        held = catalogue.item_ids(catalogue.histories.block(k, k + 1).indices).to_pylist()
        length = int(np.clip(rng.geometric(1 / 20), 1, min(len(held), 200)))
        history = [str(held[i]) for i in rng.choice(len(held), length, replace=False)]
        user = str(catalogue.users[k])
        asked["strangers"].append(("recommend", {"history": history}))
        asked["reasons"].append(("recommend", {"history": history, "explain": True}))
        asked["users"].append(("recommend", {"user_id": user}))
        some = {"events": [{"user_id": f"visitor {rng.integers(500)}", "item_id": history[0]}]}
        reads = [("recommend", {"history": history})] * 3 + [("recommend", {"user_id": user})]
        asked["reads"] += reads
        asked["mixed"] += [*reads, ("events", some)]
    files = {}
    for name, requests in asked.items():
        files[name] = folder / name
        files[name].write_text("".join(f"POST\t/v1/{path}\t{json.dumps(body)}\n" for path, body in requests))
    return files


# ---- latency ---------------------------------------------------------------------------------------------------


def latency() -> dict[str, Any]:
    source, plays = movielens()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = komd.CFKOMD().fit(plays)
        model.save(folder / "model.komd")
        files = lines(model, folder)
        contenders = {"echo": "strangers", "strangers": "strangers", "reasons": "reasons", "users": "users"}
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
        with Service.echo() as echo, Service.komd(folder / "model.komd", folder / "events.db") as service:
            for turn in range(TURNS):
                for name, file in contenders.items():
                    port = echo.port if name == "echo" else service.port
                    load(port, files[file], rate=RATE, seconds=WARM, seed=turn)
                    turns[name].append(load(port, files[file], rate=RATE, seconds=SECONDS, seed=10 + turn))
    found: dict[str, Any] = {"machine": machine(), "data": source, "rate": RATE, "turns": TURNS, "seconds": SECONDS}
    for name, results in turns.items():
        found[name] = {
            "quietest": min(results, key=lambda one: one["p99"]),
            "median": {key: float(np.median([one[key] for one in results])) for key in ("p50", "p99")},
            "failed": int(sum(one["failed"] for one in results)),
        }
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
