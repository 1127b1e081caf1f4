"""Items by name: against a search that compares every name, and what a reader would expect."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.serve.name_search import NameIndex, _distances, _letters


def plain_words(text):
    folded = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c)[0] != "M").lower()
    return re.findall(r"[a-z0-9]+", folded)


def prefix_twin(names, query):
    """Numbers of the names in which every word of the query begins some word."""
    words = plain_words(query)
    held = [plain_words(name) for name in names]
    return {k for k, have in enumerate(held) if words and all(any(h.startswith(w) for h in have) for w in words)}


def beginning_distance(query, word):
    """Edits (with exchanges of neighbours) from the query to the nearest beginning of a word, by the plain table."""
    best = []
    for end in range(len(word) + 1):
        a, b = query, word[:end]
        d = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                d[i][j] = min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
                if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                    d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1)
        best.append(d[-1][-1])
    return min(best)


WORD = st.text("abcé", min_size=1, max_size=5)


NAMES = st.lists(st.lists(WORD, max_size=3).map(" ".join), min_size=1, max_size=25)


@given(NAMES, st.lists(WORD, min_size=1, max_size=2).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_beginnings_are_all_found_and_come_first(names, query):
    found = NameIndex(pa.array(names)).find(query, 100).tolist()
    expected = prefix_twin(names, query)
    assert set(found[: len(expected)]) == expected
    assert len(found) == len(set(found))


@given(
    st.text("abcd", min_size=1, max_size=8), st.lists(st.text("abcd", min_size=1, max_size=9), min_size=1, max_size=9)
)
@settings(max_examples=150, deadline=None)
def test_distances_are_the_plain_tables(query, words):
    got = _distances(_letters([query])[0][: len(query)], _letters(words))
    assert got.tolist() == [beginning_distance(query, word) for word in words]


NAMED = [
    "The Silent Lantern",
    "Lantern",
    "Lantern River",
    "Silver Harbour",
    "Blue lanterns",
    "Ångström's Éclair",
    "9½ Weeks",
    "",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("lantern", [1, 2, 0, 4]),  # the very name, names that begin so, then words; by popularity within
        ("lan", [1, 2, 0, 4]),
        ("  LANTERN   riv ", [2]),
        ("river lantern", [2]),
        ("lanten", [1, 2, 0, 4]),  # a letter left out
        ("lantrens", [4]),  # two exchanged; the word must begin so
        ("slient lantern", [0]),
        ("harbuor", [3]),
        ("angstrom", [5]),
        ("ÉCLAIR", [5]),
        ("zzz", []),
        ("", []),
        ("!!!", []),
        ("\x00\ud7ff", []),
    ],
)
def test_what_users_type(query, expected):
    assert NameIndex(pa.array(NAMED)).find(query, 10).tolist()[: len(expected) or 10] == expected


def test_n_is_a_limit_and_popularity_decides():
    search = NameIndex(pa.array([f"song {k}" for k in range(1000)]))
    assert search.find("song", 5).tolist() == [0, 1, 2, 3, 4]
    assert search.find("sogn", 5).tolist() == [0, 1, 2, 3, 4]
    assert search.find("song 77", 3).tolist() == [77, 770, 771]
    ranks = np.arange(1000, dtype=np.int32)[::-1]
    assert search.find("song", 3, ranks).tolist() == search.find("sogn", 3, ranks).tolist() == [999, 998, 997]


def test_nothing_to_search():
    for names in ([], ["", "--"]):
        assert NameIndex(pa.array(names, pa.string())).find("a", 5).tolist() == []


def test_through_the_service(serving, settings, shop):
    service = serving(replace(settings, model=shop / "numbers.komd", items=shop / "names.tsv"))
    about = service.get("/v1/model")
    assert about["named_items"] == 89  # one id has no name and goes by its id
    lines = [line.split("\t") for line in (shop / "names.tsv").read_text().splitlines()[1:]]
    number, name, year = lines[30]
    found = service.get("/v1/items", q=name)["items"][0]
    assert found["item_id"] == number and found["name"] == name and found["details"] == {"year": year}
    assert service.get("/v1/items", q=name[:5] + name[6:])["items"][0]["item_id"] == number
    assert service.get("/v1/items/38")["name"] == "38"
    top = service.get("/v1/items", n=3)["items"]
    assert [item["popularity_rank"] for item in top] == [1, 2, 3]
    assert service.get("/v1/items/3")["name"].startswith("<script>")
    answer = service.post("/v1/recommend", {"history": [number], "n": 2, "explain": True})
    assert answer["items"][0]["why"]["contributions"][0]["name"] == name
