"""Filters of K: the cost of eigenvectors against Lanczos, and of scoring against K without a filter.

    python -m benchmarks.filter

On generated data of 20,000 items, once with a full K and once with a sparse one. Eigenvectors: ours (block Krylov) and
SciPy's `eigsh` (Lanczos) on the same sparse matrix. Scoring: the 100 best for the same users, by K as it is, by the
exact filter or one of low rank where K is dense, and by one of low rank where it stays sparse. Then a catalogue of
41,000 items whose K is sparse: lists for all 30,000 users, beside K without a filter and beside the multiply-adds that
the processor can do, and 512 eigenvectors. Writes benchmarks/filter.json and docs/results/performance.md.
"""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import numpy as np

import komd
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine, side_by_side
from benchmarks.multiply_adds import most_multiply_adds
from komd import threads as pool
from komd.matrix.eigenvectors import PRODUCTS, leading

ITEMS, RANK, RIDGE, RANKED_USERS = 20_000, 256, 30.0, 2_000
PASSES = "nine passes over K, and eight narrow ones to bound what is left out"
SHAPES = {"full": {"users": 60_000, "activity": 50, "tastes": 60}, "sparse": {"users": 6_000, "activity": 20}}
SMALL = {"users": 6_000, "items": 4_000, "activity": 50, "tastes": 30}
LARGE: dict[str, int] = {"users": 30_000, "items": 41_000, "activity": 35}
LARGE_RANKS, SQUARE = (256, 512), 4096
SETTING = {"user_damping": 0.5, "popularity": 0.2, "regularization": 1.0}


def main() -> None:
    results: dict[str, Any] = {"machine": machine(), "rank": RANK, "ridge": RIDGE, "ranked_users": RANKED_USERS}
    results |= {"passes": PASSES, "products": PRODUCTS * RANK}
    results["eigenvectors"] = {name: eigenvectors(komd.generate(items=ITEMS, rng=0, **SHAPES[name])) for name in SHAPES}
    results["scoring"] = {name: scoring(komd.generate(items=ITEMS, rng=0, **SHAPES[name]), {}) for name in SHAPES}
    results["scoring"]["small"] = scoring(komd.generate(rng=0, **SMALL), {"exact filter": {"ridge": RIDGE}})
    results["large"] = large(komd.generate(rng=0, **LARGE))
    keep(ROOT / "benchmarks" / "filter.json", results)
    from benchmarks import page

    page.write()
    print(json.dumps(results, indent=1))


def eigenvectors(data: komd.Interactions) -> dict[str, Any]:
    """Seconds, products with vectors and passes over K, and how close the eigenvalues are to Lanczos's."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, eigsh

    K: Any = komd.CFKOMD(**SETTING, storage="sparse").fit(data).matrix
    chosen = int(np.count_nonzero(data.popularity))
    leading(K, 4, chosen)  # compiles
    start = time.perf_counter()
    found = leading(K, RANK, chosen)
    ours = time.perf_counter() - start
    matrix, products = csr_array((K.values, K.indices, K.indptr), shape=(K.items, K.items)), [0]

    def multiply(x: Any) -> Any:
        products[0] += 1
        return matrix @ x

    operator = LinearOperator(matrix.shape, matvec=multiply, dtype=np.float32)
    start = time.perf_counter()
    values = eigsh(operator, k=RANK, v0=np.ones(K.items, np.float32), tol=1e-3)[0]
    lanczos = time.perf_counter() - start
    values = np.sort(values)[::-1]
    off = np.abs(found.values - values) / values
    return {
        "items": K.items,
        "nonzeros": int(K.nonzeros),
        "seconds": ours,
        "lanczos": lanczos,
        "lanczos_products": products[0],
        "largest": float(values[0]),
        "last": float(values[-1]),
        "off": float(off.max()),
        "off_upper_half": float(off[: RANK // 2].max()),
    }


def scoring(data: komd.Interactions, more: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Seconds to list the users asked for, for K held in each way."""
    settings: dict[str, dict[str, Any]] = {
        "K as it is": {},
        **more,
        "filter of low rank, dense": {"ridge": RIDGE, "rank": RANK, "storage": "dense"},
        "filter of low rank, sparse": {"ridge": RIDGE, "rank": RANK, "storage": "sparse"},
    }
    models = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FilterWarning)
        for name, setting in settings.items():
            models[name] = komd.CFKOMD(**SETTING, **setting).fit(data)
    ranked_users = data.users.take(np.arange(RANKED_USERS, dtype=np.int32))
    held = models["K as it is"].held
    seconds = side_by_side(
        {name: (lambda model=model: model.recommend(ranked_users, n=100)) for name, model in models.items()}, rounds=3
    )
    return {"items": data.shape[1], "density": held.density, "storage": held.storage, "seconds": seconds}


def large(data: komd.Interactions) -> dict[str, Any]:
    """Lists for all users by a sparse K alone and with low-rank parts, and the seconds for the most eigenvectors.

    For each rank the multiply-adds of its part (one per user, item and factor) in each second that it adds to K's; with
    the most that the processor can do, and those of BLAS in a product of two large squares.
    """
    models = {"K alone": komd.CFKOMD(**SETTING, storage="sparse").fit(data)}
    K = models["K alone"].matrix
    chosen = int(np.count_nonzero(data.popularity))
    leading(K, 4, chosen)  # compiles
    start = time.perf_counter()
    leading(K, LARGE_RANKS[-1], chosen)
    eigenvectors = time.perf_counter() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FilterWarning)
        for rank in LARGE_RANKS:
            models[str(rank)] = komd.CFKOMD(**SETTING, ridge=RIDGE, rank=rank, storage="sparse").fit(data)
    contenders: dict[str, Any] = {name: (lambda model=model: model.recommend(n=20)) for name, model in models.items()}
    A = np.ones((SQUARE, SQUARE), np.float32)
    seconds = side_by_side(contenders | {"BLAS": lambda: A @ A}, rounds=3)
    blas, alone = SQUARE**3 / seconds.pop("BLAS"), seconds.pop("K alone")
    users, items = data.shape
    return {
        **LARGE,
        "density": models["K alone"].held.density,
        "alone": alone,
        "seconds": seconds,
        "multiply_adds": {name: users * items * int(name) / max(took - alone, 1e-9) for name, took in seconds.items()},
        "blas_multiply_adds": blas,
        "most_multiply_adds": most_multiply_adds(pool.count()),
        "eigenvectors": eigenvectors,
    }


if __name__ == "__main__":
    main()
