"""MovieLens 1M: komd beside implicit, cvxopt and scipy."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import komd
from benchmarks.measure import data_folder, movielens, side_by_side
from komd._core.groups import WeightedUsers
from komd.kernels.entries import KernelEntries
from komd.kernels.functions import Linear
from komd.matrix.from_counts import matrix_from_counts
from komd.matrix.storage import plan

MEASURES = ["auc", "ndcg@100"]


def run() -> dict[str, Any]:
    """All figures of `make bench`."""
    name, data = movielens()
    matrix = data.to_csr()
    matrix.data[:] = 1.0
    results: dict[str, Any] = {"data": name, "shape": repr(data)}
    results |= whole_job(matrix)
    results |= solver(data)
    results |= gram(data, matrix)
    results |= stranger(data)
    results |= full_cfomd(data)
    return results


def whole_job(matrix: Any) -> dict[str, Any]:
    """Fit, and the ten best for all users: komd against implicit's ALS, both on two threads."""
    import scipy.sparse
    from implicit.als import AlternatingLeastSquares

    classic = scipy.sparse.csr_matrix(matrix)
    users = np.arange(matrix.shape[0])

    def ours() -> None:
        komd.CFKOMD(kernel="linear").fit(matrix, threads=2).recommend(n=10, threads=2)

    def als() -> None:
        with threadpool_limits(1, "blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AlternatingLeastSquares(factors=64, iterations=15, num_threads=2, random_state=0)
            model.fit(classic, show_progress=False)
            model.recommend(users, classic, N=10)

    best = side_by_side({"komd": ours, "als": als})
    fitted = komd.CFKOMD(kernel="linear").fit(matrix)
    phases = side_by_side(
        {
            "fit": lambda: komd.CFKOMD(kernel="linear").fit(matrix, threads=2),
            "recommend": lambda: fitted.recommend(n=10, threads=2),
        },
        rounds=3,
    )
    return {"whole_job": best, "phases": phases, "limits": limits(fitted)}


def limits(model: Any) -> dict[str, float]:
    """Multiply-adds of scoring all users, what one core does of them, and what one core could do at most."""
    from komd._core.scoring import score_dense

    rows = model.catalogue.histories
    blocks = [rows.block(a, min(a + 64, len(rows))) for a in range(0, len(rows), 64)]
    users = [WeightedUsers(*block.rows, *model.weigh(block, model.matrix.own_entries(block.rows))) for block in blocks]
    scores = np.empty((64, len(model.catalogue.order)))

    def score() -> None:
        for block in users:
            score_dense(model.matrix.values, model.S, block, scores[: len(block.offsets)])

    def stream() -> None:  # reads all of K once per block of users, in order
        for _ in blocks:
            model.matrix.values.sum()

    seconds = side_by_side({"score": score, "stream": stream}, rounds=2)
    work = float(rows.lengths.sum()) * len(model.catalogue.order)
    return {
        "multiply_adds": work,
        "per_second_and_core": work / seconds["score"],
        "stream_gb_per_second": model.matrix.values.nbytes * len(blocks) / seconds["stream"] / 1e9,
        "score_gb_per_second": 4 * work / seconds["score"] / 1e9,
    }


def solver(data: komd.Interactions, ranked_users: int = 200) -> dict[str, Any]:
    """One user's problem with given matrices: komd's solver against cvxopt, one core each.

    Each solver solves each problem four times in a row, and the best of the last three counts: both find their
    matrices in the cache, and a slow moment of the machine does not affect only one of them.
    """
    from cvxopt import matrix as dense
    from cvxopt import solvers

    from komd._core.simplex import simplex_scratch, solve_shrinking

    solvers.options["show_progress"] = False
    model = komd.ECFOMD().fit(data)
    lam, tol = model.regularization, model.tolerance
    rows = model.catalogue.histories
    chosen = np.sort(np.random.default_rng(0).choice(len(rows), ranked_users, replace=False)).astype(np.int32)
    some = rows.take(chosen)
    longest = int(some.lengths.max())
    scratch = simplex_scratch(longest, longest)
    seconds: dict[str, list[float]] = {"komd": [], "komd, K_u gathered too": [], "cvxopt": []}
    worse = -np.inf
    for u in range(ranked_users):
        row = some.block(u, u + 1)
        h = row.indices
        K = np.ascontiguousarray(model.matrix.values[np.ix_(h, h)])
        m, wide = len(h), K.astype(np.float64)
        q = (model.S[h] - wide.sum(axis=1)) / (len(model.catalogue.order) - m)
        start = (wide.sum(axis=1) + lam) / m - q
        sides = (-2 * q, -np.eye(m), np.zeros(m), np.ones((1, m)), np.ones(1))
        alpha, gradient, regularizers = np.empty(m), np.empty(m), np.full(m, lam)
        general = (dense(2 * (wide + lam * np.eye(m))), *(dense(side) for side in sides))
        answers: dict[str, Any] = {}

        def ours(given: Any = (K, q, gradient, regularizers, alpha), start: Any = start) -> None:
            given[2][:], given[4][:] = start, 1.0 / len(start)
            solve_shrinking(*given, tol, scratch)

        def whole(row: Any = row) -> None:
            model.weigh(row, model.matrix.own_entries(row.rows))

        def theirs(general: Any = general, answers: Any = answers) -> None:
            answers["cvxopt"] = np.maximum(np.array(solvers.qp(*general)["x"]).ravel(), 0)

        with threadpool_limits(1, "blas"):
            for name, job in zip(seconds, (ours, whole, theirs), strict=True):
                seconds[name].append(side_by_side({name: job}, rounds=3)[name])
        answers["komd"] = alpha
        reached = {
            name: alpha @ wide @ alpha + lam * alpha @ alpha - 2 * alpha @ q
            for name, alpha in ((name, alpha / alpha.sum()) for name, alpha in answers.items())
        }
        worse = max(worse, (reached["komd"] - reached["cvxopt"]) / abs(reached["cvxopt"]))
    ratios = np.array(seconds["cvxopt"]) / np.array(seconds["komd"])
    total = {name: float(sum(each)) for name, each in seconds.items()}
    about = {
        "ranked_users": ranked_users,
        "worst_excess": float(worse),
        "gap": tol,
        "median_ratio": float(np.median(ratios)),
    }
    return {"solver": total | about}


def gram(data: komd.Interactions, matrix: Any) -> dict[str, Any]:
    """Co-occurrence and cosine of all items: komd against scipy's product alone."""
    import scipy.sparse

    classic = scipy.sparse.csr_matrix(matrix)
    rows = komd.Popularity().fit(data).catalogue.histories.rows
    storage = plan(np.sort(data.popularity)[::-1], data.activity).storage

    def entries() -> KernelEntries:
        return KernelEntries.of(Linear(), rows, data.shape[1])

    best = side_by_side(
        {
            "komd": lambda: matrix_from_counts(entries(), rows, storage, threads=2),
            "komd, one thread": lambda: matrix_from_counts(entries(), rows, storage, threads=1),
            "scipy": lambda: classic.T @ classic,
        }
    )
    counts = float((data.activity.astype(float) ** 2).sum())
    return {"gram": best | {"counts": counts}}


def stranger(data: komd.Interactions) -> dict[str, Any]:
    """Milliseconds for one user the model has never seen, with 50 items, from Python call to Arrow table."""
    model = komd.ECFOMD().fit(data)
    history = [data.items[int(i)] for i in np.random.default_rng(0).choice(len(data.items), 50, replace=False)]
    for _ in range(10):
        model.recommend(histories={"guest": history})
    times = []
    for _ in range(300):
        start = time.perf_counter()
        model.recommend(histories={"guest": history})
        times.append(1e3 * (time.perf_counter() - start))
    return {"stranger": {"median_ms": float(np.median(times)), "p99_ms": float(np.quantile(times, 0.99))}}


def full_cfomd(data: komd.Interactions) -> dict[str, Any]:
    """Seconds for the full CF-OMD on the test users of the first fold, beside ECF-OMD; on FilmTrust too, if present."""
    sets = {"MovieLens 1M": data}
    with contextlib.suppress(komd.InputError):
        sets["FilmTrust"] = komd.datasets.load("filmtrust", path=data_folder())
    return {"cfomd": {name: _beside_ecfomd(each) for name, each in sets.items()}}


def _beside_ecfomd(data: komd.Interactions) -> dict[str, Any]:
    train, test = next(iter(komd.split.folds(data, rng=0)))
    found = {}

    def measured(model: Any) -> Any:
        return lambda: found.update(
            {type(model).__name__: komd.evaluate(model.clone().fit(train), test, metrics=MEASURES)}
        )

    best = side_by_side({type(model).__name__: measured(model) for model in (komd.CFOMD(), komd.ECFOMD())}, rounds=2)
    return {
        "seconds": best["CFOMD"],
        "ecfomd_seconds": best["ECFOMD"],
        "ranked_users": len(found["CFOMD"].users),
        "auc": found["CFOMD"]["auc"].mean,
        "ndcg": found["CFOMD"]["ndcg@100"].mean,
    }
