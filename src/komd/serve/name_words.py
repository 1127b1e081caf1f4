"""The words of names: folded to plain letters, sorted, found by prefix and by edit distance.

Words are sorted, so that the words with a given prefix are one range. The search for typos is exhaustive and still
fast: a bit mask of the letters at the beginning of each word excludes most words, and the edit distance of the others
is computed by one dynamic program over all of them at once. All of it is Arrow and numpy, which release the GIL.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["LONGEST", "SimilarWords", "Vocabulary", "plain_names", "plain_words"]

LONGEST = 24  # letters of a word whose typos are counted; it must begin with at most LONGEST letters of the query
_BEGINNINGS = (5, 6, 8, 10, 12, 16, 20, LONGEST)  # lengths of beginnings of words whose letters have a mask
_QUERY = 200  # characters of a query that are read
_WORDS = 8  # words of a query that are searched for
_LONG = 64  # letters of one of these words
_UNFOLDED = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i"}
_TRANSLATED = str.maketrans(_UNFOLDED)


class SimilarWords(NamedTuple):
    """Words that begin like a word of the query, but for a few edits."""

    places: NDArray[np.int64]
    """Their places in the vocabulary, ascending."""
    edits: NDArray[np.int8]
    complete: NDArray[np.bool_]
    """Whether the entire word is as near as its nearest beginning."""


class Vocabulary:
    """Distinct words in the order of their letters."""

    def __init__(self, words: pa.Array) -> None:
        encoded = words.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        self._words = encoded.dictionary.take(order)
        place = np.empty(len(order), np.int32)
        place[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
        self.places: NDArray[np.int32] = place[encoded.indices.to_numpy()]
        """Of the given words."""
        self._lengths = np.minimum(pc.utf8_length(self._words).to_numpy(), 127).astype(np.int8)
        self._letters = letters_of(self._words.to_pylist())
        masks = np.bitwise_or.accumulate(_bits(self._letters), axis=1)
        self._masks = {size: masks[:, size - 1].copy() for size in _BEGINNINGS}

    def __len__(self) -> int:
        return len(self._words)

    def with_prefix(self, prefix: str) -> tuple[int, int]:
        """The range of the words that begin so."""
        low = self._place(prefix, 0)
        return low, self._place(prefix + "\U0010ffff", low)

    def holds(self, word: str) -> bool:
        """Whether this is one of the words."""
        return self.word(self._place(word, 0)) == word

    def word(self, place: int) -> str | None:
        """The word at a place, None after the last one."""
        return str(self._words[place].as_py()) if place < len(self) else None

    def _place(self, word: str, low: int) -> int:
        return bisect.bisect_left(range(len(self)), word, lo=low, key=lambda k: self._words[k].as_py())

    def similar(self, word: str, allowed: int) -> SimilarWords:
        """All words that begin with this one but for so many edits at most (see `beginning_edits`)."""
        query = letters_of([word])[0]
        query = query[query > 0]
        near = self._near(query, allowed)
        alive, edits, whole = beginning_edits(query, self._letters[near], self._lengths[near], allowed)
        return SimilarWords(near[alive], edits, whole == edits)

    def _near(self, query: NDArray[np.uint16], allowed: int) -> NDArray[np.int64]:
        """Words that may be similar, by the letters they contain.

        An edit takes at most one letter of the query away and shifts the others by one place. So at most `allowed` of
        the first k letters of the query are missing among the first k + allowed letters of a similar word.
        """
        sizes = [size for size in _BEGINNINGS if size < len(query) + allowed]
        sizes += [size for size in _BEGINNINGS if size >= len(query) + allowed][:1]
        near: NDArray[np.int64] | None = None
        for size in reversed(sizes):  # the longest beginning first: it excludes most words
            asked = np.bitwise_or.reduce(_bits(query[: size - allowed]))
            masks = self._masks[size] if near is None else self._masks[size][near]
            kept = np.flatnonzero(np.bitwise_count(asked & ~masks) <= allowed)
            near = kept if near is None else near[kept]
        assert near is not None
        return near


def plain_names(names: pa.Array) -> pa.Array:
    """Lower case, without accents, one space between words; a name without letters or digits keeps its signs."""
    text = pc.utf8_lower(pc.utf8_normalize(names.cast(pa.string()), "NFKD"))
    text = pc.replace_substring_regex(text, r"\p{M}+", "")
    for letter, folded in _UNFOLDED.items():
        text = pc.replace_substring(text, letter, folded)
    words = pc.utf8_trim_whitespace(pc.replace_substring_regex(text, r"[^\p{L}\p{N}]+", " "))
    signs = pc.utf8_trim_whitespace(pc.replace_substring_regex(text, r"[\s\pC]+", " "))
    return pc.fill_null(pc.if_else(pc.equal(words, ""), signs, words), "")


def plain_words(query: str) -> list[str]:
    """The words of a query, folded like those of names.

    >>> plain_words("  AC/DC – Motörhead ")
    ['ac', 'dc', 'motorhead']
    """
    text = query[:_QUERY].encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", text) if unicodedata.category(letter)[0] != "M")
    bare = bare.lower().translate(_TRANSLATED)
    words = re.findall("[a-z0-9]+", bare) if bare.isascii() else []  # the same, without Arrow's two milliseconds
    words = words or plain_names(pa.array([text]))[0].as_py().split(" ")
    return [word[:_LONG] for word in words if word][:_WORDS]


def letters_of(words: list[str]) -> NDArray[np.uint16]:
    """Words × letters, zeros after the end. Letters beyond 16 bits share numbers with others."""
    if not words:
        return np.zeros((0, LONGEST), np.uint16)
    codes = np.array(words, f"<U{LONGEST}").view(np.uint32).reshape(len(words), LONGEST)
    return (codes % 0xFFFF + (codes >= 0xFFFF)).astype(np.uint16)


def _bits(letters: NDArray[np.uint16]) -> NDArray[np.uint32]:
    return np.where(letters > 0, np.uint32(1) << (letters & 31).astype(np.uint32), np.uint32(0))


def beginning_edits(
    query: NDArray[np.uint16], words: NDArray[np.uint16], lengths: NDArray[np.int8], allowed: int
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int8]]:
    """The rows of words with a beginning within so many edits of the query; the edits; those to the entire word.

    Edits are letters deleted, inserted, changed, or two neighbours exchanged. The usual dynamic program, for all words
    at once, in the band of the table that these edits can reach; words that are too far are dropped on the way.
    """
    far = np.int8(allowed + 1)
    alive = np.arange(len(words))
    letters = np.ascontiguousarray(words.T)
    width, none = len(letters), np.full(len(words), far, np.int8)
    before: dict[int, NDArray[np.int8]] = {}
    row = {j: np.full(len(words), j, np.int8) for j in range(min(allowed, width) + 1)}
    for i, letter in enumerate(query, start=1):
        fresh: dict[int, NDArray[np.int8]] = {0: np.full(len(alive), i, np.int8)} if i <= allowed else {}
        for j in range(max(1, i - allowed), min(width, i + allowed) + 1):
            best = row.get(j - 1, none) + (letters[j - 1] != letter)
            best = np.minimum(best, row.get(j, none) + np.int8(1))
            best = np.minimum(best, fresh.get(j - 1, none) + np.int8(1))
            if i > 1 and j > 1 and j - 2 in before:
                swapped = (letters[j - 2] == letter) & (letters[j - 1] == query[i - 2])
                best = np.where(swapped, np.minimum(best, before[j - 2] + np.int8(1)), best)
            fresh[j] = np.minimum(best, far)
        before, row = row, fresh
        if i % 3 == 0 or i == len(query):
            kept = np.flatnonzero(np.minimum.reduce(list(row.values())) <= allowed)
            if len(kept) < len(alive):
                alive, none, letters = alive[kept], none[kept], letters[:, kept]
                before = {j: cells[kept] for j, cells in before.items()}
                row = {j: cells[kept] for j, cells in row.items()}
    edits = np.minimum.reduce(list(row.values()))
    whole = none.copy()
    for j, cells in row.items():
        whole = np.where(lengths[alive] == j, cells, whole)
    return alive, edits, whole
