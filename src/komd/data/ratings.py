"""What ratings say: which rows are a history, which are dislikes, which were only seen, and which do not count."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.data.columns import ColumnPositions
from komd.data.numeric_columns import as_numbers, first_not, stripped
from komd.data.tables import SourceTable
from komd.data.times import recognised_unit
from komd.errors import InputError, UnusedColumnWarning, argument

__all__ = ["RatingRule", "UnusedRatings", "not_rated_zero"]


class RatingRule(NamedTuple):
    """From which rating on rows are liked, and up to which they are disliked; None where that is not asked for."""

    liked: float | None = None
    disliked: float | None = None
    name: str = ""  # the argument that asks for ratings, to be named in messages; empty when none does

    @classmethod
    def of(cls, liked: float | None, disliked: float | None, min_rating: float | None) -> RatingRule:
        """The rule that these arguments of `read` make."""
        given = {"liked": liked, "disliked": disliked, "min_rating": min_rating}
        for name, value in given.items():
            if value is not None and (not isinstance(value, int | float | np.number) or not np.isfinite(value)):
                raise InputError(f"{name} must be a finite number, got {value!r}")
        if liked is not None and min_rating is not None:
            raise InputError(f"{argument('liked')} and {argument('min_rating')} are the same thing: give one")
        least = min_rating if liked is None else liked
        if least is not None and disliked is not None and disliked >= least:
            raise InputError(
                f"{argument('disliked')} must be less than {argument('liked')}, got {disliked:g} and {least:g}"
            )
        return cls(
            least, disliked, next((name for name in ("liked", "min_rating", "disliked") if given[name] is not None), "")
        )

    def masks(self, ratings: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        """Which of these are part of a history, and which are dislikes (None if no rating is). NaN is a missing one."""
        disliked = None if self.disliked is None else ratings <= self.disliked
        if self.liked is not None:
            return ratings >= self.liked, disliked
        assert disliked is not None
        return ~disliked, disliked

    def read(self, column: pa.Array, where: str, row: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        """The same of a column; `where` names its table, `row` are the rows before."""
        try:
            ratings = stripped(column).cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            value, at = first_not(stripped(column), pa.float64())
            raise InputError(
                f"{argument(self.name)} needs numbers, but {where} has {value!r} in row {row + at:,} (choose with "
                f"{argument('rating')})"
            ) from None
        return self.masks(ratings.to_numpy(zero_copy_only=False))

    @property
    def none_left(self) -> str:
        """What to say when no row is part of a history."""
        if self.liked is not None:
            name = "liked" if self.name == "disliked" else self.name
            return f"no row has a rating of at least {self.liked:g} ({argument(name)}): nothing is left"
        if self.disliked is not None:
            return f"every row has a rating of at most {self.disliked:g} ({argument('disliked')}): nothing is left"
        return "every row is rated 0: none is left"


class UnusedRatings:
    """Watches a column of ratings or counts that nothing uses, to say so if it says anything."""

    def __init__(self) -> None:
        self._first: tuple[SourceTable, int] | None = None
        self._least, self._most = np.inf, -np.inf
        self._gaps = False  # whether some values are no numbers

    def watch(self, ratings: pa.Array, table: SourceTable, position: int) -> None:
        """Take note of the ratings of a batch of rows."""
        self._first = self._first or (table, position)
        self._gaps |= ratings.null_count > 0
        found = pc.min_max(ratings)
        if found["min"].is_valid:
            self._least = min(self._least, found["min"].as_py())
            self._most = max(self._most, found["max"].as_py())

    def remark(self) -> UnusedColumnWarning | None:
        """What to tell the caller: nothing, if all values are the same."""
        if self._first is None or not self._least < self._most:
            return None
        table, position = self._first
        name: str | int = table.columns[position] if table.named else position
        unit = recognised_unit(self._least)
        if not table.named and (self._gaps or (unit is not None and unit == recognised_unit(self._most))):
            return None  # something else: text, or times
        shown = f"the column {name!r}" if table.named else f"column {name}"
        return UnusedColumnWarning(
            f"{table.name}: {shown} is not used; {argument('weight', name)} makes it count, "
            f"{argument('rating', name)} with {argument('liked')} keeps what is rated high; "
            f"{argument('weight', False)} silences this"
        )


def not_rated_zero(
    column: pa.Array, table: SourceTable, choice: ColumnPositions, row: int, unused: UnusedRatings | None
) -> pa.Array:
    """Which rows count as chosen where ratings are not asked for: all but those rated 0; none may be negative."""
    assert choice.rating is not None
    ratings = as_numbers(column)
    negative = pc.fill_null(pc.less(ratings, 0.0), False)
    if pc.any(negative).as_py():
        at = int(np.argmax(negative.to_numpy(zero_copy_only=False)))
        which = table.columns[choice.rating]
        raise InputError(
            f"{table.name} has the rating {ratings[at].as_py():g} in row {row + 1 + at:,} of {which!r}: "
            f"say with {argument('min_rating')} which ratings count as chosen, or choose another column with "
            f"{argument('rating')}"
        )
    if unused is not None:
        unused.watch(ratings, table, choice.rating)
    return pc.fill_null(pc.not_equal(ratings, 0.0), True)
