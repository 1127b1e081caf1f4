"""Synthetic interactions with known tastes and long tails, for examples and tests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.checks import at_least, generator, whole
from komd.data.encode import number_sorted
from komd.data.ids import Ids, Numbers
from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.progress import progress
from komd.threads import blocks

__all__ = ["generate", "taste"]

_WORDS = {
    "taste": "jazz folk techno opera blues soul punk disco reggae choral ambient swing tango fado ska metal "
    "gospel bossa house grunge samba baroque country dub",
    "adjective": "Velvet Silver Hidden Golden Quiet Paper Winter Crimson Distant Electric Gentle Hollow "
    "Ivory Lonely Midnight Northern Painted Restless Scarlet Tender Wandering Wooden Amber Broken Burning "
    "Coastal Dusty Early Frozen Marble",
    "noun": "Lantern River Garden Mirror Harbour Orchard Window Compass Feather Station Letter Mountain "
    "Parade Shadow Signal Summer Tiger Valley Whistle Bridge Carousel Island Kite Ladder Meadow Moon Ocean "
    "Piano Rocket Train",
}
_TASTES, _ADJECTIVES, _NOUNS = (words.split() for words in _WORDS.values())
_USERS = 50_000  # drawn at a time
_ROUNDS = 8  # after these, missing items are drawn uniformly: tastes of few items run out


def generate(
    *,
    users: int = 2000,
    items: int = 1000,
    activity: float = 30.0,
    tastes: int = 12,
    taste_strength: float = 0.8,
    item_tail: float = 1.0,
    user_tail: float = 0.6,
    rng: int | np.random.Generator = 0,
) -> Interactions:
    """Generate synthetic users who choose items by taste and by popularity. The same `rng` gives the same data.

    Items are divided into groups, called tastes; the r-th item (r = 1, 2, …) of a taste has popularity
    p_i ∝ r ** -item_tail within it. A user u mixes one to three tastes with random weights w_ut and chooses a_u
    distinct items, one after another, each drawn with probability

        taste_strength · Σ_t w_ut · p_i [i in taste t]  +  (1 − taste_strength) · p_i / tastes.

    Parameters
    ----------
    users, items : int
        Number of users and of items; all items are in the result, also those that nobody chose.
    activity : float
        Mean number of items per user. a_u = activity · exp(user_tail · z − user_tail² / 2), z standard normal, rounded,
        at least 1 and at most half of all items (which may lower the mean).
    tastes : int
        Number of tastes.
    taste_strength : float
        From 0 (users choose by popularity alone) to 1 (only within their tastes). If a taste has too few items for a
        user, the rest are drawn uniformly from all items.
    item_tail : float
        0: all items of a taste are equally popular; larger: few items receive most of the choices.
    user_tail : float
        0: all users are equally active; larger: few users make most of the choices.
    rng : int or numpy.random.Generator
        Seed or generator.

    Returns
    -------
    Interactions
        Ids of users are like "user-00042". Ids of items are two words and the taste, such as "Velvet Lantern (jazz)";
        `taste` returns the taste of such an id.

    Raises
    ------
    InputError
        If a number is out of its range, or the users would need more items than there are.

    Examples
    --------
    >>> data = generate(users=50, items=40, activity=5, tastes=4)
    >>> data
    Interactions(50 users × 40 items, 2... pairs, ... % full)
    >>> taste("Velvet Lantern (jazz)")
    'jazz'
    """
    for name, count, least in (("users", users, 1), ("items", items, 2), ("tastes", tastes, 1)):
        whole(name, count, least)
    if tastes > items:
        raise InputError(f"tastes must not outnumber items, got {tastes:,} tastes for {items:,} items")
    at_least("activity", activity, 0, open_end=True)
    at_least("item_tail", item_tail, 0, most=100)
    at_least("user_tail", user_tail, 0, most=20)
    at_least("taste_strength", taste_strength, 0, most=1)
    random = generator(rng)
    sizes = np.full(tastes, items // tastes)
    sizes[: items % tastes] += 1
    names = _item_names(sizes, random)
    cumulative = _cumulative(sizes, item_tail)
    width = max(5, len(str(users - 1)))
    parts: list[tuple[Numbers, Numbers]] = []
    with progress("generating", users) as advance:
        for start, stop in blocks(users, _USERS):
            mean = activity * np.exp(user_tail * random.standard_normal(stop - start) - user_tail**2 / 2)
            wanted = np.clip(np.rint(mean), 1, max(1, items // 2)).astype(np.int64)
            rows, columns = _choose(wanted, cumulative, sizes, taste_strength, random)
            parts.append((rows + np.int32(start), columns))
            advance(stop - start)
    item_ids, ranks = number_sorted(names)
    user_ids = pa.array([f"user-{number:0{width}d}" for number in range(users)])
    return Interactions.from_numbers(
        Ids(user_ids, noun="user"),
        Ids(item_ids, noun="item"),
        np.concatenate([rows for rows, _ in parts]),
        ranks[np.concatenate([columns for _, columns in parts])],
    )


def taste(item: str) -> str:
    """The taste that a generated item belongs to: the part of its name in brackets."""
    return item[item.rindex("(") + 1 : -1]


def _item_names(sizes: NDArray[np.int64], random: np.random.Generator) -> pa.Array:
    """A name for each item, taste after taste; a pair of words is used again only with a number."""
    total = len(_ADJECTIVES) * len(_NOUNS)
    pairs = random.permutation(total)
    names: list[str] = []
    for t, size in enumerate(sizes.tolist()):
        label = _TASTES[t % len(_TASTES)] + (f" {t // len(_TASTES) + 1}" if t >= len(_TASTES) else "")
        for _ in range(size):
            place = len(names)
            adjective, noun = divmod(int(pairs[place % total]), len(_NOUNS))
            again = f" {place // total + 1}" if place >= total else ""
            names.append(f"{_ADJECTIVES[adjective]} {_NOUNS[noun]}{again} ({label})")
    return pa.array(names)


def _cumulative(sizes: NDArray[np.int64], tail: float) -> NDArray[np.float64]:
    """For each item, t + (the cumulative share of its taste t up to this item): one ascending line."""
    parts = []
    for t, size in enumerate(sizes.tolist()):
        shares = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -tail)
        parts.append(t + shares / shares[-1])
    return np.concatenate(parts)


def _choose(
    wanted: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    sizes: NDArray[np.int64],
    strength: float,
    random: np.random.Generator,
) -> tuple[Numbers, Numbers]:
    """`wanted[u]` distinct items for each user u, in the order of choosing.

    Draws that repeat are dropped, which is drawing without replacement, and replaced in the next round.
    """
    users, items, tastes = len(wanted), len(cumulative), len(sizes)
    liked = random.integers(0, tastes, (users, 3))
    weights = random.dirichlet(np.ones(3), users)
    weights *= np.arange(3) < random.integers(1, 4, (users, 1))  # one, two or three tastes
    bounds = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    keys = np.zeros(0, np.int64)  # user * items + item, in the order of choosing within each user
    have = np.zeros(users, np.int64)
    for attempt in range(1_000_000):
        need = wanted - have
        if not need.any():
            break
        rows = np.repeat(np.arange(users), np.where(need > 0, need + need // 2 + 2, 0))
        by_taste = random.random(len(rows)) < strength
        which = (random.random(len(rows))[:, None] > bounds[rows]).sum(axis=1).clip(max=2)
        drawn = np.where(by_taste, liked[rows, which], random.integers(0, tastes, len(rows)))
        columns = np.searchsorted(cumulative, drawn + random.random(len(rows)), side="right")
        columns = np.minimum(columns, items - 1)
        if attempt >= _ROUNDS:
            columns = random.integers(0, items, len(rows))
        fresh = np.concatenate([keys, rows * items + columns])
        _, first = np.unique(fresh, return_index=True)
        keys = fresh[np.sort(first)]
        keys = keys[np.argsort(keys // items, kind="stable")]
        owner = keys // items
        counts = np.bincount(owner, minlength=users)
        place = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        keys = keys[place < wanted[owner]]  # the surplus was drawn last
        have = np.minimum(counts, wanted)
    owner, columns = np.divmod(keys, items)
    return owner.astype(np.int32), columns.astype(np.int32)
