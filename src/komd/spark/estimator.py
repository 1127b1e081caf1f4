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
from komd.spark.column_params import ColumnParams
from komd.spark.distributed_fit import learn
from komd.spark.gather_catalogue import catalogue_of
from komd.spark.model_folder import check_executors, context_of
from komd.spark.row_columns import RowColumns, select_columns
from komd.spark.spark_model import KomdRecommenderModel

__all__ = ["KomdRecommender"]

_PARAMS = {"time": "timeCol", "time_unit": "timeUnit"}  # names of `komd.read`'s arguments here


class KomdRecommender(ColumnParams, Estimator[Any], DefaultParamsReadable, DefaultParamsWritable):
    """Spark estimator that fits a komd model.

    Parameters
    ----------
    model : str or Recommender
        The model, or its text: `CFKOMD`, `ECFOMD`, `MSDW` or `RP3Beta`, with any of their parameters.
    userCol, itemCol : str
        Columns of ids, of any type that komd accepts (integers, text, dates, bytes).
    weightCol : str, optional
        Column of weights, such as play counts: finite numbers > 0. Without it, every pair counts 1.
    timeCol : str, optional
        Column of times, for models with a half-life: timestamps, dates or integers.
    timeUnit : {"ns", "us", "ms", "s", "min", "h", "d"}, optional
        Unit of integers in `timeCol`, counted from 1970. By default s, ms, us or ns, if all times then lie between 1990
        and 2100; other numbers are refused.
    ratingCol : str, optional
        Column of ratings; by default one with a recognised name. Without `liked` and `disliked`, rows rated 0 are left
        out and negative ratings are refused.
    liked : float, optional
        Rows rated at least this are the histories. Other pairs, and those without a rating, count as seen: nothing is
        learned from them, and they are not recommended.
    disliked : float, optional
        Rows rated at most this are dislikes, which are never recommended to their user. Without `liked`, all others are
        the histories. Users and items that are in no history are left out.
    repeated : {"sum", "max", "last", "count"}
        Weight of a pair with several rows: the sum of their weights, the largest, that of the latest row ("last", needs
        `timeCol`), or their number ("count", needs no weights). The time of such a pair is the earliest; with "last",
        the latest. Of several ratings, liked counts before disliked before seen; with "last", that of the latest row.
        Rows of equal times: liked first, then the larger weight.
    predictionCol : str
        Column of scores that `transform` of the fitted model adds.
    sharedFolder : str, optional
        Folder on storage that the driver and every executor mount at the same path; the model is saved there and
        memory-mapped. Without it, Spark ships the model's files to each executor.
    memory : str, optional
        Memory budget of a Python worker, such as "2GB", and of the driver for K. By default 60 % of the free memory on
        the driver; on a node, 60 % of the free memory divided by its cores.

    Raises
    ------
    InputError
        In `fit`: if a column is missing, or a parameter or a row cannot be used.

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
        weightCol: str | None = None,
        timeCol: str | None = None,
        timeUnit: str | None = None,
        ratingCol: str | None = None,
        liked: float | None = None,
        disliked: float | None = None,
        repeated: str = "sum",
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
        """Set `model`.

        Parameters
        ----------
        value : str or Recommender
            The model, or its text.

        Returns
        -------
        Self
            The estimator itself.
        """
        return self._set(model=_text(value))

    def _fit(self, dataset: DataFrame) -> KomdRecommenderModel:
        context, rows = context_of(dataset.sparkSession), self.row_columns
        columns = select_columns(dataset, user=self._user, item=self._item).schema
        model = model_from_text(self.getOrDefault(self.model))
        _check_data(model, rows)
        check_executors(context)
        catalogue = catalogue_of(dataset, rows)
        assert isinstance(model, KernelBased)
        memory = self.getOrDefault(self.memory) if self.isDefined(self.memory) else None
        with tempfile.TemporaryDirectory(prefix="komd-fit-") as temporary:
            shared = self.isDefined(self.sharedFolder)
            path = Path(self.getOrDefault(self.sharedFolder)) if shared else Path(temporary) / "model"
            folder = learn(context, model, catalogue, path, shared=shared, memory=memory)
        fitted = KomdRecommenderModel(
            model, folder, memory=memory, types=(columns["user"].dataType, columns["item"].dataType)
        )
        return fitted._set(**self.column_params)


def _check_data(model: Recommender, columns: RowColumns) -> None:
    """What `fit` checks on one machine, before any work is done: that there are times for a half-life, say."""
    try:
        model.check_data(columns.example())
    except InputError as error:
        raise InputError(error.worded(lambda name, value: _PARAMS.get(name, f"{name}={value}"))) from None


def _text(model: object) -> str:
    """The text of a model that runs on Spark."""
    known = model_from_text(model) if isinstance(model, str) else model
    if not isinstance(known, KernelBased):
        name = type(known).__name__ if isinstance(known, Recommender) else repr(model)
        raise InputError(f"on Spark run CFKOMD, ECFOMD, MSDW and RP3Beta, not {name}")
    return known.text
