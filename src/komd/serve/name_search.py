"""Items by name: by prefixes of words, tolerating typos, fast on hundreds of thousands of names.

Names are split into words (lower case, without accents). Words are sorted, so that the words with a given prefix are
one range, and so are their items. For typos a word of the query is compared with the words that share most of its pairs
of letters: the edit distance to their prefixes decides. All of it is Arrow and numpy, which release the GIL.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.rows import pointers

__all__ = ["NameIndex"]

_LONGEST = 24  # letters of a word that are compared
_WORDS = 8  # of a query that are searched for
_NEAR = 256  # words whose distance is measured
_LETTERS = 1 << 10  # pairs of letters are hashed to this squared


class _Match(NamedTuple):
    """Items whose names contain one word of the query."""

    items: NDArray[np.int32]
    """Distinct, ascending."""
    cost: NDArray[np.int32]
    """0: the word itself; 1: a word that begins with it; more: edits."""
    first: NDArray[np.bool_]
    """Whether it is the first word of the name."""


class NameIndex:
    """An index of names: the position of a name is the item's number."""

    def __init__(self, names: pa.Array) -> None:
        plain = _plain(names)
        lists = pc.split_pattern(plain, " ")
        owner = pc.list_parent_indices(lists).to_numpy().astype(np.int32)
        encoded = pc.list_flatten(lists).dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int32)
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        self._words: list[str] = encoded.dictionary.take(pa.array(order)).to_pylist()
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        codes = place[codes]
        starts = np.concatenate([[True], owner[1:] != owner[:-1]]) if len(owner) else np.zeros(0, bool)
        by_word = np.argsort(codes, kind="stable")
        self._items = owner[by_word]
        self._first = starts[by_word]
        self._ends = pointers(np.bincount(codes, minlength=len(order)))
        self._length = np.bincount(owner, minlength=len(names)).astype(np.int16)  # words of each name
        self._letters = _letters(self._words)
        self._pairs()

    def _pairs(self) -> None:
        """Which words contain which pair of letters."""
        letters = self._letters
        before = np.concatenate([np.zeros((len(letters), 1), letters.dtype), letters[:, :-1]], axis=1)
        there = letters > 0
        words = np.broadcast_to(np.arange(len(letters), dtype=np.int32)[:, None], letters.shape)[there]
        pairs = _hashed(before[there], letters[there])
        by_pair = np.argsort(pairs, kind="stable")
        self._pair_words = words[by_pair]
        self._pair_keys, starts = np.unique(pairs[by_pair], return_index=True)
        self._pair_ends = np.concatenate([starts, [len(pairs)]])

    def find(self, query: str, n: int, ranks: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
        """Numbers of up to n items: the name itself, names with this prefix, words with this prefix, then typos.

        Among equals, items of smaller rank (by default, of smaller number) come first.
        """
        words = [word for word in _plain(pa.array([query[:200]]))[0].as_py().split(" ") if word][:_WORDS]
        if not words:
            return np.zeros(0, np.int32)
        found = self._matching_all([self._with_prefix(word) for word in words], words, n, ranks)
        if len(found) < n:
            typos = self._matching_all([self._similar_words(word) for word in words], words, n, ranks)
            found = np.concatenate([found, typos[~np.isin(typos, found)]])[:n]
        return found

    def _matching_all(
        self, matches: list[_Match], words: list[str], n: int, ranks: NDArray[np.int32] | None
    ) -> NDArray[np.int32]:
        """The items that match every word, best first."""
        items = matches[0].items
        for match in matches[1:]:
            items = np.intersect1d(items, match.items, assume_unique=True)
        if not len(items):
            return items
        cost = np.zeros(len(items), np.int64)
        for match in matches:
            cost += match.cost[np.searchsorted(match.items, items)]
        first = matches[0].first[np.searchsorted(matches[0].items, items)]
        whole = (cost == 0) & (self._length[items] == len(words))
        # Edits count most, then whether it is the whole name, then whether the name begins with the first word.
        edits = np.maximum(cost - len(words), 0)
        key = (((edits * 2 + ~whole) * 2 + ~first) << 32) + (items if ranks is None else ranks[items])
        if len(key) > n:
            best = np.argpartition(key, n)[:n]
            items, key = items[best], key[best]
        return np.asarray(items[np.argsort(key)], np.int32)

    def _with_prefix(self, word: str) -> _Match:
        low = bisect.bisect_left(self._words, word)
        high = bisect.bisect_left(self._words, word + "\U0010ffff", lo=low)
        exact = low < len(self._words) and self._words[low] == word
        cost = np.ones(high - low, np.int32)
        cost[:1] -= exact
        return self._items_of(np.arange(low, high), cost)

    def _similar_words(self, word: str) -> _Match:
        """Words that begin so but for one typo, or two in a long word."""
        letters = _letters([word])
        allowed = 0 if len(word) < 3 else 1 if len(word) < 7 else 2
        query = letters[0][letters[0] > 0]
        keys = np.unique(_hashed(np.concatenate([[0], query[:-1]]).astype(query.dtype), query))
        at = np.flatnonzero(np.isin(self._pair_keys, keys))
        if not len(at):
            return self._items_of(np.zeros(0, np.int64), np.zeros(0, np.int32))
        held = np.concatenate([self._pair_words[self._pair_ends[k] : self._pair_ends[k + 1]] for k in at])
        shared = np.bincount(held, minlength=len(self._words))
        near = np.argpartition(-shared, _NEAR)[:_NEAR] if len(shared) > _NEAR else np.arange(len(shared))
        near = np.sort(near[shared[near] > 0])
        distance = _distances(query, self._letters[near])
        close = distance <= allowed
        return self._items_of(near[close], 1 + distance[close])

    def _items_of(self, words: NDArray[np.int64], cost: NDArray[np.int32]) -> _Match:
        """The items whose names contain any of these words, each with its lowest cost."""
        if not len(words):
            return _Match(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, bool))
        if words[-1] - words[0] == len(words) - 1:  # a range, as prefixes are
            begin, end = self._ends[words[0]], self._ends[words[-1] + 1]
            items, first = self._items[begin:end], self._first[begin:end]
        else:
            spans = [slice(self._ends[w], self._ends[w + 1]) for w in words]
            items = np.concatenate([self._items[span] for span in spans])
            first = np.concatenate([self._first[span] for span in spans])
        costs = np.repeat(cost, self._ends[words + 1] - self._ends[words])
        key = ((items.astype(np.int64) << 8 | costs) << 1) | ~first
        key.sort()
        items = (key >> 9).astype(np.int32)
        keep = np.concatenate([[True], items[1:] != items[:-1]])
        key = key[keep]
        return _Match(items[keep], (key >> 1 & 255).astype(np.int32), (key & 1) == 0)


def _plain(names: pa.Array) -> pa.Array:
    """Lower case, without accents, one space between words."""
    text = pc.utf8_lower(pc.utf8_normalize(names.cast(pa.string()), "NFKD"))
    text = pc.replace_substring_regex(text, r"\p{M}+", "")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(text, r"[^\p{L}\p{N}]+", " "))


def _letters(words: list[str]) -> NDArray[np.uint32]:
    """Words × letters, zeros after the end."""
    if not words:
        return np.zeros((0, _LONGEST), np.uint32)
    return np.array(words, f"<U{_LONGEST}").view(np.uint32).reshape(len(words), _LONGEST)


def _hashed(before: NDArray[np.uint32], letters: NDArray[np.uint32]) -> NDArray[np.int64]:
    return (before % _LETTERS).astype(np.int64) * _LETTERS + letters % _LETTERS


def _distances(query: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Least edits (letters deleted, inserted, changed, or two exchanged) from the query to a prefix of each word.

    The usual dynamic program, over all words at once.
    """
    count, width = words.shape
    longest = min(width, len(query) + 2)
    before: NDArray[np.int32] | None = None
    row = np.tile(np.arange(longest + 1, dtype=np.int32), (count, 1))
    for i, letter in enumerate(query):
        fresh = np.empty_like(row)
        fresh[:, 0] = i + 1
        for j in range(longest):
            other = words[:, j]
            best = np.minimum(row[:, j] + (other != letter), row[:, j + 1] + 1)
            best = np.minimum(best, fresh[:, j] + 1)
            if before is not None and j > 0:
                swapped = (words[:, j - 1] == letter) & (other == query[i - 1])
                best = np.where(swapped, np.minimum(best, before[:, j - 1] + 1), best)
            fresh[:, j + 1] = best
        before, row = row, fresh
    return np.asarray(row.min(axis=1), np.int32)  # over all prefixes of the word
