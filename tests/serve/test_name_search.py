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

from komd.serve.name_search import NameIndex
from komd.serve.name_words import plain_names


def plain_words(text):
    folded = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c)[0] != "M").lower()
    return re.findall(r"[a-z0-9]+", folded)


def prefix_twin(names, query):
    """Numbers of the names in which every word of the query begins some word."""
    words = plain_words(query)
    held = [plain_words(name) for name in names]
    return {k for k, have in enumerate(held) if words and all(any(h.startswith(w) for h in have) for w in words)}


def edits_between(a, b):
    """The least number of letters deleted, inserted, changed, or exchanged with a neighbour, by the plain recursion."""
    d = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i][j] = min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1)
    return d[-1][-1]


WORD = st.text("abcé", min_size=1, max_size=5)


NAMES = st.lists(st.lists(WORD, max_size=3).map(" ".join), min_size=1, max_size=25)


@given(NAMES, st.lists(WORD, min_size=1, max_size=2).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_beginnings_are_all_found_and_come_first(names, query):
    found = NameIndex(pa.array(names)).find(query, 100).tolist()
    expected = prefix_twin(names, query)
    assert set(found[: len(expected)]) == expected
    assert len(found) == len(set(found))


@given(NAMES, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_a_name_finds_itself_first_or_a_more_popular_one_of_the_same_words(names, random):
    index = NameIndex(pa.array(names))
    ranks = np.array(random.sample(range(len(names)), len(names)), np.int32)
    for number, name in enumerate(names):
        words = plain_words(name)
        if words:
            same = [k for k, other in enumerate(names) if plain_words(other) == words]
            assert index.find(name, 3, ranks)[0] == min(same, key=lambda k: ranks[k]), (number, name)


LONG = st.text("abcdefgh", min_size=4, max_size=9)
LONG_NAMES = st.lists(st.lists(LONG, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=20, unique=True)


@given(LONG_NAMES, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_one_typo_leaves_only_names_as_near_before_the_one_meant(names, random):
    """Against the distance to every name: what comes before begins as the query does, or is not farther."""
    index = NameIndex(pa.array(names))
    meant = random.randrange(len(names))
    name = names[meant]
    at = random.choice([k for k in range(1, len(name)) if " " not in name[k - 1 : k + 1]])
    exchanged = name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
    for query in (exchanged, name[:at] + name[at + 1 :], name[:at] + "z" + name[at:], name[:at] + "z" + name[at + 1 :]):
        if min(map(len, query.split())) < 3:
            continue  # typos of such short words are not searched
        found = index.find(query, len(names)).tolist()
        assert meant in found, query
        typed = prefix_twin(names, query)
        for before in found[: found.index(meant)]:
            near = edits_between(query.replace(" ", ""), names[before].replace(" ", ""))
            words = [min(edits_between(word, one) for one in names[before].split()) for word in query.split()]
            assert before in typed or min(near, sum(words)) <= 1, (query, names[before])


@given(LONG_NAMES, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_spaces_do_not_matter(names, random):
    """The name comes first, or one of the same letters; only a name that is typed exactly may come before."""
    index = NameIndex(pa.array(names))
    meant = random.choice(names)
    at = random.randrange(1, len(meant))
    for query in (meant.replace(" ", ""), meant[:at] + " " + meant[at:]):
        assert names[index.find(query, 3)[0]].replace(" ", "") == meant.replace(" ", "")


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


ARTISTS = ["The Beatles", "Pink Floyd", "P!nk", "Floyd", "AC/DC", "50 Cent", "Daft Punk", "Beatles Revival Band"]
ARTISTS += [
    "Spider-Man 2",
    "The Amazing Spider-Man",
    "System of a Down",
    "Björk",
    "!!!",
    "The The",
    "Pink Floyd Tribute",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pnik floyd", "Pink Floyd"),
        ("pinkfloyd", "Pink Floyd"),
        ("pinkfoyd", "Pink Floyd"),
        ("pinkfl", "Pink Floyd"),
        ("floyd pink", "Pink Floyd"),
        ("floyd", "Floyd"),  # exact, though less popular
        ("50cent", "50 Cent"),
        ("ac dc", "AC/DC"),
        ("acdc", "AC/DC"),
        ("ac/dc", "AC/DC"),
        ("daftpunk", "Daft Punk"),
        ("the beat les", "The Beatles"),
        ("th ebeatles", "The Beatles"),
        ("teh beatles", "The Beatles"),
        ("beatles", "Beatles Revival Band"),
        ("amazing spiderman", "The Amazing Spider-Man"),  # joined within a name
        ("spiderman", "Spider-Man 2"),
        ("revival beat les", "Beatles Revival Band"),  # split within a name
        ("systemofadwon", "System of a Down"),
        ("bjrok", "Björk"),
        ("!!!", "!!!"),
        ("the the", "The The"),
    ],
)
def test_artists(query, expected):
    ranks = np.arange(len(ARTISTS), dtype=np.int32)
    assert ARTISTS[NameIndex(pa.array(ARTISTS)).find(query, 5, ranks)[0]] == expected


def test_a_popular_name_beats_a_better_place_of_the_word():
    names = [*(f"other {k}" for k in range(100)), "Beatles Revival Band", "The Beatles"]
    ranks = np.arange(len(names), dtype=np.int32)
    ranks[[0, 101]] = 101, 0
    assert [names[k] for k in NameIndex(pa.array(names)).find("beatles", 2, ranks)] == names[:-3:-1]


HOSTILE = [
    "x" * 200,
    "a b " * 50,
    "-" * 200,
    "\x00" * 9,
    "\ud800",
    "שלום עולם",
    "\u202eabc",
    "🎵" * 100,
    "\ufdfa" * 200,
]
HOSTILE += ["ab" * 100, "the " * 60, "%", "' OR 1=1", "a" * 7, "\u0301" * 200, "\U0010ffff" * 50, "ﬃ" * 200, "\n\t "]


@pytest.mark.parametrize("query", HOSTILE, ids=ascii)
def test_hostile_queries_and_names(query):
    name = query.encode("utf-8", "replace").decode()
    index = NameIndex(pa.array([*ARTISTS, name, None, "", "aaaa bbbb " * 30]))
    found = index.find(query, 10).tolist()
    assert len(found) == len(set(found)) <= 10
    if len(plain_names(pa.array([name]))[0].as_py()) in range(1, 24):
        assert found[0] == len(ARTISTS)  # the name itself


@given(st.text(max_size=30), st.lists(st.text(max_size=12), max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_text(query, names):
    found = NameIndex(pa.array(names, pa.string())).find(query, 5).tolist()
    assert len(found) == len(set(found)) <= 5 and set(found) <= set(range(len(names)))


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
