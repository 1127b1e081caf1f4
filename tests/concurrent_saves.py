"""Rounds of saves and loads at the same time in one folder: afterwards it holds one of the models whole.

    python tests/concurrent_saves.py 200

In each round two to eight savers, processes or threads, save one model or several into a new or existing folder while
two loaders load from it; in some rounds a saver is killed. Run by tests/test_store.py with few rounds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import komd


class Round:
    """One round: who saves what where, and what a load must find."""

    def __init__(self, path: Path, models: list[komd.CFKOMD], lists: dict[str, object]) -> None:
        self.path, self.models, self.lists = path, models, lists

    def load(self) -> None:
        """Load once; it must be one of the models, to the last number."""
        found = komd.load(self.path)
        model = next(m for m in self.models if m.text == found.text)
        assert (found.S == model.S).all()
        assert (found.matrix.values == model.matrix.values).all()

    def load_while(self, going) -> int:
        """Load again and again; returns how often."""
        loads = 0
        while going():
            if (self.path / "manifest.json").exists():
                self.load()
                loads += 1
        return loads

    def by_threads(self, savers: int) -> int:
        with ThreadPoolExecutor(savers + 2) as pool:
            saves = [pool.submit(self.models[k % len(self.models)].save, self.path) for k in range(savers)]
            loads = [pool.submit(self.load_while, lambda: not all(s.done() for s in saves)) for _ in range(2)]
            for each in saves:
                each.result()
            return sum(each.result() for each in loads)

    def by_processes(self, savers: int, kill: bool, rng: random.Random) -> int:
        saves = [fork(lambda k=k: self.models[k % len(self.models)].save(self.path) or 0) for k in range(savers)]
        parent = os.getpid()
        loads = [
            fork(lambda: min(self.load_while(lambda: os.getppid() == parent and going.exists()), 100)) for _ in "ab"
        ]
        if kill:
            time.sleep(rng.random() * 0.05)
            os.kill(saves[0], signal.SIGKILL)
        for k, child in enumerate(saves):
            _, status = os.waitpid(child, 0)
            assert status == 0 or (kill and k == 0), f"saver {k} ended with {status}"
        going.unlink()
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in loads]
        going.touch()
        assert all(0 <= code <= 100 for code in codes), codes
        return sum(codes)

    def check(self) -> str:
        """The folder holds one model whole, and nothing else."""
        self.load()
        found = komd.load(self.path)
        assert found.recommend(n=5, threads=1).to_arrow().equals(self.lists[found.text])
        manifest = json.loads((self.path / "manifest.json").read_text())
        named = sorted(["manifest.json", *(entry["file"] for entry in manifest["files"].values())])
        return "" if sorted(p.name for p in self.path.iterdir()) == named else "leftovers"


def fork(work) -> int:
    child = os.fork()
    if child == 0:
        code = 101
        try:
            code = work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(code)
    return child


def main(rounds: int) -> None:
    """All rounds, each with another mixture."""
    global going
    data = komd.generate(users=60, items=50, activity=6, rng=3)
    models = [komd.CFKOMD(regularization=0.01 * k).fit(data, threads=1) for k in range(1, 9)]
    lists = {m.text: m.recommend(n=5, threads=1).to_arrow() for m in models}
    rng = random.Random(0)
    loads = killed = 0
    with tempfile.TemporaryDirectory() as folder:
        going = Path(folder) / "going"
        going.touch()
        for number in range(rounds):
            path = Path(folder) / f"m{number}"
            savers = rng.randint(2, 8)
            some = models[: rng.choice([1, savers])]
            if rng.random() < 0.5:
                some[0].save(path)
            this = Round(path, some, lists)
            processes, kill = number % 2 == 0, rng.random() < 0.3
            loads += this.by_processes(savers, kill, rng) if processes else this.by_threads(savers)
            killed += processes and kill
            left = this.check()
            assert not left or (processes and kill), left
            some[-1].save(path)  # and whatever a killed saver left is gone with the next save
            assert not this.check()
    print(f"{rounds} rounds, {loads} loads during saves, {killed} savers killed: always one whole model")


if __name__ == "__main__":
    main(int(sys.argv[1]))
