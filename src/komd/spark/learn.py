"""Learning from a catalogue: on the driver where that is quick, by tasks where a pass over all of K is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pyspark import SparkContext

from komd.kernels.dot_product import Linear
from komd.kernels.streamed import StreamedMatrix
from komd.models.catalogue import Catalogue
from komd.models.cfkomd import CFKOMD
from komd.models.counted import FromCounts
from komd.spark.folder import Folder, ship

__all__ = ["learn"]

_BLOCKS = 8  # blocks of rows a task sums, about


def learn(
    context: SparkContext,
    model: FromCounts,
    catalogue: Catalogue,
    path: Path,
    *,
    shared: bool,
    memory: str | int | None,
) -> Folder:
    """Fit the model, save it to `path` and make that known to executors.

    A matrix that fits the driver is made there, once, and mapped by all. One that does not is streamed, and needs
    nothing but its sums: those of the linear kernel are one pass over the pairs, those of others are made by tasks.
    """
    if not _summed_by_tasks(model, catalogue, memory):
        model._learn(catalogue, None, memory)
        model._catalogue = catalogue
        model.save(path)
        return ship(context, path, shared=shared)
    matrix: Any = model._counted(catalogue, None, memory, storage="streamed")
    assert isinstance(matrix, StreamedMatrix)
    model._matrix, model._S, model._catalogue = matrix, np.zeros(matrix.items), catalogue
    model.save(path)
    folder = ship(context, path, shared=shared)
    model._S = _sums(context, folder, matrix)
    model.save(path)
    return ship(context, path, shared=shared)


def _summed_by_tasks(model: FromCounts, catalogue: Catalogue, memory: str | int | None) -> bool:
    if not isinstance(model, CFKOMD) or model.ridge is not None or isinstance(model._kernel(), Linear):
        return False
    return model._planned(catalogue, None, memory).storage == "streamed"


def _sums(context: SparkContext, folder: Folder, matrix: StreamedMatrix) -> np.ndarray:
    def task(blocks: Any) -> Any:
        from komd.spark.work import row_sums

        return row_sums(folder, blocks)

    blocks = matrix.row_blocks()
    parts = max(1, min(len(blocks), max(len(blocks) // _BLOCKS, context.defaultParallelism)))
    out = np.zeros(matrix.items)
    for first, sums in context.parallelize(blocks, parts).mapPartitions(task).collect():
        some = np.frombuffer(sums)
        out[first : first + len(some)] = some
    return out
