"""How full K is: counted exactly, or from a random sample of its rows. K itself is never held.

Row i of K has as many non-zeros as there are items that share a user with item i; finding them visits every item of
every user of i: w_i = Σ_{v ∈ U_i} a_v visits, Σ_v a_v² for all rows together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import CountedPairs
from komd.rows import frozen, places, pointers, transpose

__all__ = ["Density", "density", "exact_density", "sampled_density", "work_of"]

Pointers: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.int32]

WORK_LIMIT = 2_000_000_000  # visits above which rows are sampled: some seconds on two cores
_SAMPLE_WORK = 200_000_000  # visits that a sample may take, about
_STRATA = 32
_LEAST = 20  # rows sampled from each stratum, at least: with fewer, its variance would be unknown
_PIECE = 1 << 22  # visits of a piece of work for a thread


@dataclass(frozen=True)
class Density:
    """A share of non-zeros in K, with what is known about its error.

    `low` and `high` are the 95 % interval, equal to `value` where `exact`. `rows` of K were counted, of `items`.
    """

    value: float
    low: float
    high: float
    exact: bool
    rows: int
    items: int

    def __str__(self) -> str:
        if self.exact:
            return f"{percent(self.value)} (exact)"
        return f"{percent(self.value)} ({percent(self.low)} to {percent(self.high)}, from {self.rows:,} rows)"


def percent(share: float, figures: int = 5) -> str:
    """A share as a percentage with at most so many significant figures.

    >>> percent(0.82374), percent(0.0012051), percent(1.0), percent(0), percent(0.996, 2)
    ('82.374 %', '0.12051 %', '100 %', '0 %', '100 %')
    """
    return f"{float(f'{100 * share:.{figures}g}'):g} %"


def work_of(activity: NDArray[np.int64]) -> int:
    """Visits that an exact count takes: Σ_v a_v²."""
    a = activity.astype(np.float64)
    return int(a @ a)


def density(
    indptr: Pointers,
    indices: Numbers,
    items: int,
    *,
    work_limit: int = WORK_LIMIT,
    rng: int | np.random.Generator = 0,
    threads: int | None = None,
) -> Density:
    """The density of K: exact if that takes at most `work_limit` visits, otherwise from a sample."""
    if work_of(np.diff(indptr)) <= work_limit:
        return exact_density(indptr, indices, items, threads=threads)
    return sampled_density(indptr, indices, items, work=min(work_limit, _SAMPLE_WORK), rng=rng, threads=threads)


def exact_density(indptr: Pointers, indices: Numbers, items: int, *, threads: int | None = None) -> Density:
    """The share of pairs of items that have a user in common, counted.

    `indptr` and `indices` are users' compressed rows, in any order within a row.

    >>> exact_density(np.array([0, 2, 3]), np.array([0, 1, 2], np.int32), 3).value == 5 / 9
    True
    """
    from komd._core.cooccurrence import count_touched

    if not items or not len(indices):
        return Density(0.0, 0.0, 0.0, True, items, items)
    # By descending popularity: the stamps that are used most are close together. K is symmetric: j >= i is enough.
    popularity = np.bincount(indices, minlength=items)
    inside = np.empty(items, np.int32)
    inside[np.argsort(-popularity, kind="stable")] = np.arange(items, dtype=np.int32)
    item_indptr, item_users = transpose(indptr, inside[indices], items)
    user_indptr, user_items = transpose(item_indptr, item_users, len(indptr) - 1)  # twice: rows are ascending now
    pairs, item_where = CountedPairs(item_indptr, item_users, user_indptr, user_items), places(user_items, item_indptr)
    visits = user_indptr[item_users + 1] - item_where
    before = pointers(visits)
    pieces = pool.even_blocks(np.diff(before[item_indptr]), _PIECE)

    def part(piece: tuple[int, int]) -> int:
        wanted = np.arange(*piece, dtype=np.int32)
        touched = np.zeros(len(wanted), np.int64)
        stamps = np.full(items, -1, np.int32)
        count_touched(pairs, wanted, stamps, touched, item_where)
        return int(touched.sum())

    upper = sum(pool.run(part, pieces, threads=threads, label="counting", size=lambda piece: piece[1] - piece[0]))
    filled = 2 * upper - int(np.count_nonzero(popularity))  # the diagonal was counted twice
    value = filled / items**2
    return Density(value, value, value, True, items, items)


def sampled_density(
    indptr: Pointers,
    indices: Numbers,
    items: int,
    *,
    work: int = _SAMPLE_WORK,
    rng: int | np.random.Generator = 0,
    threads: int | None = None,
) -> Density:
    """The density of K from a random sample of its rows, with a 95 % interval. The same `rng` gives the same answer.

    How many non-zeros a row has depends above all on w_i, which is known: so items are ordered by it and cut into
    strata, and rows are drawn without replacement from each. A row of an item with one user needs no sampling: its
    non-zeros are that user's items. The interval is Student's, with the degrees of freedom of one stratum: rows within
    a stratum are skewed, and this errs on the safe side. It takes about `work` visits, or more if 20 rows of
    each stratum need more.
    """
    from komd._core.cooccurrence import count_touched, reach
    from komd.checks import generator

    if not items or not len(indices):
        return Density(0.0, 0.0, 0.0, True, items, items)
    indptr, indices = frozen(indptr, np.int64), frozen(indices, np.int32)
    pairs = CountedPairs(*transpose(indptr, indices, items), indptr, indices)
    popularity = np.diff(pairs.item_indptr)
    visits = np.zeros(items, np.int64)
    reach(indptr, indices, visits)
    known = int(visits[popularity == 1].sum())
    random = generator(rng)
    strata = _strata(np.flatnonzero(popularity > 1), visits, items)
    drawn = [np.sort(random.permutation(len(s))[:n]) for s, n in zip(strata, _sizes(strata, visits, work), strict=True)]
    rows = [stratum[chosen].astype(np.int32) for stratum, chosen in zip(strata, drawn, strict=True)]
    wanted = np.concatenate([np.zeros(0, np.int32), *rows])
    touched = np.zeros(len(wanted), np.int64)

    def part(piece: tuple[int, int]) -> None:
        stamps = np.full(items, -1, np.int32)
        some = wanted[slice(*piece)]
        count_touched(pairs, some, stamps, touched[slice(*piece)])

    pieces = pool.even_blocks(visits[wanted], _PIECE)
    pool.for_each(part, pieces, threads=threads, label="sampling", size=lambda piece: piece[1] - piece[0])
    filled, error = _total(strata, np.split(touched, np.cumsum([len(r) for r in rows])[:-1]) if rows else [])
    value = (known + filled) / items**2
    error /= items**2
    taken = len(wanted) + int(np.count_nonzero(popularity <= 1))
    floor = (np.count_nonzero(popularity) + 0.0) / items**2  # the diagonal
    low, high = max(value - error, floor), min(value + error, 1.0)
    return Density(value, low, high, len(wanted) == sum(map(len, strata)), taken, items)


def _strata(rows: NDArray[np.intp], visits: NDArray[np.int64], items: int) -> list[NDArray[np.intp]]:
    """Rows by ascending w, cut at equal steps of the cumulative √(non-zeros of a row with that w, if random)."""
    if not len(rows):
        return []
    ordered = rows[np.argsort(visits[rows], kind="stable")]
    size = np.sqrt(-items * np.expm1(-visits[ordered] / items))
    reached = np.cumsum(size)
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, _STRATA) / _STRATA)
    return [part for part in np.split(ordered, np.unique(cuts)) if len(part)]


def _sizes(strata: list[NDArray[np.intp]], visits: NDArray[np.int64], work: int) -> list[int]:
    """The same number of rows from each stratum, as many as the work allows; of small strata, all rows."""
    sizes = np.array([len(s) for s in strata], np.float64)
    costs = np.array([visits[s].mean() for s in strata])
    low, high = _LEAST, max([_LEAST, *map(len, strata)])
    while low < high:  # the most rows whose visits stay within `work`
        middle = (low + high + 1) // 2
        low, high = (middle, high) if float(np.minimum(sizes, middle) @ costs) <= work else (low, middle - 1)
    return [min(len(s), low) for s in strata]


def _total(strata: list[NDArray[np.intp]], found: list[NDArray[np.int64]]) -> tuple[float, float]:
    """The estimated sum over all rows of all strata, and half the width of its 95 % interval."""
    from scipy.special import stdtrit

    total, variance, least = 0.0, 0.0, 0
    for stratum, values in zip(strata, found, strict=True):
        size, n = len(stratum), len(values)
        total += size * float(values.mean())
        if n < size:
            variance += size**2 * (1 - n / size) * float(values.var(ddof=1)) / n
            least = n if least == 0 else min(least, n)
    if variance == 0.0:
        return total, 0.0
    return total, float(stdtrit(least - 1, 0.975)) * variance**0.5
