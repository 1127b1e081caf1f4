"""From a frame of pairs to a catalogue: Spark finds the ids and groups rows by user, workers pack them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from komd.data.columns import role
from komd.data.encode import encode
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.errors import InputError
from komd.rows import pointers
from komd.spark.column_params import select_columns
from komd.spark.model_folder import context_of

__all__ = ["catalogue_of"]

_PACKED = "rows long, no_user long, no_item long, pairs long, ids binary, lengths binary, items binary"


def catalogue_of(frame: DataFrame, user: str, item: str) -> Catalogue:
    """The catalogue of a frame of interactions, the same as `Catalogue.of` makes on one machine.

    Rows are shuffled once, by ranges of users, and cached (a frame that is read twice may not be the same twice). Then
    workers number the items, drop repeated pairs and pack the rest, so that only ids and numbers come to the driver.
    """
    with ExitStack() as cleanup:  # whatever happens, Spark drops what was cached
        pairs = (
            select_columns(_chosen_rows(frame, user, item), user=user, item=item).repartitionByRange("user").persist()
        )
        cleanup.callback(pairs.unpersist)
        items = _ascending(pairs.select("item").dropna().distinct().sort("item").toArrow().column(0), "item")
        known = context_of(frame.sparkSession).broadcast(items.values)
        cleanup.callback(known.destroy)

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from komd.spark.executor_tasks import packed_rows

            return packed_rows(known.value, batches)

        parts = pairs.mapInArrow(pack, _PACKED).persist()
        cleanup.callback(parts.unpersist)
        totals: Any = parts.agg(*(F.sum(name) for name in ("rows", "no_user", "no_item", "pairs"))).first()
        rows, no_user, no_item, kept = (int(total or 0) for total in totals)
        if rows == 0:
            raise InputError("nothing to learn from: the frame is empty")
        if no_user or no_item:
            missing = f"{no_user:,} without a {user}" if no_user else f"{no_item:,} without an {item}"
            advice = f"leave them out with frame.dropna(subset=[{user!r}, {item!r}])"
            raise InputError(f"of {rows:,} rows {missing}; {advice}")
        data = _joined(parts, items, kept)
    return Catalogue.of(data)


def _chosen_rows(frame: DataFrame, user: str, item: str) -> DataFrame:
    """The rows that count as chosen, as in `komd.read`: rows rated 0 do not, negative ratings are refused."""
    ratings = [name for name in frame.columns if role(name) == "rating" and name not in (user, item)]
    if not ratings or not isinstance(frame.schema[ratings[0]].dataType, T.NumericType):
        return frame
    rating = F.col(f"`{ratings[0]}`")
    least: Any = frame.agg(F.min(rating)).first()
    if least is not None and least[0] is not None and least[0] < 0:
        raise InputError(
            f"the frame has ratings below 0 in {ratings[0]!r} (least {least[0]}): keep what counts as chosen with "
            "frame.filter, and drop the column"
        )
    return frame.filter(rating.isNull() | (rating != 0))


def _joined(parts: DataFrame, items: Ids, pairs: int) -> Interactions:
    """The interactions, from the packed partitions in order."""
    ids: list[pa.Array] = []
    lengths: list[np.ndarray] = []
    indices = np.empty(pairs, np.int32)
    end = 0
    for part in parts.select("ids", "lengths", "items").toLocalIterator(prefetchPartitions=True):
        ids.append(pa.ipc.open_stream(part["ids"]).read_all().column(0).combine_chunks())
        lengths.append(np.frombuffer(part["lengths"], np.int32))
        some = np.frombuffer(part["items"], np.int32)
        indices[end : end + len(some)] = some
        end += len(some)
    users = _ascending(pa.chunked_array(ids), "user")
    indptr = pointers(np.concatenate(lengths))
    return Interactions(users, items, indptr, indices)


def _ascending(values: pa.ChunkedArray, role: str) -> Ids:
    """Ids sorted by Spark; refused if komd would sort them in another order."""
    ids, ranks = encode(values, noun=role)
    if not np.array_equal(ranks, np.arange(len(ids), dtype=np.int32)):
        raise InputError(
            f"{role} ids of type {values.type} are sorted in another order by Spark; cast the column to text"
        )
    return ids
