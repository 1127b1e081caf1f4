"""Requests to a model, from ids to numbers: which users or histories, which candidates, how many."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.checks import one_of, whole
from komd.data.interactions import Interactions
from komd.data.times import microseconds_at
from komd.data.weights import first_unusable
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
    "moment",
    "one_history",
    "one_problem",
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
    dislikes: Any = None,
    at: Any = None,
) -> tuple[AskedUsers, RankingRequest]:
    """The users and the request, from the arguments of `recommend`."""
    one_of("on_unknown", on_unknown, ("error", "skip"))
    whole("n", n, 1, most=None)
    ids, rows, skipped = asked_users(catalogue, users, histories, on_unknown, dislikes, at)
    if not exclude_low_rated:
        rows = replace(rows, seen=None)
    candidates, passed = candidate_items(catalogue, items, exclude, on_unknown)
    warn_of_fallback(int(np.count_nonzero(rows.lengths == 0)), len(rows))
    return AskedUsers(ids, rows, skipped + passed), RankingRequest(int(n), candidates, exclude_seen)


def asked_users(
    catalogue: Catalogue, users: Any, histories: Any, on_unknown: OnUnknown, dislikes: Any = None, at: Any = None
) -> AskedUsers:
    """Known users, users of given histories, or all known users if neither is given."""
    if users is not None and histories is not None:
        raise InputError("give users or histories, not both: a history stands for its user")
    if dislikes is not None and histories is None:
        raise InputError("dislikes belong to given histories; those of known users are in the model")
    if histories is not None:
        asked = given_histories(catalogue, histories, on_unknown, dislikes)
    elif users is None:
        asked = AskedUsers(catalogue.users.values, catalogue.histories, 0)
    else:
        found = catalogue.find_users(several(users), on_unknown)
        known = found[found >= 0]
        asked = AskedUsers(catalogue.users.take(known), catalogue.histories.take(known), len(found) - len(known))
    return asked if at is None else asked._replace(histories=replace(asked.histories, at=moment(at)))


def given_histories(catalogue: Catalogue, histories: Any, on_unknown: OnUnknown, dislikes: Any = None) -> AskedUsers:
    """The users of histories in any of the forms that `recommend` takes."""
    if isinstance(histories, Interactions) or hasattr(histories, "tocsr"):
        if dislikes is not None:
            raise InputError("dislikes= belongs to a mapping or a list of histories; Interactions have their own")
        data = Interactions.of(histories)
        rows, skipped = catalogue.translated(data, on_unknown)
        return AskedUsers(data.users.values, rows, skipped)
    if isinstance(histories, Mapping):
        names, lists = list(histories), list(histories.values())
    elif isinstance(histories, (list, tuple)):
        names, lists = list(range(len(histories))), list(histories)
    else:
        raise InputError(
            "histories must be a mapping {id: [item ids]} or {id: {item id: weight}}, a list of lists of item ids, "
            f"Interactions or a scipy matrix, got {type(histories).__name__}"
        )
    rows, skipped = _found_rows(catalogue, lists, on_unknown)
    if dislikes is not None:
        disliked, unknown = _found_rows(catalogue, _dislikes_of(names, dislikes), on_unknown)
        both = np.intersect1d(rows.keys, disliked.keys)
        if len(both):
            item = catalogue.item_ids((both[:1] & 0xFFFFFFFF).astype(np.int32))[0].as_py()
            raise InputError(f"{item!r} is both in the history and in the dislikes of {names[int(both[0] >> 32)]!r}")
        rows, skipped = replace(rows, dislikes=disliked), skipped + unknown
    return AskedUsers(pa.array(names), rows, skipped)


def _found_rows(catalogue: Catalogue, lists: list[Any], on_unknown: OnUnknown) -> tuple[Histories, int]:
    """The rows of these histories, each a list of item ids or a mapping to weights; and how many ids were unknown."""
    items = [list(row) if isinstance(row, Mapping) else several(row) for row in lists]
    found = catalogue.find_items([item for row in items for item in row], on_unknown)
    weights = None
    if any(isinstance(row, Mapping) for row in lists):
        given = [
            list(row.values()) if isinstance(row, Mapping) else [1.0] * len(one)
            for row, one in zip(lists, items, strict=True)
        ]
        weights = _weights_of([item for row in items for item in row], [weight for row in given for weight in row])
    cuts = np.cumsum([len(row) for row in items], dtype=np.int64)[:-1]
    rows = np.split(found, cuts) if items else []
    if weights is None:
        return Histories.of_rows([row[row >= 0] for row in rows]), int((found < 0).sum())
    of_rows = [each[row >= 0] for row, each in zip(rows, np.split(weights, cuts), strict=True)]
    return Histories.of_rows([row[row >= 0] for row in rows], of_rows), int((found < 0).sum())


def _weights_of(items: list[Any], weights: list[Any]) -> NDArray[np.float32]:
    """The weights of given histories; InputError names the item of an invalid one."""
    numbers = [isinstance(weight, int | float | np.number) and not isinstance(weight, bool) for weight in weights]
    wrong = first_unusable(np.array(weights, np.float64)) if all(numbers) else numbers.index(False)
    if wrong is not None:
        raise InputError(
            f"the weight of {items[wrong]!r} in a history must be a finite number > 0, got {weights[wrong]!r}"
        )
    return np.array(weights, np.float32)


def _dislikes_of(names: list[Any], dislikes: Any) -> list[Any]:
    """The dislikes of each of these users: by id, or in their order."""
    if isinstance(dislikes, Mapping):
        known = set(names)
        unknown = [name for name in dislikes if name not in known]
        if unknown:
            raise InputError(f"dislikes are given for {unknown[0]!r}, who has no history")
        lists = [dislikes.get(name, []) for name in names]
    elif isinstance(dislikes, (list, tuple)) and len(dislikes) == len(names):
        lists = list(dislikes)
    else:
        raise InputError("dislikes must be a mapping {id: [item ids]}, or as many lists of item ids as histories")
    if any(isinstance(row, Mapping) for row in lists):
        raise InputError("dislikes have no weights: give lists of item ids")
    return lists


def moment(at: Any) -> int:
    """A moment in microseconds since 1970: "now", a date, a datetime (UTC unless it says otherwise) or ISO text.

    >>> moment("1970-01-02")
    86400000000
    """
    found = time.time_ns() // 1000 if isinstance(at, str) and at == "now" else microseconds_at(at)
    if found is not None:
        return found
    raise InputError(f'at must be "now", a date, a datetime or ISO text such as "2026-03-01T12:00", got {at!r}')


def one_history(
    catalogue: Catalogue, user: Any, history: Any, verb: str, dislikes: Any = None, at: Any = None
) -> Histories:
    """The history of one known user, or one that is given."""
    if (user is None) == (history is None):
        raise InputError(f"{verb} takes a user or a history=[...]")
    given = None if history is None else [history]
    disliked = None if dislikes is None else [dislikes]
    return asked_users(catalogue, None if user is None else [user], given, "error", disliked, at).histories


def one_problem(catalogue: Catalogue, user: Any, history: Any, dislikes: Any, at: Any) -> Histories:
    """`one_history` for `solve`: it must not be empty."""
    row = one_history(catalogue, user, history, "solve", dislikes, at)
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
    """Warn how many of these users are served by popularity."""
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
