"""The estimator: a komd model as a text, the names of columns, and `fit`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Self

from pyspark import keyword_only
from pyspark.ml.base import Estimator
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import DataFrame

from komd.engine.kernel_based import KernelBased
from komd.engine.recommender import Recommender
from komd.errors import InputError
from komd.models.registry import model_from_text
from komd.spark.column_params import Columns, chosen
from komd.spark.distributed_fit import learn
from komd.spark.gather_catalogue import catalogue_of
from komd.spark.model_folder import check_executors, context_of
from komd.spark.spark_model import KomdRecommenderModel

__all__ = ["KomdRecommender"]


class KomdRecommender(Columns, Estimator[Any], DefaultParamsReadable, DefaultParamsWritable):
    """A komd model fitted by Spark.

    Parameters
    ----------
    model
        The model, or its text: `CFKOMD`, `ECFOMD`, `MSDW` or `RP3Beta`, with any of their parameters.
    userCol, itemCol
        Columns of ids, of any type that komd takes (whole numbers, text, dates, bytes). Other columns are not read, a
        pair that comes twice counts once. Ratings are not read: leave out low-rated rows before. To keep such pairs
        out of the lists as well, fit on one machine (`komd.read(..., min_rating=...)`) and load the model here.
    predictionCol
        What `transform` of the fitted model calls the scores.
    sharedFolder
        A folder on storage that the driver and every executor mount under the same name; the model is put there and
        mapped in place. Without it Spark ships the model's files to each executor.
    memory
        What a Python worker may use, such as "2GB", and what the driver may use to hold K; by default a worker's share,
        by cores, of 60 % of what is free on its node, and 60 % of what is free on the driver.

    Examples
    --------
    ::

        model = KomdRecommender(model=komd.CFKOMD(), userCol="user", itemCol="song").fit(plays)
        model.recommendForAllUsers(10).show()
    """

    model: Param[str] = Param(Params._dummy(), "model", "the komd model, as its text", TypeConverters.toString)
    sharedFolder: Param[str] = Param(
        Params._dummy(), "sharedFolder", "a folder that every executor sees", TypeConverters.toString
    )
    memory: Param[str] = Param(Params._dummy(), "memory", "what a Python worker may use", TypeConverters.toString)

    @keyword_only
    def __init__(
        self,
        *,
        model: str | Recommender = "CFKOMD()",
        userCol: str = "user",
        itemCol: str = "item",
        predictionCol: str = "prediction",
        sharedFolder: str | None = None,
        memory: str | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(model="CFKOMD()")
        given: dict[str, Any] = dict(self._input_kwargs)
        given["model"] = _text(given.get("model", "CFKOMD()"))
        self._set(**{name: value for name, value in given.items() if value is not None})

    def setModel(self, value: str | Recommender) -> Self:
        """Change the model."""
        return self._set(model=_text(value))

    def _fit(self, dataset: DataFrame) -> KomdRecommenderModel:
        context = context_of(dataset.sparkSession)
        columns = chosen(dataset, user=self._user, item=self._item).schema
        check_executors(context)
        catalogue = catalogue_of(dataset, self._user, self._item)
        model = model_from_text(self.getOrDefault(self.model))
        assert isinstance(model, KernelBased)
        memory = self.getOrDefault(self.memory) if self.isDefined(self.memory) else None
        with tempfile.TemporaryDirectory(prefix="komd-fit-") as aside:
            shared = self.isDefined(self.sharedFolder)
            path = Path(self.getOrDefault(self.sharedFolder)) if shared else Path(aside) / "model"
            folder = learn(context, model, catalogue, path, shared=shared, memory=memory)
        fitted = KomdRecommenderModel(
            model, folder, memory=memory, types=(columns["user"].dataType, columns["item"].dataType)
        )
        return fitted._set(userCol=self._user, itemCol=self._item, predictionCol=self.getOrDefault(self.predictionCol))


def _text(model: object) -> str:
    """The text of a model that runs on Spark."""
    known = model_from_text(model) if isinstance(model, str) else model
    if not isinstance(known, KernelBased):
        name = type(known).__name__ if isinstance(known, Recommender) else repr(model)
        raise InputError(f"on Spark run CFKOMD, ECFOMD, MSDW and RP3Beta, not {name}")
    return known.text
