"""One contender of the MSD benchmark in a process of its own: `python -m benchmarks.contenders NAME FOLDER`.

The process loads what `read` put into the folder, works on two threads, and writes FOLDER/NAME.json after each phase,
so that what was measured before a failure is kept.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import komd
from komd import files
from komd.memory import peak, resident

__all__ = ["COMPUTES", "DEPTH", "MODELS", "STEPS", "THREADS"]

THREADS, DEPTH = 2, 500
METRICS = "auc,map@500,ndcg@100,recall@20"
MODELS = {
    "ecfomd": "ECFOMD(storage='streamed')",
    "polynomial": "CFKOMD(kernel=Polynomial(degree=2, c=1), storage='streamed')",
    "msdw": "MSDW(alpha=0.15, locality=3, storage='streamed')",
    "ecfomd-4gb": "ECFOMD(storage='streamed')",
}
COMPUTES = {
    "ecfomd": "every user's problem solved, all of K",
    "polynomial": "every user's problem solved, all of K",
    "msdw": "sums over all of the similarity matrix",
    "ecfomd-4gb": 'the same with memory="4GB"',
    "cosine": "sums over the 200 nearest neighbours of each item; the rest of the matrix is dropped",
    "als": "64 factors a user and item, fitted in 15 rounds: an approximation of low rank",
}
STEPS = ("generate", "read", "limits", *MODELS, "cosine", "als")


class Record:
    """The figures of one contender, written again whenever there are more."""

    def __init__(self, name: str, folder: Path) -> None:
        self._file = folder / f"{name}.json"
        self.figures: dict[str, Any] = {"name": name, "at": time.time(), "done": False}

    def keep(self, **figures: Any) -> None:
        """Add figures, and the peak of memory so far."""
        self.figures |= figures | {"peak": peak()}
        files.write_text(self._file, json.dumps(self.figures, indent=1) + "\n")
        words = [f"{key} {value:.4g}" for key, value in figures.items() if isinstance(value, float)]
        if words:
            print(f"    {', '.join(words)}; peak {peak() / 1e9:.2f} GB", flush=True)


def generate(record: Record, plays: Path, users: int) -> None:
    """The plays, written by the `komd` command."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "komd", "generate", "--like", "msd", "--text-ids", "-o", str(plays)]
    subprocess.run([*command, "--users", str(users)], check=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    record.keep(generate=time.perf_counter() - start, command_peak=most)


def read(record: Record, folder: Path, plays: Path, ranked_users: int) -> None:
    """Read the plays, then hide a random half of the items of some users."""
    start = time.perf_counter()
    data = komd.read(plays, weight=False)
    seconds, most = time.perf_counter() - start, peak()
    activity = data.activity
    record.keep(
        read=seconds,
        read_peak=most,
        bytes=plays.stat().st_size,
        shape=[*data.shape, data.pairs],
        data=repr(data),
        squares=float((activity.astype(float) ** 2).sum()),
        activity=[float(np.median(activity)), float(activity.mean()), int(activity.max())],
        popularity=[float(np.median(data.popularity)), float(data.popularity.mean()), int(data.popularity.max())],
    )
    rng = np.random.default_rng(0)
    tested = np.sort(rng.choice(len(data.users), ranked_users, replace=False))
    lengths = activity[tested]
    owner = np.repeat(np.arange(ranked_users), lengths)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(owner)) + np.repeat(data.indptr[tested] - starts, lengths)
    shuffled = np.lexsort((rng.random(len(owner)), owner))  # each user's pairs in random order
    hidden = np.arange(len(owner)) - np.repeat(starts, lengths) < np.repeat(lengths // 2, lengths)
    mask = np.ones(data.pairs, bool)
    mask[places[shuffled[hidden]]] = False
    for name, part in (("train", data.keep(mask)), ("test", data.keep(~mask))):
        np.save(folder / f"{name}_indptr.npy", part.indptr)
        np.save(folder / f"{name}_indices.npy", part.indices)
    np.save(folder / "tested.npy", tested.astype(np.int32))
    record.keep(ranked_users=ranked_users, hidden=int((~mask).sum()))


def loaded(folder: Path, name: str) -> komd.Interactions:
    """The training or the test part, its ids the numbers of rows and columns."""
    from komd.data.ids import Ids

    items = json.loads((folder / "read.json").read_text())["shape"][1]
    indptr, indices = np.load(folder / f"{name}_indptr.npy"), np.load(folder / f"{name}_indices.npy")
    users = Ids.range(len(indptr) - 1, noun="user")
    return komd.Interactions(users, Ids.range(items, noun="item"), indptr, indices)


def limits(record: Record, folder: Path) -> None:
    """The machine, and the counting kernel beside scipy."""
    from benchmarks.limits import counting, machine_limits

    record.keep(machine=machine_limits())
    catalogue = komd.Popularity().fit(loaded(folder, "train")).catalogue
    rows = catalogue.histories
    record.keep(counting=counting(rows.indptr, rows.indices, len(catalogue.order)))


class Precision:
    """Average precision at 500 by komd's own metric, of lists that come block after block."""

    def __init__(self, targets: Any, items: int) -> None:
        self._targets, self._mark = targets, np.zeros(items, np.uint8)
        self._done, self._sum, self._places = 0, 0.0, 0

    def add(self, best: Any, counts: Any) -> None:
        """The lists (items, how many places are filled) of the next users."""
        from komd._core.auc import mark_hits
        from komd.evaluation.metrics import AveragePrecision

        for a in range(0, len(counts), 10_000):
            some, filled = best[a : a + 10_000], counts[a : a + 10_000]
            tested = self._targets.block(self._done, self._done + len(filled))
            hits = np.zeros(some.shape, np.bool_)
            mark_hits(some, filled, tested.indptr, tested.indices, self._mark, hits)
            self._sum += float(AveragePrecision(DEPTH).of_hits(hits, tested.lengths).sum())
            self._places += int(filled.sum())
            self._done += len(filled)

    def figures(self) -> dict[str, float]:
        """The mean, and how long lists are."""
        return {"map": self._sum / self._done, "length": self._places / self._done}


def model(record: Record, folder: Path, text: str, memory: str | None) -> None:
    """Fit, rank, and (without a budget) rank and measure."""
    from benchmarks.phases import Clock
    from komd.engine.ranking import RankingRequest

    clock = Clock()
    _warm(text)
    clock.lap()
    start = time.perf_counter()
    train, test = loaded(folder, "train"), loaded(folder, "test")
    record.keep(load=time.perf_counter() - start, resident=resident(), text=text, memory=memory)
    start = time.perf_counter()
    fitted = komd.model_from_text(text).fit(train, threads=THREADS, memory=memory)
    record.keep(fit=time.perf_counter() - start, fit_phases=clock.lap(), fit_peak=peak())
    del train
    tested = np.load(folder / "tested.npy")
    catalogue = fitted.catalogue
    rows, request = catalogue.histories.take(tested), RankingRequest(DEPTH, catalogue.candidates())
    targets, digest = catalogue.translated(test, "error")[0].take(tested), hashlib.sha256()
    precision = Precision(targets, len(catalogue.order))
    ranking, seconds = fitted.ranked_blocks(rows, request, threads=THREADS, memory=memory), 0.0
    while True:
        start = time.perf_counter()
        ranked = next(ranking, None)
        seconds += time.perf_counter() - start
        if ranked is None:
            break
        for a in range(0, len(ranked.counts), 10_000):
            filled = np.arange(ranked.items.shape[1]) < ranked.counts[a : a + 10_000, None]
            digest.update(np.where(filled, ranked.items[a : a + 10_000], -1).data)
        precision.add(ranked.items, ranked.counts)
        del ranked
    lists = precision.figures() | {"digest": digest.hexdigest()}
    record.keep(rank=seconds, rank_phases=clock.lap(), rank_peak=peak(), lists=lists)
    if memory is None:
        start = time.perf_counter()
        measured = komd.evaluate(fitted, test, metrics=METRICS, threads=THREADS)
        seconds = time.perf_counter() - start
        means = {name: value.mean for name, value in measured.metrics.items()}
        record.keep(evaluate=seconds, evaluate_phases=clock.lap(), evaluate_peak=peak(), metrics=means)


def _warm(text: str) -> None:
    """Compile everything on a small data set, before any phase is timed."""
    small, hidden = next(komd.split.folds(komd.generate_like("msd", users=500), rng=0))
    fitted = komd.model_from_text(text).fit(small, threads=THREADS)
    fitted.recommend(n=DEPTH, threads=THREADS)
    komd.evaluate(fitted, hidden, metrics=METRICS, threads=THREADS)


def implicit(record: Record, folder: Path, name: str) -> None:
    """implicit on the same training data: fit, and 500 items for each of the users."""
    import scipy.sparse
    from implicit.als import AlternatingLeastSquares
    from implicit.nearest_neighbours import CosineRecommender
    from threadpoolctl import threadpool_limits

    from komd.engine.histories import Histories

    train, test = loaded(folder, "train"), loaded(folder, "test")
    shape, indptr = train.shape, train.indptr.astype(np.int32)
    matrix = scipy.sparse.csr_matrix((np.ones(train.pairs, np.float32), train.indices.copy(), indptr), shape=shape)
    matrix.sort_indices()
    del train
    tested = np.load(folder / "tested.npy")
    record.keep(resident=resident())
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "cosine":
            peer: Any = CosineRecommender(K=200, num_threads=THREADS)
        else:
            peer = AlternatingLeastSquares(factors=64, iterations=15, num_threads=THREADS, random_state=0)
        start = time.perf_counter()
        peer.fit(matrix, show_progress=False)
        record.keep(fit=time.perf_counter() - start, fit_peak=peak())
        targets = Histories(test.indptr, test.indices).take(tested)
        precision, seconds = Precision(targets, shape[1]), 0.0
        for a in range(0, len(tested), 10_000):
            some = tested[a : a + 10_000]
            start = time.perf_counter()
            best, _ = peer.recommend(some, matrix[some], N=DEPTH)
            seconds += time.perf_counter() - start
            filled = (best >= 0).sum(axis=1)
            precision.add(np.where(best >= 0, best, 0).astype(np.int32), filled)
    record.keep(rank=seconds, rank_peak=peak(), lists=precision.figures())


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    record = Record(name, folder)
    if name == "generate":
        generate(record, Path(sys.argv[3]), int(sys.argv[4]))
    elif name == "read":
        read(record, folder, Path(sys.argv[3]), int(sys.argv[4]))
    elif name == "limits":
        limits(record, folder)
    elif name in MODELS:
        model(record, folder, MODELS[name], "4GB" if name.endswith("4gb") else None)
    else:
        implicit(record, folder, name)
    record.keep(done=True)


if __name__ == "__main__":
    main()
