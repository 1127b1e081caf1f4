"""An update given as frames: added pairs, removed pairs and users, applied to the model on the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from komd.checks import one_of
from komd.data.interactions import Interactions
from komd.engine.catalogue import OnUnknown
from komd.engine.kernel_based import KernelBased
from komd.errors import InputError, UnknownIdError
from komd.spark.gather_catalogue import interactions_of
from komd.spark.row_columns import RowColumns, select_columns

__all__ = ["FrameChanges"]

_PARAMS = {"on_unknown": "onUnknown", "removed_users": "removedUsers"}  # names of `update`'s arguments here


@dataclass(frozen=True)
class FrameChanges:
    """The frames of an update, and the columns of the frame of pairs that are added."""

    added: DataFrame | None
    removed: DataFrame | None
    removed_users: DataFrame | Iterable[Any] | None
    columns: RowColumns

    def check(self, model: KernelBased) -> None:
        """Refuse, before any work is done, what cannot be an update of this model."""
        if self.added is None and self.removed is None and self.removed_users is None:
            raise InputError("nothing to update: give a frame of pairs, removed=, or removedUsers=")
        for name, frame in (("added", self.added), ("removed", self.removed)):
            if frame is not None and not isinstance(frame, DataFrame):
                raise InputError(
                    f"{name} must be a Spark frame of pairs, got {type(frame).__name__}: make one with "
                    "spark.createDataFrame"
                )
        users = self.removed_users
        if isinstance(users, str | bytes) or not (users is None or isinstance(users, DataFrame | Iterable)):
            raise InputError(f"removedUsers is a frame or a list of user ids, got {users!r}")
        if self.added is not None:
            self._check_added(model)

    def _check_added(self, model: KernelBased) -> None:
        columns, histories = self.columns, model.catalogue.histories
        if histories.weights is None and columns.weight is not None:
            raise InputError(
                f"the model was fitted without weights, and weightCol={columns.weight!r} would add some: do without "
                "(model.clear(model.weightCol)), or fit again with weights"
            )
        if histories.weights is None and columns.rule.repeated == "count":
            raise InputError(
                "the model was fitted without weights, and repeated='count' would add some: choose another "
                "(model.setRepeated), or fit again with it"
            )
        if histories.times is not None and columns.time is None:
            raise InputError(
                "the model knows when each pair happened: say which column of the frame has the times "
                "(model.setTimeCol), or fit again without times"
            )
        if columns.rule.repeated == "last" and columns.rule.rated:
            raise InputError(
                "repeated='last' cannot be updated with ratings: the model does not know when a pair was disliked or "
                "seen, and so not which row is the last; choose another (model.setRepeated), or fit again"
            )

    def made(self, model: KernelBased, on_unknown: OnUnknown, memory: str | int | None) -> KernelBased:
        """The model after these changes, another object; the frames are gathered as those of `fit` are."""
        one_of("onUnknown", on_unknown, ("error", "skip"))
        added = None if self.added is None else interactions_of(self.added, self.columns)
        removed = None if self.removed is None else self._pairs(self.removed)
        # The rows of the frame are counted already: those of the model and of the frame add up.
        repeated = "sum" if self.columns.rule.repeated == "count" else self.columns.rule.repeated
        try:
            found = model.view().update(
                added, removed, removed_users=self._gone(), repeated=repeated, on_unknown=on_unknown
            )
        except (InputError, UnknownIdError) as error:
            words = error.worded(lambda name, value: f"{_PARAMS.get(name, name)}={value}")
            raise type(error)(words) from None
        return found.refresh(memory=memory)

    def id_types(self, before: tuple[T.DataType, T.DataType]) -> tuple[T.DataType, T.DataType] | None:
        """The types of ids in the lists: those before, or None (the model's own) if what was added has others."""
        if self.added is None:
            return before
        schema = select_columns(self.added, user=self.columns.user, item=self.columns.item).schema
        return before if (schema["user"].dataType, schema["item"].dataType) == before else None

    def _pairs(self, frame: DataFrame) -> Interactions | list[Any]:
        columns = RowColumns(self.columns.user, self.columns.item)
        select_columns(frame, user=columns.user, item=columns.item)
        found = interactions_of(frame.select(f"`{columns.user}`", f"`{columns.item}`"), columns)
        return found if found.pairs else []

    def _gone(self) -> pa.Array | Iterable[Any] | None:
        """The ids of users to remove."""
        if not isinstance(self.removed_users, DataFrame):
            return self.removed_users
        ids = select_columns(self.removed_users, user=self.columns.user).distinct().toArrow().column(0)
        if ids.null_count:
            raise InputError(
                f"removedUsers has rows without a {self.columns.user}; leave them out with "
                f"frame.dropna(subset=[{self.columns.user!r}])"
            )
        return ids.combine_chunks()
