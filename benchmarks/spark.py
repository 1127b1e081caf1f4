"""komd on Spark beside Spark's own ALS and beside komd alone: `python -m benchmarks.spark`.

A standalone cluster of two workers with one core each is started on loopback. On ML-1M (when it is there) and on
generated data of ten million pairs, half of what a fifth of the users chose is hidden; komd and ALS (implicit, rank 64,
10 iterations) are fitted to the rest in the same session and list the 100 best items of all users. komd alone does the
same with two threads, reading the same Parquet files. The model's folder is one that both workers see. Writes
benchmarks/spark.json; docs/results/scale.md is made of it by `python -m experiments.scale`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import komd
from benchmarks.cluster import Cluster
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine

DEPTH = 100
FILTERED = "CFKOMD(regularization=1, user_damping=0.5, popularity=0.2, ridge=10, negatives_weight=0)"
MODELS = {"ml-1m": FILTERED, "generated": "CFKOMD(regularization=1, user_damping=0.5, popularity=0.2)"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--users", type=int, default=200_000, help="users of the generated data")
    parser.add_argument("--only", choices=[*MODELS, "msd"], nargs="+", default=[*MODELS, "msd"])
    parser.add_argument("--model", help="another komd model than the one chosen for the data")
    asked = parser.parse_args()
    file = ROOT / "benchmarks" / "spark.json"
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results["machine"] = machine()
    for name in asked.only:
        if name == "msd":
            plays = ROOT / "benchmarks" / "work" / "plays.parquet"
            if not plays.exists():
                print("msd left out: `make bench-msd` generates its data first")
                continue
            found = capped(plays)
        else:
            data = (
                _movielens()
                if name == "ml-1m"
                else komd.generate(users=asked.users, items=20_000, activity=50, tastes=60, rng=0)
            )
            if data is None:
                continue
            found = compared(data, asked.model or MODELS[name])
        results[name] = found
        keep(file, results)
        print(json.dumps({name: found}, indent=1), flush=True)


def compared(data: komd.Interactions, text: str) -> dict[str, Any]:
    """Times and accuracy of the three on one data set."""
    train, test = next(komd.split.folds(data, rng=0))
    users, items = train.rows, train.indices
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            for _ in range(2):
                cluster.add_worker()
            session = cluster.session()
            import pyarrow as pa

            pairs = pa.table({"user": users.astype(np.int32), "item": items.astype(np.int32)})
            source = str(Path(folder) / "pairs.parquet")
            session.createDataFrame(pairs).repartition(8).write.parquet(source)
            frame = session.read.parquet(source)
            frame.count()
            shape = [*train.shape, train.pairs]
            out: dict[str, Any] = {"data": shape, "model": text}
            out["spark"] = _komd(frame, text, Path(folder) / "model")
            out["alone"] = _alone(source, text, train, test)  # Spark's processes are idle meanwhile
            out["spark"] |= {name: out["alone"][name] for name in METRICS}  # the lists are the same (tests/spark)
            print(json.dumps(out, indent=1), flush=True)
            out["als"] = _als(frame, train, test)
            session.stop()
        finally:
            cluster.stop()
    return out


def _komd(frame: Any, text: str, shared: Path) -> dict[str, Any]:
    from komd.spark import KomdRecommender

    KomdRecommender(model=text).fit(frame.limit(2000)).recommendForAllUsers(2).count()  # compiles, starts workers
    start = time.perf_counter()
    fitted = KomdRecommender(model=text, sharedFolder=str(shared)).fit(frame)
    fit = time.perf_counter() - start
    lists = fitted.recommendForAllUsers(DEPTH, format="long")
    start = time.perf_counter()
    lists.write.format("noop").mode("overwrite").save()
    rank = time.perf_counter() - start
    return {"fit": fit, "recommend": rank}


def _als(frame: Any, train: komd.Interactions, test: komd.Interactions) -> dict[str, Any]:
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import functions as F

    rated = frame.withColumn("rating", F.lit(1.0))
    als = ALS(rank=64, maxIter=10, implicitPrefs=True, userCol="user", itemCol="item", ratingCol="rating", seed=0)
    als.setMaxIter(1).fit(rated.limit(2000))
    start = time.perf_counter()
    model = als.setMaxIter(10).fit(rated)
    fit = time.perf_counter() - start
    start = time.perf_counter()
    model.recommendForAllUsers(DEPTH).write.format("noop").mode("overwrite").save()
    rank = time.perf_counter() - start
    factors = []
    for frame_of, size in ((model.userFactors, train.shape[0]), (model.itemFactors, train.shape[1])):
        table = frame_of.toArrow()
        whole = np.zeros((size, 64), np.float32)
        whole[table["id"].to_numpy()] = np.stack(table["features"].to_numpy())
        factors.append(whole)
    return {"fit": fit, "recommend": rank} | _of_factors(*factors, train, test)


def _alone(source: str, text: str, train: komd.Interactions, test: komd.Interactions) -> dict[str, Any]:
    komd.model_from_text(text).fit(komd.generate(users=200, items=60, activity=8, rng=0)).recommend(n=3)
    start = time.perf_counter()
    model = komd.model_from_text(text).fit(komd.read(f"{source}/*.parquet", weight=False), threads=2)
    fit = time.perf_counter() - start
    start = time.perf_counter()
    model.recommend(n=DEPTH, threads=2)
    rank = time.perf_counter() - start
    found = komd.evaluate(komd.model_from_text(text).fit(train), test, metrics=METRICS)  # by the ids of the test
    return {"fit": fit, "recommend": rank} | {name: found[name].mean for name in METRICS}


METRICS = ["recall@20", "ndcg@100"]


def _of_factors(U: Any, V: Any, train: komd.Interactions, test: komd.Interactions) -> dict[str, float]:
    """The same metrics of ALS's factors, without the items a user already has (ALS's own lists contain them)."""
    from komd._core.auc import mark_hits
    from komd._core.top_n import push_top, sort_top
    from komd.evaluation.metrics import parse_metrics

    tested = np.flatnonzero(test.activity)
    mark, sums, candidates = np.zeros(len(V), np.uint8), dict.fromkeys(METRICS, 0.0), np.arange(len(V), dtype=np.int32)
    for a in range(0, len(tested), 256):
        some = tested[a : a + 256]
        scores = (U[some] @ V.T).astype(np.float64)
        for k, u in enumerate(some):
            scores[k, train.indices[train.indptr[u] : train.indptr[u + 1]]] = -np.inf
        best, values = np.empty((len(some), DEPTH), np.int32), np.empty((len(some), DEPTH))
        counts = np.zeros(len(some), np.int64)
        push_top(scores, candidates, 0, best, values, counts)
        sort_top(best, values, counts)
        lengths = test.activity[some]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        wanted = np.concatenate([test.indices[test.indptr[u] : test.indptr[u + 1]] for u in some])
        hits = np.zeros(best.shape, np.bool_)
        mark_hits(best, counts, indptr, wanted, mark, hits)
        for name in METRICS:
            (metric,) = parse_metrics(name)
            sums[name] += float(metric.of_hits(hits[:, : metric.k], lengths).sum())
    return {name: total / len(tested) for name, total in sums.items()}


def capped(plays: Path, ranked_users: int = 20_000) -> dict[str, Any]:
    """MSD-size data on executors of 3 GB in all: 1 GB of Java, and 1.6 GB for komd in the Python worker."""
    from komd.spark import KomdRecommender

    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            for _ in range(2):
                cluster.add_worker()
            session = cluster.session(**{"spark.sql.shuffle.partitions": "32", "spark.driver.memory": "2g"})
            frame = session.read.parquet(str(plays))
            most, ended = [0.0], threading.Event()

            def watch() -> None:
                while not ended.wait(0.5):
                    most[0] = max(most[0], *cluster.peaks())

            threading.Thread(target=watch, daemon=True).start()
            user, item = frame.columns[:2]
            start = time.perf_counter()
            fitted = KomdRecommender(
                model="ECFOMD(storage='streamed')", userCol=user, itemCol=item, memory="1.6GB"
            ).fit(frame)
            fit = time.perf_counter() - start
            some = frame.select(user).distinct().orderBy(user).limit(ranked_users)
            start = time.perf_counter()
            rows = fitted.recommendForUserSubset(some, 500, format="long").count()
            rank = time.perf_counter() - start
            ended.set()
            shape = [len(fitted.komd.catalogue.users), len(fitted.komd.catalogue.items)]
            session.stop()
        finally:
            cluster.stop()
    return {
        "data": shape,
        "ranked_users": ranked_users,
        "rows": rows,
        "fit": fit,
        "recommend": rank,
        "executor_peak": most[0],
    }


def _movielens() -> komd.Interactions | None:
    try:
        return komd.datasets.load("ml-1m", path=os.environ.get("KOMD_DATA") or ROOT.parent / "shared" / "data")
    except komd.InputError as error:
        print(f"ml-1m left out: {error}")
        return None


if __name__ == "__main__":
    main()
