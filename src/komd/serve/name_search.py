"""Items by name: exact names first, then names with the typed words, then spaces and typos; the popular first.

Two vocabularies (`name_words.py`) are searched: the words of names, where every word of the query must be found, in any
order; and entire names without their spaces, so that it does not matter where the query has spaces. Each word has the
list of items whose names contain it.

    items that match   "pinkfloyd"          how
    exact              Pinkfloyd            the name itself, but for case, accents and signs
    joined             Pink Floyd           the name itself, but for spaces
    typed              Pinkfloyd Tribute    each word of the query begins a word of the name
    edited             Pink Floyds          spaces moved, letters deleted, inserted, changed or exchanged
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from komd.rows import pointers
from komd.serve.name_words import SimilarWords, Vocabulary, plain_names, plain_words

__all__ = ["NameIndex"]

_EXACT, _JOINED, _TYPED, _EDITED = range(4)
_SPACE, _TYPO = 1, 2  # costs of edits
# What counts within a kind of match, in doublings of the rank of popularity (chosen by benchmarks/name_search.py). An
# edit of a letter counts more than all the rest together.
_COST = 20.0
_LOOSE = 8.0
_NOT_FIRST = 4.0
_SPLITS = 12  # ways to move one space that are tried
_JOINED_TYPOS = 5  # letters of a query whose typos are searched in names without spaces


class _Match(NamedTuple):
    """Items whose names match, ascending."""

    items: NDArray[np.int32]
    cost: NDArray[np.int64]
    loose: NDArray[np.int64]
    """0: the entire name; 1: all of its words, perhaps in another order; 2: some words, or their beginnings."""
    first: NDArray[np.bool_]
    """Whether the first word of the query is the first of the name."""

    def take(self, kept: NDArray[np.int64] | NDArray[np.bool_]) -> _Match:
        return _Match(self.items[kept], self.cost[kept], self.loose[kept], self.first[kept])


class _Postings:
    """A vocabulary, and for each of its words the items whose names contain it."""

    def __init__(self, words: pa.Array, owners: NDArray[np.int32], items: int) -> None:
        self.vocabulary = Vocabulary(words)
        places = self.vocabulary.places
        order = np.argsort(places, kind="stable")
        self._items = owners[order]
        self._first = np.concatenate([[True], owners[1:] != owners[:-1]])[order] if len(owners) else np.zeros(0, bool)
        self._ends = pointers(np.bincount(places, minlength=len(self.vocabulary)))
        self._count = items

    def typed(self, word: str) -> SimilarWords:
        """The words that begin with this one."""
        low, high = self.vocabulary.with_prefix(word)
        complete = np.zeros(high - low, bool)
        complete[:1] = self.vocabulary.word(low) == word
        return SimilarWords(np.arange(low, high), np.zeros(high - low, np.int8), complete)

    def edited(self, word: str) -> SimilarWords:
        """The words that begin with this one but for a typo, or two in a long word."""
        allowed = 0 if len(word) < 3 else 1 if len(word) < 7 else 2
        allowed = min(allowed, len(set(word)) - 1)  # masks of letters exclude no word for "xxxxxxx" and two typos
        return self.vocabulary.similar(word, allowed) if allowed else self.typed(word)

    def size(self, words: SimilarWords) -> int:
        """How many names contain these words, at most."""
        return int((self._ends[words.places + 1] - self._ends[words.places]).sum())

    def match(self, words: SimilarWords, among: NDArray[np.int32] | None = None) -> _Match:
        """The items (`among` these) whose names contain any of the words, each by the word that costs least."""
        starts, counts = self._ends[words.places], self._ends[words.places + 1] - self._ends[words.places]
        if len(counts) and words.places[-1] - words.places[0] == len(counts) - 1:  # a range, as prefixes are
            at: slice | NDArray[np.int64] = slice(starts[0], starts[0] + counts.sum())
        else:
            at = np.repeat(starts - pointers(counts)[:-1], counts) + np.arange(counts.sum())
        items = self._items[at].astype(np.int64)
        cost = (_TYPO * words.edits.astype(np.int64) << 2) | (~words.complete << 1)
        rest = np.repeat(cost, counts) | ~self._first[at]
        if among is not None:
            wanted = np.zeros(self._count, bool)
            wanted[among] = True
            kept = np.flatnonzero(wanted[items])
            items, rest = items[kept], rest[kept]
        key = (items << 8) | rest
        key.sort()
        items = key >> 8
        key = key[np.concatenate([[True], items[1:] != items[:-1]])] if len(key) else key
        return _Match((key >> 8).astype(np.int32), key >> 2 & 63, key & 2, (key & 1) == 0)


class NameIndex:
    """An index of names: the position of a name is the item's number."""

    def __init__(self, names: pa.Array) -> None:
        self._plain = plain_names(names)
        split = pc.split_pattern(self._plain, " ")
        owners = pc.list_parent_indices(split).to_numpy().astype(np.int32)
        self._length = np.bincount(owners, minlength=len(names)).astype(np.int16)  # words of each name
        self._words = _Postings(pc.list_flatten(split), owners, len(names))
        self._names = _Postings(_joined(self._plain), np.arange(len(names), dtype=np.int32), len(names))

    def find(self, query: str, n: int, ranks: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
        """Numbers of up to n items: the name itself, names with the typed words, then spaces moved and typos.

        Among equals, items of smaller rank (by default, of smaller number) come first.
        """
        words = plain_words(query)
        if not words or not len(self._plain):
            return np.zeros(0, np.int32)
        best = _Best(n, np.arange(len(self._plain), dtype=np.int32) if ranks is None else ranks)
        same = self._named("".join(words))
        exact = pc.equal(self._plain.take(pa.array(same.items)), " ".join(words)).to_numpy(zero_copy_only=False)
        best.add(_EXACT, same.take(exact))
        best.add(_JOINED, same.take(~exact))
        best.add(_TYPED, self._containing(words, self._words.typed))
        if best.count < n:
            for match in self._edited(words):
                best.add(_EDITED, match)
        return best.items()

    def _named(self, joined: str) -> _Match:
        """The items of this name, without its spaces."""
        places, edits, complete = self._names.typed(joined)
        return self._names.match(SimilarWords(places[complete], edits[complete], complete[complete]))

    def _edited(self, words: list[str]) -> Iterator[_Match]:
        """Items whose names match the query but for typos or spaces."""
        joined = "".join(words)
        yield _costing_a_space(self._names.match(self._names.typed(joined)))
        for moved, together in self._moved_spaces(words):
            match = self._containing(moved, self._words.typed)
            if together:  # what was split must be neighbours in the name
                near = pc.match_substring(_joined(self._plain.take(pa.array(match.items))), together)
                match = match.take(near.to_numpy(zero_copy_only=False))
            yield _costing_a_space(match)
        if len(joined) >= _JOINED_TYPOS:
            yield _costing_a_space(self._names.match(self._names.edited(joined)))
        yield _costing_a_space(self._containing(words, self._words.edited))

    def _moved_spaces(self, words: list[str]) -> Iterator[tuple[list[str], str]]:
        """The query with one space less or more, such that names have these words; and the word that was split."""
        vocabulary, last, tried = self._words.vocabulary, len(words) - 1, 0
        for k in range(last):
            both = words[k] + words[k + 1]
            low, high = vocabulary.with_prefix(both)
            if low < high:
                yield [*words[:k], both, *words[k + 2 :]], ""
        for k, word in enumerate(words):
            for cut in range(1, len(word)):
                left, right = word[:cut], word[cut:]
                low, high = vocabulary.with_prefix(right)
                if low < high and (k == last or vocabulary.word(low) == right) and vocabulary.holds(left):
                    yield [*words[:k], left, right, *words[k + 1 :]], word
                    tried += 1
                    if tried == _SPLITS:
                        return

    def _containing(self, words: list[str], similar: Callable[[str], SimilarWords]) -> _Match:
        """The items whose names contain all words, rare words first: they leave few items for the others."""
        found = {word: similar(word) for word in words}
        matches: dict[str, _Match] = {}
        items: NDArray[np.int32] | None = None
        for word in sorted(found, key=lambda word: self._words.size(found[word])):
            matches[word] = self._words.match(found[word], items)
            items = matches[word].items
        assert items is not None
        kept = {word: match.take(np.searchsorted(match.items, items)) for word, match in matches.items()}
        beginnings = np.maximum.reduce([match.loose for match in kept.values()])
        cost = np.sum([match.cost for match in kept.values()], axis=0)
        loose = np.where(self._length[items] == len(words), np.maximum(beginnings, len(words) > 1), 2)
        return _Match(items, cost, loose, kept[words[0]].first)


class _Best:
    """The best items of several matches."""

    def __init__(self, n: int, ranks: NDArray[np.int32]) -> None:
        self._n = n
        self._ranks = ranks
        self._found: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = []

    def add(self, kind: int, match: _Match) -> None:
        ranks = self._ranks[match.items]
        key = np.log2(ranks + 2.0) + _COST * match.cost + _LOOSE * match.loose + _NOT_FIRST * ~match.first
        key += 1e4 * kind
        best = np.argpartition(key, self._n)[: self._n] if len(key) > self._n else np.arange(len(key))
        self._found.append((match.items[best], key[best]))

    @property
    def count(self) -> int:
        return len(np.unique(np.concatenate([items for items, _ in self._found])))

    def items(self) -> NDArray[np.int32]:
        items, key = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        items = items[np.lexsort((self._ranks[items], key))]
        _, first = np.unique(items, return_index=True)
        return np.asarray(items[np.sort(first)][: self._n], np.int32)


def _joined(plain: pa.Array) -> pa.Array:
    return pc.replace_substring(plain, " ", "")


def _costing_a_space(match: _Match) -> _Match:
    return match._replace(cost=np.maximum(match.cost, _SPACE))
