"""The results of an analysis in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from komd.matrix.cost import Cost
from komd.matrix.density import Density, percent
from komd.memory import readable
from komd.sparsity.longtail import Tail

if TYPE_CHECKING:
    from komd.sparsity.analysis import Effects

__all__ = ["about_tail", "times", "verdict"]

_SAME = 1.15  # factors nearer to 1 than this count as no effect
_FEW = 100  # pairs below which tails are not discussed


def verdict(
    items: int,
    kernel: Density,
    expected: dict[str, float],
    tails: tuple[Tail, Tail],
    found: Effects,
    costs: Sequence[Cost],
    chosen: str,
) -> tuple[str, ...]:
    """Sentences: how full K is, which tail makes it so, what the tails do not explain, how to store K."""
    pairs = round(tails[0].mean * tails[0].size)
    if pairs == 0:
        return ("There are no pairs: K is empty.",)
    if items == 1:
        return ("There is one item: K is one number, and there is nothing to recommend.",)
    sentences = [f"K is {percent(kernel.value)} full: {_fullness(kernel.value)}."]
    if pairs < _FEW:
        sentences.append(f"{pairs} pairs are too few to analyse tails.")
    else:
        sentences += [_driver(found), _unexplained(kernel.value, expected)]
        sentences += [f"No power law among {tail.noun}s: {tail.why}." for tail in tails if tail.why]
    sentences.append(_meaning(kernel.value, costs, chosen))
    return tuple(sentence for sentence in sentences if sentence)


def about_tail(tail: Tail) -> str:
    """The fits of one side in a sentence."""
    if tail.fit is None:
        return f"No power law was fitted: {tail.why}."
    fit, share = tail.fit, tail.fit.size / tail.size
    words = (
        f"From {fit.x_min:,} on ({fit.size:,} {tail.noun}s, {100 * share:.3g} %) a power law of exponent "
        f"{fit.exponent:.2f} ± {fit.error:.2f}, Kolmogorov-Smirnov distance {fit.ks:.3f}"
    )
    for rival in fit.rivals:
        judged = {"undecided": "not distinguishable from", "power law": "better than"}.get(rival.better, "worse than")
        article = "an" if rival.name[0] == "e" else "a"
        p = "< 0.001" if rival.p < 0.001 else f"{rival.p:.2g}"
        words += f"; {judged} {article} {rival.name} (p {p})"
    return words + "."


def times(factor: float) -> str:
    """A factor in words.

    >>> times(3.21), times(0.25), times(1.02)
    ('multiplies the density by 3.2', 'divides the density by 4', 'hardly changes the density')
    """
    if max(factor, 1 / factor) < _SAME:
        return "hardly changes the density"
    by = "multiplies" if factor > 1 else "divides"
    return f"{by} the density by {_number(max(factor, 1 / factor))}"


def _number(factor: float) -> str:
    """Two figures.

    >>> _number(1.249), _number(20.6), _number(381.0)
    ('1.2', '21', '380')
    """
    return f"{float(f'{factor:.2g}'):,g}"


def _fullness(value: float) -> str:
    if value >= 0.5:
        return "most pairs of items share a user"
    if value >= 0.05:
        return f"one pair of items in {round(1 / value)} shares a user"
    return f"sparse, one pair of items in {round(1 / value):,} shares a user"


def _driver(found: Effects) -> str:
    users, items = found.users, found.items
    sides = ("user", users, "equally active users"), ("item", items, "equally popular items")
    (first, factor, flat), (second, other, _) = sorted(sides, key=lambda side: -max(side[1], 1 / side[1]))
    if max(factor, 1 / factor) < _SAME:
        return "Neither tail matters: with equally popular items and equally active users K would be about as full."
    if users > _SAME and items < 1 / _SAME and _SAME > users * items > 1 / _SAME:
        return (
            f"The two tails have opposite effects of about equal size: the user tail {times(users)}, "
            f"the item tail {times(items)}."
        )
    tail = f"The {first} tail drives the density: against {flat} it {times(factor)}"
    why = {
        (True, "user"): ", because very active users connect many items",
        (False, "user"): ", because the most active users connect the same items again and again",
        (False, "item"): ", because users share the same few popular items and rare items share no users",
        (True, "item"): ", because popular items share users with almost every other item",
    }[(factor > 1, first)]
    return f"{tail}{why}. The {second} tail {times(other)}."


def _unexplained(value: float, expected: dict[str, float]) -> str:
    ratio = value / expected["saturating"] if expected["saturating"] else 1.0
    paper = max(value / expected["d(K)"], expected["d(K)"] / value) if expected["d(K)"] and value else 1.0
    start = ""
    if paper >= 2:
        side = "below" if expected["d(K)"] < value else "above"
        start = f"The paper's d(K), which ignores tails, is {_number(paper)} times {side} the true density. "
    end = "The two tails explain the density: clustered tastes add little."
    if ratio < 1 / _SAME:
        end = f"Tastes are clustered: K is {_number(1 / ratio)} times sparser than its two tails alone explain."
    elif ratio > _SAME:
        end = f"K is {_number(ratio)} times fuller than its two tails alone explain: active users have broad tastes."
    return start + end


def _meaning(value: float, costs: Sequence[Cost], chosen: str) -> str:
    dense, sparse, streamed = costs
    if not chosen:
        words = f"K does not fit the budget: {readable(dense.bytes)} dense, {readable(sparse.bytes)} sparse"
        return words + (f"; streamed it takes {readable(streamed.bytes)} at a time." if streamed.fits else ".")
    saved = dense.bytes / max(1, sparse.bytes)
    if saved >= 2:
        words = f"Sparse, K takes {_number(saved)} times less memory than dense ({readable(sparse.bytes)} against"
        words += f" {readable(dense.bytes)})"
    else:
        words = f"Sparse storage gains nothing ({readable(sparse.bytes)} against {readable(dense.bytes)} dense)"
    ends = {"dense": "komd stores it dense", "sparse": "komd stores it sparse", "streamed": "komd streams it"}
    return f"{words}; {ends[chosen]}. Every kernel without its constant term has the same zeros."
