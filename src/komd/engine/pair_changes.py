"""Pending updates of a model, given but not yet applied: which pairs change, and how.

`PairChanges` numbers the ids of each update and refuses removals of pairs that do not exist. The pairs are resolved
later, once for all updates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd._core.groups import Rows
from komd.data.keys import show
from komd.data.new_ids import NewIds
from komd.data.weights import first_unusable
from komd.engine.catalogue import Catalogue
from komd.engine.resolved_pairs import PairState, ResolvedPairs, state_after
from komd.engine.update_batch import CHOSEN, NO_TIME, REMOVED, STORED, UpdateBatch
from komd.errors import InputError, UnknownIdError, argument

__all__ = ["PairChanges"]

_NO_PAIRS = np.zeros(0, np.int64), np.zeros(0, np.int64)


class PairChanges:
    """Pending updates of one catalogue, in the order given. Each says something about pairs: its statements."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.users, self.items = NewIds(catalogue.users), NewIds(catalogue.items)
        self._rule: str | None = None
        self._statements: list[tuple[NDArray[Any], ...]] = []
        self._known_states: dict[int, bool] = {}
        self._unknown_from = 0  # statements from this one on are not in it yet
        self._length = self._removals = 0

    def __len__(self) -> int:
        """The number of pending statements."""
        return self._length

    def fits(self, batch: UpdateBatch) -> bool:
        """Whether the update can be resolved with the others: it has the same rule for repeats, or only removals."""
        return self._rule in (None, batch.rule) or bool((batch.kinds == REMOVED).all())

    def take(self, batch: UpdateBatch, on_unknown: str) -> int:
        """Add an update. Returns the number of removals of pairs that do not exist; with "error", they are refused.

        An update that is refused changes nothing.
        """
        self._check(batch)
        users_now, items_now = self.users.mark, self.items.mark
        try:
            gone = self._pairs_of(self.users.find(batch.gone, on_unknown)) if len(batch.gone) else _NO_PAIRS
            users, items = self._numbers(batch, on_unknown)
            known = self._removable(batch, users, items, on_unknown)
            parts = [_removals(*gone)] if len(gone[0]) else []
            parts.append(tuple(each[known] for each in (users, items, batch.kinds, batch.weights, batch.times)))
            self._check_left(parts)
        except BaseException:
            self.users.mark, self.items.mark = users_now, items_now
            raise
        for part in parts:
            self._statements.append(part)
            self._length += len(part[0])
            self._removals += int((part[2] == REMOVED).sum())
        if (batch.kinds != REMOVED).any():
            self._rule = batch.rule
        return int((~known).sum()) + len(batch.gone) - len(np.unique(gone[0]))

    def _check(self, batch: UpdateBatch) -> None:
        histories = self.catalogue.histories
        if batch.weighted and histories.weights is None:
            raise InputError(
                "the model was fitted without weights, and what is added has some; read it with "
                f"{argument('weight', False)}, or fit again with weights"
            )
        if batch.rule != STORED and not batch.timed and histories.times is not None and (batch.kinds == CHOSEN).any():
            raise InputError(
                "the model knows when each pair happened: read what is added with "
                f"{argument('time')}, the column of times"
            )
        at = first_unusable(batch.weights, ~np.isnan(batch.weights))
        if at is not None:
            raise InputError(f"weights must be finite and > 0, got {batch.weights[at]}")

    def _check_left(self, parts: list[tuple[NDArray[Any], ...]]) -> None:
        """Refuse to remove the last pair of all."""
        pairs = len(self.catalogue.histories.indices)
        if self._removals + sum(int((part[2] == REMOVED).sum()) for part in parts) < pairs:
            return
        found = self._resolved([*self._statements, *parts])
        if pairs - int((found.before.kinds == CHOSEN).sum()) + int((found.after.kinds == CHOSEN).sum()) == 0:
            raise InputError("this would remove all pairs: there would be nothing to recommend from; fit a new model")

    def _numbers(self, batch: UpdateBatch, on_unknown: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The users and items of the statements by number; -1 for unknown ones of pairs to remove."""
        removed = batch.kinds == REMOVED
        out = []
        for known, ids in ((self.users, batch.users), (self.items, batch.items)):
            numbers = np.full(len(ids), -1, np.int64)
            for mask, grow in ((removed, False), (~removed, True)):
                if mask.all():
                    numbers = known.find(ids, on_unknown, grow=grow)
                elif mask.any():
                    numbers[mask] = known.find(ids.filter(pa.array(mask)), on_unknown, grow=grow)
            out.append(numbers)
        users, items = out
        old = (items >= 0) & (items < len(self.catalogue.order))
        items[old] = self.catalogue.inside[items[old]]
        return users, items

    def _removable(
        self, batch: UpdateBatch, users: NDArray[np.int64], items: NDArray[np.int64], on_unknown: str
    ) -> NDArray[np.bool_]:
        """Which statements apply: all, except removals of pairs that do not exist, which are an error or skipped."""
        known = (users >= 0) & (items >= 0)
        removed = known & (batch.kinds == REMOVED)
        if not removed.any() and known.all():
            return known
        known[removed] = self._held(users[removed], items[removed])
        if on_unknown == "error" and not known.all():
            at = int(np.argmin(known))
            raise UnknownIdError(
                f"the pair of user {show(batch.users[at])} and item {show(batch.items[at])} is not in the model, so it "
                f"cannot be removed; leave out such pairs with {argument('on_unknown', 'skip')}"
            )
        return known

    @property
    def _present(self) -> dict[int, bool]:
        """The changed pairs, by user · 2³² + item, and whether they exist now; computed on demand."""
        for users, items, kinds, _, _ in self._statements[self._unknown_from :]:
            self._known_states.update(zip((users << 32 | items).tolist(), (kinds != REMOVED).tolist(), strict=True))
        self._unknown_from = len(self._statements)
        return self._known_states

    def _held(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these pairs exist now."""
        found: NDArray[np.bool_] = self._state(users, items).kinds != REMOVED
        present = self._present
        for k, key in enumerate((users << 32 | items).tolist() if present else ()):
            found[k] = present.get(key, found[k])
        return found

    def _pairs_of(self, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs that these users (-1: nobody) have now."""
        users = np.unique(users[users >= 0])
        old = users[users < len(self.catalogue.users)]
        histories = self.catalogue.histories
        parts = [each for each in (histories, histories.seen, histories.dislikes) if each is not None]
        keys = [
            old[some.keys >> 32] << 32 | some.keys & 0xFFFFFFFF
            for some in (part.take(old.astype(np.int32)) for part in parts)
        ]
        present = self._present
        if present:
            of_users = set(users.tolist())
            later = [key for key, there in present.items() if there and key >> 32 in of_users]
            keys.append(np.array(later, np.int64))
            gone = [key for key, there in present.items() if not there and key >> 32 in of_users]
            every = np.setdiff1d(np.unique(np.concatenate(keys)), np.array(gone, np.int64))
        else:
            every = np.unique(np.concatenate(keys))
        return every >> 32, every & 0xFFFFFFFF

    # ---- what becomes of the pairs --------------------------------------------------------------------------------

    def _state(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> PairState:
        """The state of these pairs in the catalogue."""
        from komd._core.renumbered import find_pairs

        histories, size = self.catalogue.histories, len(users)
        kinds, weights = np.full(size, REMOVED, np.int8), np.ones(size, np.float32)
        times = np.full(size, NO_TIME)
        old = np.flatnonzero((users < len(self.catalogue.users)) & (items < len(self.catalogue.order)))
        who, what = users[old].astype(np.int32), items[old].astype(np.int32)
        for kind, part in enumerate((histories, histories.dislikes, histories.seen)):
            if part is None:
                continue
            place = np.empty(len(old), np.int64)
            find_pairs(Rows(part.indptr, part.indices), who, what, place)
            at, found = old[place >= 0], place[place >= 0]
            kinds[at] = kind
            if kind == CHOSEN and part.weights is not None:
                weights[at] = part.weights[found]
            if kind == CHOSEN and part.times is not None:
                times[at] = part.times[found]
        return PairState(kinds, weights, times)

    def resolved(self) -> ResolvedPairs:
        """The changes that all updates make together; pairs that end in their initial state are left out."""
        return self._resolved(self._statements)

    def _resolved(self, statements: list[tuple[NDArray[Any], ...]]) -> ResolvedPairs:
        joined = [np.concatenate(each) for each in zip(*statements, strict=True)]
        users, items, kinds, weights, times = joined
        order = np.argsort(users << 32 | items, kind="stable")
        users, items, kinds, weights, times = (each[order] for each in (users, items, kinds, weights, times))
        starts = np.flatnonzero(np.append(True, np.diff(users << 32 | items) != 0))
        before = self._state(users[starts], items[starts])
        after = state_after(starts, kinds, weights, times, before, self._rule or "sum")
        histories = self.catalogue.histories
        differ = before.kinds != after.kinds
        chosen = (before.kinds == CHOSEN) & (after.kinds == CHOSEN)
        if histories.weights is not None:
            differ |= chosen & (before.weights != after.weights)
        if histories.times is not None:
            differ |= chosen & (before.times != after.times)
        return ResolvedPairs(
            users[starts][differ],
            items[starts][differ],
            *(PairState(*(each[differ] for each in state)) for state in (before, after)),
        )


def _removals(users: NDArray[np.int64], items: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    size = len(users)
    return users, items, np.full(size, REMOVED, np.int8), np.full(size, np.nan), np.full(size, NO_TIME)
