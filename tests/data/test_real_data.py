"""The published data sets come out with the sizes their table says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from komd.data.read import read

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("KOMD_DATA") or ROOT.parent / "shared" / "data")
DATA = DATA if DATA.is_absolute() else ROOT / DATA

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="no real data: set KOMD_DATA to the folder that holds it"),
]

SIZES = {
    "ml-1m/ratings.csv.gz": (6_040, 3_706, 1_000_209),
    "ml-100k/u.data": (943, 1_682, 100_000),
    "filmtrust/ratings.txt": (1_508, 2_071, 35_494),
    "ciaodvd/movie-ratings.txt": (17_615, 16_121, 72_345),
    "lastfm-hetrec/user_artists.dat": (1_892, 17_632, 92_834),
    "delicious-hetrec/user_bookmarks.tsv.gz": (1_843, 65_877, 97_351),
    "netflix-half/ratings.dat.gz": (90_736, 3_559, 1_630_174),
    "book-crossing/book_history.tsv.gz": (2_946, 17_384, 272_678),
    "msd/10000.txt": (1_630, 9_071, 42_739),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    data = read(DATA / name)
    assert (*data.shape, data.pairs) == SIZES[name]


def test_a_visible_and_a_hidden_part():
    parts = [read(DATA / f"msd/year1_test_triplets_{part}-test.txt") for part in ("visible", "hidden")]
    assert [part.pairs for part in parts] == [7_093, 7_345]
    both = read(str(DATA / "msd/year1_test_triplets_*-test.txt"))
    assert (both.shape[0], both.pairs) == (526, 7_093 + 7_345)


def test_ratings_and_dates():
    data = read(DATA / "ciaodvd/movie-ratings.txt", rating=4, min_rating=4, time=5)
    assert 0 < data.pairs < 72_345
    assert data.times.min() > 0
