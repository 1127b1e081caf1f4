"""Appends that are killed, appends at the same time, and saves and loads meanwhile: no acknowledged record is lost.

    python tests/concurrent_appends.py 30

Four parts, each with this many rounds. An appender is killed at a random moment: what it acknowledged is there, and
the next append works. Several processes append to one folder and retry when they are superseded: every record is there
once. A saver compacts the model (saves snapshot and records as one) while others append and load: no load misses a
record that an earlier one had. A saver saves other models, and the same ones again, while others append and load: no
record is ever found with a model that it was not appended to. Run by tests/test_journal.py with few rounds.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from komd import files, journal, store


def save(path: Path, numbers: list[int]) -> None:
    """A model that is a list of numbers."""
    store.save(path, model="X()", arrays={"numbers": np.array([-1, *numbers])}, ids={})


def load(path: Path) -> tuple[list[int], store.SavedModel]:
    """The numbers of the snapshot and of the records, and where they came from."""
    saved = store.load(path)
    return [*saved.arrays["numbers"][1:].tolist(), *map(number, saved.records)], saved


def record(value: int, bulk: int = 0) -> bytes:
    return value.to_bytes(8, "little") + bytes(bulk)


def number(payload: bytes) -> int:
    assert not any(payload[8:])
    return int.from_bytes(payload[:8], "little")


def fork(work) -> int:
    child = os.fork()
    if child == 0:
        code = 101
        try:
            work()
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(code)
    return child


def join(children: list[int]) -> None:
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert not any(codes), codes


def killed(folder: Path, rounds: int, rng: random.Random) -> str:
    """One appender at a time, killed; returns what was seen."""
    path = folder / "killed"
    save(path, [])
    sent = acknowledged = torn = 0
    for _ in range(rounds):
        read, write = os.pipe()
        bulk, first = rng.choice([0, 3000, 400_000]), sent

        def work(write=write, bulk=bulk, first=first) -> None:
            saved = store.load(path)
            known = saved.tip
            for k in range(first, first + 100_000):
                known = journal.append(path, [record(k, bulk)], manifest=saved.manifest, known=known)
                os.write(write, k.to_bytes(8, "little"))

        child = fork(work)
        os.close(write)
        os.read(read, 8)  # the first one is there
        time.sleep(rng.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = first + 1
        while os.read(read, 8):
            told += 1
        os.close(read)
        found, saved = load(path)
        assert found in (list(range(told)), list(range(told + 1))), (told, found[-3:])
        acknowledged += told - first
        sent = len(found)
        known = journal.append(path, [record(sent)], manifest=saved.manifest, known=saved.tip)
        sent += 1
        assert load(path)[0] == list(range(sent))
        size = journal.size(path, saved.manifest)
        with (path / journal.journal_name(saved.manifest)).open("r+b") as file:  # an append killed while it wrote
            file.seek(0, os.SEEK_END)
            file.write(tail(rng))
            torn += 1
        assert load(path)[0] == list(range(sent))
        known = journal.append(path, [record(sent)], manifest=saved.manifest, known=known)
        sent += 1
        assert load(path)[0] == list(range(sent)) and journal.size(path, saved.manifest) > size
        if size > 4_000_000:
            save(path, list(range(sent)))
    return f"{rounds} appenders killed, {acknowledged} records acknowledged, {torn} torn tails"


def tail(rng: random.Random) -> bytes:
    """What a killed append may leave: a part of an entry, or zeros."""
    whole = b"\xf5\xc1\xabJ" + rng.randbytes(rng.randrange(1, 200))
    return rng.choice([whole, bytes(rng.randrange(1, 200))])


def retried(path: Path, value: int) -> None:
    """Append a number to whatever is there."""
    while True:
        saved = store.load(path)
        try:
            journal.append(path, [record(value)], manifest=saved.manifest, known=saved.tip)
            return
        except journal.Superseded:
            continue


def several(folder: Path, rounds: int) -> str:
    """Appenders at the same time; returns what was seen."""
    path = folder / "several"
    save(path, [])

    def work(k: int) -> None:
        for value in range(rounds):
            retried(path, k * rounds + value)

    join([fork(lambda k=k: work(k)) for k in range(4)])
    found = load(path)[0]
    assert sorted(found) == list(range(4 * rounds)), found
    for k in range(4):  # each one's in its order
        own = [value for value in found if value // rounds == k]
        assert own == sorted(own)
    return f"{len(found)} records of 4 appenders, each once"


def compacted(folder: Path, rounds: int) -> str:
    """Appenders, a saver that compacts, and loaders at the same time; returns what was seen."""
    path = folder / "compacted"
    save(path, [])
    done = folder / "done"
    saves = folder / "saves"
    turn = folder / "turn"

    def appender(k: int) -> None:
        for value in range(rounds):
            with files.locked(turn, wait=60):
                retried(path, k * rounds + value)
            time.sleep(0.02)  # for the saver's turn

    def saver() -> None:
        while not done.exists():
            with files.locked(turn, wait=60):  # no append between its load and its save
                save(path, load(path)[0])
            with saves.open("ab") as file:
                file.write(b".")
            time.sleep(0.002)

    def loader() -> None:
        last: list[int] = []
        while not done.exists():
            found, _ = load(path)
            assert found[: len(last)] == last, (found, last)  # never back, never other
            last = found

    writers = [fork(lambda k=k: appender(k)) for k in range(2)]
    others = [fork(saver), fork(loader), fork(loader)]
    join(writers)
    done.touch()
    join(others)
    found = load(path)[0]
    assert sorted(found) == list(range(2 * rounds)), found
    return f"{len(found)} records during {saves.stat().st_size} saves"


def replaced(folder: Path, rounds: int, models: int) -> str:
    """A saver that saves so many models in turn, among appenders and loaders; returns what was seen."""
    path = folder / f"replaced{models}"
    save(path, [0])
    done = folder / f"done{models}"

    def check(found: list[int]) -> int:
        assert {value >> 32 for value in found[1:]} <= {found[0]}, found
        return found[0]

    def appender(k: int) -> None:
        for value in range(1, 2 * rounds):
            while True:
                found, saved = load(path)
                mine = (check(found) << 32) + 1000 * k + value
                try:
                    journal.append(path, [record(mine)], manifest=saved.manifest, known=saved.tip)
                    break
                except journal.Superseded:
                    continue
            now, _ = load(path)
            assert models < rounds or check(now) > found[0] or mine in now, (mine, now)

    def saver() -> None:
        for k in range(1, rounds):
            save(path, [k % models])
            time.sleep(0.01)

    def loader() -> None:
        while not done.exists():
            check(load(path)[0])

    writers = [fork(lambda k=k: appender(k)) for k in range(2)] + [fork(saver)]
    loaders = [fork(loader)]
    join(writers)
    done.touch()
    join(loaders)
    check(load(path)[0])
    save(path, [1 % models])
    assert load(path)[0] == [1 % models]
    return f"{rounds} saves of {models} models among appends"


def main(rounds: int) -> None:
    """All parts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = [killed(folder, rounds, random.Random(0)), several(folder, rounds), compacted(folder, rounds)]
        told += [replaced(folder, rounds, models) for models in (1, 2, rounds)]
    print("; ".join(told) + ": nothing lost")


if __name__ == "__main__":
    main(int(sys.argv[1]))
