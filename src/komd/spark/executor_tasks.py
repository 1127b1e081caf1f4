"""The tasks in Spark's Python workers: a memory-mapped model and one thread; users in, lists out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import SparkFiles

from komd.data.encode import encode
from komd.data.ids import Ids
from komd.data.interactions import TIME_UNITS
from komd.engine.histories import Histories
from komd.engine.ranking import RankedBlock, RankingRequest
from komd.engine.recommender import Recommender
from komd.engine.results import lists_table
from komd.memory import budget
from komd.models.registry import load_exactly
from komd.rows import pointers
from komd.spark.merged_rows import EVERY_ROW, MergedPairs, RowRule, compressed, merged
from komd.spark.model_folder import Folder

__all__ = ["ListTask", "block_sums", "lists_for_histories", "lists_for_users", "packed_rows", "scored_pairs", "settle"]

_USERS = 2_048  # users whose lists are given to Spark in one batch
_cached: dict[str, Recommender] = {}


@dataclass(frozen=True)
class ListTask:
    """What lists to make, of which model, and the schema of the result.

    `at` is the moment from which ages are measured, in microseconds. `rule` and `time_unit` say what the rows of given
    histories mean.
    """

    folder: Folder
    n: int
    exclude_seen: bool
    candidates: NDArray[np.int32] | None
    nested: bool
    memory: str | int | None
    schema: pa.Schema
    exclude_low_rated: bool = True
    at: int | None = None
    rule: RowRule = EVERY_ROW
    time_unit: str | None = None

    def ranking_request(self, model: Recommender) -> RankingRequest:
        """The task as the ranking engine takes it."""
        candidates = model.catalogue.candidates() if self.candidates is None else self.candidates
        return RankingRequest(self.n, candidates, self.exclude_seen)


@cache
def settle() -> None:
    """Exclude what is loaded so far from garbage collection in this worker.

    Spark collects garbage after every task. To visit all objects of the libraries takes 50 to 100 ms each time, which
    is longer than a short task.
    """
    gc.collect()
    gc.freeze()


def mapped_model(folder: Folder) -> Recommender:
    """The model, memory-mapped; cached for the next task of this worker."""
    settle()
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
    yield from _lists(model, task, model.catalogue.users.take(numbers), rows)


def lists_for_histories(task: ListTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lists for users given with the rows of their histories; unknown items are skipped."""
    model, received = mapped_model(task.folder), list(batches)
    if not received:
        return
    users, lists = (pa.concat_arrays([batch.column(k) for batch in received]) for k in (0, 1))
    rows = pa.Table.from_struct_array(lists.flatten())
    owner = np.repeat(np.arange(len(users), dtype=np.int32), lists.value_lengths().to_numpy())
    items = model.catalogue.find_items(rows.column("item"), "skip")
    found = _merged(rows, owner, items, task.rule)
    dislikes, seen = (
        Histories(*compressed(keys, len(users))) if len(keys) else None for keys in (found.dislikes, found.seen)
    )
    times = found.times
    if times is not None and task.time_unit is not None:
        per = TIME_UNITS[task.time_unit]
        times = times * per if per else times // 1000
    histories = Histories(
        *compressed(found.keys, len(users)), seen=seen, weights=found.weights, times=times, dislikes=dislikes
    )
    yield from _lists(model, task, users, histories)


def scored_pairs(
    folder: Folder,
    batches: Iterator[pa.RecordBatch],
    user: int,
    item: int,
    schema: pa.Schema,
    memory: str | int | None,
    at: int | None,
) -> Iterator[pa.RecordBatch]:
    """The rows with the score of each pair; NaN if the user or the item is unknown. `at`: see `ListTask`."""
    model = mapped_model(folder)
    histories = replace(model.catalogue.histories, at=at)
    for batch in batches:
        who = model.catalogue.find_users(batch.column(user), "skip")
        what = model.catalogue.find_items(batch.column(item), "skip")
        known = np.flatnonzero((who >= 0) & (what >= 0))
        out = np.full(batch.num_rows, np.nan)
        out[known] = model.pair_scores(histories, who[known], what[known], threads=1, memory=_share(memory))
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(out)], schema=schema)


def packed_rows(items: pa.Array, rule: RowRule, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a partition as one row: the users' ids, and the pairs as `gather_catalogue` names them, as bytes."""
    settle()
    received = [batch for batch in batches if batch.num_rows]
    if not received:
        return
    rows = pa.Table.from_batches(received)
    ids, owner = encode(rows.column("user"), noun="user")
    found = _merged(rows, owner, Ids(items, noun="item").find(rows.column("item")), rule)
    sink = pa.BufferOutputStream()
    table = pa.table({"id": ids.values})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: dict[str, bytes | None] = {"ids": sink.getvalue().to_pybytes()}
    packed |= _packed(found.keys, len(ids))
    for name, aligned in (("weights", found.weights), ("times", found.times)):
        packed[name] = None if aligned is None else aligned.tobytes()
    for name, keys in (("dislikes", found.dislikes), ("seen", found.seen)):
        others = _packed(keys, len(ids))
        packed |= {f"{name}_{part}": content if rule.rated else None for part, content in others.items()}
    blobs = [pa.array([blob], pa.large_binary()) for blob in packed.values()]
    yield pa.RecordBatch.from_arrays([pa.array([len(found.keys)], pa.int64()), *blobs], ["pairs", *packed])


def _packed(keys: NDArray[np.int64], rows: int) -> dict[str, bytes]:
    indptr, indices = compressed(keys, rows)
    return {"lengths": np.diff(indptr).astype(np.int32).tobytes(), "items": indices.tobytes()}


def _merged(rows: pa.Table, owner: NDArray[np.int32], items: NDArray[np.int32], rule: RowRule) -> MergedPairs:
    """The distinct pairs of a table's rows, of these users and items; rows of unknown items (-1) are left out."""
    known = np.flatnonzero(items >= 0)
    columns = {name: _numbers(rows.column(name)) for name in ("weight", "time", "rating") if name in rows.column_names}
    weight, time, rating = (columns[name][known] if name in columns else None for name in ("weight", "time", "rating"))
    return merged(owner[known].astype(np.int64) << 32 | items[known].astype(np.int64), weight, time, rating, rule)


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers, NaN where there is none; dates and timestamps as microseconds since 1970."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None))).cast(pa.int64())
    elif pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    values: NDArray[Any] = column.to_numpy()
    return values


def block_sums(folder: Folder, blocks: Iterator[tuple[int, int]]) -> Iterator[bytes]:
    """The sums of the rows of a streamed matrix (of its base, where it has a low-rank part), for blocks of rows."""
    matrix = mapped_model(folder).matrix  # type: ignore[attr-defined]
    for block in blocks:
        yield matrix.sums_of(block).tobytes()


def _share(memory: str | int | None) -> str | int:
    """The budget of a worker; by default the node's free memory is divided by its cores."""
    return memory if memory is not None else budget(None) // (os.cpu_count() or 1)


def _lists(model: Recommender, task: ListTask, users: pa.Array, rows: Histories) -> Iterator[pa.RecordBatch]:
    rows = replace(rows, at=task.at, seen=rows.seen if task.exclude_low_rated else None)
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
