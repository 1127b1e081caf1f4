"""The words of names: against tables of edit distances and comparisons with every word."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.serve.name_words import LONGEST, Vocabulary, plain_names, plain_words


def edit_table(a, b):
    """Edits between all beginnings of two words, with exchanges of neighbours, by the plain recursion."""
    d = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i][j] = min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1)
    return d


TEXT = st.text("abcdé中\U0001f3b5", min_size=1, max_size=12)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=12), st.integers(0, 2), st.integers(0, 10_000))
@settings(max_examples=300, deadline=None)
def test_similar_words_are_all_found_with_their_edits(query, words, allowed, seed):
    near = [query[1:] + "b", query[:1] + query, query[:-2] + query[-2:][::-1] + "aa"]  # else few words are similar
    words = [word for word in words + near if word]
    vocabulary = Vocabulary(pa.array(words))
    expected = {}
    for word in words:
        last = edit_table(query, word)[-1]
        if min(last) <= allowed:
            expected[word] = (min(last), last[-1] == min(last))
    places, edits, complete = vocabulary.similar(query, allowed)
    found = [vocabulary.word(place) for place in places.tolist()]
    assert found == sorted(expected)
    assert dict(zip(found, zip(edits.tolist(), complete.tolist(), strict=True), strict=True)) == expected


@given(st.text("ab", max_size=3), st.lists(st.text("abé\U0010ffff", max_size=4), max_size=15))
@settings(max_examples=150, deadline=None)
def test_prefixes_are_ranges(prefix, words):
    vocabulary = Vocabulary(pa.array(words, pa.string()))
    low, high = vocabulary.with_prefix(prefix)
    expected = sorted({word for word in words if word.startswith(prefix) and "\U0010ffff" not in word})
    found = [vocabulary.word(place) for place in range(low, high)]
    assert [word for word in found if "\U0010ffff" not in word] == expected
    assert vocabulary.holds(prefix) == (prefix in words)
    assert [vocabulary.word(place) for place in vocabulary.places.tolist()] == words


def test_only_beginnings_of_long_words_are_compared():
    vocabulary = Vocabulary(pa.array(["a" * 40, "a" * LONGEST + "b" * 20]))
    assert vocabulary.similar("a" * 30, 1).places.tolist() == [0, 1]
    assert vocabulary.similar("a" * 30, 1).complete.tolist() == [False, False]


LATIN = st.characters(max_codepoint=0x24F) | st.sampled_from("\u0301\u0308ﬁＡ½™K\u2019中א")


@given(st.text(LATIN, max_size=30))
@settings(max_examples=300, deadline=None)
def test_queries_are_folded_like_names(text):
    assert plain_words(text) == [word for word in plain_names(pa.array([text]))[0].as_py().split(" ") if word][:8]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("AC/DC", "ac dc"),
        ("Motörhead", "motorhead"),
        ("Røyksopp", "royksopp"),
        ("Straße", "strasse"),
        ("  Sunn O)))  ", "sunn o"),
        ("!!!", "!!!"),
        ("🎵\x00🎵", "🎵 🎵"),
        ("", ""),
        (None, ""),
    ],
)
def test_folding(name, plain):
    assert plain_names(pa.array([name], pa.string())).to_pylist() == [plain]
