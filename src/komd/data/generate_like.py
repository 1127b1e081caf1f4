"""Synthetic interactions in the shape and size of a known data set that must not be redistributed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import threads as pool
from komd.checks import at_least, generator, whole
from komd.data.encode import number_sorted
from komd.data.ids import Ids, Numbers
from komd.data.interactions import Interactions
from komd.errors import InputError, nearest
from komd.rows import pointers

__all__ = ["generate_like", "shapes"]

_USERS = 10_000  # drawn at a time
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_UPPER_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_CAPITALS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)


@dataclass(frozen=True)
class _Shape:
    """The properties of a data set that are imitated: sizes, inequality, strength of tastes."""

    users: int
    items: int
    activity: float  # mean number of items of a user
    least: float  # of an activity, as a share of the mean
    median: float  # the same
    most: int  # of the items of a user
    tastes: int  # at full size; they grow with the root of the items
    taste_strength: float
    item_tail: float  # popularity of the r-th item ~ (r + head) ** -item_tail
    head: float


_SHAPES = {
    "msd": _Shape(
        users=1_200_000,
        items=384_546,
        activity=40.0,
        least=0.2375,
        median=0.675,
        most=4_400,
        tastes=300,
        taste_strength=0.8,
        item_tail=1.2,
        head=40.0,
    )
}


def shapes() -> list[str]:
    """Return the names of the shapes that `generate_like` knows.

    Returns
    -------
    list of str

    Examples
    --------
    >>> shapes()
    ['msd']
    """
    return sorted(_SHAPES)


def generate_like(
    name: str,
    *,
    users: int | None = None,
    items: int | None = None,
    activity: float | None = None,
    text_ids: bool = False,
    threads: int | None = None,
    rng: int | np.random.Generator = 0,
) -> Interactions:
    """Generate interactions in the shape of a known data set. The same `rng` gives the same data.

    "msd" is the Million Song Dataset challenge: 1.2 million users, 384,546 songs, 48 million pairs. Users have at
    least 10 songs (median 27, mean 40, at most 4,400), songs from one to some 100,000 users (median 20, mean 125).

    The r-th most popular item has p_r ∝ (r + 40) ** -1.2. Items are divided into tastes at random (300 of them at full
    size, otherwise in proportion to the square root of the number of items). A user has one to five tastes, drawn in
    proportion to the popularity of all their items, with random weights, and chooses distinct items one after another:
    with probability 0.8, one of their tastes by weight and an item of it by popularity; otherwise, any item by
    popularity. Each item is also given to one user as a last choice, so that every item is chosen.

    Parameters
    ----------
    name : str
        Name of the data set, "msd"; `shapes` lists the known ones.
    users : int, optional
        Number of users; by default that of the original.
    items : int, optional
        Number of items; by default in the same proportion to the users as in the original.
    activity : float, optional
        Mean number of items per user; by default that of the original. All activities are scaled with it, also the
        smallest. No user has more than half of all items.
    text_ids : bool
        Whether ids are text in the format of the original (for "msd", 40 hexadecimal digits for users, and "SO" with
        16 capitals and digits for items). By default they are numbers.
    threads : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    rng : int or numpy.random.Generator
        Seed or generator.

    Returns
    -------
    Interactions
        The items of each user are in the order of choosing. Ids of items are not related to their popularity.

    Raises
    ------
    InputError
        If the name is unknown, or there are too few users or items for the shape.

    Examples
    --------
    >>> data = generate_like("msd", users=1000)
    >>> data
    Interactions(1,000 users × 320 items, 3..., ... % full)
    >>> int(data.activity.min()), int(data.popularity.min()) > 0
    (10, True)
    """
    if name not in _SHAPES:
        raise InputError(f"unknown shape {name!r}; {nearest(str(name), _SHAPES)}")
    shape = _SHAPES[name]
    users = whole("users", shape.users if users is None else users, 1)
    items = whole("items", max(2, round(shape.items / shape.users * users)) if items is None else items, 2)
    activity = shape.activity if activity is None else activity
    at_least("activity", activity, 0, open_end=True)
    random = generator(rng)
    indptr = _activities(shape, users, items, activity, random)
    pairs = int(indptr[-1])
    if pairs < items:
        raise InputError(
            f"{users:,} users choose {pairs:,} items in all, too few for each of {items:,} items to be chosen; "
            "ask for more users, more activity or fewer items"
        )
    indices = _choices(shape, indptr, items, random, threads)
    return Interactions(
        Ids(_user_names(users, random), noun="user") if text_ids else Ids.range(users, noun="user"),
        Ids(_song_names(items, random), noun="item") if text_ids else Ids.range(items, noun="item"),
        indptr,
        indices,
    )


def _activities(
    shape: _Shape, users: int, items: int, activity: float, random: np.random.Generator
) -> NDArray[np.int64]:
    """Cumulative numbers of items of the users: a least number and a log-normal part each. Shape (users + 1,)."""
    typical = shape.median - shape.least
    spread = math.sqrt(2 * math.log((1 - shape.least) / typical))  # of the logarithm: gives the mean and the median
    parts = shape.least + typical * np.exp(spread * random.standard_normal(users))
    least = max(1, math.ceil(shape.least * activity))
    most = min(max(least, round(shape.most / shape.activity * activity)), max(1, items // 2))
    return pointers(np.clip(np.rint(activity * parts), min(least, most), most))


def _choices(
    shape: _Shape, indptr: NDArray[np.int64], items: int, random: np.random.Generator, threads: int | None
) -> Numbers:
    """The items of all users, row after row."""
    from komd._core.synthetic_choices import ChoiceRows, Tastes, choose

    users, pairs = len(indptr) - 1, int(indptr[-1])
    tastes = max(1, min(items // 2, round(shape.tastes * math.sqrt(items / shape.items))))
    bounds = np.linspace(0, items, tastes + 1).astype(np.int64)
    popularity = (np.arange(1, items + 1) + shape.head) ** -shape.item_tail
    # Items are ordered taste after taste here; their final numbers are a random permutation.
    line = np.cumsum(random.permutation(popularity))
    line /= line[-1]
    owned = np.sort(random.choice(pairs, items, replace=False, shuffle=False))  # for each item a place in some row
    given_indptr = np.searchsorted(owned, indptr).astype(np.int64)
    given = random.permutation(items).astype(np.int32)
    numbers = random.permutation(items).astype(np.int32)
    seed = int(random.integers(0, 2**63))
    indices = np.empty(pairs, np.int32)

    choices = Tastes(line, bounds, shape.taste_strength, numbers)
    rows = ChoiceRows(indptr, indices, given_indptr, given)

    def work(block: tuple[int, int]) -> None:
        choose(seed, *block, choices, rows, np.zeros(items, np.int32))

    pool.for_each(
        work,
        pool.blocks(users, _USERS),
        threads=threads,
        label="generating",
        size=lambda block: int(indptr[block[1]] - indptr[block[0]]),
    )
    return indices


def _user_names(count: int, random: np.random.Generator) -> pa.Array:
    """Ascending names of 40 digits of hexadecimal."""
    return _sorted_names(_HEX[random.integers(0, 16, (count, 40), np.uint8)])


def _song_names(count: int, random: np.random.Generator) -> pa.Array:
    """Ascending names: SO, five capitals, eleven digits of hexadecimal."""
    names = np.empty((count, 18), np.uint8)
    names[:, :2] = np.frombuffer(b"SO", np.uint8)
    names[:, 2:7] = _CAPITALS[random.integers(0, 26, (count, 5), np.uint8)]
    names[:, 7:] = _UPPER_HEX[random.integers(0, 16, (count, 11), np.uint8)]
    return _sorted_names(names)


def _sorted_names(letters: NDArray[np.uint8]) -> pa.Array:
    """Rows of letters as text, ascending; they are so long that no two are equal."""
    count, width = letters.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    text = pa.Array.from_buffers(pa.large_string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
    return number_sorted(text)[0].cast(pa.string())
