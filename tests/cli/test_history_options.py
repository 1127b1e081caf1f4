"""Histories with weights, dislikes and moments on the command line: what the library gives."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import komd
from komd.cli.history_options import parsed_dislikes, parsed_history
from komd.data.ids import Ids
from komd.data.interactions import Interactions

DAY = 86_400_000_000


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model with a half-life, of items 0 to 29."""
    made = komd.generate(users=60, items=30, activity=6, rng=2)
    times = np.random.default_rng(0).integers(18_000, 18_400, made.pairs) * DAY
    users, items = Ids.range(60, noun="user"), Ids.range(30, noun="item")
    data = Interactions(users, items, made.indptr, made.indices, times, time_unit="us")
    folder = tmp_path_factory.mktemp("models") / "m.komd"
    komd.CFKOMD(half_life="30d", dislikes_weight=0.5).fit(data).save(folder)
    return folder


def test_ids_and_weights_are_told_apart():
    texts = Ids(pa.array(["a", "a=3", "b", "c=2"]), noun="item")
    assert parsed_history(texts, "a,b") == ["a", "b"]
    assert parsed_history(texts, "b=2.5,a") == {"b": 2.5, "a": 1.0}
    assert parsed_history(texts, "b=2,b,b=3") == {"b": 6.0}
    assert parsed_history(texts, "c=2") == ["c=2"]
    assert parsed_history(texts, "c=2=4") == {"c=2": 4.0}
    assert parsed_history(texts, "a=3=1,a=3.0") == {"a=3": 1.0, "a": 3.0}
    with pytest.raises(komd.InputError, match="'a=3' is an item, and so is 'a': write a=3=1 for the first"):
        parsed_history(texts, "a=3")
    assert parsed_history(texts, "zed=3,new=one", "skip") == {"zed": 3.0, "new=one": 1.0}
    assert parsed_history(texts, "=3") == ["=3"]
    numbers = Ids.range(10, noun="item")
    assert parsed_history(numbers, "7=2,3") == {7: 2.0, 3: 1.0}
    assert parsed_dislikes(numbers, "7, 3") == [7, 3]
    with pytest.raises(komd.InputError, match="is not a item id"):
        parsed_history(numbers, "7=x")


def test_recommend_with_weights_and_dislikes(model, komd_json, komd_fails):
    words = ("recommend", model, "--history", "7=3,14", "--history", "21", "-n", 30)
    found = komd_json(*words, "--dislike", "1,2", "--dislike", "")
    library = komd.load(model)
    histories = {"history 1": {7: 3, 14: 1}, "history 2": [21]}
    expected = library.recommend(histories=histories, n=30, dislikes={"history 1": [1, 2]})
    assert found["recommendations"] == expected.to_arrow().to_pylist()
    assert {1, 2}.isdisjoint(row["item_id"] for row in found["recommendations"] if row["user_id"] == "history 1")
    assert "one --dislike for each --history, got 1 for 2" in komd_fails(*words, "--dislike", "1")
    assert "got 1 for 0" in komd_fails("recommend", model, "--user", "3", "--dislike", "1")
    assert "the weight of 7 in a history must be" in komd_fails("recommend", model, "--history", "7=-1")
    assert "both in the history and in the dislikes" in komd_fails(*words[:4], "--dislike", "14")
    assert "999" in komd_fails(*words[:4], "--dislike", "999")


def test_recommend_at_a_moment(model, komd_json, komd_fails, komd_out, tmp_path, monkeypatch):
    library = komd.load(model)
    found = komd_json("recommend", model, "--at", "2020-01-01", "-n", 4)["recommendations"]
    assert found == library.recommend(n=4, at="2020-01-01").to_arrow().to_pylist()
    assert found != library.recommend(n=4).to_arrow().to_pylist()
    assert "at must be" in komd_fails("recommend", model, "--at", "soon")
    assert "at must be" in komd_fails("recommend", model, "--at", "soon", "-o", tmp_path / "never")
    # "now" is one moment for all blocks.
    monkeypatch.setattr("komd.cli.recommend_command._ROWS", 40)
    ticks = iter(range(10**18, 10**19, 10**17))
    monkeypatch.setattr("komd.engine.requests.time.time_ns", lambda: next(ticks))
    found = komd_json("recommend", model, "--at", "now", "-n", 4)["recommendations"]
    assert found == library.recommend(n=4, at=np.datetime64(10**15, "us")).to_arrow().to_pylist()


def test_a_folder_keeps_the_moment(model, komd_json, komd_fails, tmp_path):
    words = ("recommend", model, "-n", 4, "-o", tmp_path / "recs")
    komd_json(*words, "--at", "now")
    moment = json.loads((tmp_path / "recs" / "request.json").read_text())["microseconds"]
    assert komd_json(*words, "--at", "now")["resumed"] == 1
    expected = komd.load(model).recommend(n=4, at=np.datetime64(moment, "us"))
    assert parquet.read_table(tmp_path / "recs" / "part-00000.parquet").equals(expected.to_arrow())
    assert "another request: at 'now', not None" in komd_fails(*words)


def test_explain_with_weights_dislikes_and_a_moment(model, komd_json, komd_fails):
    library = komd.load(model)
    found = komd_json("explain", model, "5", "--history", "7=3,14", "--dislike", "1")
    expected = library.explain(item=5, history={7: 3, 14: 1}, dislikes=[1]).to_dict()
    assert found == {"model": library.text} | expected
    found = komd_json("explain", model, "3", "5", "--at", "2020-01-01")
    assert found["score"] == library.explain(3, 5, at="2020-01-01").score != library.explain(3, 5).score
    assert "--dislike belongs to a --history" in komd_fails("explain", model, "3", "5", "--dislike", "1")


def test_score_at_a_moment_and_with_rated_histories(model, komd_json, komd_fails, tmp_path):
    library = komd.load(model)
    (tmp_path / "pairs.csv").write_text("user,item\n3,5\n4,7\n")
    words = ("score", model, tmp_path / "pairs.csv")
    found = komd_json(*words, "--at", "2020-01-01")["scores"]
    assert found == library.score([(3, 5), (4, 7)], at="2020-01-01").to_arrow().to_pylist()
    assert "--min-rating is for --histories" in komd_fails(*words, "--min-rating", 3)
    rows = "3,1,5,2020-01-05\n3,2,1,2020-01-06\n3,9,4,2020-02-01\n4,2,5,2020-01-01\n"
    (tmp_path / "histories.csv").write_text(f"user,item,rating,day\n{rows}")
    read = komd.read(tmp_path / "histories.csv", min_rating=4, time="day")
    assert read.pairs == 3
    options = ("--histories", tmp_path / "histories.csv", "--min-rating", 4, "--time", "day")
    found = komd_json(*words, *options)["scores"]
    assert found == library.score([(3, 5), (4, 7)], histories=read).to_arrow().to_pylist()


def test_score_with_weighted_histories_and_dislikes(model, komd_json, komd_fails, tmp_path):
    if "weight" not in inspect.signature(komd.read).parameters:
        pytest.skip("komd.read has no weights")
    (tmp_path / "pairs.csv").write_text("user,item\nana,5\nbo,7\n")
    rows = (
        "ana,1,5,8,2020-01-05\nana,2,4,1,2020-01-06\nana,3,1,1,2020-01-07\nbo,3,5,2,2020-01-01\nana,1,5,3,2020-02-05\n"
    )
    (tmp_path / "histories.csv").write_text(f"user,item,rating,plays,day\n{rows}")
    asked = {"liked": 4, "disliked": 2, "rating": "rating", "weight": "plays", "time": "day", "repeated": "max"}
    read = komd.read(tmp_path / "histories.csv", **asked)
    assert read.weights.tolist() == [8, 1, 2] and read.dislikes.pairs == 1
    words = ("score", model, tmp_path / "pairs.csv", "--histories", tmp_path / "histories.csv")
    options = [word for name, value in asked.items() for word in (f"--{name}", value)]
    found = komd_json(*words, *options, "--at", "2020-03-01")["scores"]
    expected = komd.load(model).score([("ana", 5), ("bo", 7)], histories=read, at="2020-03-01")
    assert found == expected.to_arrow().to_pylist()
    assert "--weight is for --histories" in komd_fails(*words[:3], "--weight", "plays")


def test_histories_of_text_whose_ids_are_written_otherwise(tmp_path, komd_json, komd_fails):
    made = komd.generate(users=30, items=12, activity=4, rng=0)
    names = Ids(pa.array([f"{k:03d}" if k % 2 else str(k) for k in range(12)]).sort(), noun="item")
    data = Interactions(Ids.range(30, noun="user"), names, made.indptr, made.indices)
    komd.ECFOMD().fit(data).save(tmp_path / "m.komd")
    (tmp_path / "pairs.csv").write_text("user,item\nana,005\n")
    (tmp_path / "histories.csv").write_text("user,item\nana,2\nana,4\n")
    words = ("score", tmp_path / "m.komd", tmp_path / "pairs.csv", "--histories", tmp_path / "histories.csv")
    expected = komd.load(tmp_path / "m.komd").score([("ana", "005")], histories={"ana": ["2", "4"]})
    assert komd_json(*words)["scores"] == expected.to_arrow().to_pylist()
    (tmp_path / "histories.csv").write_text("user,item\nana,2\nana,777\n")
    assert "777" in komd_fails(*words)
    found = komd_json(*words, "--on-unknown", "skip")
    assert found["skipped"] == 1
    numbers = Interactions(Ids.range(30, noun="user"), Ids.range(12, noun="item"), made.indptr, made.indices)
    komd.ECFOMD().fit(numbers).save(tmp_path / "m.komd")
    (tmp_path / "pairs.csv").write_text("user,item\nana,5\n")
    (tmp_path / "histories.csv").write_text("user,item\nana,2\nana,02\n")
    assert "written in two ways" in komd_fails(*words)
