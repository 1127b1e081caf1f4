"""Answers: tables that become frames, read as text, and say what was left out."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.engine.ranking import RankedBlock
from komd.engine.results import Explanation, Recommendations, Scores, lists_table
from komd.errors import InputError


def recommendations(rows, **how):
    table = {"user_id": [f"u{k // 2}" for k in range(rows)], "item_id": [f"i{k}" for k in range(rows)]}
    return Recommendations(pa.table(table | {"score": [k / 3 for k in range(rows)]}), **how)


def test_a_table_for_any_frame():
    found = recommendations(4)
    assert len(found) == 4
    assert pa.table(found).equals(found.to_arrow())
    assert found.to_pandas()["item_id"].tolist() == found.to_polars()["item_id"].to_list() == ["i0", "i1", "i2", "i3"]


def test_the_items_of_one_user():
    found = recommendations(5)
    assert found.items("u1") == ["i2", "i3"]
    assert found.items(pa.scalar("u2")) == ["i4"]
    assert found.items("nobody") == []


def test_as_text():
    text = repr(recommendations(3))
    assert text.splitlines() == [
        "Recommendations(3 rows)",
        "user_id  item_id  score",
        "u0       i0       0",
        "u0       i1       0.333333",
        "u1       i2       0.666667",
    ]
    text = repr(recommendations(1200, fallback=["u7"], skipped=2))
    assert text.startswith("Recommendations(1,200 rows)")
    assert text.splitlines()[-3:] == [
        "... 1,190 more",
        "1 without history, served by popularity",
        "2 unknown ids skipped",
    ]
    assert repr(Scores(recommendations(1).table)).startswith("Scores(1 rows)")


@pytest.mark.parametrize("parts", [2, 13])
def test_explanations_as_text_and_as_a_dictionary(parts):
    contributions = np.arange(parts, 0, -1) / 8
    table = pa.table(
        {
            "item_id": [f"i{k}" for k in range(parts)],
            "weight": np.ones(parts),
            "similarity": contributions,
            "contribution": contributions,
        }
    )
    why = Explanation("u", "i", float(contributions.sum() - 0.5), -0.5, table)
    lines = repr(why).splitlines()
    assert lines[0] == f"Explanation(user='u', item='i', score={why.score:.6g})"
    assert lines[-1] == "global term -0.5"
    assert ("... 3 more items, together 0.75" in lines) == (parts == 13)
    told = why.to_dict()
    assert (told["user_id"], told["item_id"], told["fallback"]) == ("u", "i", False)
    assert told["contributions"] == table.to_pylist()
    assert sum(row["contribution"] for row in told["contributions"]) + told["global_term"] == told["score"]


def test_an_explanation_without_history_says_so():
    names = ("item_id", "weight", "similarity", "contribution")
    empty = pa.table({name: pa.array([], pa.float64()) for name in names})
    assert "no history: the score is the item's popularity" in repr(Explanation(None, "i", 4.0, 4.0, empty, True))


def test_lists_of_blocks_are_one_ragged_table():
    catalogue = Catalogue.of(Interactions.of([("a", "x"), ("b", "x"), ("b", "y"), ("c", "z")]))
    first, second = RankedBlock.empty(2, 3), RankedBlock.empty(1, 3)
    for block, user, items in ((first, 0, [2, 0]), (second, 0, [1])):
        block.items[user, : len(items)] = items
        block.scores[user, : len(items)] = np.arange(len(items), 0, -1)
        block.counts[user] = len(items)
    first.counts[1] = 0
    table = lists_table(catalogue, pa.array(["a", "b", "c"]), [first, second])
    assert table.to_pylist() == [
        {"user_id": "a", "item_id": "z", "score": 2.0, "rank": 1},
        {"user_id": "a", "item_id": "x", "score": 1.0, "rank": 2},
        {"user_id": "c", "item_id": "y", "score": 1.0, "rank": 1},
    ]
    nothing = lists_table(catalogue, pa.array([], pa.string()), [])
    assert nothing.column_names == ["user_id", "item_id", "score", "rank"] and len(nothing) == 0


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_frame_library_that_is_missing_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf"to_{name}\(\) needs {name}, which is not installed: pip install {name}"):
        getattr(recommendations(4), f"to_{name}")()
