"""Queries as users type them, made from names."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "Query", "queries"]

_TYPED = 4  # letters of a word in which a typo is made


class Query(NamedTuple):
    """What is typed, and the item that is meant."""

    kind: str
    text: str
    item: int


def _exact(name: str, rng: np.random.Generator) -> str:
    return name.lower()


def _prefix(name: str, rng: np.random.Generator) -> str | None:
    """At least four letters, and at least half of the name."""
    least = max(4, (len(name) + 1) // 2)
    return name[: int(rng.integers(least, len(name)))].lower().strip() if least < len(name) else None


def _typo(name: str, rng: np.random.Generator) -> str | None:
    """A letter left out, added or replaced, in a word of at least four letters, not the first one."""
    at = _place(name, rng)
    if at is None:
        return None
    other = "abcdefghijklmnopqrstuvwxyz"[int(rng.integers(26))]
    return name[:at] + ["", other, other + name[at]][int(rng.integers(3))] + name[at + 1 :]


def _transposition(name: str, rng: np.random.Generator) -> str | None:
    """Two neighbours exchanged, in a word of at least four letters."""
    at = _place(name, rng)
    if at is None or name[at - 1] == name[at]:
        return None
    return name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]


def _joined(name: str, rng: np.random.Generator) -> str | None:
    words = name.split()
    return "".join(words) if len(words) > 1 else None


def _split(name: str, rng: np.random.Generator) -> str | None:
    at = _place(name, rng)
    return None if at is None else name[:at] + " " + name[at:]


def _order(name: str, rng: np.random.Generator) -> str | None:
    words = name.split()
    turned = [*words[1:], words[0]]
    return " ".join(turned) if len(words) > 1 and turned != words else None


def _accents(name: str, rng: np.random.Generator) -> str | None:
    """Without accents if the name has some, else with an accent more."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    if bare != name:
        return bare
    vowels = [k for k, letter in enumerate(name) if letter in "aeiou"]
    if not vowels:
        return None
    at = vowels[int(rng.integers(len(vowels)))]
    return name[:at] + unicodedata.normalize("NFC", name[at] + "\u0301") + name[at + 1 :]


_MAKERS: dict[str, Callable[[str, np.random.Generator], str | None]] = {
    "exact": _exact,
    "prefix": _prefix,
    "typo": _typo,
    "transposition": _transposition,
    "joined": _joined,
    "split": _split,
    "order": _order,
    "accents": _accents,
}
KINDS = list(_MAKERS)


def queries(
    names: list[str], ranks: NDArray[np.int32], *, half: int, each: int, rng: np.random.Generator
) -> list[Query]:
    """So many of each kind, for items of one half of the names (even or odd numbers), popular items more often."""
    items = np.arange(half, len(names), 2)
    weights = 1 / np.sqrt(ranks[items] + 10.0)
    weights /= weights.sum()
    made: list[Query] = []
    for kind, maker in _MAKERS.items():
        drawn = iter(rng.choice(items, size=40 * each, p=weights).tolist())
        count = 0
        while count < each:
            item = next(drawn)
            text = maker(names[item], rng) if len(names[item].strip()) > 1 else None
            if text is not None:
                made.append(Query(kind, text, item))
                count += 1
    return made


def _place(name: str, rng: np.random.Generator) -> int | None:
    """The place of a letter that is not the first of its word, in a word of at least four letters."""
    places, begin = [], 0
    for word in name.split(" "):
        if len(word) >= _TYPED and word.isalpha():
            places += range(begin + 1, begin + len(word))
        begin += len(word) + 1
    return places[int(rng.integers(len(places)))] if places else None
