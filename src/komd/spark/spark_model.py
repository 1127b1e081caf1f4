"""The fitted model on Spark: lists and scores as frames."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from pyspark.ml.base import Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from komd.checks import one_of, whole
from komd.engine.catalogue import OnUnknown
from komd.engine.kernel_based import KernelBased
from komd.engine.requests import candidate_items, moment
from komd.errors import InputError
from komd.models.registry import load_exactly
from komd.spark.column_params import ColumnParams
from komd.spark.frame_changes import FrameChanges
from komd.spark.merged_rows import EVERY_ROW, RowRule
from komd.spark.model_folder import Folder, check_executors, context_of, folder_beside, save_and_ship, ship
from komd.spark.row_columns import select_columns

__all__ = ["KomdRecommenderModel", "UnknownIdsWarning"]

_TASKS = 4  # a core, if K is in memory: balances the load, and a lost executor costs little


class UnknownIdsWarning(UserWarning):
    """Ids that the model does not know were skipped; the message counts them."""


class _GivenAs(NamedTuple):
    """The type of user ids, and what the rows of given histories mean."""

    user: T.DataType
    rule: RowRule = EVERY_ROW
    time_unit: str | None = None


class KomdRecommenderModel(ColumnParams, Model):
    """A komd model on Spark. Executors memory-map one folder and make the lists.

    The property `komd` is the model as on one machine. The lists are exactly those that it gives, for any partitioning.
    `update` returns a new model; a model never changes.

    For models with a half-life, `at` is the moment from which ages are measured, as in `recommend` of a komd model:
    "now", a date, a datetime (UTC unless it has a time zone) or ISO text. Methods that make lists take it as an
    argument; `transform`, and lists without the argument, use the parameter `at` (`setAt`). By default, ages are
    measured from each user's last event. "now" is the moment of the call, whenever Spark computes the frame.

    Parameters
    ----------
    model : Recommender
        The fitted model.
    folder : Folder
        Where executors find it.
    memory : str or int, optional
        Memory budget of a Python worker.
    types : tuple of pyspark.sql.types.DataType, optional
        Types of user and item ids; by default those of the model.
    """

    at: Param[str] = Param(
        Params._dummy(), "at", "the moment from which ages are measured: now or ISO text", TypeConverters.toString
    )

    def __init__(
        self,
        model: KernelBased,
        folder: Folder,
        *,
        memory: str | int | None = None,
        types: tuple[T.DataType, T.DataType] | None = None,
    ) -> None:
        super().__init__()
        self._model = model.view()
        self._folder, self._memory = folder, memory
        catalogue = model.catalogue
        self._types = types or (from_arrow_type(catalogue.users.type), from_arrow_type(catalogue.items.type))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        weightCol: str | None = None,
        timeCol: str | None = None,
        timeUnit: str | None = None,
        ratingCol: str | None = None,
        liked: float | None = None,
        disliked: float | None = None,
        repeated: str = "sum",
        shared: bool = False,
        memory: str | int | None = None,
    ) -> Self:
        """Load a model that was saved by komd, on Spark or on one machine.

        Parameters
        ----------
        path : str or Path
            The folder of the model.
        userCol, itemCol, weightCol, timeCol, timeUnit, ratingCol, liked, disliked, repeated
            As in `KomdRecommender`: columns of frames of histories and pairs.
        shared : bool
            Whether every executor mounts the folder at the same path.
        memory : str or int, optional
            Memory budget of a Python worker.

        Returns
        -------
        KomdRecommenderModel

        Raises
        ------
        InputError
            If there is no Spark session, or the model does not run on Spark.
        ModelFileError
            If there is no model at `path`, or it is damaged.
        """
        columns = {"userCol": userCol, "itemCol": itemCol, "weightCol": weightCol, "timeCol": timeCol}
        columns |= {"timeUnit": timeUnit, "ratingCol": ratingCol, "repeated": repeated}
        given: dict[str, Any] = columns | {"liked": liked, "disliked": disliked}
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise InputError("there is no Spark session yet: SparkSession.builder.master(...).getOrCreate() first")
        folder = ship(context_of(spark), Path(path), shared=shared)
        model = load_exactly(folder.on_driver(), folder.manifest)
        if not isinstance(model, KernelBased):
            raise InputError(f"on Spark run CFKOMD, ECFOMD, MSDW and RP3Beta; {path} holds {type(model).__name__}")
        fitted = cls(model, folder, memory=memory)
        return fitted._set(**{name: value for name, value in given.items() if value is not None})

    @property
    def komd(self) -> KernelBased:
        """The model as on one machine. To update or fit it there changes nothing here."""
        return self._model.view()

    def save(self, path: str | Path) -> None:
        """Write the model to a folder on the driver; `komd.load` and `KomdRecommenderModel.load` read it.

        Parameters
        ----------
        path : str or Path
            The folder.
        """
        self.komd.save(path)

    def setAt(self, value: Any) -> Self:
        """Set `at`.

        Parameters
        ----------
        value : str, date or datetime
            The moment from which ages are measured.

        Returns
        -------
        Self
            The model itself.
        """
        moment(value)
        return self._set(at=str(value))

    def update(
        self,
        added: DataFrame | None = None,
        removed: DataFrame | None = None,
        *,
        removedUsers: DataFrame | Iterable[Any] | None = None,
        onUnknown: OnUnknown = "error",
        sharedFolder: str | Path | None = None,
    ) -> KomdRecommenderModel:
        """Return a new model with pairs added and removed; this one stays as it is.

        The new model equals one fitted to the remaining pairs, to the last bit, and has the same parameters. Users and
        items may be new; those whose last pair is removed are dropped. Removals are applied before additions. Frames
        may be empty.

        Parameters
        ----------
        added : DataFrame, optional
            Pairs to add: a frame like that of `fit`, with the same columns and the same meaning, including weights,
            times and ratings. A pair that the model has already is merged as `repeated` says.
        removed : DataFrame, optional
            Pairs to remove; only `userCol` and `itemCol` are read.
        removedUsers : DataFrame or iterable of ids, optional
            Users to remove with all their pairs: a frame with `userCol`, or ids.
        onUnknown : {"error", "skip"}
            For a pair or a user to remove that is not in the model: raise UnknownIdError, or skip it.
        sharedFolder : str or Path, optional
            Where the new model is saved, on storage that the driver and every executor mount at the same path. By
            default a new folder beside the model's own, if that is shared (plays.komd, plays-2.komd, …); otherwise
            Spark ships the model's files to each executor.

        Returns
        -------
        KomdRecommenderModel
            The new model.

        Raises
        ------
        InputError
            If there is nothing to update, or a frame cannot be used.
        UnknownIdError
            If something to remove is unknown and `onUnknown` is "error".

        Examples
        --------
        ::

            today = model.update(plays_of_today, removedUsers=["ana"])
            today.recommendForAllUsers(10)
        """
        context, folder = context_of(self._session), self._folder.path
        if sharedFolder is not None and folder is not None and Path(sharedFolder).absolute() == Path(folder):
            raise InputError(
                f"{folder} is the folder of the model that is updated, which goes on serving from it; choose another "
                "sharedFolder, or leave it out"
            )
        changes = FrameChanges(added, removed, removedUsers, self.row_columns)
        changes.check(self._model)
        check_executors(context)
        model = changes.made(self._model, onUnknown, self._memory)
        path = Path(sharedFolder) if sharedFolder is not None else None
        if path is None and folder is not None:
            path = folder_beside(Path(folder))
        types = changes.id_types(self._types)
        made = KomdRecommenderModel(model, save_and_ship(context, model, path), memory=self._memory, types=types)
        return self._copyValues(made)

    # ---- lists --------------------------------------------------------------------------------------------------

    def recommendForAllUsers(
        self,
        n: int,
        *,
        format: str = "nested",
        excludeSeen: bool = True,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        excludeLowRated: bool = True,
        at: Any = None,
    ) -> DataFrame:
        """Return the n best items for every user of the training data.

        Parameters
        ----------
        n : int
            Length of each list, at most.
        format : {"nested", "long"}
            "nested": one row per user, with the user and `recommendations`, an array of (item, rating), as from Spark's
            ALS. "long": one row per item, with `user_id`, `item_id`, `score` and `rank`.
        excludeSeen : bool
            Leave out the items of the user's history.
        items : iterable of ids, optional
            Recommend only these items.
        exclude : iterable of ids, optional
            Recommend none of these items.
        excludeLowRated : bool
            With `excludeSeen`: also leave out items rated below `liked`, if the model's data was read that way.
        at : str, date or datetime, optional
            The moment from which ages are measured.

        Returns
        -------
        DataFrame
        """
        users = self._session.range(len(self.komd.catalogue.users)).toDF("number")
        return self._lists(users, "lists_for_users", n, format, excludeSeen, items, exclude, excludeLowRated, at)

    def recommendForUserSubset(
        self,
        dataset: DataFrame,
        n: int,
        *,
        format: str = "nested",
        excludeSeen: bool = True,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        excludeLowRated: bool = True,
        at: Any = None,
    ) -> DataFrame:
        """Return the n best items for the users of a frame. Unknown users are counted in an UnknownIdsWarning.

        Parameters
        ----------
        dataset : DataFrame
            A frame with `userCol`.
        n, format, excludeSeen, items, exclude, excludeLowRated, at
            As in `recommendForAllUsers`.

        Returns
        -------
        DataFrame
        """
        asked = select_columns(dataset, user=self._user).distinct().toArrow().column(0)
        found = self.komd.catalogue.find_users(asked, "skip")
        self._warn("users", asked, found)
        numbers = pa.table({"number": np.sort(found[found >= 0]).astype(np.int64)})
        users = self._session.createDataFrame(numbers, "number long")
        return self._lists(users, "lists_for_users", n, format, excludeSeen, items, exclude, excludeLowRated, at)

    def recommendForHistories(
        self,
        dataset: DataFrame,
        n: int,
        *,
        format: str = "nested",
        excludeSeen: bool = True,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        excludeLowRated: bool = True,
        at: Any = None,
    ) -> DataFrame:
        """Return the n best items for users that the model need not know, given with their histories.

        Unknown items are counted in an UnknownIdsWarning. A user left without items is served by popularity.

        Parameters
        ----------
        dataset : DataFrame
            A frame like that of `fit`, with the same columns and the same meaning, including weights, times and ratings
            if `fit` was given them (`model.clear(model.weightCol)` does without).
        n, format, excludeSeen, items, exclude, excludeLowRated, at
            As in `recommendForAllUsers`.

        Returns
        -------
        DataFrame
        """
        columns = self.row_columns
        rows = columns.selected(dataset)
        unit = columns.checked_unit(rows)
        given = rows.select("item").distinct().toArrow().column(0)
        self._warn("items", given, self.komd.catalogue.find_items(given.combine_chunks(), "skip"))
        beside = [name for name in rows.columns if name != "user"]
        histories = rows.groupBy("user").agg(F.collect_list(F.struct(*beside)).alias("rows"))
        given_as = _GivenAs(rows.schema["user"].dataType, columns.rule, unit)
        listed = (n, format, excludeSeen, items, exclude, excludeLowRated, at)
        return self._lists(histories, "lists_for_histories", *listed, given_as=given_as)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """The frame with the score of each of its pairs; NaN if the user or the item is unknown."""
        select_columns(dataset, user=self._user, item=self._item)
        check_executors(context_of(self._session), self._folder)
        name = str(self.getOrDefault(self.predictionCol))
        if name in dataset.columns:
            raise InputError(f"the frame has a column {name!r} already; choose another predictionCol")
        schema = T.StructType([*dataset.schema.fields, T.StructField(name, T.DoubleType())])
        folder, memory, inner = self._folder, self._memory, to_arrow_schema(schema)
        user, item, at = dataset.columns.index(self._user), dataset.columns.index(self._item), self._moment()

        def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from komd.spark.executor_tasks import scored_pairs

            return scored_pairs(folder, batches, user, item, inner, memory, at)

        return dataset.mapInArrow(score, schema)

    # ---- inside -------------------------------------------------------------------------------------------------

    @property
    def _session(self) -> SparkSession:
        session = SparkSession.getActiveSession()
        if session is None:
            raise InputError("there is no Spark session any more: SparkSession.builder.getOrCreate() first")
        return session

    def _lists(
        self,
        users: DataFrame,
        task_name: str,
        n: int,
        format: str,
        exclude_seen: bool,
        items: Iterable[Any] | None,
        exclude: Iterable[Any] | None,
        exclude_low_rated: bool,
        at: Any,
        given_as: _GivenAs | None = None,
    ) -> DataFrame:
        from komd.spark.executor_tasks import ListTask

        whole("n", n, 1)
        one_of("format", format, ("nested", "long"))
        context = context_of(self._session)
        check_executors(context, self._folder)
        candidates = None
        if items is not None or exclude is not None:
            candidates = candidate_items(self.komd.catalogue, items, exclude, "error")[0]
        form = given_as or _GivenAs(self._types[0])
        schema = self._schema(format == "nested", form.user)
        task = ListTask(
            self._folder,
            n,
            exclude_seen,
            candidates,
            format == "nested",
            self._memory,
            to_arrow_schema(schema),
            exclude_low_rated,
            self._moment(at),
            form.rule,
            form.time_unit,
        )

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from komd.spark import executor_tasks

            function: Callable[..., Iterator[pa.RecordBatch]] = getattr(executor_tasks, task_name)
            return function(task, batches)

        # If K is streamed, every task computes all of it: only as many tasks as cores.
        tasks = context.defaultParallelism * (1 if self.komd.matrix.recomputed else _TASKS)
        return users.repartition(max(1, tasks)).mapInArrow(work, schema)

    def _moment(self, at: Any = None) -> int | None:
        """The moment asked for, in microseconds; None: each user's last event."""
        if at is None and self.isDefined(self.at):
            at = self.getOrDefault(self.at)
        return None if at is None else moment(at)

    def _schema(self, nested: bool, user: T.DataType) -> T.StructType:
        item = self._types[1]
        if not nested:
            columns = [("user_id", user), ("item_id", item), ("score", T.DoubleType()), ("rank", T.IntegerType())]
            return T.StructType([T.StructField(name, kind) for name, kind in columns])
        entry = T.StructType([T.StructField(self._item, item), T.StructField("rating", T.DoubleType())])
        return T.StructType([T.StructField(self._user, user), T.StructField("recommendations", T.ArrayType(entry))])

    def _warn(self, noun: str, asked: pa.ChunkedArray, found: np.ndarray) -> None:
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            named = ", ".join(repr(asked[int(k)].as_py()) for k in unknown[:3])
            warnings.warn(
                f"{len(unknown):,} of {len(asked):,} {noun} are unknown to the model and skipped: {named}"
                f"{', …' if len(unknown) > 3 else ''}",
                UnknownIdsWarning,
                stacklevel=3,
            )
