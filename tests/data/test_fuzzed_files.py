"""Files of every make: what is read is what was written, or there is an error; never something else.

`KOMD_FUZZ=20000 pytest tests/data/test_fuzzed_files.py` tries as many files (from the seed KOMD_FUZZ_FROM).
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass, field

import numpy as np
import pytest

from komd.data.read import read
from komd.errors import KomdError

FILES = int(os.environ.get("KOMD_FUZZ", "150"))
FIRST = int(os.environ.get("KOMD_FUZZ_FROM", "0"))
SEPARATORS = [",", "\t", "::", ";", "|", " "]
USERS = ["user", "user_id", "userId", "uid", "USER ID", "customer", "member-id", "reviewerID"]
ITEMS = ["item", "item_id", "movieId", "song", "isbn", "product_id", "Track", "artistID"]
UNKNOWN = [("who", "what"), ("a", "b"), ("V1", "V2"), ("left", "right"), ("de", "à"), ("x1", "x2"), ("name", "title")]
OTHERS = ["genre", "comment", "country", "id", "weekday", "V7", ""]
WORDS = ["Low", "Heroes", "Blue", "Ünï", "日本語", "naïve", "O'Hara", "AC/DC", "50%", "x_y", "null", "NA", "-", "é"]


@dataclass
class Written:
    """A file and what it says: pairs, or that it must be refused."""

    content: bytes
    pairs: set[tuple[str, str]]
    refused: bool = False  # it cannot be read as pairs
    plain: bool = True  # nothing about it is odd: it must be read
    notes: list[str] = field(default_factory=list)


class Writer:
    """Writes one odd file; every choice is noted."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([15, seed])
        self.notes: list[str] = []
        self.plain = True
        self.refused = False

    def odds(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def odd(self, note: str, share: float) -> bool:
        """Whether to do something odd: noted, and the file need not be read any more."""
        if not self.odds(share):
            return False
        self.notes.append(note)
        self.plain = False
        return True

    def ids(self, kind: str, count: int) -> list[str]:
        numbers = self.rng.permutation(500)[:count]
        if kind == "integers":
            return [str(n) for n in numbers]
        if kind == "padded":
            return [f"{n:05d}" for n in numbers]
        if kind == "codes":
            return [f"{self.rng.integers(1 << 60):016x}" for _ in numbers]
        if kind == "tagged":
            tag = self.one(["u", "i", "item-", "S_"])
            return [f"{tag}{n}" for n in numbers]
        if kind == "binary":
            return ["0", "1"]
        found = [f"{self.one(WORDS)} {self.one(WORDS)} {n}" if self.odds(0.3) else self.one(WORDS) for n in numbers]
        return list(dict.fromkeys(found))

    def write(self) -> Written:
        if self.odds(0.08):
            return self.wide()
        kinds = ["integers", "padded", "codes", "tagged", "words", "words"]
        users = self.ids(self.one(kinds), int(self.rng.integers(1, 12)))
        items = self.ids(self.one([*kinds, "binary"]), int(self.rng.integers(1, 12)))
        count = int(self.rng.integers(1, 40))
        pairs = [(self.one(users), self.one(items)) for _ in range(count)]
        separator = self.one(SEPARATORS)
        names, rows, chosen = self.columns(pairs)
        return self.finish(self.text(names, rows, separator), {pairs[k] for k in chosen})

    def columns(self, pairs):
        """Column names (None: no header), rows of texts, and which rows count as chosen."""
        count = len(pairs)
        chosen = list(range(count))
        columns = [("user", [u for u, _ in pairs]), ("item", [i for _, i in pairs])]
        ratings = None
        if self.odds(0.5):
            ratings = [str(self.one([1, 2, 3.5, 5])) for _ in pairs]
            if self.odds(0.3):
                ratings = [self.one(["0", "0.0", "3"]) for _ in pairs]
                self.notes.append("zeros")
            if self.odds(0.15):
                ratings[int(self.rng.integers(count))] = self.one(["-1", "-0.5"])
                self.notes.append("negative")
            columns.append(("rating", ratings))
        if self.odds(0.4):
            columns.append(("time", [str(n) for n in self.rng.integers(10**8, 10**9, count)]))
        header = self.one(["known", "known", "unknown", "none"])
        extra = 0
        if header != "none" and self.odds(0.3):
            extra = int(self.rng.integers(1, 3))
            for _ in range(extra):
                columns.append(("other", [self.one(["pop", "rock", "7", "", "x y"]) for _ in pairs]))
        if header == "known":
            self.rng.shuffle(columns)  # type: ignore[arg-type]
        self.notes.append(f"header {header}")
        if ratings is not None and (header != "none" or len(columns) <= 4):
            looked_at = header == "known" or header == "none"
            if header == "unknown":
                looked_at = True  # its name is still known
            if looked_at:
                chosen = [k for k in chosen if float(ratings[k]) != 0]
                self.refused |= any(float(r) < 0 for r in ratings) or not chosen
        if header == "none":
            self.plain = False  # the first line may look like names
            return None, [list(row) for row in zip(*(values for _, values in columns), strict=True)], chosen
        known = {
            "user": self.one(USERS),
            "item": self.one(ITEMS),
            "rating": "rating",
            "time": self.one(["timestamp", "date"]),
        }
        if header == "unknown":
            known["user"], known["item"] = self.one(UNKNOWN)
            self.plain = False
        others = iter(self.rng.permutation(OTHERS))
        names = [known.get(what) or str(next(others)) for what, _ in columns]
        return names, [list(row) for row in zip(*(values for _, values in columns), strict=True)], chosen

    def text(self, names, rows, separator):
        quoting = self.one(["none", "none", "needed", "all", "strings", "single"])
        lines = ([names] if names is not None else []) + rows
        if quoting == "none" and any(separator in text or '"' in text for line in lines for text in line):
            quoting = "needed"  # without quotes it would say something else, and nothing could tell
        self.notes += [f"separator {separator!r}", f"quoting {quoting}"]
        wider = names is not None or not {"zeros", "negative"} & set(self.notes)  # else the third column is no rating
        blanks = separator != " " and self.odd("blanks", 0.1)
        escape = "\\" if self.odds(0.2) else "double"
        done = []
        for line in lines:
            fields = [self.quoted(text, separator, quoting, escape) for text in line]
            if blanks:
                fields = [self.one(["", " ", "  "]) + text + self.one(["", " "]) for text in fields]
            done.append(separator.join(fields))
        if quoting == "single" or (separator == " " and any(text == "" for line in lines for text in line)):
            self.plain = False  # nothing between two blanks is hard to see
        if names is not None and self.odd("row names", 0.05):
            done[1:] = [separator.join((str(k), line)) for k, line in enumerate(done[1:], 1)]
        if wider and self.odd("trailing separator", 0.03):
            done = [line + separator for line in done]
        if wider and self.odd("huge first line", 0.03):
            done[0] += separator + "z" * int(self.rng.integers(60_000, 200_000))
            done[1:] = [line + separator + "1" for line in done[1:]]
        return self.spoiled(done, separator, named=names is not None)

    def quoted(self, text, separator, quoting, escape):
        mark = "'" if quoting == "single" else '"'
        needed = separator in text or mark in text or '"' in text
        number = text.replace(".", "", 1).lstrip("-").isdigit()
        wanted = {"none": False, "needed": needed, "strings": not number or needed}.get(quoting, True)
        if not wanted:
            return text
        return mark + text.replace(mark, "\\" + mark if escape == "\\" else mark * 2) + mark

    def spoiled(self, lines, separator, named):
        header = lines[0]
        if self.odd("blank lines", 0.08):
            for _ in range(int(self.rng.integers(1, 4))):
                lines.insert(int(self.rng.integers(len(lines) + 1)), self.one(["", "", "  "]))
        if len(lines) > 3 and not lines[0].endswith(separator) and self.odd("ragged", 0.06):
            at = int(self.rng.integers(2, len(lines)))
            parts = lines[at].split(separator)
            if len(parts) > 1:
                lines[at] = separator.join(parts[:-1]) if self.odds(0.5) else separator.join([*parts, "more"])
                self.refused = True
        if self.odd("many rows first", 0.04):
            at = len(lines) - 1
            lines[at:at] = [lines[at]] * int(self.rng.integers(2000, 30_000))
        if named and self.odd("header again", 0.02):
            lines.append(header)
            self.refused = True
        end = self.one(["\n", "\n", "\r\n", "\r"])
        ends = [end] * len(lines)
        if self.odd("mixed line ends", 0.06):
            ends = [self.one(["\n", "\r\n", "\r"]) for _ in lines]
        if self.odds(0.2):
            ends[-1] = ""
        return "".join(line + end for line, end in zip(lines, ends, strict=True))

    def wide(self) -> Written:
        """A table with one column for each item."""
        users, items = self.ids("words", 6), self.ids(self.one(["integers", "tagged", "words"]), 7)
        while len(items) < 3:
            items.append(f"more {len(items)}")
        separator = self.one([",", "\t", ";"])
        cells = [[self.one(["0", "1"]) for _ in items] for _ in users]
        shape = self.one(["labels and names", "names", "labels", "nothing"])
        rows = [[user, *row] if "labels" in shape else row for user, row in zip(users, cells, strict=True)]
        corner = [self.one(["", "user", "userId", "name", "x"])] if "labels" in shape else []
        names = [*corner, *items] if "names" in shape else None
        self.notes.append(f"wide: {shape}")
        self.refused = True
        return self.finish(self.text(names, rows, separator), set())

    def finish(self, text: str, pairs) -> Written:
        encoding = "utf-8"
        if self.odd("other encoding", 0.05):
            encoding = self.one(["utf-16", "utf-16-le", "latin-1"])
            text = text if encoding != "latin-1" else "é" + text.replace("日本語", "Tokyo")
            self.refused = True
        content = text.encode(encoding)
        if encoding == "utf-8" and self.odds(0.1):
            content = b"\xef\xbb\xbf" + content
        if self.odd("a zero byte", 0.03):
            at = int(self.rng.integers(len(content) + 1))
            content = content[:at] + b"\0" + content[at:]  # in a column that is not used it does no harm
        if self.odds(0.15):
            content = gzip.compress(content)
            if self.odd("cut gzip", 0.3):
                content = content[: int(self.rng.integers(2, len(content)))]
                self.refused = True
        if self.odd("empty", 0.01):
            content, self.refused = b"", True
        return Written(content, pairs, self.refused, self.plain, self.notes)


def outcome(path) -> set[tuple[str, str]] | KomdError:
    """The pairs as texts, or why they cannot be read."""
    try:
        data = read(path)
    except KomdError as error:
        assert "\n" not in str(error) and len(str(error)) < 1500, error
        return error
    return {(str(row["user_id"]), str(row["item_id"])) for row in data.to_arrow().to_pylist()}


def check(seed: int, path) -> str:
    """Write one file, read it and compare; what happened, in a word."""
    written = Writer(seed).write()
    path.write_bytes(written.content)
    found = outcome(path)
    told = f"seed {seed}: {', '.join(written.notes)}: {written.content[:300]!r}"
    if isinstance(found, KomdError):
        assert written.refused or not written.plain, f"refused without need ({found}); {told}"
        return "refused"
    assert not written.refused, f"read what says nothing: {found}; {told}"
    assert found == written.pairs, f"misread: {found ^ written.pairs}; {told}"
    return "read"


def test_what_is_read_is_what_was_written(tmp_path):
    wrong = []
    counts = {"read": 0, "refused": 0}
    for seed in range(FIRST, FIRST + FILES):
        try:
            counts[check(seed, tmp_path / "file.txt")] += 1
        except Exception as error:  # a traceback of any kind is as wrong as a misreading
            wrong.append(f"{type(error).__name__}: {str(error)[:1200]}")
    print(counts, "of", FILES)
    assert not wrong, f"{len(wrong)} of {FILES} files:\n" + "\n".join(wrong[:10])
    assert min(counts.values()) > FILES / 10


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 4096])
def test_noise_is_refused(size, tmp_path):
    for seed in range(20):
        rng = np.random.default_rng([size, seed])
        path = tmp_path / "noise"
        path.write_bytes(rng.integers(0, 256, size, np.uint8).tobytes())
        assert size <= 3 or isinstance(outcome(path), KomdError)
        outcome(path)
