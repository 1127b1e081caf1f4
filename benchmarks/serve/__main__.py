"""Latency beside an echo, while learning, or a soak: benchmarks/serve/*.json, and docs/results/latency.md of them."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import komd
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine, movielens
from benchmarks.serve import fairness, learning, soak
from benchmarks.serve.load import Service, load

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "results" / "latency.md"
RATE = 300  # requests a second
SECONDS = 12
WARM = 3
TURNS = 6
SAME_LENGTH = 300  # users

# What is asked: the file of requests, what they are, and which service is asked.
CONTENDERS = {
    "echo": ("strangers", "plain FastAPI echo"),
    "strangers": ("strangers", "**a posted history of about 20 items**"),
    "reasons": ("reasons", "that history, with reasons"),
    "users": ("users", "a user id, of any user (the store is asked)"),
    "users_165": ("users_165", "**a user id, 140 to 190 items**"),
    "users_165_reasons": ("users_165_reasons", "those users, with reasons"),
    "users_500": ("users_500", "a user id, 450 to 650 items"),
    "users_500_reasons": ("users_500_reasons", "those long histories, with reasons"),
}
LIMIT_P50 = 2.5  # ms
LIMIT_RATIO = 4.0  # of the 99th percentiles of a service and of the echo
HEAD = """# How fast `komd serve` answers

Written by `python -m benchmarks.serve`, `python -m benchmarks.serve learning` and `python -m benchmarks.serve soak`.
[guide/serving.md](../guide/serving.md) describes the service.
"""
LATENCY = """
## Latency

{machine}; {data}; wrk on the same cores, {rate} requests a second at
random moments, in {turns} turns of {seconds} s. Other work shares the machine, so there are two figures: the quietest
turn (by its 99th percentile) and the median over turns. The echo is the least FastAPI can do with the same bodies.
"CPU" is the time that the process of the service takes for a request, of the turn in which that is least: other work on
the machine changes it little.{kept}

| requests | quietest turn: p50 | p99 | × echo | median turn: p50 | p99 | × echo | CPU | failed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

The goals are a p50 of at most {p50:g} ms and a p99 of at most {ratio:g} times that of the echo: {verdict}.

Search by name is measured in [search.md](search.md).
"""


def main(words: list[str]) -> None:
    if words[:1] == ["soak"]:
        found = soak.measure(lines, float(words[1]) if len(words) > 1 else soak.MINUTES)
        keep(HERE / "soak.json", found)
    elif words == ["learning"]:
        found = learning.measure(lines)
        keep(HERE / "learning.json", found)
    elif words == ["fairness"]:
        found = fairness.measure(lines)
        keep(HERE / "fairness.json", found)
    elif words != ["page"]:
        found = latency(int(words[1]) if words[:1] == ["latency"] and len(words) > 1 else TURNS)
        keep(HERE / "latency.json", found)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def page() -> str:
    """The page, from what has been measured."""
    parts = [HEAD]
    if (HERE / "latency.json").exists():
        found = json.loads((HERE / "latency.json").read_text())
        parts.append(_latency_section(found))
    if (HERE / "learning.json").exists():
        parts.append(learning.section(json.loads((HERE / "learning.json").read_text())))
    if (HERE / "fairness.json").exists():
        parts.append(fairness.section(json.loads((HERE / "fairness.json").read_text())))
    if (HERE / "soak.json").exists():
        parts.append(soak.section(json.loads((HERE / "soak.json").read_text())))
    return "".join(parts)


def _latency_section(found: dict[str, Any]) -> str:
    echo, rows, missed = found["echo"], [], []
    for name, (_, words) in CONTENDERS.items():
        if name not in found:  # measured before it was among them
            continue
        one = found[name]
        cells = []
        for turn in ("quietest", "median"):
            ratio = one[turn]["p99"] / echo[turn]["p99"]
            cells += [f"{one[turn]['p50']:.2f} ms", f"{one[turn]['p99']:.1f} ms", f"{ratio:.1f}"]
        cpu = f"{one['cpu']:.2f} ms" if "cpu" in one else "–"
        rows.append(f"| {words} | {' | '.join(cells)} | {cpu} | {one['failed']} |")
        p50, ratio = one["quietest"]["p50"], one["quietest"]["p99"] / echo["quietest"]["p99"]
        if p50 > LIMIT_P50 or ratio > LIMIT_RATIO:
            missed.append(words.strip("*"))
    verdict = (
        "in the quietest turns all meet both" if not missed else f"in the quietest turns missed by {'; '.join(missed)}"
    )
    # Figures from before weights were kept have no users of a certain length.
    kept = (
        " Users are asked for several times: their weights are kept from the first time on."
        if "users_165" in found
        else ""
    )
    return LATENCY.format(**found, kept=kept, rows="\n".join(rows), p50=LIMIT_P50, ratio=LIMIT_RATIO, verdict=verdict)


# ---- what is asked ---------------------------------------------------------------------------------------------


def lines(model: Any, folder: Path, users: int = 2000) -> dict[str, Path]:
    """Files of requests: strangers with about 20 items, the same with reasons, users; reads of both; and events too.

    And users with histories of a certain length, a few hundred of them.
    """
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
    lengths = catalogue.histories.lengths
    for name, least, most in (("users_165", 140, 190), ("users_500", 450, 650)):
        some = np.flatnonzero((lengths >= least) & (lengths <= most))[:SAME_LENGTH].tolist()
        asked[name] = [("recommend", {"user_id": str(catalogue.users[k])}) for k in some]
        asked[f"{name}_reasons"] = [(path, body | {"explain": True}) for path, body in asked[name]]
    files = {}
    for name, requests in asked.items():
        files[name] = folder / name
        files[name].write_text("".join(f"POST\t/v1/{path}\t{json.dumps(body)}\n" for path, body in requests))
    return files


# ---- latency ---------------------------------------------------------------------------------------------------


def latency(turns: int = TURNS) -> dict[str, Any]:
    source, plays = movielens()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = komd.CFKOMD().fit(plays)
        model.save(folder / "model.komd")
        files = lines(model, folder)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
        with Service.echo() as echo, Service.komd(folder / "model.komd", folder / "events.db") as service:
            for turn in range(turns):
                for name, (file, _) in CONTENDERS.items():
                    asked = echo if name == "echo" else service
                    load(asked.port, files[file], rate=RATE, seconds=WARM, seed=turn)
                    before = asked.cpu()
                    one = load(asked.port, files[file], rate=RATE, seconds=SECONDS, seed=10 + turn)
                    results[name].append(one | {"cpu": 1000 * (asked.cpu() - before) / one["requests"]})
    found: dict[str, Any] = {"machine": machine(), "data": source, "rate": RATE, "turns": turns, "seconds": SECONDS}
    for name, taken in results.items():
        found[name] = {
            "quietest": min(taken, key=lambda one: one["p99"]),
            "median": {key: float(np.median([one[key] for one in taken])) for key in ("p50", "p99")},
            "cpu": min(one["cpu"] for one in taken),
            "failed": int(sum(one["failed"] for one in taken)),
        }
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
