"""What runs in Spark's Python workers: a mapped model, one thread, people in and lists out."""

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
from komd.spark.model_folder import Folder

__all__ = ["Asked", "block_sums", "known_people", "packed", "scored_pairs", "strangers"]

_PEOPLE = 2_048  # whose lists are handed to Spark together
_held: dict[str, Recommender] = {}


@dataclass(frozen=True)
class Asked:
    """What is asked for everybody, and the shape of the answer."""

    folder: Folder
    n: int
    exclude_seen: bool
    candidates: NDArray[np.int32] | None
    nested: bool
    memory: str | int | None
    schema: pa.Schema
    exclude_low_rated: bool = True

    def question(self, model: Recommender) -> RankingRequest:
        """The question as the ranking takes it."""
        candidates = model.catalogue.candidates() if self.candidates is None else self.candidates
        return RankingRequest(self.n, candidates, self.exclude_seen)


def opened(folder: Folder) -> Recommender:
    """The model, mapped; kept for the next task of this worker."""
    if folder.manifest not in _held:
        _held.clear()
        # The first workers of an executor check every byte, side by side; those that start later find their marks.
        marks = Path(SparkFiles.getRootDirectory())
        _held[folder.manifest] = load_exactly(folder.here(), folder.manifest, marks)
    return _held[folder.manifest]


def known_people(asked: Asked, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lists for known people, who come as row numbers."""
    model = opened(asked.folder)
    numbers = np.concatenate(
        [np.zeros(0, np.int32), *(batch.column(0).to_numpy().astype(np.int32) for batch in batches)]
    )
    rows = model.catalogue.histories.take(numbers)
    if not asked.exclude_low_rated:
        rows = replace(rows, seen=None)
    yield from _lists(model, asked, model.catalogue.users.take(numbers), rows)


def strangers(asked: Asked, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lists for people who come with a list of items; unknown items are passed over."""
    model, whole = opened(asked.folder), list(batches)
    if not whole:
        return
    people, lists = (pa.concat_arrays([batch.column(k) for batch in whole]) for k in (0, 1))
    found = model.catalogue.find_items(lists.flatten(), "skip")
    edges = np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy())])
    rows = [found[a:b] for a, b in pairwise(edges)]
    yield from _lists(model, asked, people, Histories.of_rows([row[row >= 0] for row in rows]))


def scored_pairs(
    folder: Folder,
    batches: Iterator[pa.RecordBatch],
    user: int,
    item: int,
    schema: pa.Schema,
    memory: str | int | None,
) -> Iterator[pa.RecordBatch]:
    """The rows as they came, with the score of each pair; not a number where the user or the item is unknown."""
    model = opened(folder)
    for batch in batches:
        who = model.catalogue.find_users(batch.column(user), "skip")
        what = model.catalogue.find_items(batch.column(item), "skip")
        known = np.flatnonzero((who >= 0) & (what >= 0))
        out = np.full(batch.num_rows, np.nan)
        out[known] = model.pair_scores(
            model.catalogue.histories, who[known], what[known], threads=1, memory=_share(memory)
        )
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(out)], schema=schema)


def packed(items: pa.Array, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of some users as one: how many there were, and their ids, lengths and items' numbers as bytes."""
    import pyarrow.compute as pc

    whole = [batch for batch in batches if batch.num_rows]
    if not whole:
        return
    users, chosen = (pa.chunked_array([batch.column(k) for batch in whole]) for k in (0, 1))
    counts = [len(users), users.null_count, chosen.null_count]
    if users.null_count or chosen.null_count:  # refused by the driver, which needs the numbers only
        there = pc.and_(pc.is_valid(users), pc.is_valid(chosen))
        users, chosen = users.filter(there), chosen.filter(there)
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
    matrix = opened(folder).matrix  # type: ignore[attr-defined]
    for block in blocks:
        yield matrix.sums_of(block).tobytes()


def _share(memory: str | int | None) -> str | int:
    """A worker's budget. It is one of many on its node: by default each takes its share of what is free."""
    return memory if memory is not None else budget(None) // (os.cpu_count() or 1)


def _lists(model: Recommender, asked: Asked, people: pa.Array, rows: Histories) -> Iterator[pa.RecordBatch]:
    waiting: list[RankedBlock] = []
    done = have = 0
    for answer in model.ranked_blocks(rows, asked.question(model), threads=1, memory=_share(asked.memory)):
        waiting.append(answer)
        have += len(answer.counts)
        if have >= _PEOPLE:
            yield from _batches(model, asked, people.slice(done, have), waiting)
            done, have, waiting = done + have, 0, []
    if waiting:
        yield from _batches(model, asked, people.slice(done, have), waiting)


def _batches(model: Recommender, asked: Asked, people: pa.Array, parts: list[RankedBlock]) -> Iterator[pa.RecordBatch]:
    table = lists_table(model.catalogue, people, parts)
    if not asked.nested:
        yield from table.cast(asked.schema).to_batches(max_chunksize=1 << 16)
        return
    counts = np.concatenate([part.counts for part in parts])
    item, score = (table.column(name).combine_chunks() for name in ("item_id", "score"))
    inner = asked.schema.field(1).type.value_type
    entries = pa.StructArray.from_arrays([item.cast(inner.field(0).type), score], fields=list(inner))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), entries, type=asked.schema.field(1).type)
    users = people.cast(asked.schema.field(0).type)
    yield from pa.Table.from_arrays([users, lists], schema=asked.schema).to_batches(max_chunksize=1 << 16)
