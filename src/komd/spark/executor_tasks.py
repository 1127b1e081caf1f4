"""The tasks in Spark's Python workers: a memory-mapped model and one thread; users in, lists out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import SparkFiles

from komd.data.encode import encode
from komd.data.ids import Ids
from komd.engine.histories import Histories
from komd.engine.ranking import RankedBlock, RankingRequest
from komd.engine.recommender import Recommender
from komd.engine.results import lists_table
from komd.memory import budget
from komd.models.registry import load_exactly
from komd.rows import pointers
from komd.spark.model_folder import Folder

__all__ = ["ListTask", "block_sums", "lists_for_histories", "lists_for_users", "packed_rows", "scored_pairs"]

_USERS = 2_048  # whose lists are given to Spark in one batch
_cached: dict[str, Recommender] = {}


@dataclass(frozen=True)
class ListTask:
    """What lists to make, of which model, and the schema of the result."""

    folder: Folder
    n: int
    exclude_seen: bool
    candidates: NDArray[np.int32] | None
    nested: bool
    memory: str | int | None
    schema: pa.Schema
    exclude_low_rated: bool = True

    def ranking_request(self, model: Recommender) -> RankingRequest:
        """The task as the ranking engine takes it."""
        candidates = model.catalogue.candidates() if self.candidates is None else self.candidates
        return RankingRequest(self.n, candidates, self.exclude_seen)


def mapped_model(folder: Folder) -> Recommender:
    """The model, memory-mapped; cached for the next task of this worker."""
    if folder.manifest not in _cached:
        _cached.clear()
        # The first workers of an executor verify the checksums and leave marks; later workers find the marks.
        marks = Path(SparkFiles.getRootDirectory())
        _cached[folder.manifest] = load_exactly(folder.here(), folder.manifest, marks)
    return _cached[folder.manifest]


def lists_for_users(task: ListTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lists for users of the training data, given as row numbers."""
    model = mapped_model(task.folder)
    numbers = np.concatenate(
        [np.zeros(0, np.int32), *(batch.column(0).to_numpy().astype(np.int32) for batch in batches)]
    )
    rows = model.catalogue.histories.take(numbers)
    if not task.exclude_low_rated:
        rows = replace(rows, seen=None)
    yield from _lists(model, task, model.catalogue.users.take(numbers), rows)


def lists_for_histories(task: ListTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lists for users given with their items; unknown items are skipped."""
    model, received = mapped_model(task.folder), list(batches)
    if not received:
        return
    users, lists = (pa.concat_arrays([batch.column(k) for batch in received]) for k in (0, 1))
    found = model.catalogue.find_items(lists.flatten(), "skip")
    edges = pointers(lists.value_lengths().to_numpy())
    rows = [found[a:b] for a, b in pairwise(edges)]
    yield from _lists(model, task, users, Histories.of_rows([row[row >= 0] for row in rows]))


def scored_pairs(
    folder: Folder,
    batches: Iterator[pa.RecordBatch],
    user: int,
    item: int,
    schema: pa.Schema,
    memory: str | int | None,
) -> Iterator[pa.RecordBatch]:
    """The rows with the score of each pair; NaN if the user or the item is unknown."""
    model = mapped_model(folder)
    for batch in batches:
        who = model.catalogue.find_users(batch.column(user), "skip")
        what = model.catalogue.find_items(batch.column(item), "skip")
        known = np.flatnonzero((who >= 0) & (what >= 0))
        out = np.full(batch.num_rows, np.nan)
        out[known] = model.pair_scores(
            model.catalogue.histories, who[known], what[known], threads=1, memory=_share(memory)
        )
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(out)], schema=schema)


def packed_rows(items: pa.Array, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a partition as one row: counts, and the users' ids, lengths and item numbers as bytes."""
    import pyarrow.compute as pc

    received = [batch for batch in batches if batch.num_rows]
    if not received:
        return
    users, chosen = (pa.chunked_array([batch.column(k) for batch in received]) for k in (0, 1))
    counts = [len(users), users.null_count, chosen.null_count]
    if users.null_count or chosen.null_count:  # the driver refuses these data: it needs the counts only
        valid = pc.and_(pc.is_valid(users), pc.is_valid(chosen))
        users, chosen = users.filter(valid), chosen.filter(valid)
    ids, owner = encode(users, noun="user")
    keys = np.unique(owner.astype(np.int64) << 32 | Ids(items, noun="item").find(chosen).astype(np.int64))
    lengths = np.bincount(keys >> 32, minlength=len(ids)).astype(np.int32)
    sink = pa.BufferOutputStream()
    table = pa.table({"id": ids.values})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    blobs = [sink.getvalue().to_pybytes(), lengths.tobytes(), (keys & 0xFFFFFFFF).astype(np.int32).tobytes()]
    numbers = [pa.array([number], pa.int64()) for number in (*counts, len(keys))]
    names = ["rows", "no_user", "no_item", "pairs", "ids", "lengths", "items"]
    yield pa.RecordBatch.from_arrays([*numbers, *(pa.array([blob], pa.large_binary()) for blob in blobs)], names)


def block_sums(folder: Folder, blocks: Iterator[tuple[int, int]]) -> Iterator[bytes]:
    """The sums of the rows of a streamed matrix (of its base, where it has a low-rank part), for blocks of rows."""
    matrix = mapped_model(folder).matrix  # type: ignore[attr-defined]
    for block in blocks:
        yield matrix.sums_of(block).tobytes()


def _share(memory: str | int | None) -> str | int:
    """The budget of a worker; by default the node's free memory is divided by its cores."""
    return memory if memory is not None else budget(None) // (os.cpu_count() or 1)


def _lists(model: Recommender, task: ListTask, users: pa.Array, rows: Histories) -> Iterator[pa.RecordBatch]:
    blocks: list[RankedBlock] = []
    done = have = 0
    for block in model.ranked_blocks(rows, task.ranking_request(model), threads=1, memory=_share(task.memory)):
        blocks.append(block)
        have += len(block.counts)
        if have >= _USERS:
            yield from _batches(model, task, users.slice(done, have), blocks)
            done, have, blocks = done + have, 0, []
    if blocks:
        yield from _batches(model, task, users.slice(done, have), blocks)


def _batches(model: Recommender, task: ListTask, users: pa.Array, parts: list[RankedBlock]) -> Iterator[pa.RecordBatch]:
    table = lists_table(model.catalogue, users, parts)
    if not task.nested:
        yield from table.cast(task.schema).to_batches(max_chunksize=1 << 16)
        return
    counts = np.concatenate([part.counts for part in parts])
    item, score = (table.column(name).combine_chunks() for name in ("item_id", "score"))
    inner = task.schema.field(1).type.value_type
    entries = pa.StructArray.from_arrays([item.cast(inner.field(0).type), score], fields=list(inner))
    ends = pointers(counts).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), entries, type=task.schema.field(1).type)
    ids = users.cast(task.schema.field(0).type)
    yield from pa.Table.from_arrays([ids, lists], schema=task.schema).to_batches(max_chunksize=1 << 16)
