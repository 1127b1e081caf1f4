"""From a frame to interactions or a catalogue: Spark finds the ids and groups rows by user, workers pack them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from komd.data.encode import encode
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.errors import InputError
from komd.rows import pointers
from komd.spark.model_folder import context_of
from komd.spark.row_columns import RowColumns

__all__ = ["catalogue_of", "interactions_of"]

_NUMBERS = {"lengths": np.int32, "items": np.int32, "weights": np.float32, "times": np.int64}
_ALIGNED = {"items", "weights", "times"}  # one number for each pair
_OTHERS = ("dislikes", "seen")
_BLOBS = (*_NUMBERS, *(f"{kind}_{name}" for kind in _OTHERS for name in ("lengths", "items")))
_PACKED = ", ".join(["pairs long", "ids binary", *(f"{name} binary" for name in _BLOBS)])


def catalogue_of(frame: DataFrame, columns: RowColumns) -> Catalogue:
    """The catalogue of a frame of interactions, the same as `Catalogue.of` makes on one machine."""
    data = interactions_of(frame, columns)
    if not len(data.users):
        raise InputError("nothing to learn from: the frame is empty")
    if not columns.rule.rated:
        return Catalogue.of(data)
    if not data.pairs:
        raise InputError(
            f"no row has a rating of at least {columns.rule.liked:g} (liked): nothing is left"
            if columns.rule.liked is not None
            else f"every row has a rating of at most {columns.rule.disliked:g} (disliked): nothing is left"
        )
    return Catalogue.of(_of_histories(data))


def interactions_of(frame: DataFrame, columns: RowColumns) -> Interactions:
    """The distinct pairs of a frame, with users and items that are only disliked or seen; perhaps of nobody.

    Rows are shuffled once, by ranges of users, and cached (a frame that is read twice may not be the same twice). Then
    workers number the items, merge repeated pairs and pack them, so that only ids and numbers come to the driver.
    """
    with ExitStack() as cleanup:  # whatever happens, Spark drops what was cached
        rows = columns.selected(frame).repartitionByRange("user").persist()
        cleanup.callback(rows.unpersist)
        if not columns.checked_rows(rows):
            return columns.example()
        unit = columns.checked_unit(rows)
        items = _ascending(rows.select("item").distinct().sort("item").toArrow().column(0), "item")
        known, rule = context_of(frame.sparkSession).broadcast(items.values), columns.rule
        cleanup.callback(known.destroy)

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from komd.spark.executor_tasks import packed_rows

            return packed_rows(known.value, rule, batches)

        parts = rows.mapInArrow(pack, _PACKED).persist()
        cleanup.callback(parts.unpersist)
        total: Any = parts.agg(F.sum("pairs")).first()
        return _joined(parts, items, int(total[0]), unit)


def _joined(parts: DataFrame, items: Ids, pairs: int, unit: str | None) -> Interactions:
    """The interactions, from the packed partitions in order."""
    ids: list[pa.Array] = []
    lists: dict[str, list[NDArray[Any]]] = {name: [] for name in _BLOBS if name not in _ALIGNED}
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    for part in parts.drop("pairs").toLocalIterator(prefetchPartitions=True):
        ids.append(pa.ipc.open_stream(part["ids"]).read_all().column(0).combine_chunks())
        found = {
            name: np.frombuffer(part[name], _NUMBERS[name.split("_")[-1]]) for name in _BLOBS if part[name] is not None
        }
        for name in found.keys() & lists.keys():
            lists[name].append(found[name])
        for name in found.keys() & _ALIGNED:  # as long as all pairs: not held twice
            arrays.setdefault(name, np.empty(pairs, _NUMBERS[name]))[end : end + len(found[name])] = found[name]
        end += len(found["items"])
    arrays |= {name: np.concatenate(some) for name, some in lists.items() if some}
    users = _ascending(pa.chunked_array(ids), "user")
    weights = arrays.get("weights")
    if weights is not None and not np.isfinite(weights).all():
        raise InputError(
            f"the weights of {int((~np.isfinite(weights)).sum()):,} repeated pairs add up to more than single "
            "precision holds (3.4e38): scale the weights, or choose another repeated"
        )
    others = {
        name: Interactions(users, items, pointers(arrays[f"{name}_lengths"]), arrays[f"{name}_items"])
        for name in _OTHERS
        if f"{name}_lengths" in arrays
    }
    indptr, times = pointers(arrays["lengths"]), arrays.get("times")
    return Interactions(users, items, indptr, arrays["items"], times, weights=weights, time_unit=unit, **others)


def _of_histories(data: Interactions) -> Interactions:
    """The same without users and items that are in no history, as `komd.read` does."""
    chosen_users, chosen_items = data.activity > 0, data.popularity > 0
    if chosen_users.all() and chosen_items.all():
        return data
    users, items = (
        Ids(ids.take(np.flatnonzero(kept).astype(np.int32)), noun=ids.noun)
        for ids, kept in ((data.users, chosen_users), (data.items, chosen_items))
    )
    numbers = (np.cumsum(chosen_items) - 1).astype(np.int32)

    def part(of: Interactions, **aligned: Any) -> Interactions:
        kept = of.keep(chosen_users[of.rows] & chosen_items[of.indices])
        return Interactions(users, items, pointers(kept.activity[chosen_users]), numbers[kept.indices], **aligned)

    others = {name: part(getattr(data, name)) for name in _OTHERS if getattr(data, name) is not None}
    # Every pair of a history stays, and so do weights and times.
    return part(data, times=data.times, weights=data.weights, time_unit=data.time_unit, **others)


def _ascending(values: pa.ChunkedArray, role: str) -> Ids:
    """Ids sorted by Spark; refused if komd would sort them in another order."""
    ids, ranks = encode(values, noun=role)
    if not np.array_equal(ranks, np.arange(len(ids), dtype=np.int32)):
        raise InputError(
            f"{role} ids of type {values.type} are sorted in another order by Spark; cast the column to text"
        )
    return ids
