"""Tables of item names: which columns are used, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from komd.errors import InputError
from komd.serve.item_names import read_names


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
