"""Spark parameters for the columns of a frame, shared by the estimator and the fitted model."""

from __future__ import annotations

from typing import Any, Self

from pyspark.ml.param import Param, Params, TypeConverters

from komd.spark.merged_rows import RowRule
from komd.spark.row_columns import RowColumns

__all__ = ["ColumnParams"]


def _text(name: str, doc: str) -> Param[str]:
    return Param(Params._dummy(), name, doc, TypeConverters.toString)


def _number(name: str, doc: str) -> Param[float]:
    return Param(Params._dummy(), name, doc, TypeConverters.toFloat)


class ColumnParams(Params):
    """`userCol`, `itemCol`, `weightCol`, `timeCol`, `timeUnit`, `ratingCol`, `liked`, `disliked`, `repeated`,
    `predictionCol`."""

    userCol = _text("userCol", "column of user ids")
    itemCol = _text("itemCol", "column of item ids")
    weightCol = _text("weightCol", "column of weights: how much a row counts")
    timeCol = _text("timeCol", "column of times: timestamps, dates or whole numbers")
    timeUnit = _text("timeUnit", "what whole numbers in timeCol count since 1970: ns, us, ms, s, min, h or d")
    ratingCol = _text("ratingCol", "column of ratings, for liked and disliked")
    liked = _number("liked", "rows rated at least this are the histories, the others are only seen")
    disliked = _number("disliked", "rows rated at most this are dislikes")
    repeated = _text("repeated", "the weight of a repeated pair: sum, max, last or count")
    predictionCol = _text("predictionCol", "column that transform adds")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(userCol="user", itemCol="item", repeated="sum", predictionCol="prediction")

    def setUserCol(self, value: str) -> Self:
        """Set `userCol`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(userCol=value)

    def setItemCol(self, value: str) -> Self:
        """Set `itemCol`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(itemCol=value)

    def setWeightCol(self, value: str) -> Self:
        """Set `weightCol`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(weightCol=value)

    def setTimeCol(self, value: str) -> Self:
        """Set `timeCol`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(timeCol=value)

    def setTimeUnit(self, value: str) -> Self:
        """Set `timeUnit`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(timeUnit=value)

    def setRatingCol(self, value: str) -> Self:
        """Set `ratingCol`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(ratingCol=value)

    def setLiked(self, value: float) -> Self:
        """Set `liked`.

        Parameters
        ----------
        value : float
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(liked=value)

    def setDisliked(self, value: float) -> Self:
        """Set `disliked`.

        Parameters
        ----------
        value : float
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(disliked=value)

    def setRepeated(self, value: str) -> Self:
        """Set `repeated`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(repeated=value)

    def setPredictionCol(self, value: str) -> Self:
        """Set `predictionCol`.

        Parameters
        ----------
        value : str
            The new value; see `KomdRecommender`.

        Returns
        -------
        Self
            This object itself.
        """
        return self._set(predictionCol=value)

    @property
    def column_params(self) -> dict[str, Any]:
        """The values of these parameters by name, of those that have one."""
        own = [param for param in self.params if getattr(ColumnParams, param.name, None) is not None]
        return {param.name: self.getOrDefault(param) for param in own if self.isDefined(param)}

    @property
    def row_columns(self) -> RowColumns:
        """The columns that make up a frame of interactions; an InputError if the parameters contradict each other."""
        of = self.column_params.get
        rule = RowRule(of("liked"), of("disliked"), str(of("repeated")))
        return RowColumns(
            str(of("userCol")),
            str(of("itemCol")),
            of("weightCol"),
            of("timeCol"),
            of("ratingCol"),
            of("timeUnit"),
            rule,
        )

    @property
    def _user(self) -> str:
        return str(self.getOrDefault(self.userCol))

    @property
    def _item(self) -> str:
        return str(self.getOrDefault(self.itemCol))
