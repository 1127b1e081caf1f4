"""The data sets of the paper by name, read as their owners distribute them. Nothing is ever downloaded.

    data = komd.datasets.load("ml-1m")                    # from the folder that KOMD_DATA names
    data = komd.datasets.load("ml-1m", path="~/research")  # or from there

A data set is looked for in the folder itself and in a folder of its own within it, such as `ml-1m/`. Every file may be
gzipped. Where the data is absent, the error says who distributes it and under which terms.

| name | original file | times |
| --- | --- | --- |
| `ml-100k` | `u.data` | yes |
| `ml-1m`, `ml-10m` | `ratings.dat` | yes |
| `filmtrust` | `ratings.txt` | |
| `ciao` | `movie-ratings.txt` | days |
| `lastfm` | `user_artists.dat` | |
| `delicious` | `user_taggedbookmarks-timestamps.dat`, `user_taggedbookmarks.dat` | in the first of them |
| `book-crossing` | `BX-Book-Ratings.csv`, ratings of 0 (seen, not rated) included | |
| `netflix` | `training_set/mv_*.txt`, `combined_data_*.txt` | days |
| `msd` | `train_triplets.txt` with the visible half of the test users, in as many of its files as exist | |
| `msd-hidden` | the hidden half of them (`year1_test_triplets_hidden.txt`) | |
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from komd.data.interactions import Interactions
from komd.data.read import read
from komd.errors import InputError, nearest

__all__ = ["load", "names"]


@dataclass(frozen=True)
class _Form:
    """One way in which a data set is distributed: the files that must be there, and how they are read."""

    file: str  # a name or pattern
    options: dict[str, Any]  # for `read`
    parse: Callable[[list[Path]], Any] = lambda paths: paths  # what `read` is given
    besides: tuple[str, ...] = ()  # further files, read where they exist, in that folder or another


@dataclass(frozen=True)
class _Source:
    """A data set: its folders, its forms (the first found counts), and where it comes from."""

    title: str
    folders: tuple[str, ...]
    forms: tuple[_Form, ...]
    site: str
    terms: str


def _book_crossing(paths: list[Path]) -> pa.Table:
    """Rows `"user";"isbn";"rating"` in Latin-1; ISBNs contain unescaped quotes, backslashes and semicolons."""
    users: list[int] = []
    isbns: list[str] = []
    row = re.compile(r'"(\d+)";"(.*)";"(\d+)"\s*')
    for path in paths:
        lines = _bytes(path).decode("latin-1").split("\n")  # not splitlines: Latin-1 has line breaks of its own
        for number, line in enumerate(lines[1:], start=2):
            match = row.fullmatch(line)
            if match:
                users.append(int(match[1]))
                isbns.append(match[2])
            elif line.strip():
                raise InputError(f'{path}, line {number}: expected "user";"isbn";"rating", got {line.strip()!r}')
    return pa.table({"user": users, "item": isbns})


def _netflix(paths: list[Path]) -> pa.RecordBatchReader:
    """Files in which a line `movie:` stands above the lines `user,rating,date` of that movie."""
    schema = pa.schema({"user": pa.int32(), "item": pa.int32(), "time": pa.date32()})
    return pa.RecordBatchReader.from_batches(schema, (batch for path in paths for batch in _movies(path, schema)))


def _movies(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as csv

    content = _bytes(path)
    heads = list(re.finditer(rb"^(\d+):[^\S\n]*(?:\n|$)", content, re.MULTILINE))
    if not heads or content[: heads[0].start()].strip():
        raise InputError(f"{path} does not begin with a line like '1:', the number of a movie")
    names = csv.ReadOptions(column_names=["user", "rating", "time"])
    types = csv.ConvertOptions(column_types={"user": pa.int32(), "time": pa.date32()})
    ends = [*(head.start() for head in heads[1:]), len(content)]
    for head, end in zip(heads, ends, strict=True):
        body = content[head.end() : end]
        if not body.strip():
            continue
        try:
            rows = csv.read_csv(pa.BufferReader(body), read_options=names, convert_options=types)
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}, movie {int(head[1])}: {error}") from error
        item = pa.repeat(pa.scalar(int(head[1]), pa.int32()), len(rows))
        columns = [rows["user"].combine_chunks(), item, rows["time"].combine_chunks()]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _bytes(path: Path) -> bytes:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.read()


def _text(separator: str | None, *, header: bool = False, time: int | None = None) -> dict[str, Any]:
    """How to read text whose first two columns are users and items."""
    return {"user": 0, "item": 1, "time": time, "header": header, "separator": separator}


def _movielens(size: str, folders: tuple[str, ...], *forms: _Form) -> _Source:
    site = f"https://grouplens.org/datasets/movielens/{size}/ (GroupLens, University of Minnesota)"
    terms = "research use with acknowledgement (Harper & Konstan 2015); no commercial use without permission"
    return _Source(f"MovieLens {size.upper()}", folders, forms, site, terms)


_DATED: dict[str, Any] = {"user": "user", "item": "item", "time": "time"}
_LIBREC = "https://guoguibing.github.io/librec/datasets.html (Guibing Guo)"
_HETREC = "https://grouplens.org/datasets/hetrec-2011/ (GroupLens, for the HetRec 2011 workshop)"
_HETREC_TERMS = "non-commercial use with acknowledgement (Cantador, Brusilovsky & Kuflik 2011; "
_SONGS = ("msd", "EvalDataYear1MSDWebsite", "msd/EvalDataYear1MSDWebsite")
_VISIBLE = (  # Kaggle's file holds the same pairs as the other two
    "year1_test_triplets_visible*.txt",
    "year1_valid_triplets_visible*.txt",
    "kaggle_visible_evaluation_triplets.txt",
)
_TASTE = "http://millionsongdataset.com/tasteprofile/ and http://millionsongdataset.com/challenge/ (The Echo Nest)"
_TASTE_TERMS = "non-commercial research use with acknowledgement (Bertin-Mahieux et al. 2011)"

_SOURCES = {
    "ml-100k": _movielens("100k", ("ml-100k",), _Form("u.data", _text("\t", time=3))),
    "ml-1m": _movielens(
        "1m", ("ml-1m",), _Form("ratings.dat", _text("::", time=3)), _Form("ratings.csv", _text(None, header=True))
    ),
    "ml-10m": _movielens("10m", ("ml-10m", "ml-10M100K"), _Form("ratings.dat", _text("::", time=3))),
    "filmtrust": _Source(
        "FilmTrust",
        ("filmtrust", "FilmTrust"),
        (_Form("ratings.txt", _text(" ")),),
        _LIBREC,
        "research use with acknowledgement (Guo, Zhang & Yorke-Smith 2013)",
    ),
    "ciao": _Source(
        "CiaoDVD",
        ("ciaodvd", "CiaoDVD", "ciao"),
        (_Form("movie-ratings.txt", _text(",", time=5)),),
        _LIBREC,
        "research use with acknowledgement (Guo et al. 2014)",
    ),
    "lastfm": _Source(
        "Last.fm (HetRec 2011)",
        ("lastfm-hetrec", "hetrec2011-lastfm-2k", "lastfm"),
        (_Form("user_artists.dat", _text("\t", header=True)),),
        _HETREC,
        _HETREC_TERMS + "last.fm)",
    ),
    "delicious": _Source(
        "Delicious (HetRec 2011)",
        ("delicious-hetrec", "hetrec2011-delicious-2k", "delicious"),
        (
            _Form("user_taggedbookmarks-timestamps.dat", _text("\t", header=True, time=3)),
            _Form("user_taggedbookmarks.dat", _text("\t", header=True)),
            _Form("user_bookmarks.tsv", _text("\t", header=True)),
        ),
        _HETREC,
        _HETREC_TERMS + "delicious.com)",
    ),
    "book-crossing": _Source(
        "Book-Crossing",
        ("book-crossing", "BX-CSV-Dump", "BX"),
        (
            _Form("BX-Book-Ratings.csv", {"user": "user", "item": "item"}, _book_crossing),
            _Form("book_history.tsv", _text("\t", header=True)),
        ),
        "http://www2.informatik.uni-freiburg.de/~cziegler/BX/ (Cai-Nicolas Ziegler, University of Freiburg)",
        "research use with acknowledgement (Ziegler et al. 2005)",
    ),
    "netflix": _Source(
        "Netflix Prize",
        ("netflix", "nf_prize_dataset", "netflix-prize-data", "netflix-half"),
        (
            _Form("training_set/mv_*.txt", _DATED, _netflix),
            _Form("mv_*.txt", _DATED, _netflix),
            _Form("combined_data_*.txt", _DATED, _netflix),
            _Form("ratings.dat", _text(" ")),
        ),
        "https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data (a copy: Netflix no longer distributes it)",
        "the rules of the Netflix Prize: research only, no redistribution",
    ),
    "msd": _Source(
        "Million Song Dataset, Taste Profile",
        _SONGS,
        tuple(_Form(file, _text("\t"), besides=_VISIBLE) for file in ("train_triplets.txt", "10000.txt")),
        _TASTE,
        _TASTE_TERMS,
    ),
    "msd-hidden": _Source(
        "Million Song Dataset challenge, the hidden half of the test users",
        _SONGS,
        (_Form("year1_test_triplets_hidden*.txt", _text("\t")),),
        _TASTE,
        _TASTE_TERMS,
    ),
}


def names() -> list[str]:
    """Return the names of the data sets that `load` knows.

    Returns
    -------
    list of str

    Examples
    --------
    >>> names()
    ['book-crossing', 'ciao', ...]
    """
    return sorted(_SOURCES)


def load(name: str, *, path: str | os.PathLike[str] | None = None) -> Interactions:
    """Read one of the paper's data sets from the files that its owner distributes.

    Parameters
    ----------
    name : str
        One of `names()`.
    path : path, optional
        Folder with the files, or the one that contains the data set's folder. The default is the environment variable
        KOMD_DATA.

    Returns
    -------
    Interactions
        Every rating counts, whatever its value. With times if the files have them.

    Raises
    ------
    InputError
        If the name is unknown, or the files are missing; the message says who distributes them.

    Examples
    --------
    >>> load("ml-1n")
    Traceback (most recent call last):
    komd.errors.InputError: unknown data set 'ml-1n'; did you mean 'ml-1m'? (known: book-crossing, ciao, ...
    """
    if name not in _SOURCES:
        raise InputError(f"unknown data set {name!r}; {nearest(str(name), _SOURCES)}")
    source = _SOURCES[name]
    given = os.environ.get("KOMD_DATA") if path is None else path
    if not given:
        raise InputError(f"{_absent(source)}, in a folder named by path= or the environment variable KOMD_DATA")
    base = Path(given).expanduser()
    if base.is_file():
        raise InputError(f"path must be the folder that holds {source.title}, got the file {base}")
    folders = [base, *(base / folder for folder in source.folders)]
    for form in source.forms:
        for folder in folders:
            found = _matching(folder, form.file)
            if found:
                for file in form.besides:  # in the first folder that has it
                    found += next(filter(None, (_matching(each, file) for each in (folder, *folders))), [])
                return read(form.parse(found), weight=False, **form.options)
    wanted = ", ".join(form.file for form in source.forms)
    looked = ", ".join(map(str, folders))
    raise InputError(f"{_absent(source)}. Looked for {wanted} (plain or .gz) in {looked}")


def _absent(source: _Source) -> str:
    return (
        f"{source.title} is not part of komd. Obtain it from {source.site}, under its owner's terms "
        f"({source.terms}), and unpack it"
    )


def _matching(folder: Path, pattern: str) -> list[Path]:
    """The files of a name or pattern, or else the same gzipped."""
    for ending in ("", ".gz"):
        found = sorted(file for file in folder.glob(pattern + ending) if file.is_file())
        if found:
            return found
    return []
