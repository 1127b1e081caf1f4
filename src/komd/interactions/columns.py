"""Which column is which: by name, by position, by recognised names, else by order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from komd.errors import InputError

__all__ = ["Choice", "Column", "Columns", "role"]

Column: TypeAlias = str | int | None

# Compared in lower case without '_', '-', '.' and spaces, with or without a final "id".
_NAMES = {
    "user": "user u customer client member visitor viewer listener reader player reviewer account person",
    "item": "item i movie film dvd song track artist album product article book isbn asin sku game anime "
    "video show bookmark page news recipe restaurant business place poi app content",
    "rating": "rating ratings score stars weight plays playcount count value preference strength rate",
    "time": "time timestamp date datetime when unixtime createdat ts",
}
_ROLES = {name: role for role, names in _NAMES.items() for name in names.split()}
_ALONE = {"u", "i"}  # too short to be recognised without a final "id"


def role(name: str) -> str | None:
    """What a column of this name holds: "user", "item", "rating", "time", or None when it does not tell.

    >>> role("userID"), role("movie_id"), role("genre")
    ('user', 'item', None)
    """
    key = "".join(ch for ch in name.lower() if ch not in "_-. ")
    if key in _ROLES and key not in _ALONE:
        return _ROLES[key]
    found = _ROLES.get(key.removesuffix("id")) if key.endswith("id") else None
    return found if found in ("user", "item") else None


class Choice(NamedTuple):
    """Positions of the columns to read."""

    user: int
    item: int
    rating: int | None
    time: int | None


class Columns(NamedTuple):
    """The columns asked for, each by name, by position from 0, or left to be found."""

    user: Column
    item: Column
    rating: Column
    time: Column
    rated: bool  # whether ratings are needed

    @property
    def by_name(self) -> bool:
        """Whether any column is asked for by name."""
        return any(isinstance(asked, str) for asked in self[:4])

    def choose(self, names: Sequence[str], where: str, *, named: bool = True) -> Choice:
        """Positions in a table with these columns; `where` names the table in messages."""
        if len(names) < 2:
            raise InputError(f"{where} has one column ({names[0]}); users and items need two" if names else where)
        taken: dict[str, int] = {}
        for what, asked in (
            ("user", self.user),
            ("item", self.item),
            ("rating", self.rating),
            ("time", self.time),
        ):
            if asked is not None and (what != "rating" or self.rated):
                taken[what] = _position(asked, names, where, what, named)
        for what in ("user", "item"):
            if what not in taken:
                taken[what] = _first(what, names if named else [], len(names), set(taken.values()), where)
        if taken["user"] == taken["item"]:
            raise InputError(f"user and item are the same column of {where}: {names[taken['user']]!r}")
        if self.rated and "rating" not in taken:
            taken["rating"] = _rating(names if named else [], len(names), set(taken.values()), where)
        return Choice(taken["user"], taken["item"], taken.get("rating"), taken.get("time"))


def _position(asked: str | int, names: Sequence[str], where: str, what: str, named: bool) -> int:
    if isinstance(asked, bool) or not isinstance(asked, str | int):
        raise InputError(f"{what} must be a column's name or position, got {asked!r}")
    if isinstance(asked, int):
        if not 0 <= asked < len(names):
            last = len(names) - 1
            raise InputError(f"{what}={asked} is not a column of {where}; it has columns 0 to {last}")
        return asked
    if asked in names:
        return list(names).index(asked)
    alike = [k for k, name in enumerate(names) if name.strip().lower() == asked.strip().lower()]
    if len(alike) == 1:
        return alike[0]
    if not named:
        raise InputError(
            f"column {asked!r} not found in {where}: it is read without header; choose with {what}=0, 1, …"
        )
    raise InputError(f"column {asked!r} not found in {where}; it has: {', '.join(names)} (choose with {what}=)")


def _first(what: str, names: Sequence[str], count: int, taken: set[int], where: str) -> int:
    """The first free column with a recognised name, or else the first free one that is nothing else."""
    free = [k for k in range(count) if k not in taken]
    roles = {k: role(names[k]) if names else None for k in free}
    for choices in ([k for k in free if roles[k] == what], [k for k in free if roles[k] is None], free):
        if choices:
            return choices[0]
    raise InputError(f"{where} has no column left for {what} ids (choose with {what}=)")


def _rating(names: Sequence[str], count: int, taken: set[int], where: str) -> int:
    for k, name in enumerate(names):
        if k not in taken and role(name) == "rating":
            return k
    if count > 2 and 2 not in taken:
        return 2
    raise InputError(f"min_rating= needs ratings, but {where} has no rating column (choose with rating=)")
