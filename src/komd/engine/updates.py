"""Exact updates: pairs are added to a model and removed, and it equals one fitted to the remaining pairs.

`update` validates an update and stores it as pending. All pending updates are applied together, when the model is next
read. Reading uses a snapshot of the model, which later updates do not change.
"""

from __future__ import annotations

import sys
import threading
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.checks import one_of
from komd.engine.catalogue import OnUnknown
from komd.engine.item_based import ItemBased
from komd.engine.pair_changes import PairChanges
from komd.engine.renewed_catalogue import CatalogueChange, renewed
from komd.engine.update_batch import UpdateBatch
from komd.errors import InputError
from komd.matrix.item_matrix import ItemMatrix

__all__ = ["Updatable", "UpdateReport"]

_FEW = 1000  # statements up to which K may be changed in place, without interruption: it takes milliseconds
_MOST_WAITING = 1 << 20  # pending statements; with more, they are applied at once


@dataclass(frozen=True)
class UpdateReport:
    """What the last updates did to a model.

    Attributes
    ----------
    added, removed : int
        Pairs that were added (or got another weight or time), and removed.
    others : int
        Dislikes and low ratings that were added or removed.
    new_users, new_items : int
        Users and items that were added.
    dropped_users, dropped_items : int
        Users and items that were dropped because their last pair was removed.
    renewed_items : int
        Items whose rows of K were counted again.
    rebuilt : str or None
        Why all of K was rebuilt, or None if it was not.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> model = komd.ECFOMD().fit(data)
    >>> report = model.update(added=[("a new user", "a new item")]).refresh().last_update
    >>> report.added, report.new_users, report.new_items
    (1, 1, 1)
    """

    added: int = 0
    removed: int = 0
    others: int = 0
    new_users: int = 0
    new_items: int = 0
    dropped_users: int = 0
    dropped_items: int = 0
    renewed_items: int = 0
    rebuilt: str | None = None

    @property
    def nothing(self) -> bool:
        """Whether the model is as it was before."""
        return not (self.added or self.removed or self.others)

    def __str__(self) -> str:
        if self.nothing:
            return "nothing changed"
        how = f"K built anew: {self.rebuilt}" if self.rebuilt else f"{self.renewed_items:,} rows of K renewed"
        ids = f"users +{self.new_users:,} −{self.dropped_users:,}, items +{self.new_items:,} −{self.dropped_items:,}"
        return f"pairs +{self.added:,} −{self.removed:,}, {ids}; {how}"


class _Learned:
    """An attribute that updates change: reading it applies pending updates. Before a fit it has a default, or none."""

    def __init__(self, *default: Any) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        if model._changes is not None:
            model.refresh()
        try:
            return model.__dict__[self._name]
        except KeyError:
            if self._default:
                return self._default[0]
            raise AttributeError(f"{type(model).__name__} has no {self._name} before fit") from None

    def __set__(self, model: Any, value: Any) -> None:
        model.__dict__[self._name] = value


class Updatable(ItemBased):
    """An item-based model that can be updated exactly."""

    matrix: ItemMatrix = cast(ItemMatrix, _Learned())
    S: NDArray[np.float64] = cast(Any, _Learned())
    factor: float | None = cast(Any, _Learned(None))
    target_factors: NDArray[np.float64] | None = cast(Any, _Learned(None))
    last_update: UpdateReport | None = None
    """What the last updates did, once they have been applied."""

    _changes: PairChanges | None = None
    _refreshed_by: int | None = None  # the thread that is applying updates, and reads the state before them

    def update(
        self,
        added: Any = None,
        removed: Any = None,
        *,
        removed_users: Any = None,
        repeated: str = "sum",
        on_unknown: OnUnknown = "error",
    ) -> Self:
        """Add and remove pairs. The model then equals one fitted to the remaining pairs, to the last bit.

        This holds for scores, lists and saved arrays. An update is validated at once and applied when the model is next
        read (or by `refresh`), so that many updates in a row are cheap. Removals are applied before additions.

        Parameters
        ----------
        added : Interactions, frame, file or list of pairs, optional
            Anything that `komd.read` accepts. Users and items may be new. With weights and times if the model was
            fitted with them; without weights, each pair counts 1.
        removed : Interactions, frame, file or list of pairs, optional
            Pairs to remove. A user or an item whose last pair is removed is dropped.
        removed_users : list of ids, optional
            Users to remove with all their pairs.
        repeated : {"sum", "max", "last", "count"}
            The weight of a pair that is added again, as in `komd.read`. "count" is like "sum": what is added was
            counted when it was read.
        on_unknown : {"error", "skip"}
            For a pair or a user to remove that is not in the model: raise UnknownIdError, or skip it.

        Returns
        -------
        Self
            The model itself. `last_update` says what was done, once the update has been applied.

        Raises
        ------
        UnknownIdError
            If something to remove is unknown and `on_unknown` is "error".
        InputError
            If there is nothing to update, or the data cannot be read.

        Examples
        --------
        >>> import komd
        >>> data = komd.read([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9"), ("cy", "i42")])
        >>> model = komd.ECFOMD().fit(data)
        >>> model.update(added=[("cy", "i9"), ("dee", "i7")], removed=[("bo", "i9")])
        ECFOMD()  # K: 3 items, ...
        >>> model.recommend("dee", n=1).to_arrow().column("item_id").to_pylist()
        ['i42']
        >>> print(model.last_update)
        pairs +2 −1, users +1 −0, items +0 −0; 2 rows of K renewed
        """
        one_of("on_unknown", on_unknown, ("error", "skip"))
        if added is None and removed is None and removed_users is None:
            raise InputError("nothing to update: give added=, removed= or removed_users=")
        return self.take_in(UpdateBatch.of(added, removed, removed_users, repeated), on_unknown)

    def take_in(self, batch: UpdateBatch, on_unknown: str = "skip") -> Self:
        """Add an update in its stored form; see `update`."""
        with self._lock:
            if self._changes is not None and not self._changes.fits(batch):
                self.refresh()
            changes = self._changes or PairChanges(self.catalogue)
            changes.take(batch, on_unknown)
            if len(changes):
                self._changes = changes
            if len(changes) > _MOST_WAITING:
                self.refresh()
        return self

    def replay(self, records: list[bytes]) -> Self:
        """Apply the updates of a journal."""
        for record in records:
            self.take_in(UpdateBatch.from_bytes(record))
        return self

    def refresh(self, *, threads: int | None = None, memory: str | int | None = None) -> Self:
        """Apply pending updates now, instead of when the model is next read.

        Parameters
        ----------
        threads : int, optional
            Number of threads; all cores by default.
        memory : str or int, optional
            Memory budget, as in `fit`.

        Returns
        -------
        Self
            The model itself.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> model.update(added=[("ana", "i7")]).refresh().last_update.new_users
        1
        """
        if self._changes is None or self._refreshed_by == threading.get_ident():
            return self
        with self._lock:
            changes = self._changes
            if changes is None:  # another thread has applied them
                return self
            pairs = changes.resolved()
            if not len(pairs.users):
                self.__dict__.update(_changes=None, last_update=UpdateReport())
                return self
            change = renewed(changes, pairs, threads)

            def take() -> None:
                self._refreshed_by = threading.get_ident()
                try:
                    learned, rows, why = self._renewed(change, threads, memory, in_place)
                finally:
                    self._refreshed_by = None
                report = UpdateReport(
                    change.added,
                    change.removed,
                    change.others,
                    change.new_users,
                    change.new_items,
                    len(change.old.users) - len(change.new.users) + change.new_users,
                    len(change.old.items) - len(change.new.items) + change.new_items,
                    rows,
                    why,
                )
                # In one step, so that a snapshot taken meanwhile is of the model before or after.
                self.__dict__.update(learned | {"_catalogue": change.new, "_changes": None, "last_update": report})

            in_place = self._held_alone and len(changes) <= _FEW
            if in_place:
                pool.uninterrupted(take)  # otherwise Ctrl-C could leave a matrix that is partly old and partly new
            else:
                take()
        return self

    @property
    def _held_alone(self) -> bool:
        """Whether nothing else, such as a snapshot, refers to the matrix of this model. Call with the lock held."""
        return _references(self) == _ALONE and bool(self.__dict__["matrix"].held_alone)

    def view(self) -> Self:
        """A snapshot of this model, with all updates applied; later updates and fits do not change it."""
        made = object.__new__(type(self))
        with self._lock:  # so that no update changes the matrix in place meanwhile
            made.__dict__ = self.__getstate__()
        return made

    @property
    def _lock(self) -> Any:
        """The lock to hold while the state of this model is changed or a snapshot is taken."""
        found = self.__dict__.get("_own_lock")
        if found is None:
            with _MAKING_LOCKS:
                found = self.__dict__.setdefault("_own_lock", threading.RLock())
        return found

    def __getstate__(self) -> dict[str, Any]:
        """The state of a snapshot or of a pickled model."""
        self.refresh()
        return {name: value for name, value in self.__dict__.items() if name not in ("_own_lock", "_changes")}

    @abstractmethod
    def _renewed(
        self, change: CatalogueChange, threads: int | None, memory: str | int | None, in_place: bool
    ) -> tuple[dict[str, Any], int, str | None]:
        """The learned attributes after a change; how many rows of K were renewed; and why all were, or None.

        With `in_place`, nothing else refers to the matrix, and it may be changed.
        """


def _references(model: Any) -> int:
    """The reference count of the matrix of a model."""
    return sys.getrefcount(model.__dict__["matrix"])


class _Holder:
    """Holds a matrix as a model does."""

    def __init__(self) -> None:
        self.__dict__["matrix"] = object()


_ALONE = _references(_Holder())  # of a matrix that only one model holds: the number differs by Python version
_MAKING_LOCKS = threading.Lock()
