"""Which columns hold users, items, ratings and so on: as asked for, by recognised names, or by an unambiguous order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from komd.errors import InputError, argument

__all__ = ["MELT", "Column", "ColumnPositions", "ColumnRequest", "Reading", "listing", "role"]

Column: TypeAlias = str | int | None

MELT = (
    f"give one row for each pair, as pandas' melt makes them (or choose with {argument('user')} and {argument('item')})"
)

# Compared in lower case without '_', '-', '.' and spaces, with or without a final "id".
_NAMES = {
    "user": "user u customer client member visitor viewer listener reader player reviewer account person",
    "item": "item i movie film dvd song track artist album product article book isbn asin sku game anime "
    "video show bookmark page news recipe restaurant business place poi app content",
    "rating": "rating ratings score stars weight plays playcount count value preference strength rate",
    "time": "time timestamp date datetime when unixtime createdat ts",
    "index": "index rownames rowname unnamed:0",
}
_ROLES = {name: role for role, names in _NAMES.items() for name in names.split()}
_ALONE = {"u", "i"}  # too short to tell a header from ids, without a final "id"
_SHOWN = 8  # columns named in a message
_LONGEST = 60  # characters of a name in a message
_RATED_WIDTH = 4  # a table without names and with at most this many columns has ratings in its third


def role(name: str, *, is_name: bool = False) -> str | None:
    """What a column of this name holds: "user", "item", "rating", "time", "index", or None when the name does not tell.

    `is_name`: it is known to be a name, and not an id.

    >>> role("userID"), role("movie_id"), role("genre")
    ('user', 'item', None)
    """
    key = _key(name)
    if not name.strip():
        return "index"
    if key in _ROLES and (is_name or key not in _ALONE):
        return _ROLES[key]
    found = _ROLES.get(key.removesuffix("id")) if key.endswith("id") and key != "id" else None
    return found if found in ("user", "item") else None


class ColumnPositions(NamedTuple):
    """Positions of the columns to read."""

    user: int
    item: int
    rating: int | None
    time: int | None
    weight: int | None = None


class Reading(NamedTuple):
    """Which columns were read as what.

    >>> str(Reading({"user": "uid", "item": "song"}, ("plays", "timestamp")))
    'user=uid, item=song; not used: plays, timestamp'
    """

    taken: dict[str, str]
    unused: tuple[str, ...] = ()
    zeros: int = 0  # rows left out because they are rated 0

    @classmethod
    def of(cls, names: Sequence[str], choice: ColumnPositions, *, rated: bool) -> Reading:
        """The reading of these columns by such a choice; `rated`: ratings are used, not only checked for zeros."""
        positions = {
            what: at for what, at in choice._asdict().items() if at is not None and (what != "rating" or rated)
        }
        unused = tuple(name for k, name in enumerate(names) if k not in positions.values())
        return cls({what: names[at] for what, at in positions.items()}, unused)

    @classmethod
    def together(cls, readings: Sequence[Reading], zeros: int) -> Reading:
        """One reading of several tables; where their names of columns differ, all are listed."""
        taken = {what: " or ".join(dict.fromkeys(each.taken[what] for each in readings)) for what in readings[0].taken}
        return cls(taken, tuple(dict.fromkeys(name for each in readings for name in each.unused)), zeros)

    def __str__(self) -> str:
        words = ", ".join(f"{what}={_printable(name)}" for what, name in self.taken.items())
        if self.unused:
            words += f"; not used: {listing(self.unused)}"
        return words + (f"; rows rated 0, left out: {self.zeros:,}" if self.zeros else "")


class ColumnRequest(NamedTuple):
    """The columns asked for: by name, by position from 0, or None where komd is to find them."""

    user: Column
    item: Column
    rating: Column
    time: Column
    rated: str = ""  # the argument that needs ratings; empty when none does
    every: bool = False  # whether every row is wanted, whatever its rating
    weight: Column = None

    @property
    def by_name(self) -> bool:
        """Whether any column is asked for by name."""
        return any(isinstance(asked, str) for _, asked in self._asked())

    @property
    def beside_ids(self) -> int:
        """How many columns are asked for that are neither users nor items."""
        return len({asked for what, asked in self._asked() if what not in ("user", "item") and asked is not None})

    @property
    def uses_ratings(self) -> bool:
        """Whether ratings are used, and not only checked for zeros."""
        return bool(self.rated) or self.rating is not None

    def _asked(self) -> list[tuple[str, Column]]:
        return [(what, getattr(self, what)) for what in ("user", "item", "rating", "time", "weight")]

    @property
    def chosen(self) -> bool:
        """Whether both users and items are asked for."""
        return self.user is not None and self.item is not None

    def choose(self, names: Sequence[str], where: str, *, named: bool = True) -> ColumnPositions:
        """Positions in a table with these columns; `where` names the table in messages."""
        if len(names) < 2:
            raise InputError(f"{where} has one column ({names[0]}); users and items need two" if names else where)
        taken: dict[str, int] = {}
        for what, asked in self._asked():
            if asked is not None:
                taken[what] = _position(asked, names, where, what, named)
        roles = [role(name, is_name=True) if named else None for name in names]
        for what in ("user", "item"):
            alike = [k for k, found in enumerate(roles) if found == what and k not in taken.values()]
            if what not in taken and alike:
                taken[what] = _only(alike, names, where, what)
        self._find_by_order(taken, roles, names, where, named)
        if taken["user"] == taken["item"]:
            raise InputError(f"user and item are the same column of {where}: {names[taken['user']]!r}")
        if "rating" not in taken and not self.every:
            self._find_rating(taken, roles, where, named)
        beside = (taken.get(what) for what in ("rating", "time", "weight"))
        return ColumnPositions(taken["user"], taken["item"], *beside)

    def _find_by_order(
        self, taken: dict[str, int], roles: list[str | None], names: Sequence[str], where: str, named: bool
    ) -> None:
        """Find users and items by order where no name tells; with known names, only if no other column is left."""
        missing = [what for what in ("user", "item") if what not in taken]
        left = [k for k, found in enumerate(roles) if found is None and k not in taken.values()]
        if missing and named and len(left) != len(missing):
            sought = " and of ".join(f"{what} ids" for what in missing)
            which = f"one of {listing([names[k] for k in left])}" if left else f"it has: {listing(names)}"
            how = " and ".join(map(argument, missing))
            wide = f"; if each column is an item, {MELT}" if len(left) > len(missing) + 1 else ""
            raise InputError(f"cannot tell the column of {sought} in {where}: {which} (choose with {how}){wide}")
        for what, at in zip(missing, left, strict=False):
            taken[what] = at
        if len(left) < len(missing):
            raise InputError(f"{where} has no column left for {missing[-1]} ids (choose with {argument(missing[-1])})")

    def _find_rating(self, taken: dict[str, int], roles: list[str | None], where: str, named: bool) -> None:
        """Find the column of ratings; an error if ratings are needed and there is none."""
        free = [k for k in range(len(roles)) if k not in taken.values()]
        known = [k for k in free if roles[k] == "rating"]
        third = 2 in free and (bool(self.rated) or (not named and not self.chosen and len(roles) <= _RATED_WIDTH))
        if known or third:
            taken["rating"] = known[0] if known else 2
        elif self.rated:
            raise InputError(
                f"{argument(self.rated)} needs ratings, but {where} has no rating column (choose with "
                f"{argument('rating')})"
            )


def _key(name: str) -> str:
    return "".join(ch for ch in name.lower() if ch not in "_-. ")


def _position(asked: str | int, names: Sequence[str], where: str, what: str, named: bool) -> int:
    if isinstance(asked, bool) or not isinstance(asked, str | int):
        raise InputError(f"{what} must be a column's name or position, got {asked!r}")
    if isinstance(asked, int):
        if not 0 <= asked < len(names):
            last = len(names) - 1
            raise InputError(f"{argument(what, asked)} is not a column of {where}; it has columns 0 to {last}")
        return asked
    same = [k for k, name in enumerate(names) if name == asked]
    alike = same or [k for k, name in enumerate(names) if name.strip().lower() == asked.strip().lower()]
    if len(alike) == 1:
        return alike[0]
    if len(same) > 1:
        raise InputError(
            f"{where} has {len(same)} columns named {asked!r}; choose one by position, as {argument(what, same[0])}"
        )
    if not named:
        raise InputError(
            f"column {asked!r} not found in {where}: it is read without header; choose with {argument(what, 0)}, 1, …"
        )
    raise InputError(f"column {asked!r} not found in {where}; it has: {listing(names)} (choose with {argument(what)})")


def _only(alike: list[int], names: Sequence[str], where: str, what: str) -> int:
    """The one of several columns with recognised names: the plainest name, or else the one that ends in "id"."""
    keys = {k: _key(names[k]) for k in alike}
    plainest = [k for k in alike if keys[k] == f"{what}id"] or [k for k in alike if keys[k] == what]
    best = plainest or [k for k in alike if keys[k].endswith("id")] or alike
    if len(best) == 1:
        return best[0]
    raise InputError(
        f"{where} has several columns of {what} ids: {listing([names[k] for k in best])} (choose with {argument(what)})"
    )


def listing(names: Sequence[str]) -> str:
    """The first of these names, on one line."""
    more = f", … ({len(names) - _SHOWN:,} more)" if len(names) > _SHOWN else ""
    return ", ".join(map(_printable, names[:_SHOWN])) + more


def _printable(name: str) -> str:
    """A name in a line of text: short, without control codes, quoted when it is empty."""
    name = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return name if name and name.isprintable() else repr(name)
