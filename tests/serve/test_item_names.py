"""Tables of item names: which columns are used, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from komd.data.ids import Ids
from komd.errors import InputError
from komd.serve.item_names import ItemNames, read_names


def test_tables_of_names(tmp_path):
    file = tmp_path / "n.csv"
    file.write_text('title,movie_id,genre\n"Lantern, The",7,jazz\nOther,8,\nAgain,7,rock\n')
    table = read_names(file)
    assert table.to_pydict() == {"movie_id": ["7", "8"], "title": ["Lantern, The", "Other"], "genre": ["jazz", None]}
    file.write_text("id;name\n1;Ünï\n")
    assert read_names(file).to_pydict() == {"id": ["1"], "name": ["Ünï"]}
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"code": np.array([4, 5]), "words": ["a", None], "n": [1.5, 2.0]}), tmp_path / "n.parquet")
    assert read_names(tmp_path / "n.parquet").to_pydict() == {
        "code": ["4", "5"],
        "words": ["a", None],
        "n": ["1.5", "2.0"],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "no table of names at"), (b"just\none\n", "has one column"), (b"\xff\xfe\x00,\x01\n\xff,\xfe\n", "n.csv")],
)
def test_tables_that_are_none(tmp_path, content, words):
    file = tmp_path / "n.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_names(file)


def test_names_of_other_items(settings, serving, tmp_path):
    file = tmp_path / "n.csv"
    file.write_text("id,name\nnot-of-this-model,x\n")
    with pytest.raises(InputError, match="names none of the model's 90 items"):
        serving(replace(settings, items=file))


def test_images_are_addresses_of_the_web(tmp_path):
    """The column is not among the further ones; what is no such address is ignored, and none is shortened."""
    given = {
        "a": "https://img.example/a.png?x=1#y",
        "b": " HTTP://img.example ",
        "c": "javascript:alert(1)",
        "d": "data:image/png;base64,AA",
        "e": "//img.example/e.png",
        "f": "https://img.example/two words.png",
        "g": "https://user@img.example/g.png",
        "h": "https://img.example/" + "h" * 1980,
        "i": "https://img.example/" + "i" * 1981,
        "j": "",
    }
    lines = [f"{item}\tname of {item}\t{address}\t1999" for item, address in given.items()]
    (tmp_path / "n.tsv").write_text("\n".join(["id\tname\tcover\tyear", *lines]) + "\n")
    items = Ids(pa.array([*given, "unknown"]))
    names = ItemNames.of(items, read_names(tmp_path / "n.tsv", "cover"))
    found = [names.image(number) for number in range(len(items))]
    assert found == [given["a"], "HTTP://img.example", *[None] * 5, given["h"], None, None, None]
    assert names.details(0) == {"year": "1999"}
    plain = ItemNames.of(items, read_names(tmp_path / "n.tsv"))
    assert plain.image(0) is None and plain.details(0) == {"cover": given["a"], "year": "1999"}


@pytest.mark.parametrize("column", ["covers", "id", "name", ""])
def test_a_column_of_images_that_is_none(tmp_path, column):
    (tmp_path / "n.csv").write_text("id,name,cover,year\n1,x,y,z\n")
    with pytest.raises(InputError, match=rf"images: n.csv has no further column '{column}'; .*: cover, year"):
        read_names(tmp_path / "n.csv", column)


def test_names_with_nothing_to_see(tmp_path):
    file = tmp_path / "n.parquet"
    import pyarrow.parquet as pq

    blank = ["", " \t\u3000", "\u200b\u2060\ufeff", "\n", None]
    pq.write_table(pa.table({"id": ["a", "b", "c", "d", "e", "f"], "name": [*blank, "\u200bx"]}), file)
    names = ItemNames.of(Ids(pa.array(["a", "b", "c", "d", "e", "f"])), read_names(file))
    assert names.names.to_pylist() == ["a", "b", "c", "d", "e", "\u200bx"] and names.known == 1
