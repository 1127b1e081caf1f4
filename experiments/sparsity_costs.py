"""Predicted against actual: bytes and seconds of K, dense, sparse and streamed, on data of different shapes.

Streamed, K is read twice: for its row sums, as in fitting, and in strips, as in ranking. Its bytes are the pairs by
item; a strip, whose size the reader chooses, is not counted.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.markdown import markdown
from experiments.places import keep
from experiments.sparsity_table import DATA, interactions, title
from komd.engine.catalogue import Catalogue
from komd.kernels.entries import KernelEntries
from komd.kernels.functions import Tanimoto
from komd.matrix.cost import costs, machine_speed
from komd.matrix.density import exact_density, work_of
from komd.matrix.from_counts import matrix_from_counts
from komd.matrix.streamed import StreamedMatrix

DENSE = 20_000  # items up to which the dense form is built
REPEATS = 3  # the best counts


def run() -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in DATA:
        data = interactions(name)
        if data is None:
            continue
        rows = Catalogue.of(data).histories
        users, items = data.shape
        density = exact_density(data.indptr, data.indices, items).value
        results[name] = {}
        machine_speed.cache_clear()  # the machine may be busier or idler than it was
        for cost in costs(users, items, data.pairs, work_of(data.activity), density):
            if cost.storage == "dense" and items > DENSE:
                continue
            spent = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                entries = KernelEntries.of(Tanimoto(), rows.rows, items)
                built = matrix_from_counts(entries, rows.rows, cost.storage)
                if isinstance(built, StreamedMatrix):
                    built.sums()
                    for _ in built.row_strips(np.arange(items, dtype=np.int32)):
                        pass
                spent.append(time.perf_counter() - start)
                weighs = built.bytes
                del built
            results[name][cost.storage] = {
                "bytes": None if cost.storage == "streamed" else [cost.bytes, weighs],
                "seconds": [cost.seconds, min(spent)],
            }
        keep("sparsity_costs", results)
    return results


def table(results: dict[str, Any]) -> str:
    rows = []
    for name, held in results.items():
        for storage, row in held.items():
            guess, took = row["seconds"]
            cells = ["", "", ""]
            if row["bytes"]:
                said, is_ = row["bytes"]
                cells = [f"{said / 1e6:,.1f}", f"{is_ / 1e6:,.1f}", f"{said / is_:.3f}"]
            rows.append([title(name), storage, *cells, f"{guess:.3f}", f"{took:.3f}", f"{guess / took:.2f}"])
    head = ["data set", "held", "MB predicted", "actual", "ratio", "seconds predicted", "actual", "ratio"]
    return markdown(head, rows)


if __name__ == "__main__":
    print(table(run()))
