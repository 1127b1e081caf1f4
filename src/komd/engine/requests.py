"""What is asked of a model, from ids to numbers: which users or histories, which candidates, how many."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.checks import one_of, whole
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue, OnUnknown
from komd.engine.histories import Histories
from komd.engine.ranking import RankingRequest
from komd.errors import FallbackWarning, InputError

__all__ = [
    "AskedUsers",
    "asked_lists",
    "asked_users",
    "candidate_items",
    "given_histories",
    "one_history",
    "several",
    "warn_of_fallback",
]


class AskedUsers(NamedTuple):
    """The ids of users, their histories, and how many unknown ids were skipped."""

    ids: pa.Array
    histories: Histories
    skipped: int


def asked_lists(
    catalogue: Catalogue,
    users: Any,
    n: int,
    histories: Any,
    exclude_seen: bool,
    items: Iterable[Any] | None,
    exclude: Iterable[Any] | None,
    on_unknown: OnUnknown,
    exclude_low_rated: bool = True,
) -> tuple[AskedUsers, RankingRequest]:
    """Who asks and what for, from the arguments of `recommend`."""
    one_of("on_unknown", on_unknown, ("error", "skip"))
    whole("n", n, 1, most=None)
    ids, rows, skipped = asked_users(catalogue, users, histories, on_unknown)
    if not exclude_low_rated:
        rows = replace(rows, seen=None)
    candidates, passed = candidate_items(catalogue, items, exclude, on_unknown)
    warn_of_fallback(int(np.count_nonzero(rows.lengths == 0)), len(rows))
    return AskedUsers(ids, rows, skipped + passed), RankingRequest(int(n), candidates, exclude_seen)


def asked_users(catalogue: Catalogue, users: Any, histories: Any, on_unknown: OnUnknown) -> AskedUsers:
    """Known users, users of given histories, or all known users if neither is given."""
    if users is not None and histories is not None:
        raise InputError("give users or histories, not both: a history stands for its user")
    if histories is not None:
        return given_histories(catalogue, histories, on_unknown)
    if users is None:
        return AskedUsers(catalogue.users.values, catalogue.histories, 0)
    found = catalogue.find_users(several(users), on_unknown)
    known = found[found >= 0]
    return AskedUsers(catalogue.users.take(known), catalogue.histories.take(known), len(found) - len(known))


def given_histories(catalogue: Catalogue, histories: Any, on_unknown: OnUnknown) -> AskedUsers:
    """The users of histories in any of the forms that `recommend` takes."""
    if isinstance(histories, Interactions) or hasattr(histories, "tocsr"):
        data = Interactions.of(histories)
        rows, skipped = catalogue.translated(data, on_unknown)
        return AskedUsers(data.users.values, rows, skipped)
    if isinstance(histories, Mapping):
        names, lists = list(histories), [_history(h) for h in histories.values()]
    elif isinstance(histories, (list, tuple)):
        lists = [_history(h) for h in histories]
        names = list(range(len(lists)))
    else:
        raise InputError(
            "histories must be a mapping {id: [item ids]}, a list of lists of item ids, Interactions or a scipy "
            f"matrix, got {type(histories).__name__}"
        )
    found = catalogue.find_items([item for row in lists for item in row], on_unknown)
    ends = np.cumsum([len(row) for row in lists], dtype=np.int64)
    rows_found = np.split(found, ends[:-1]) if lists else []
    rows = Histories.of_rows([row[row >= 0] for row in rows_found])
    return AskedUsers(pa.array(names), rows, int((found < 0).sum()))


def one_history(catalogue: Catalogue, user: Any, history: Any, verb: str) -> Histories:
    """The history of one known user, or one that is given; there must be something in it."""
    if (user is None) == (history is None):
        raise InputError(f"{verb} takes a user or a history=[...]")
    given = None if history is None else [history]
    row = asked_users(catalogue, None if user is None else [user], given, "error").histories
    if not len(row.indices):
        raise InputError("there is no problem to solve for a user without history")
    return row


def candidate_items(
    catalogue: Catalogue, items: Iterable[Any] | None, exclude: Iterable[Any] | None, on_unknown: OnUnknown
) -> tuple[NDArray[np.int32], int]:
    """Numbers of the items that may be recommended, ascending, and how many unknown ids were skipped."""
    found = [None if ids is None else catalogue.find_items(several(ids), on_unknown) for ids in (items, exclude)]
    skipped = sum(int((numbers < 0).sum()) for numbers in found if numbers is not None)
    return catalogue.candidates(*found), skipped


def warn_of_fallback(empty: int, users: int) -> None:
    """Say how many of these users are served by popularity."""
    if empty:
        warnings.warn(
            f"{empty:,} of {users:,} users have no history: they are served by popularity",
            FallbackWarning,
            stacklevel=4,
        )


def several(ids: Any) -> Any:
    """A list of ids from a list, an array, or a single id."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        return [ids]
    return ids if hasattr(ids, "__len__") and not isinstance(ids, (set, frozenset, dict)) else list(ids)


def _history(items: Any) -> Any:
    """The item ids of one history."""
    if isinstance(items, Mapping):
        raise InputError(
            f"a history is a list of item ids, got {type(items).__name__} {dict(islice(items.items(), 2))!r}: values "
            "(ratings, counts) are not used; give its keys as a list, list(history)"
        )
    return several(items)
