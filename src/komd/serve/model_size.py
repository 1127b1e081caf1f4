"""How many users and items a model has, and when another one has lost too many of them to replace it.

A model fitted to a truncated file, or to an export of one day, loads and answers like any other; its lists are bad.
"""

from __future__ import annotations

from typing import NamedTuple

from komd.engine.recommender import Recommender
from komd.errors import ModelFileError

__all__ = ["ModelSize"]

_KEPT = 0.5  # of the users, and of the items, that a new model must have at least


class ModelSize(NamedTuple):
    """The size of a model."""

    users: int
    items: int

    @staticmethod
    def of(model: Recommender) -> ModelSize:
        """The size of a fitted model."""
        return ModelSize(len(model.catalogue.users), len(model.catalogue.items))

    def has_lost_most_of(self, before: ModelSize) -> bool:
        """
        >>> before = ModelSize(100, 100)
        >>> ModelSize(50, 99).has_lost_most_of(before), ModelSize(900, 49).has_lost_most_of(before)
        (False, True)
        """
        return self.users < _KEPT * before.users or self.items < _KEPT * before.items

    def check_successor(self, new: ModelSize) -> None:
        """Raise ModelFileError for a model that has lost most of the users or items of this one."""
        if new.has_lost_most_of(self):
            raise ModelFileError(
                f"it has {new.users:,} users and {new.items:,} items where the model in use has {self.users:,} and "
                f"{self.items:,}: less than half; if that is right, start the service with --allow-shrink"
            )
