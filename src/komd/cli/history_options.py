"""Options for users that a model need not know, their items with weights, and for the moment of a recommendation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from komd.cli import options
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.ids import Ids

__all__ = ["HISTORY", "At", "parsed_dislikes", "parsed_history"]

HISTORY = (
    'Items of a user that the model need not know. "A=3,B" gives A the weight 3 and B 1; without weights all count 1.'
)

At = Annotated[
    str | None,
    Option(
        "--at",
        metavar="MOMENT",
        help="With a half-life: ages are measured from now, or from a date or time such as 2026-03-01T12:00 (UTC); "
        "by default from each user's last event.",
    ),
]


def parsed_history(items: Ids, text: str, on_unknown: str = "error") -> list[Any] | dict[Any, float]:
    """The items of a list with commas; a dictionary of weights if some have one, where repeated items add up.

    `ID=WEIGHT` is a weight where no item has the whole text as its id; InputError if both may be meant.

    >>> from komd.data.ids import Ids
    >>> parsed_history(Ids.range(10), "7,3"), parsed_history(Ids.range(10), "7=2.5,3")
    ([7, 3], {7: 2.5, 3: 1.0})
    """
    found = [_weighted(items, each, on_unknown) for each in options.listed(text)]
    if all(weight is None for _, weight in found):
        return [item for item, _ in found]
    weights: dict[Any, float] = {}
    for item, weight in found:
        weights[item] = weights.get(item, 0.0) + (1.0 if weight is None else weight)
    return weights


def parsed_dislikes(items: Ids, text: str, on_unknown: str = "error") -> list[Any]:
    """The items of a list with commas."""
    return [items.parse(each, on_unknown) for each in options.listed(text)]


def _weighted(items: Ids, text: str, on_unknown: str) -> tuple[Any, float | None]:
    """The item that a text stands for, and its weight if it says one."""
    head, _, tail = text.rpartition("=")
    weight = _number(tail) if head else None
    if weight is None:
        return items.parse(text, on_unknown), None
    if items.parse(text, "skip") not in items:
        return items.parse(head, on_unknown), weight
    if items.parse(head, "skip") in items:
        raise InputError(
            f"{text!r} is an item, and so is {head!r}: write {text}=1 for the first, or the weight in another way "
            f"({weight!r}, {weight:.1e}) for the second"
        )
    return items.parse(text), None


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
