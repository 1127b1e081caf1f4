"""The estimator: the text of a komd model, the names of columns, and `fit`."""

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
from komd.spark.column_params import ColumnParams, select_columns
from komd.spark.distributed_fit import learn
from komd.spark.gather_catalogue import catalogue_of
from komd.spark.model_folder import check_executors, context_of
from komd.spark.spark_model import KomdRecommenderModel

__all__ = ["KomdRecommender"]


class KomdRecommender(ColumnParams, Estimator[Any], DefaultParamsReadable, DefaultParamsWritable):
    """A komd model fitted by Spark.

    Parameters
    ----------
    model
        The model, or its text: `CFKOMD`, `ECFOMD`, `MSDW` or `RP3Beta`, with any of their parameters.
    userCol, itemCol
        Columns of ids, of any type that komd takes (whole numbers, text, dates, bytes). A repeated pair counts once.
        Other columns are not read, except that rows rated 0 are left out. Filter low-rated rows before; to keep such
        pairs out of the lists as well, fit on one machine (`komd.read(..., min_rating=...)`) and load the model here.
    predictionCol
        The column of scores that `transform` of the fitted model adds.
    sharedFolder
        A folder on storage that the driver and every executor mount at the same path; the model is saved there and
        memory-mapped. Without it Spark ships the model's files to each executor.
    memory
        The budget of a Python worker, such as "2GB", and of the driver for K. By default 60 % of the free memory on the
        driver, and on a node 60 % of the free memory divided by its cores.

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
        columns = select_columns(dataset, user=self._user, item=self._item).schema
        check_executors(context)
        catalogue = catalogue_of(dataset, self._user, self._item)
        model = model_from_text(self.getOrDefault(self.model))
        assert isinstance(model, KernelBased)
        memory = self.getOrDefault(self.memory) if self.isDefined(self.memory) else None
        with tempfile.TemporaryDirectory(prefix="komd-fit-") as temporary:
            shared = self.isDefined(self.sharedFolder)
            path = Path(self.getOrDefault(self.sharedFolder)) if shared else Path(temporary) / "model"
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
