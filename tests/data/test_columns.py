"""What was read is said, and what cannot be told is asked."""

from __future__ import annotations

import pandas as pd
import pytest
import scipy.sparse as sparse

from komd.data.columns import ColumnRequest
from komd.data.read import read
from komd.errors import InputError


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def file(text, name="plays.csv"):
        (tmp_path / name).write_bytes(text.encode())
        return name

    return file


def pairs_of(data):
    return [(row["user_id"], row["item_id"]) for row in data.to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uid,song,plays,timestamp\nana,x,1,5\n", "user=uid, item=song; not used: plays, timestamp"),
        ("song,uid\nx,ana\n", "user=uid, item=song"),
        ("1::2::3::4\n", "user=column 0, item=column 1; not used: column 2, column 3"),
        (",user,item\n0,ana,x\n", "user=user, item=item; not used: ''"),
        ("user,film,film_id\nana,x,1\n", "user=user, item=film_id; not used: film"),
        ("user,item_id,film_id\nana,x,1\n", "user=user, item=item_id; not used: film_id"),
        ("user,thing,rating\nana,x,1\n", "user=user, item=thing; not used: rating"),
        ("user,item,rating\nana,x,0\nana,y,1\n", "user=user, item=item; not used: rating; rows rated 0, left out: 1"),
        (
            "user,item," + ",".join(f"c{k}" for k in range(12)) + "\na,b" + ",5" * 12 + "\n",
            "user=user, item=item; not used: c0, c1, c2, c3, c4, c5, c6, c7, … (4 more)",
        ),
        ("user,item,a\x1b[31mb\nana,x,1\n", r"user=user, item=item; not used: 'a\x1b[31mb'"),
        (f"user,{'z' * 70_000},item\nana,q,x\n", f"user=user, item=item; not used: {'z' * 59}…"),
    ],
)
def test_what_was_read_is_said(write, text, words):
    data = read(write(text))
    assert str(data.reading) == words
    assert repr(data).endswith(f" % full; {words})")
    assert "\n" not in repr(data)


def test_what_was_asked_for_is_said(write):
    path = write("uid,song,plays,timestamp\nana,x,1,5\nana,y,2,6\n")
    assert (
        str(read(path, min_rating=2, time="timestamp").reading) == "user=uid, item=song, rating=plays, time=timestamp"
    )
    write("song,uid\nx,ana\n", "more.csv")
    write("uid,track\nana,z\n", "yet.csv")
    words = "user=uid, item=song or track; not used: plays, timestamp"
    assert str(read([path, "more.csv", "yet.csv"]).reading) == words
    assert read(sparse.csr_array([[1]])).reading is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,timestamp,who,what\n1,5,ana,x\n",
            r"the column of user ids and of item ids in plays.csv: one of id, who, wha",
        ),
        (
            "user,name,title\nana,A,x\n",
            r"the column of item ids in plays.csv: one of name, title \(choose with item=\)",
        ),
        ("rating,timestamp\n1,5\n", "of user ids and of item ids in plays.csv: it has: rating, timestamp"),
        ("song,plays\nx,5\n", "cannot tell the column of user ids in plays.csv: it has: song, plays"),
        ("user,artist,song\nana,a,x\n", r"several columns of item ids: artist, song \(choose with item=\)"),
        ("who,what\nana,x\nbo,y\n", r"the first line \(who, what\) may be a header or a row; say which with header="),
        ("V1,V2\nu17,a\nu18,b\n", "may be a header or a row"),
        ("who\twhat\nana\tx\nbo\ty\n", "may be a header or a row"),
        ("1,0,1\n0,1,1\n", "plays.csv looks like a table with one column for each item: give one row for each pair"),
        ("ana,1,0,1\nbo,0,1,1\n", "one column for each item"),
        ("ana,True,False\nbo,False,True\n", "one column for each item"),
        ("user,260,1193,661\nana,5,0,3\nbo,0,0,1\n", "one column for each item"),
        (",260,1193,661\nana,1,0,1\n", "one column for each item"),
        ("x,260,1193,661\nana,1,0,1\nbo,0,0,1\n", "one column for each item"),
        ("user,i1,i2,i3\nana,1,0,1\n", "one of i1, i2, i3 .*; if each column is an item, give one row for each pair"),
        ("user," + ",".join(f"m{k}" for k in range(20_000)) + "\nana" + ",1" * 20_000 + "\n", r"m7, … \(19,992 more\)"),
        ("user,item\r\nana,x\nbo,y\n", r"plays.csv mixes line ends \(\\n and \\r\\n\): give it one kind"),
        ("user,item\nana,x\n" * 40_000 + "bo,y\r\n", "plays.csv mixes line ends"),
        ("user\titem\n" + "ana\tLow\n" * 40_000 + 'ana\t"He""roes"\n', "its first lines have no quotes like these"),
        ("user,item\n" + "ana,Low\n" * 40_000 + "ana,a\0b\n", "it holds zero bytes"),
        ("x" * (1 << 25), "no two lines in its first 16 MB"),
    ],
    ids=lambda text: text[:30],
)
def test_what_cannot_be_told_is_asked(write, text, message):
    path = write(text)
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ('"user" "item" "n"\n"1" "ana b" "x" 3\n"2" "bo" "y" NA\n', [("ana b", "x"), ("bo", "y")]),  # R
        ('"user" "item"\n"ana" "x"\n"bo" "y"\n', [("ana", "x"), ("bo", "y")]),
        ('"user"\t"item"\n"ana"\t"x ""y"""\n', [("ana", 'x "y"')]),
        ('"user" "item"\n"ana" "x \\"y\\""\n', [("ana", 'x "y"')]),
        ('user|item\n"ana|b"|x\nbo|y\n', [("ana|b", "x"), ("bo", "y")]),
        ('user\titem\nana\t"Heroes"\nbo\tLow\n', [("ana", '"Heroes"'), ("bo", "Low")]),
        ("user,item\nana,'tis\nbo,x\n", [("ana", "'tis"), ("bo", "x")]),
        ("user,item\n'ana','x, y'\n'bo','z'\n", [("ana", "x, y"), ("bo", "z")]),
        ("user,item\nana, x\nbo ,x\n bo,\ty\n", [("ana", "x"), ("bo", "x"), ("bo", "y")]),
        ('user,item\nana, "x, y"\n', [("ana", "x, y")]),
        ("user\titem\nana \t x\n", [("ana", "x")]),
        ("\n  \nuser,item\nana,x\n", [("ana", "x")]),
        ("user,item\n\nana,x\n\n", [("ana", "x")]),
        ("user,item\rana,x\rbo,y\r", [("ana", "x"), ("bo", "y")]),
        ("user,item\r\nana,x\r\n\r\nbo,y\r\n", [("ana", "x"), ("bo", "y")]),
        ("user,item,2019\nana,x,1\n", [("ana", "x")]),
        ("who,what\nana,7\nbo,8\n", [("ana", 7), ("bo", 8)]),
        ("ana,x\nbo,y\nana,y\n", [("ana", "x"), ("ana", "y"), ("bo", "y")]),
        ("user,item\n" + "ana,x\n" * 20_000 + 'bo,"two\nlines"\n', [("ana", "x"), ("bo", "two\nlines")]),
        ("u,i,r\n1,2,3\n", [(1, 2)]),
    ],
    ids=lambda text: text[:30] if isinstance(text, str) else "",
)
def test_odd_files_are_read(write, text, pairs):
    assert pairs_of(read(write(text))) == pairs


def test_arguments_answer_what_was_asked(write):
    path = write("id,timestamp,who,what\n1,5,ana,x\n")
    assert pairs_of(read(path, user="who", item="what")) == [("ana", "x")]
    path = write("who,what\nana,x\nbo,y\n")
    assert pairs_of(read(path, header=True)) == [("ana", "x"), ("bo", "y")]
    assert read(path, header=False).pairs == 3
    path = write("1,0,1\n0,1,1\n")
    assert pairs_of(read(path, user=0, item=1)) == [(0, 1), (1, 0)]


RATED = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "x"], "rating": [0.0, 2, 5]})


def test_one_rule_for_ratings_of_zero_and_less(write):
    matrix = sparse.csr_array(([0.0, 2, 5], ([0, 0, 1], [0, 1, 0])), shape=(2, 2))
    file = write(RATED.to_csv(index=False))
    bare = write(RATED.to_csv(index=False, header=False), "bare.csv")
    sources = (file, bare, RATED, RATED.rename(columns={"rating": "plays"}))
    for source in sources:
        assert pairs_of(read(source)) == [("a", "y"), ("b", "x")]
        assert read(source).reading.zeros == 1
    assert pairs_of(read(RATED.rename(columns={"rating": "r"}), rating="r")) == [("a", "y"), ("b", "x")]
    assert pairs_of(read(matrix)) == [(0, 1), (1, 0)]
    for source in (*sources, matrix):
        assert read(source, min_rating=1).pairs == 2
    for source in sources:
        assert read(source, min_rating=0).pairs == 3  # whoever says what counts is heard
    below = RATED.replace({"rating": {2.0: -1.0}})
    for source in (write(below.to_csv(index=False)), below):
        with pytest.raises(InputError, match="has the rating -1 in row 2 of 'rating': say with min_rating= which"):
            read(source)
        assert read(source, min_rating=-1).pairs == 3
        assert read(source, min_rating=1).pairs == 1
    negative = sparse.csr_array([[1.0, -1.0]])
    with pytest.raises(InputError, match=r"1 negative entries .* or say what counts with min_rating="):
        read(negative)
    assert read(negative, min_rating=-1).pairs == 2
    with pytest.raises(InputError, match="every row is rated 0: none is left"):
        read(RATED.assign(rating=0))


def test_what_is_no_number_is_no_rating(write):
    assert read(write("user,item,value\na,x,high\na,y,0\na,z,\n")).pairs == 2
    assert read(write("1,2,2020-01-01\n1,3,0\n")).pairs == 1
    assert read(RATED.assign(rating=pd.to_datetime(["2020-01-01"] * 3))).pairs == 3
    assert read(write("1,2,0,7,5\n1,3,1,7,5\n")).pairs == 2  # too wide to know what the third column is


def test_choosing_is_the_same_in_any_order():
    names = ["uid", "song", "rating", "timestamp", "genre", ""]
    for shift in range(6):
        turned = names[shift:] + names[:shift]
        choice = ColumnRequest(None, None, None, None, rated=False).choose(turned, "x")
        assert (turned[choice.user], turned[choice.item], turned[choice.rating]) == ("uid", "song", "rating")
