"""Items by name: the index of `komd serve` beside SQLite's FTS5 (trigrams) and rapidfuzz (every name compared).

    python -m benchmarks.name_search

Queries of eight kinds are made from names, drawn by popularity: the share whose item comes first, or among the first
five, and the milliseconds per query. On names of artists (LastFM, where KOMD_DATA has it) and on generated names. The
settings of every contender were chosen on queries for one half of the names (`--choose` prints the figures of that
half); the page reports the other half. Writes benchmarks/name_search.json and docs/results/search.md.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks import page_search
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine
from benchmarks.name_queries import KINDS, Query, queries
from komd.serve.name_search import NameIndex
from komd.serve.name_words import plain_names, plain_words

GENERATED = 300_000
QUERIES = 150  # of each kind
ITEMS = 5
TURNS = 3


class Names(NamedTuple):
    """Names of items, with their ranks of popularity: 0 for the most popular."""

    source: str
    texts: list[str]
    ranks: NDArray[np.int32]


class Search(Protocol):
    def find(self, query: str) -> list[int]: ...

    def size(self) -> int: ...


class Ours:
    """The index of `komd serve`."""

    def __init__(self, names: Names) -> None:
        self._index, self._ranks = NameIndex(pa.array(names.texts)), names.ranks

    def find(self, query: str) -> list[int]:
        return self._index.find(query, ITEMS, self._ranks).tolist()

    def size(self) -> int:
        return _bytes(self._index)


class Ordered:
    """The order of candidates that SQLite or rapidfuzz found: ours, by edit distances of entire names."""

    def __init__(self, names: Names) -> None:
        from rapidfuzz.distance import OSA

        self._distance = OSA.distance
        self._ranks = names.ranks.tolist()
        plain = plain_names(pa.array(names.texts))
        self._plain: list[str] = plain.to_pylist()
        self._joined: list[str] = pc.replace_substring(plain, " ", "").to_pylist()

    def best(self, plain: str, items: Iterable[int]) -> list[int]:
        key = {item: self._key(plain, item) for item in items}
        return sorted(key, key=key.__getitem__)[:ITEMS]

    def _key(self, plain: str, item: int) -> tuple[int, float, int]:
        """Exact, joined, then typed (prefixes of all words), then the nearest by edit distance."""
        joined, name, whole, rank = plain.replace(" ", ""), self._plain[item], self._joined[item], self._ranks[item]
        if plain == name:
            return 0, 0, rank
        if joined == whole:
            return 1, 0, rank
        words, have = plain.split(), name.split()
        if all(any(one.startswith(word) for one in have) for word in words):
            away = 8 * (sorted(words) != sorted(have)) + 4 * (not have[0].startswith(words[0]))
            return 2, float(np.log2(rank + 2.0) + away), rank
        near = [self._distance(joined, whole), 0.5 + self._distance(joined, whole[: len(joined)])]
        near.append(0.5 + sum(min(self._distance(word, one[: len(word) + 1]) for one in have) for word in words))
        return 3, min(near), rank


class Trigrams(Ordered):
    """SQLite's FTS5 with trigrams: the candidates of bm25 ordered by edit distance, then popularity.

    Names are folded like ours, as FTS5 before SQLite 3.45 keeps accents in trigrams. There is a column with spaces and
    one without. Names that begin with the query come from an ordinary index of each column. Trigrams are asked for with
    OR, only the rarest of them: common ones cost most of the time.
    """

    rarest = 6
    candidates = 500

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._base = sqlite3.connect(":memory:")
        self._base.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, plain TEXT, joined TEXT, rank INTEGER)")
        rows = zip(range(len(self._plain)), self._plain, self._joined, self._ranks, strict=True)
        self._base.executemany("INSERT INTO names VALUES (?, ?, ?, ?)", rows)
        for column in ("plain", "joined"):
            self._base.execute(f"CREATE INDEX by_{column} ON names ({column}, rank)")
        self._base.execute(
            "CREATE VIRTUAL TABLE grams USING fts5 (plain, joined, content=names, content_rowid=id, tokenize=trigram)"
        )
        self._base.execute("INSERT INTO grams (grams) VALUES ('rebuild')")
        self._base.execute("INSERT INTO grams (grams) VALUES ('optimize')")
        self._base.execute("CREATE VIRTUAL TABLE counts USING fts5vocab (grams, row)")

    def find(self, query: str) -> list[int]:
        plain = " ".join(plain_words(query))
        joined = plain.replace(" ", "")
        found: set[int] = set()
        for column, text in (("plain", plain), ("joined", joined)):
            same = f"SELECT id FROM names WHERE {column} = ? ORDER BY rank LIMIT ?"
            found.update(item for (item,) in self._base.execute(same, (text, ITEMS)))
            begin = f"SELECT id FROM names WHERE {column} > ? AND {column} < ? ORDER BY rank LIMIT ?"
            found.update(item for (item,) in self._base.execute(begin, (text, text + "\U0010ffff", self.candidates)))
        grams = self._rare({text[k : k + 3] for text in (plain, joined) for k in range(len(text) - 2)})
        if grams:
            wanted = " OR ".join('"' + gram.replace('"', '""') + '"' for gram in grams)
            ask = "SELECT rowid FROM grams WHERE grams MATCH ? ORDER BY bm25(grams) LIMIT ?"
            found.update(item for (item,) in self._base.execute(ask, (wanted, self.candidates)))
        return self.best(plain, found)

    def _rare(self, grams: set[str]) -> list[str]:
        marks = ",".join("?" * len(grams))
        ask = f"SELECT term FROM counts WHERE term IN ({marks}) ORDER BY doc LIMIT ?"
        return [term for (term,) in self._base.execute(ask, (*grams, self.rarest))]

    def size(self) -> int:
        pages = self._base.execute("PRAGMA page_count").fetchone()[0]
        return int(pages * self._base.execute("PRAGMA page_size").fetchone()[0])


class EveryName(Ordered):
    """rapidfuzz: every name compared with the query by a scorer; the best are ordered like those of SQLite."""

    scorer = "ratio"
    candidates = 500

    def __init__(self, names: Names) -> None:
        from rapidfuzz import fuzz, process

        super().__init__(names)
        self._scorer, self._process = getattr(fuzz, self.scorer), process
        self._texts = pa.array(self._joined)
        self._by_rank = np.asarray(names.ranks)

    def find(self, query: str) -> list[int]:
        plain = " ".join(plain_words(query))
        joined = plain.replace(" ", "")
        scores = self._process.cdist([joined], self._joined, scorer=self._scorer, dtype=np.float32)[0]
        few = min(self.candidates, len(scores) - 1)
        best = np.argpartition(-scores, few)[:few]
        begin = np.flatnonzero(pc.starts_with(self._texts, joined).to_numpy(zero_copy_only=False))
        begin = begin[np.argsort(self._by_rank[begin])[: self.candidates]]
        return self.best(plain, {*best.tolist(), *begin.tolist()})

    def size(self) -> int:
        return sum(sys.getsizeof(name) for name in self._joined) + int(self._texts.nbytes)


CONTENDERS: dict[str, Callable[[Names], Search]] = {"ours": Ours, "fts5": Trigrams, "rapidfuzz": EveryName}


def artists() -> Names | None:
    """The artists of LastFM, if their names are there."""
    folder = Path(os.environ.get("KOMD_DATA", ROOT.parent / "shared" / "data")) / "lastfm-hetrec"
    if not (folder / "artists.dat").exists():
        return None
    rows = [line.split("\t") for line in (folder / "artists.dat").read_text(encoding="utf-8").splitlines()[1:]]
    counts: dict[str, int] = {}
    for line in (folder / "user_artists.dat").read_text(encoding="utf-8").splitlines()[1:]:
        artist = line.split("\t")[1]
        counts[artist] = counts.get(artist, 0) + 1
    return Names("artists of LastFM", [row[1] for row in rows], _ranks([counts.get(row[0], 0) for row in rows]))


def generated(count: int = GENERATED) -> Names:
    """One to four words of two to four syllables, some of them in many names."""
    rng = np.random.default_rng(0)
    syllables = np.array([a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "án", "el", "ør")])
    words = np.array(["".join(rng.choice(syllables, rng.integers(2, 5))).title() for _ in range(max(20, count // 3))])
    drawn = words[rng.zipf(1.2, size=(count, 4)) % len(words)].tolist()
    texts = [" ".join(row[:size]) for row, size in zip(drawn, rng.integers(1, 5, count).tolist(), strict=True)]
    return Names("generated", texts, _ranks(rng.zipf(1.5, count).tolist()))


def _ranks(popularity: list[int]) -> NDArray[np.int32]:
    ranks = np.empty(len(popularity), np.int32)
    ranks[np.argsort(-np.array(popularity), kind="stable")] = np.arange(len(popularity))
    return ranks


def compare(names: Names, half: int, each: int, chosen: list[str]) -> dict[str, Any]:
    """Every contender on the same queries, one after the other for each query."""
    asked = queries(names.texts, names.ranks, half=half, each=each, rng=np.random.default_rng(half))
    built, made = {}, {}
    for name in chosen:
        start = time.perf_counter()
        built[name] = CONTENDERS[name](names)
        made[name] = time.perf_counter() - start
    taken: dict[str, list[float]] = {name: [] for name in chosen}
    hits: dict[str, dict[str, list[int]]] = {name: {kind: [] for kind in KINDS} for name in chosen}
    for query in asked:
        for name, search in built.items():
            seconds = []
            for _ in range(TURNS):
                start = time.perf_counter()
                found = search.find(query.text)
                seconds.append(time.perf_counter() - start)
            taken[name].append(1e3 * min(seconds))
            hits[name][query.kind].append(_place(found, query, names.texts))
    figures = {}
    for name in chosen:
        p50, p99 = np.percentile(taken[name], [50, 99])
        quality = {
            kind: [float(np.mean([place < top for place in places])) for top in (1, ITEMS)]
            for kind, places in hits[name].items()
        }
        figures[name] = {
            "build": made[name],
            "bytes": built[name].size(),
            "p50": float(p50),
            "p99": float(p99),
            "queries": len(taken[name]),
            "quality": quality,
        }
    return {"source": names.source, "names": len(names.texts), "figures": figures}


def _place(found: list[int], query: Query, texts: list[str]) -> int:
    """The place of the item that was meant, or of another of the very same name."""
    wanted = texts[query.item].casefold()
    return next((place for place, item in enumerate(found) if texts[item].casefold() == wanted), ITEMS)


def _bytes(held: Any, seen: set[int] | None = None) -> int:
    """Bytes of the arrays that an object holds."""
    seen = set() if seen is None else seen
    if id(held) in seen:
        return 0
    seen.add(id(held))
    if isinstance(held, np.ndarray | pa.Array):
        return int(held.nbytes)
    if isinstance(held, dict):
        return sum(_bytes(one, seen) for one in held.values())
    return _bytes(vars(held), seen) if type(held).__module__.startswith("komd") else 0


def main(words: list[str]) -> None:
    choose = "--choose" in words
    chosen = [word for word in words if word in CONTENDERS] or list(CONTENDERS)
    sources = [names for names in (artists(), generated()) if names is not None]
    results: dict[str, Any] = {"machine": machine(), "sqlite": sqlite3.sqlite_version, "each": QUERIES, "turns": TURNS}
    results["rapidfuzz"] = metadata.version("rapidfuzz")
    results["data"] = [compare(names, 0 if choose else 1, QUERIES, chosen) for names in sources]
    if not choose:
        keep(page_search.FIGURES, results)
        page_search.write()
    for one in results["data"]:
        for name, figures in one["figures"].items():
            mean = np.mean(list(figures["quality"].values()), axis=0).round(3)
            shares = {kind: [round(share, 3) for share in both] for kind, both in figures["quality"].items()}
            print(one["source"], name, {key: round(figures[key], 2) for key in ("build", "p50", "p99")}, mean, shares)


if __name__ == "__main__":
    main(sys.argv[1:])
