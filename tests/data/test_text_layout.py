"""How text files are taken to be laid out."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from komd.data.text_layout import sniff
from komd.errors import InputError


def layout(tmp_path, text, **options):
    path = tmp_path / "file.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return sniff(path, **{"header": None, "separator": None, "by_name": False, **options})


@pytest.mark.parametrize(
    ("text", "separator", "header"),
    [
        ("user_id,item_id\nana,i7\n", ",", True),
        ("user,item,rating\n1,1193,5\n", ",", True),
        ("1,1,1,1,5,2000-07-12\n2,1,1,2,5,2000-07-12\n", ",", False),
        ("196\t242\t3\t881250949\n", "\t", False),
        ("userID\tartistID\tweight\n2\t51\t13883\n", "\t", True),
        ("1::1193::5::978300760\n1::661::3::978302109\n", "::", False),
        ("1 1 2\n1 2 4\n1 3 3.5\n", " ", False),
        ("1 1 2 \n1 2 4 \n", " ", False),
        ("who;what;much\n1;2;3,5\n2;2;4,5\n", ";", True),
        ("1;2;3,5\n2;2;4,5\n", ";", False),
        ("a|b|1\nc|d|2\n", "|", False),
        ("who,what\nana,7\nbo,8\n", ",", True),
        ("ana,i7\nbo,8\ncy,i9\n", ",", False),
        ("ana,book\nbo,pen\nana,pen\n", ",", False),  # an id comes again
        ("V1,V2\nu17,ana\nu18,bo\nu19,7\nu1,8\nV1,9", ",", False),
        ("ana,b80344d063b5ccb3\nbo,0000aa02388c208e\n", ",", False),  # codes of one length
        ("user,item,2019\nana,i7,1\nbo,i8,1\n", ",", True),
        ('1,"a,b",3\n2,"c",4\n', ",", False),
        ("ana,The Good\nbo,The Very Bad\nana,x\n", ",", False),
        ("\ufeffuser,item\r\n1,2\r\n", ",", True),
        ("\n\nuser,item\n1,2\n", ",", True),
        ("b80344d063b5\tSOAKIMP\t1\nb80344d063b5\tSOBBMDR\t2\n", "\t", False),
    ],
)
def test_rules(tmp_path, text, separator, header):
    found = layout(tmp_path, text)
    assert (found.separator, found.header) == (separator, header)


def test_names_are_cleaned(tmp_path):
    assert layout(tmp_path, "\ufeffuser, item\n1, 2\n").columns == ["user", "item"]
    assert layout(tmp_path, "1,2\n").columns == ["column 0", "column 1"]


def test_arguments_overrule(tmp_path):
    assert layout(tmp_path, "who,what\nana,i7\n", header=True).columns == ["who", "what"]
    assert layout(tmp_path, "who,what\nana,i7\n", by_name=True).header
    assert not layout(tmp_path, "user,item\n1,2\n", header=False).header
    assert layout(tmp_path, "a b,c 1\n", separator=" ").separator == " "
    assert layout(tmp_path, "a\tb,c\t1\n", separator="\\t").separator == "\t"
    with pytest.raises(InputError, match="separator must be"):
        layout(tmp_path, "a,b\n", separator="")


def test_long_files_are_cut_at_a_line_and_a_character(tmp_path):
    text = "user,item\n" + "".join(f"{k},é{'x' * (k % 7)}\n" for k in range(20_000))
    assert layout(tmp_path, text).header
    found = layout(tmp_path, gzip.compress(text.encode()))
    assert found.gzipped
    assert found.columns == ["user", "item"]


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lambda b: gzip.compress(b[:70_000]) + gzip.compress(b[70_000:])]
)
def test_rows_are_foretold(tmp_path, pack):
    rng = np.random.default_rng(0)
    rows = [f"{user:032x}\tS{song:06d}\t{1 + song % 9}" for user in range(4000) for song in rng.integers(0, 10**6, 9)]
    found = layout(tmp_path, pack("\n".join(rows).encode()))
    assert found.rows == pytest.approx(len(rows), rel=0.05)
    assert found.gzipped == (pack is not bytes)
