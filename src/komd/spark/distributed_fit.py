"""Learning from a catalogue: the model is built on the driver, and tasks compute the sums that need all of K."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark import SparkContext

from komd.engine.catalogue import Catalogue
from komd.engine.kernel_based import KernelBased
from komd.matrix.item_matrix import ItemMatrix
from komd.spark.model_folder import Folder, ship

__all__ = ["learn"]

_BLOCKS = 8  # blocks of rows that a task sums, approximately


def learn(
    context: SparkContext,
    model: KernelBased,
    catalogue: Catalogue,
    path: Path,
    *,
    shared: bool,
    memory: str | int | None,
) -> Folder:
    """Fit the model, save it to `path` and make that known to executors.

    The model is built on the driver by its own code. Only the sums of the rows of a streamed matrix, where they take
    computing all of it, are made by tasks: they read the matrix from a folder of its own beside `path`, so that `path`
    never holds a model without its sums.
    """

    def by_tasks(matrix: ItemMatrix, blocks: list[tuple[int, int]]) -> Iterator[NDArray[np.float64]]:
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            model.clone().learned(catalogue, matrix, np.zeros(matrix.items)).save(aside)
            yield from _sums(context, ship(context, aside, shared=shared), blocks)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    model.learn(catalogue, None, memory, by_tasks)
    model.learned(catalogue, model.matrix, model.S).save(path)
    return ship(context, path, shared=shared)


def _sums(context: SparkContext, folder: Folder, blocks: list[tuple[int, int]]) -> Iterator[NDArray[np.float64]]:
    def task(some: Any) -> Any:
        from komd.spark.executor_tasks import block_sums

        return block_sums(folder, some)

    parts = max(1, min(len(blocks), max(len(blocks) // _BLOCKS, context.defaultParallelism)))
    for sums in context.parallelize(blocks, parts).mapPartitions(task).collect():
        yield np.frombuffer(sums)
