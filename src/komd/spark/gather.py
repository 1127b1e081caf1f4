"""From a frame of pairs to a catalogue: Spark drops repetitions, numbers ids, counts, and groups items by user."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from komd.errors import InputError
from komd.interactions.encode import encode
from komd.interactions.ids import Ids
from komd.models.catalogue import Catalogue, by_popularity, inverse
from komd.models.histories import Histories
from komd.spark.parameters import chosen

__all__ = ["catalogue_of"]

_PLACE_BITS = 33  # of Spark's monotonically_increasing_id: below are places within a partition, above its number


def catalogue_of(frame: DataFrame, user: str, item: str) -> Catalogue:
    """The catalogue of a frame of interactions, the same as `Catalogue.of` makes on one machine."""
    pairs = chosen(frame, user=user, item=item)
    _refuse_missing(pairs, user, item)
    pairs = pairs.distinct().persist()
    try:
        users, user_numbers = _numbered(pairs, "user")
        items, item_numbers = _numbered(pairs, "item")
        counts = pairs.groupBy("item").count().join(item_numbers, "item").select("item_number", "count").toArrow()
        popularity = np.zeros(len(items), np.int64)
        popularity[counts["item_number"].to_numpy()] = counts["count"].to_numpy()
        order = by_popularity(popularity)
        rows = (
            pairs.join(item_numbers, "item")
            .join(user_numbers, "user")
            .select("user_number", "item_number")
            .repartitionByRange("user_number")
            .sortWithinPartitions("user_number")
        )
        histories = _grouped(rows, inverse(order), len(users), int(popularity.sum()))
        for numbers in (user_numbers, item_numbers):
            numbers.unpersist()
    finally:
        pairs.unpersist()
    return Catalogue(users, items, order, histories.known())


def _refuse_missing(pairs: DataFrame, user: str, item: str) -> None:
    rows, users, items = pairs.agg(F.count(F.lit(1)), F.count("user"), F.count("item")).first() or (0, 0, 0)
    if rows == 0:
        raise InputError("nothing to learn from: the frame is empty")
    if users < rows or items < rows:
        missing = f"{rows - users:,} without a {user}" if users < rows else f"{rows - items:,} without an {item}"
        raise InputError(f"of {rows:,} rows {missing}; leave them out with frame.dropna(subset=[{user!r}, {item!r}])")


def _numbered(pairs: DataFrame, role: str) -> tuple[Ids, DataFrame]:
    """Distinct ids, ascending, and a frame that gives each its number."""
    sorted_ids = pairs.select(role).distinct().sort(role).withColumn("place", F.monotonically_increasing_id()).persist()
    sizes = sorted_ids.groupBy(F.shiftrightunsigned("place", _PLACE_BITS).alias("part")).count().collect()
    starts = np.zeros(max(row["part"] for row in sizes) + 2, np.int64)
    for row in sizes:
        starts[row["part"] + 1] = row["count"]
    starts = np.cumsum(starts)[:-1]
    before = F.array(*(F.lit(int(start)) for start in starts))
    inside = F.col("place").bitwiseAND((1 << _PLACE_BITS) - 1)
    number = (F.get(before, F.shiftrightunsigned("place", _PLACE_BITS).cast("int")) + inside).cast("int")
    values = sorted_ids.select(role).toArrow().column(0)
    ids, ranks = encode(values, noun=role)
    if not np.array_equal(ranks, np.arange(len(ids), dtype=np.int32)):
        raise InputError(f"{role} ids of type {values.type} are ordered otherwise by Spark; cast the column to text")
    return ids, sorted_ids.select(role, number.alias(f"{role}_number"))


def _grouped(rows: DataFrame, inside: np.ndarray, users: int, pairs: int) -> Histories:
    """Everybody's items, ascending in inside numbers, from rows that Spark has put in order of users."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        whole = [batch for batch in batches if batch.num_rows]
        if not whole:
            return
        table = pa.Table.from_batches(whole)
        owner, item = (table.column(k).to_numpy().astype(np.int64) for k in (0, 1))
        keys = np.sort(owner << 32 | inside[item].astype(np.int64))
        owner, items = keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)
        first, last = int(owner[0]), int(owner[-1])
        lengths = np.bincount(owner - first, minlength=last - first + 1).astype(np.int32)
        blobs = [pa.array([blob.tobytes()], pa.large_binary()) for blob in (lengths, items)]
        yield pa.RecordBatch.from_arrays([pa.array([first], pa.int64()), *blobs], ["first", "lengths", "items"])

    packed = rows.mapInArrow(pack, "first long, lengths binary, items binary")
    lengths, indices = np.zeros(users, np.int64), np.empty(pairs, np.int32)
    end = 0
    for row in packed.toLocalIterator():  # one row a partition, in order
        some = np.frombuffer(row["lengths"], np.int32)
        lengths[row["first"] : row["first"] + len(some)] = some
        items = np.frombuffer(row["items"], np.int32)
        indices[end : end + len(items)] = items
        end += len(items)
    indptr = np.zeros(users + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return Histories(indptr, indices)
