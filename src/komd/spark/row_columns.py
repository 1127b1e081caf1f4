"""The columns of a frame of interactions: which they are, whether their values can be used, and what times count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from komd.data.columns import role
from komd.data.ids import Ids
from komd.data.interactions import TIME_UNITS, Interactions
from komd.data.times import recognised_unit
from komd.errors import InputError, nearest
from komd.spark.merged_rows import EVERY_ROW, RowRule

__all__ = ["RowColumns", "select_columns"]

_SINGLE = np.finfo(np.float32)
_LARGEST = 0.999 * 2**63  # of times in microseconds
_DATES = (T.TimestampType, T.TimestampNTZType, T.DateType)


@dataclass(frozen=True)
class RowColumns:
    """The names of columns, and what their values mean."""

    user: str
    item: str
    weight: str | None = None
    time: str | None = None
    rating: str | None = None
    time_unit: str | None = None
    rule: RowRule = EVERY_ROW

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise InputError(f"unknown timeUnit {self.time_unit!r}: {nearest(self.time_unit, TIME_UNITS)}")
        if self.time_unit is not None and self.time is None:
            raise InputError("timeUnit needs timeCol, the column of times")
        if self.rule.repeated == "last" and self.time is None:
            raise InputError(
                "repeated='last' needs timeCol: the rows of a frame have no order, so only times can tell which is last"
            )

    def selected(self, frame: DataFrame) -> DataFrame:
        """The rows that count, with columns `user, item` and, where they are asked for, `weight, time, rating`."""
        rating = self._rating(frame)
        wanted = {"user": self.user, "item": self.item, "weight": self.weight, "time": self.time, "rating": rating}
        columns = {name: column for name, column in wanted.items() if column is not None}
        rows = select_columns(frame, **columns)
        for name in ("weight", "rating"):
            if name in columns:
                if not isinstance(rows.schema[name].dataType, T.NumericType):
                    raise InputError(f"{_found(rows, name, columns[name])}; {name}s are numbers: cast the column")
                rows = rows.withColumn(name, F.col(name).cast("double"))
        if self.time is not None:
            self._check_time_type(rows)
        if rating is None or self.rule.rated:
            return rows
        least: Any = rows.agg(F.min("rating")).first()
        if least is not None and least[0] is not None and least[0] < 0:
            raise InputError(
                f"the frame has ratings below 0 in {rating!r} (least {least[0]:g}): say with liked which ratings count "
                "as chosen, or drop the column"
            )
        return rows.filter(F.col("rating").isNull() | (F.col("rating") != 0)).drop("rating")

    def checked_rows(self, rows: DataFrame) -> int:
        """How many rows are selected; InputError if some are without ids."""
        total, no_user, no_item = _counts(rows, F.lit(True), F.col("user").isNull(), F.col("item").isNull())
        if no_user or no_item:
            missing = f"{no_user:,} without a {self.user}" if no_user else f"{no_item:,} without an {self.item}"
            advice = f"leave them out with frame.dropna(subset=[{self.user!r}, {self.item!r}])"
            raise InputError(f"of {total:,} rows {missing}; {advice}")
        return total

    def checked_unit(self, rows: DataFrame) -> str | None:
        """The unit of the times of selected rows; InputError counts the rows with weights or times that are none."""
        self._check_weights(rows)
        if self.time is None:
            return None
        total, missing = _counts(rows, F.lit(True), F.col("time").isNull())
        if missing:
            raise InputError(
                f"of {total:,} rows {missing:,} without a time in {self.time!r}; leave them out with "
                f"frame.dropna(subset=[{self.time!r}]), or do without timeCol"
            )
        if isinstance(rows.schema["time"].dataType, _DATES):
            return "us"
        ends: Any = rows.agg(F.min("time"), F.max("time")).first()
        return self._unit(int(ends[0]), int(ends[1])) if total else self.time_unit or "us"

    def example(self) -> Interactions:
        """Interactions of nobody that have weights and times if the frame has: what a model may refuse before work."""
        weights = np.zeros(0, np.float32) if self.weight is not None or self.rule.repeated == "count" else None
        times = None if self.time is None else np.zeros(0, np.int64)
        nobody, nothing = Ids.range(0, noun="user"), Ids.range(0, noun="item")
        indptr, indices = np.zeros(1, np.int64), np.zeros(0, np.int32)
        return Interactions(nobody, nothing, indptr, indices, times, weights=weights, time_unit="us")

    def _rating(self, frame: DataFrame) -> str | None:
        """The column of ratings: as asked for, or by its name."""
        if self.rating is not None:
            return self.rating
        taken = (self.user, self.item, self.weight, self.time)
        known = [name for name in frame.columns if role(name) == "rating" and name not in taken]
        if self.rule.rated:
            if not known:
                asked = "liked" if self.rule.liked is not None else "disliked"
                raise InputError(
                    f"{asked} needs ratings, but the frame has no column of them (choose with ratingCol); it has: "
                    f"{', '.join(frame.columns)}"
                )
            return known[0]
        return known[0] if known and isinstance(frame.schema[known[0]].dataType, T.NumericType) else None

    def _check_time_type(self, rows: DataFrame) -> None:
        kind = rows.schema["time"].dataType
        if isinstance(kind, _DATES):
            if self.time_unit is not None:
                raise InputError(f"timeUnit is for numbers, but {self.time!r} has dates, which need no unit")
        elif not isinstance(kind, T.IntegralType):
            raise InputError(
                f"{_found(rows, 'time', str(self.time))}; times are timestamps, dates or whole numbers: cast the "
                "column, for example with F.to_timestamp"
            )

    def _check_weights(self, rows: DataFrame) -> None:
        """Refuse rows of the histories whose weights are none."""
        if self.weight is None:
            return
        weight, of_history = F.col("weight"), self._chosen()
        missing = weight.isNull() | F.isnan(weight)
        usable = weight.between(float(_SINGLE.smallest_subnormal), float(_SINGLE.max))
        total, none, unusable = _counts(rows, of_history, of_history & missing, of_history & ~missing & ~usable)
        if none or unusable:
            found = [f"{none:,} have no weight (null or NaN)"] if none else []
            found += [f"{unusable:,} have a weight that is not > 0 and finite in single precision"] if unusable else []
            raise InputError(
                f"of {total:,} rows {' and '.join(found)} in {self.weight!r}; keep the others with "
                f"frame.where(F.col({self.weight!r}).between(1e-30, 1e30)), or do without weightCol"
            )

    def _chosen(self) -> Column:
        """Whether a row is part of a history by its own rating."""
        rating, rule = F.col("rating"), self.rule
        if rule.liked is not None:
            return F.coalesce(~F.isnan(rating) & (rating >= rule.liked), F.lit(False))
        if rule.disliked is not None:
            return F.coalesce(rating > rule.disliked, F.lit(True))  # NaN is larger than all numbers
        return F.lit(True)

    def _unit(self, first: int, last: int) -> str:
        """The unit of numbers from `first` to `last`: as asked for, or the one in which all lie in 1990 to 2100."""
        found = f"the times in {self.time!r} are numbers from {first:,} to {last:,}"
        if self.time_unit is None:
            unit = recognised_unit(first)
            if unit is not None and unit == recognised_unit(last):
                return unit
            raise InputError(
                f"{found}, which are not all between 1990 and 2100 as s, ms, us or ns: say with timeUnit what they "
                f"count since 1970 ({', '.join(TIME_UNITS)})"
            )
        if max(abs(first), abs(last)) * max(TIME_UNITS[self.time_unit], 1) > _LARGEST:
            raise InputError(f"{found}, which are no moments with timeUnit={self.time_unit!r}: give another unit")
        return self.time_unit


def select_columns(frame: DataFrame, **columns: str) -> DataFrame:
    """These columns of a frame, renamed to the keywords; an InputError if one is missing."""
    for name, column in columns.items():
        if column not in frame.columns:
            what = f"{name} ids" if name in ("user", "item") else f"{name}s"
            raise InputError(f"the frame has no column {column!r} for {what}; {nearest(column, frame.columns)}")
    return frame.select(*(F.col(f"`{column}`").alias(name) for name, column in columns.items()))


def _found(rows: DataFrame, name: str, column: str) -> str:
    return f"column {column!r} is of type {rows.schema[name].dataType.simpleString()}"


def _counts(rows: DataFrame, *conditions: Column) -> list[int]:
    """In how many rows each condition holds."""
    found: Any = rows.agg(*(F.count_if(condition) for condition in conditions)).first()
    return [int(count) for count in found]
