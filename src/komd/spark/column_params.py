"""Spark parameters for the names of columns, shared by the estimator and the fitted model."""

from __future__ import annotations

from typing import Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.sql import DataFrame

from komd.errors import InputError, nearest

__all__ = ["ColumnParams", "select_columns"]


class ColumnParams(Params):
    """`userCol`, `itemCol`, `predictionCol`."""

    userCol: Param[str] = Param(Params._dummy(), "userCol", "column of user ids", TypeConverters.toString)
    itemCol: Param[str] = Param(Params._dummy(), "itemCol", "column of item ids", TypeConverters.toString)
    predictionCol: Param[str] = Param(
        Params._dummy(), "predictionCol", "column that transform adds", TypeConverters.toString
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(userCol="user", itemCol="item", predictionCol="prediction")

    def setUserCol(self, value: str) -> Self:
        """Change `userCol`."""
        return self._set(userCol=value)

    def setItemCol(self, value: str) -> Self:
        """Change `itemCol`."""
        return self._set(itemCol=value)

    def setPredictionCol(self, value: str) -> Self:
        """Change `predictionCol`."""
        return self._set(predictionCol=value)

    @property
    def _user(self) -> str:
        return str(self.getOrDefault(self.userCol))

    @property
    def _item(self) -> str:
        return str(self.getOrDefault(self.itemCol))


def select_columns(frame: DataFrame, **columns: str) -> DataFrame:
    """These columns of a frame, renamed to the keywords; an InputError if one is missing."""
    from pyspark.sql import functions as F

    for role, name in columns.items():
        if name not in frame.columns:
            raise InputError(f"the frame has no column {name!r} for {role} ids; {nearest(name, frame.columns)}")
    return frame.select(*(F.col(f"`{name}`").alias(role) for role, name in columns.items()))
