"""Every data set by name: the formats its owner distributes, what is said where it is absent, and the real ones."""

from __future__ import annotations

import datetime
import gzip
import os

import pytest

import komd
from komd.errors import InputError

DAY = 24 * 3600 * 1_000_000


def days(*dates):
    return [(datetime.date.fromisoformat(date) - datetime.date(1970, 1, 1)).days * DAY for date in dates]


# name, files, then (user, item) pairs in order of users, and times
FORMATS = {
    "ml-100k": ("ml-100k", {"ml-100k/u.data": "196\t242\t3\t881250949\n22\t377\t1\t878887116\n"}),
    "ml-1m": ("ml-1m", {"ml-1m/ratings.dat": "22::377::1::878887116\n196::242::3::881250949\n"}),
    "ml-1m variant": ("ml-1m", {"ml-1m/ratings.csv": "user,item,rating\n22,377,1\n196,242,3\n"}),
    "ml-10m": ("ml-10m", {"ml-10M100K/ratings.dat": "22::377::0.5::878887116\n196::242::3::881250949\n"}),
    "filmtrust": ("filmtrust", {"filmtrust/ratings.txt": "22 377 2\n196 242 3.5\n196 242 4\n"}),
    "ciao": ("ciao", {"ciaodvd/movie-ratings.txt": "22,377,1,1,5,2000-07-12\n196,242,4,2,5,2001-01-02\n"}),
    "lastfm": (
        "lastfm",
        {"hetrec2011-lastfm-2k/user_artists.dat": "userID\tartistID\tweight\n22\t377\t9\n196\t242\t1\n"},
    ),
    "delicious": (
        "delicious",
        {
            "hetrec2011-delicious-2k/user_taggedbookmarks-timestamps.dat": "userID\tbookmarkID\ttagID\ttimestamp\n"
            "22\t377\t1\t1289255362000\n22\t377\t2\t1289255362000\n196\t242\t3\t1289255159000\n"
        },
    ),
    "delicious, dates apart": (
        "delicious",
        {
            "delicious/user_taggedbookmarks.dat": "userID\tbookmarkID\ttagID\tday\tmonth\tyear\thour\tminute\tsecond\n"
            "22\t377\t1\t8\t11\t2010\t23\t29\t22\n22\t377\t2\t8\t11\t2010\t23\t29\t22\n196\t242\t3\t8\t11\t2010\t1\t2\t3\n"
        },
    ),
    "delicious variant": ("delicious", {"delicious-hetrec/user_bookmarks.tsv": "userID\titemID\n22\t377\n196\t242\n"}),
    "book-crossing variant": (
        "book-crossing",
        {"book-crossing/book_history.tsv": "user\titem\taccessed\n22\t377\t1\n196\t242\t1\n"},
    ),
    "netflix": (
        "netflix",
        {
            "netflix/training_set/mv_0000242.txt": "242:\n196,3,2005-09-06\n",
            "netflix/training_set/mv_0000377.txt": "377:\n22,5,2005-05-13\n",
        },
    ),
    "netflix joined": (
        "netflix",
        {
            "netflix/combined_data_1.txt": "5:\n242:\r\n196,3,2005-09-06\r\n",
            "netflix/combined_data_2.txt": "377:\n22,5,2005-05-13\n",
        },
    ),
    "netflix variant": ("netflix", {"netflix-half/ratings.dat": "22 377 1\n196 242 1\n"}),
}
TIMES = {
    "ml-100k": [878887116, 881250949],
    "ml-1m": [878887116, 881250949],
    "ml-10m": [878887116, 881250949],
    "ciao": days("2000-07-12", "2001-01-02"),
    "delicious": [1289255362000, 1289255159000],
    "netflix": days("2005-05-13", "2005-09-06"),
    "netflix joined": days("2005-05-13", "2005-09-06"),
}


def write(folder, files, *, gzipped=False):
    for name, text in files.items():
        path = folder / (name + ".gz" if gzipped else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode("latin-1")) if gzipped else text.encode("latin-1"))


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("case", FORMATS)
def test_original_formats(case, gzipped, tmp_path):
    name, files = FORMATS[case]
    write(tmp_path, files, gzipped=gzipped)
    data = komd.datasets.load(name, path=tmp_path)
    assert data.users.values.to_pylist() == [22, 196]
    assert (data.history(22), data.history(196)) == ([377], [242])
    assert (None if data.times is None else data.times.tolist()) == TIMES.get(case)


def test_book_crossing_is_latin_and_quotes_as_it_likes(tmp_path):
    rows = ['"User-ID";"ISBN";"Book-Rating"', '"22";"034545104X";"0"', '"22";"ó4233\\"50;978";"5"', '"196";"\x850";"7"']
    write(tmp_path, {"BX-CSV-Dump/BX-Book-Ratings.csv": "\r\n".join(rows) + "\r\n"})
    data = komd.datasets.load("book-crossing", path=tmp_path)
    assert data.users.values.to_pylist() == [22, 196]
    assert data.history(22) == ["034545104X", 'ó4233\\"50;978']
    assert data.history(196) == ["\x850"]


def test_the_folder_itself_may_be_given(tmp_path):
    write(tmp_path, {"ratings.txt": "1 1 2\n"})
    assert komd.datasets.load("filmtrust", path=str(tmp_path)).pairs == 1


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    write(tmp_path, {"filmtrust/ratings.txt": "1 1 2\n"})
    monkeypatch.setenv("KOMD_DATA", str(tmp_path))
    assert komd.datasets.load("filmtrust").pairs == 1


@pytest.mark.parametrize(
    ("train", "ending"), [("train_triplets.txt", ""), ("10000.txt", "-test")], ids=["original", "corner"]
)
def test_msd_is_what_may_be_learned_from(train, ending, tmp_path):
    write(tmp_path, {f"msd/{train}": "ann\ts1\t3\nann\ts2\t1\n"})
    assert komd.datasets.load("msd", path=tmp_path).pairs == 2
    write(tmp_path, {f"msd/year1_test_triplets_visible{ending}.txt": "bob\ts2\t1\n"})
    write(tmp_path, {f"msd/year1_test_triplets_hidden{ending}.txt": "bob\ts1\t1\n"})
    data, hidden = komd.datasets.load("msd", path=tmp_path), komd.datasets.load("msd-hidden", path=tmp_path)
    assert (data.history("ann"), data.history("bob"), hidden.history("bob")) == (["s1", "s2"], ["s2"], ["s1"])


@pytest.mark.parametrize("folder", ["msd", "EvalDataYear1MSDWebsite", "msd/EvalDataYear1MSDWebsite"])
def test_msd_unpacked_archive_by_archive(folder, tmp_path):
    write(tmp_path, {"msd/train_triplets.txt": "ann\ts1\t3\n"}, gzipped=True)
    write(tmp_path, {f"{folder}/year1_{part}_triplets_visible.txt": f"{part}\ts1\t1\n" for part in ("test", "valid")})
    write(tmp_path, {f"{folder}/year1_{part}_triplets_hidden.txt": f"{part}\ts2\t1\n" for part in ("test", "valid")})
    write(tmp_path, {"kaggle_visible_evaluation_triplets.txt": "test\ts1\t1\nvalid\ts1\t1\n"})
    data, hidden = komd.datasets.load("msd", path=tmp_path), komd.datasets.load("msd-hidden", path=tmp_path)
    assert {user: data.history(user) for user in data.users} == {"ann": ["s1"], "test": ["s1"], "valid": ["s1"]}
    assert {user: hidden.history(user) for user in hidden.users} == {"test": ["s2"]}


def test_original_before_variant(tmp_path):
    write(tmp_path, {"ml-1m/ratings.csv": "user,item,rating\n1,1,1\n", "ml-1m/ratings.dat": "1::1::5::9\n1::2::5::8\n"})
    assert komd.datasets.load("ml-1m", path=tmp_path).pairs == 2


@pytest.mark.parametrize("name", komd.datasets.names())
def test_absent_data_says_where_to_obtain_it(name, tmp_path, monkeypatch):
    with pytest.raises(
        InputError, match=r"Obtain it from .*http.*terms \(.*\), and unpack it\. Looked for .* in "
    ) as told:
        komd.datasets.load(name, path=tmp_path)
    assert str(tmp_path) in str(told.value)
    monkeypatch.delenv("KOMD_DATA", raising=False)
    with pytest.raises(InputError, match=r"Obtain it .* in a folder named by path= or .* KOMD_DATA"):
        komd.datasets.load(name)


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"unknown data set 'film-trust'; did you mean 'filmtrust'\? \(known: book-"):
        komd.datasets.load("film-trust")
    with pytest.raises(InputError, match="unknown data set 7"):
        komd.datasets.load(7)
    write(tmp_path, {"ratings.txt": "1 1 2\n"})
    with pytest.raises(InputError, match=r"path must be the folder that holds FilmTrust, got the file .*ratings\.txt"):
        komd.datasets.load("filmtrust", path=tmp_path / "ratings.txt")
    write(tmp_path, {"BX-Book-Ratings.csv": '"User-ID";"ISBN";"Book-Rating"\n"1";"2"\n'})
    with pytest.raises(
        InputError, match=r'BX-Book-Ratings.csv, line 2: expected "user";"isbn";"rating", got \'"1";"2"'
    ):
        komd.datasets.load("book-crossing", path=tmp_path)
    write(tmp_path, {"combined_data_1.txt": "22,5,2005-05-13\n1:\n"})
    with pytest.raises(InputError, match=r"combined_data_1\.txt does not begin with a line like '1:'"):
        komd.datasets.load("netflix", path=tmp_path)
    write(tmp_path, {"combined_data_1.txt": "8:\nabc,5,2005-05-13\n"})
    with pytest.raises(InputError, match=r"combined_data_1\.txt, movie 8: "):
        komd.datasets.load("netflix", path=tmp_path)


SIZES = {
    "ml-1m": (6_040, 3_706, 1_000_209),
    "ml-100k": (943, 1_682, 100_000),
    "filmtrust": (1_508, 2_071, 35_494),
    "ciao": (17_615, 16_121, 72_345),
    "lastfm": (1_892, 17_632, 92_834),
    "delicious": (1_843, 65_877, 97_351),
    "netflix": (90_736, 3_559, 1_630_174),
    "book-crossing": (2_946, 17_384, 272_678),
}


@pytest.mark.data
@pytest.mark.parametrize("name", SIZES)
def test_the_real_ones(name, real_data):
    data = komd.datasets.load(name, path=real_data)
    assert (*data.shape, data.pairs) == SIZES[name]
    assert (data.times is not None) == (name in ("ml-100k", "ciao"))


@pytest.mark.data
def test_the_real_songs(real_data):
    data, hidden = komd.datasets.load("msd", path=real_data), komd.datasets.load("msd-hidden", path=real_data)
    assert (data.shape[0], data.pairs) == (1_630 + 526, 42_739 + 7_093)
    assert (hidden.shape[0], hidden.pairs) == (526, 7_345)
    assert os.environ.get("KOMD_DATA") is None or komd.datasets.load("msd-hidden") == hidden
