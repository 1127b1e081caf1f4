"""A catalogue after an update: the one that a fit on the changed data would make, from the old one and the changes.

Users and items whose last pair is removed are dropped, together with their dislikes and seen pairs; those that had no
pair before stay. Everything else is renumbered: users by id, items by popularity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import Rows
from komd.data.ids import Ids
from komd.data.merged_ids import merged
from komd.data.new_ids import NewIds
from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.engine.pair_changes import PairChanges
from komd.engine.resolved_pairs import ResolvedPairs
from komd.engine.update_batch import CHOSEN, DISLIKED, SEEN
from komd.rows import pointers

__all__ = ["CatalogueChange", "renewed"]

_PAIRS = 1 << 20  # pairs copied by a thread at a time


@dataclass(frozen=True, eq=False)
class CatalogueChange:
    """A new catalogue and how it came from the old one.

    `touched` (bool, one for each new item) are the items with a pair that was added, removed, or has another weight or
    time; `changed_users` are the users of such pairs that are still there, by new number.
    """

    old: Catalogue
    new: Catalogue
    touched: NDArray[np.bool_]
    changed_users: NDArray[np.int32]
    added: int
    """How many pairs were added, or have another weight or time."""
    removed: int
    others: int
    """How many dislikes and low ratings were added or removed, beside the pairs of histories."""
    _users_of: _Numbering
    _items_of: _Numbering
    _pairs: ResolvedPairs

    def by_item(self, held: Rows | None, threads: int | None = None) -> Rows:
        """Each item's users, ascending; derived from those before the update if they are held."""
        before = self.old.by_item if held is None else held
        users, chosen = self._users_of, _of_kind(self._pairs, CHOSEN).transposed()
        never = np.zeros(len(users.numbers), np.bool_)  # users keep their order
        after = _renewed_rows(before, self._items_of, users, chosen, never, threads)[0]
        if held is None:
            self.new.__dict__["by_item"] = after  # for the next update
        return after

    @property
    def item_source(self) -> NDArray[np.int32]:
        """The old number of each item; -1 for new ones."""
        return self._items_of.source

    @property
    def new_users(self) -> int:
        """How many users are new."""
        return int((self._users_of.source < 0).sum())

    @property
    def new_items(self) -> int:
        """How many items are new."""
        return int((self.item_source < 0).sum())


@dataclass(frozen=True, eq=False)
class _Numbering:
    """New numbers of users or items: `source[new]` = old number or -1; `numbers[old]` = new number or -1.

    `numbers` ends with those of the added ones, in the order in which they were added.
    """

    source: NDArray[np.int32]
    numbers: NDArray[np.int32]

    @staticmethod
    def of(source: NDArray[np.int64], old: int, added: int) -> _Numbering:
        """From the origin of each: an old number, or `old` + k for the k-th that was added."""
        numbers = np.full(old + added, -1, np.int32)
        numbers[source] = np.arange(len(source), dtype=np.int32)
        return _Numbering(np.where(source < old, source, -1).astype(np.int32), numbers)


@dataclass(frozen=True, eq=False)
class _RowEntries:
    """Entries (row, column) that are removed and added, by old numbers; the values of the added ones."""

    dropped: tuple[NDArray[np.int64], NDArray[np.int64]]
    added: tuple[NDArray[np.int64], NDArray[np.int64]]
    weights: NDArray[np.float32]
    times: NDArray[np.int64]

    def transposed(self) -> _RowEntries:
        return _RowEntries(self.dropped[::-1], self.added[::-1], self.weights, self.times)


def renewed(changes: PairChanges, pairs: ResolvedPairs, threads: int | None = None) -> CatalogueChange:
    """The catalogue of these changes' catalogue once they have been made; `pairs` are the resolved changes."""
    old = changes.catalogue
    n, m = len(old.users), len(old.order)
    popularity = np.zeros(m + changes.items.mark, np.int64)
    popularity[:m] = old.popularity
    activity = np.zeros(n + changes.users.mark, np.int64)
    activity[:n] = old.histories.lengths
    for state, sign in ((pairs.before, -1), (pairs.after, 1)):
        chosen = state.kinds == CHOSEN
        popularity += sign * np.bincount(pairs.items[chosen], minlength=len(popularity))
        activity += sign * np.bincount(pairs.users[chosen], minlength=len(activity))
    gone_items, gone_users = _dropped(popularity, pairs.items, m), _dropped(activity, pairs.users, n)

    users, user_source = _merged(old.users, changes.users, gone_users)
    items, outside_source = _merged(old.items, changes.items, gone_items[_outside_first(old, len(popularity))])
    # By old internal numbers: those of old items, then the new ones in the order in which they were added.
    item_source = outside_source.copy()
    item_source[outside_source < m] = old.inside[outside_source[outside_source < m]]
    # Sort by descending popularity, then by id; the old order is nearly sorted already.
    outside = np.empty(len(popularity), np.int64)
    outside[item_source] = np.arange(len(item_source))
    nearly = np.flatnonzero(~gone_items)
    nearly = nearly[np.argsort(-popularity[nearly] << 32 | outside[nearly], kind="stable")]
    order = outside[nearly].astype(np.int32)

    of_users, of_items = _Numbering.of(user_source, n, changes.users.mark), _Numbering.of(nearly, m, changes.items.mark)
    moved = popularity[:m] != old.popularity
    histories = _renewed_histories(old.histories, pairs, of_users, of_items, moved, threads)
    catalogue = Catalogue(users, items, order, histories.known())
    catalogue.__dict__["popularity"] = popularity[nearly].astype(np.float64)  # what the property would count
    chosen = (pairs.before.kinds == CHOSEN) | (pairs.after.kinds == CHOSEN)
    touched = np.zeros(len(popularity), np.bool_)
    touched[pairs.items[chosen]] = True
    changed = of_users.numbers[np.unique(pairs.users[chosen])]
    return CatalogueChange(
        old,
        catalogue,
        touched[nearly],
        changed[changed >= 0],
        int((pairs.after.kinds == CHOSEN).sum()),
        int(((pairs.before.kinds == CHOSEN) & (pairs.after.kinds != CHOSEN)).sum()),
        int((~chosen).sum()),
        of_users,
        of_items,
        pairs,
    )


def _dropped(counts: NDArray[np.int64], changed: NDArray[np.int64], old: int) -> NDArray[np.bool_]:
    """Which users or items are dropped: those that were changed or added and have no pair."""
    dropped = np.zeros(len(counts), np.bool_)
    dropped[changed] = counts[changed] == 0
    dropped[old:] = counts[old:] == 0
    return dropped


def _outside_first(old: Catalogue, size: int) -> NDArray[np.int64]:
    """From external numbers to internal ones; new items keep their numbers, after the others."""
    return np.concatenate([old.inside.astype(np.int64), np.arange(len(old.order), size)])


def _merged(ids: Ids, new: NewIds, dropped: NDArray[np.bool_]) -> tuple[Ids, NDArray[np.int64]]:
    """The remaining ids, and the origin of each: its old number, or the old size + k for the k-th new one."""
    if not dropped.any() and not new.mark:
        return ids, np.arange(len(ids))
    old = len(ids)
    alive = np.flatnonzero(~dropped[old:])
    found, source = merged(ids, new.values.take(alive), dropped[:old])
    came = source < 0
    source[came] = old + alive[-1 - source[came]]
    return found, source


def _of_kind(pairs: ResolvedPairs, kind: int) -> _RowEntries:
    """The entries of one kind that are removed and added."""
    was, becomes = pairs.before.kinds == kind, pairs.after.kinds == kind
    return _RowEntries(
        (pairs.users[was], pairs.items[was]),
        (pairs.users[becomes], pairs.items[becomes]),
        pairs.after.weights[becomes],
        pairs.after.times[becomes],
    )


def _renewed_histories(
    old: Histories,
    pairs: ResolvedPairs,
    users: _Numbering,
    items: _Numbering,
    moved: NDArray[np.bool_],
    threads: int | None,
) -> Histories:
    chosen = _of_kind(pairs, CHOSEN)
    aligned = {name: array for name, array in (("weights", old.weights), ("times", old.times)) if array is not None}
    rows, places, order = _renewed_rows(old.rows, users, items, chosen, moved, threads, placed=bool(aligned))
    held: dict[str, Any] = {
        name: _placed(array, getattr(chosen, name)[order], places) for name, array in aligned.items()
    }
    others: dict[str, Any] = {}
    for name, kind in (("dislikes", DISLIKED), ("seen", SEEN)):
        part, entries = getattr(old, name), _of_kind(pairs, kind)
        if part is None and len(entries.added[0]):
            part = Histories(np.zeros(len(old) + 1, np.int64), np.zeros(0, np.int32))
        if part is not None:
            found = _renewed_rows(part.rows, users, items, _with_items_gone(entries, part, items), moved, threads)[0]
            others[name] = Histories(*found) if len(found.indices) else None
    return Histories(rows.indptr, rows.indices, **held, **others)


def _placed(old: NDArray[Any], added: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Values beside the old entries and the added ones, in the order of the new rows."""
    both: NDArray[Any] = np.concatenate([old, added])
    return both[np.where(places >= 0, places, len(old) - 1 - places)]


def _with_items_gone(entries: _RowEntries, part: Histories, items: _Numbering) -> _RowEntries:
    """The entries, with all those of items that are dropped removed as well."""
    gone = items.numbers[part.indices] < 0
    if not gone.any():
        return entries
    also = part.keys[gone]
    left = np.union1d(entries.dropped[0] << 32 | entries.dropped[1], also)
    return _RowEntries((left >> 32, left & 0xFFFFFFFF), entries.added, entries.weights, entries.times)


def _renewed_rows(
    old: Rows,
    rows: _Numbering,
    columns: _Numbering,
    entries: _RowEntries,
    moved: NDArray[np.bool_],
    threads: int | None,
    *,
    placed: bool = False,
) -> tuple[Rows, NDArray[np.int64], NDArray[np.int64]]:
    """New rows; with `placed` where each entry comes from, as `renew_rows` says; and the order of the added entries."""
    from komd._core.renumbered import RowChanges, column_codes, renew_rows

    size = len(rows.source)
    dropped, _ = _by_row(rows.numbers[entries.dropped[0]], entries.dropped[1], size)
    added, order = _by_row(rows.numbers[entries.added[0]], columns.numbers[entries.added[1]], size)
    lengths = np.where(rows.source >= 0, np.diff(old.indptr)[rows.source], 0)
    lengths += np.diff(added.indptr) - np.diff(dropped.indptr)
    out = Rows(pointers(lengths), np.empty(int(lengths.sum()), np.int32))
    places = np.empty(len(out.indices) if placed else 0, np.int64)
    codes, any_moved = column_codes(columns.numbers, moved), bool(moved.any())
    changes = RowChanges(rows.source, codes, any_moved, dropped, added)
    pool.for_each(
        lambda block: renew_rows(old, changes, *block, out, places),
        pool.even_blocks(lengths + 1, _PAIRS),
        threads=threads,
    )
    return out, places, order


def _by_row(rows: NDArray[np.int32], columns: NDArray[np.integer], size: int) -> tuple[Rows, NDArray[np.int64]]:
    """Entries as compressed rows, ascending, and their order; without those of rows or columns that are gone (-1)."""
    order = np.argsort(rows.astype(np.int64) << 32 | columns)
    order = order[(rows[order] >= 0) & (columns[order] >= 0)]
    return Rows(pointers(np.bincount(rows[order], minlength=size)), columns[order].astype(np.int32)), order
