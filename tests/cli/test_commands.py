"""Each command on good input: what it prints, what it writes, and that machines can read it."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import komd


def test_fit_says_what_it_did(plays, tmp_path, komd_out):
    text = komd_out("fit", plays / "plays.csv", "-o", tmp_path / "m.komd", "--model", "ECFOMD(regularization=0.1)")
    assert "120 users × 60 items" in text
    assert "ECFOMD(regularization=0.1)" in text
    assert str(tmp_path / "m.komd") in text.replace("\n", "")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.text == "ECFOMD(regularization=0.1)"
    assert str(loaded.held) in " ".join(text.split())  # how K is held, and how full it is


def test_fit_as_json(plays, tmp_path, komd_json):
    found = komd_json("fit", plays / "plays.csv", "-o", tmp_path / "m.komd", "--threads", 1, "--memory", "1GB")
    assert found["model"] == "CFKOMD()"
    assert found["train"]["users"] == 120
    assert found["bytes"] == sum(file.stat().st_size for file in (tmp_path / "m.komd").iterdir())
    assert set(found["seconds"]) == {"read", "fit", "save"}


def test_reading_options(tmp_path, komd_json):
    file = tmp_path / "odd.txt"
    file.write_text("5;what;a;who\n1;i1;x;u1\n5;i2;x;u1\n5;i1;x;u2\n4;i3;x;u2\n")
    common = ("fit", file, "-o", tmp_path / "m.komd", "--separator", ";", "--user", "who")
    found = komd_json(*common, "--item", "1", "--rating", 0, "--min-rating", 4)
    assert found["train"] == {"users": 2, "items": 3, "interactions": 3, "seen": 1}
    found = komd_json("fit", file, "-o", tmp_path / "n.komd", "--no-header", "--user", 3, "--item", 1)
    assert found["train"]["users"] == 3  # "who" is somebody now


def test_what_was_rated_low_is_not_recommended_unless_asked_for(tmp_path, komd_json, komd_out):
    file = tmp_path / "rated.csv"
    file.write_text("user,item,rating\nu1,a,5\nu1,b,1\nu2,a,5\nu2,b,4\nu2,c,4\nu3,b,5\nu3,c,5\n")
    model = tmp_path / "m.komd"
    assert "and 1 low-rated pairs kept as seen" in " ".join(
        komd_out("fit", file, "-o", model, "--min-rating", 3).split()
    )
    for words, expected in (((), ["c"]), (("--include-low-rated",), ["b", "c"]), (("--keep-seen",), ["a", "b", "c"])):
        found = komd_json("recommend", model, "--user", "u1", *words)["recommendations"]
        assert sorted(row["item_id"] for row in found) == expected
    for words, rows in (((), 2), (("--include-low-rated",), 3)):  # u2 has everything, u3 lacks a
        folder = tmp_path / f"recs{rows}"
        komd_out("recommend", model, "-o", folder, *words)
        assert parquet.read_table(folder / "part-00000.parquet").num_rows == rows


def test_reading_sql(plays, tmp_path, komd_json):
    query = f"SELECT user_id, item_id FROM '{plays / 'plays.csv'}' LIMIT 100"
    found = komd_json("fit", query, "--database", ":memory:", "-o", tmp_path / "m.komd")
    assert found["train"]["interactions"] == 100


def test_reading_sqlite(tmp_path, komd_json, komd_out, komd_fails):
    file = tmp_path / "plays.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE plays (uid, song, plays)")
        connection.executemany("INSERT INTO plays VALUES (?, ?, 1)", [("ana", "x"), ("ana", "y"), ("bo", "x")])
    found = komd_json("fit", file, "-o", tmp_path / "m.komd")
    assert found["train"]["interactions"] == 3
    assert found["columns"] == {"taken": {"user": "uid", "item": "song"}, "not_used": ["plays"], "rated_zero": 0}
    assert "; user=uid, item=song; not used: plays) in" in komd_out("fit", file, "-o", tmp_path / "m.komd")
    query = "SELECT uid, song FROM plays WHERE uid = 'ana'"
    assert komd_json("fit", query, "--database", file, "-o", tmp_path / "m.komd")["train"]["interactions"] == 2
    message = komd_fails("fit", "DROP TABLE plays", "--database", file, "-o", tmp_path / "m.komd")
    assert message == "the query failed: attempt to write a readonly database"


@pytest.mark.parametrize(("name", "person", "item"), [("plays", "user-00007", None), ("ratings", "70", "7")])
def test_recommend_is_what_the_library_says(plays, name, person, item, komd_json):
    model = komd.load(plays / f"{name}.komd")
    key = model.catalogue.users.parse(person)
    found = komd_json("recommend", plays / f"{name}.komd", "--user", person, "-n", 5)
    assert found["recommendations"] == model.recommend(key, n=5).to_arrow().to_pylist()
    assert (found["fallback"], found["skipped"]) == ([], 0)


def test_recommend_to_strangers(plays, komd_json):
    found = komd_json("recommend", plays / "ratings.komd", "--history", "7,14", "--history", "21", "-n", 3)
    model = komd.load(plays / "ratings.komd")
    expected = model.recommend(histories={"history 1": [7, 14], "history 2": [21]}, n=3).to_arrow().to_pylist()
    assert found["recommendations"] == expected


def test_recommend_to_everybody(plays, tmp_path, komd_out, komd_json):
    model = komd.load(plays / "plays.komd")
    expected = model.recommend(n=4).to_arrow().to_pylist()
    assert komd_json("recommend", plays / "plays.komd", "-n", 4)["recommendations"] == expected
    for suffix in ("csv", "parquet", "json"):
        file = tmp_path / f"all.{suffix}"
        assert f"{len(expected):,} rows" in komd_out("recommend", plays / "plays.komd", "-n", 4, "-o", file)
    assert parquet.read_table(tmp_path / "all.parquet").to_pylist() == expected
    assert json.loads((tmp_path / "all.json").read_text()) == expected
    assert komd.read(tmp_path / "all.csv").pairs == len(expected)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["all.csv", "all.json", "all.parquet"]


def test_everybody_block_by_block(plays, tmp_path, komd_out, komd_json, monkeypatch):
    monkeypatch.setattr("komd.cli.recommend_command._ROWS", 100)
    expected = komd.load(plays / "plays.komd").recommend(n=7).to_arrow().to_pylist()
    assert komd_json("recommend", plays / "plays.komd", "-n", 7)["recommendations"] == expected
    for suffix in ("csv", "parquet"):
        komd_out("recommend", plays / "plays.komd", "-n", 7, "-o", tmp_path / f"all.{suffix}")
        assert komd.read(tmp_path / f"all.{suffix}").pairs == len(expected)


def test_a_long_table_is_cut_and_says_so(plays, komd_out):
    text = komd_out("recommend", plays / "plays.komd")
    assert "and 115 more users" in text
    text = komd_out("recommend", plays / "plays.komd", *(w for u in range(9) for w in ("--user", f"user-0000{u}")))
    assert "and 40 more rows" in text


def test_n_larger_than_the_catalogue(plays, komd_json):
    found = komd_json("recommend", plays / "plays.komd", "--user", "user-00000", "-n", 10**6, "--keep-seen")
    assert len(found["recommendations"]) == 60


def test_only_and_exclude(plays, tmp_path, komd_json):
    (tmp_path / "allowed.txt").write_text("7\n14\n21\n\n28\n")
    common = ("recommend", plays / "ratings.komd", "--history", "35", "--exclude", "14, 21")
    found = komd_json(*common, "--only", tmp_path / "allowed.txt", "--only", "42")
    assert {line["item_id"] for line in found["recommendations"]} == {7, 28, 42}


def test_unknown_ids_are_skipped_when_asked(plays, komd_json):
    common = ("recommend", plays / "ratings.komd", "--on-unknown", "skip", "-n", 2)
    found = komd_json(*common, "--user", "70", "--user", "71", "--user", "zed")
    assert found["skipped"] == 2
    assert {line["user_id"] for line in found["recommendations"]} == {70}


def test_items_with_commas_take_quotes(tmp_path, komd_out, komd_json):
    rows = [("ana", "Lantern, The"), ("ana", "Kite"), ("bo", "Lantern, The"), ("bo", "River"), ("cy", "Kite")]
    users, items = zip(*rows, strict=True)
    parquet.write_table(pa.table({"user_id": users, "item_id": items}), tmp_path / "p.parquet")
    komd_out("fit", tmp_path / "p.parquet", "-o", tmp_path / "m.komd")
    found = komd_json("recommend", tmp_path / "m.komd", "--history", '"Lantern, The",Kite')
    assert [line["item_id"] for line in found["recommendations"]] == ["River"]


def test_ids_are_shown_as_they_are(tmp_path, komd_out, komd_json):
    """Neither markup nor control codes in ids reach the terminal."""
    rows = [("[bold]ana[/]", "[red]x"), ("[bold]ana[/]", ":smile:"), ("bo", "[red]x"), ("bo", "a\x1b[31mb")]
    users, items = zip(*rows, strict=True)
    parquet.write_table(pa.table({"user_id": users, "item_id": items}), tmp_path / "p.parquet")
    komd_out("fit", tmp_path / "p.parquet", "-o", tmp_path / "m.komd")
    text = komd_out("recommend", tmp_path / "m.komd", "--keep-seen")
    assert "[bold]ana[/]" in text and "[red]x" in text and ":smile:" in text
    assert "\x1b" not in text and "a\\x1b[31mb" in text
    assert "[red]x" in komd_out("explain", tmp_path / "m.komd", "[bold]ana[/]", "[red]x")
    found = komd_json("recommend", tmp_path / "m.komd", "--user", "[bold]ana[/]")
    assert found["recommendations"][0]["item_id"] == "a\x1b[31mb"


def test_uuid_ids_become_text_and_come_back(tmp_path, komd_out, komd_json):
    import uuid

    keys = [str(uuid.UUID(int=k)) for k in range(1, 5)]
    query = ", ".join(f"('{u}'::UUID, '{i}'::UUID)" for u in keys[:2] for i in keys if u != i)
    query = f"SELECT * FROM (VALUES {query}) AS t(user_id, item_id)"
    komd_out("fit", query, "--database", ":memory:", "-o", tmp_path / "m.komd")
    found = komd_json("recommend", tmp_path / "m.komd", "--user", keys[0], "--keep-seen", "-n", 1)
    assert found["recommendations"][0]["user_id"] == keys[0]
    komd_out("recommend", tmp_path / "m.komd", "-o", tmp_path / "r.csv")
    assert keys[0] in (tmp_path / "r.csv").read_text()
    assert komd_json("explain", tmp_path / "m.komd", keys[0], keys[3])["item_id"] == keys[3]


def test_no_history_is_told(plays, komd_process):
    done = komd_process("recommend", plays / "plays.komd", "--history", "", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["fallback"] == ["history 1"]
    assert done.stderr.splitlines() == ["komd: note: 1 of 1 users have no history: they are served by popularity"]


@pytest.mark.parametrize(("name", "words"), [("plays", ["user-00003"]), ("ratings", ["30"])])
def test_explain_sums_to_the_score(plays, name, words, komd_json, komd_out):
    best = komd_json("recommend", plays / f"{name}.komd", "--user", *words, "-n", 1)["recommendations"][0]
    found = komd_json("explain", plays / f"{name}.komd", *words, best["item_id"])
    total = sum(line["contribution"] for line in found["contributions"]) + found["global_term"]
    assert total == pytest.approx(found["score"], abs=1e-12)
    assert found["score"] == pytest.approx(best["score"], abs=1e-12)
    text = komd_out("explain", plays / f"{name}.komd", *words, best["item_id"])
    assert "█" in text and "global term" in text and f"{found['score']:+.4f}" in text


def test_explain_a_stranger(plays, komd_json, komd_out):
    found = komd_json("explain", plays / "ratings.komd", "--history", "7,14", "21")
    assert {line["item_id"] for line in found["contributions"]} == {7, 14}
    assert "popularity" in komd_out("explain", plays / "ratings.komd", "--history", "", "21")


@pytest.mark.parametrize("name", ["plays", "ratings"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_score_is_what_the_library_gives(plays, name, suffix, tmp_path, komd_json, komd_out):
    model = komd.load(plays / f"{name}.komd")
    listed = model.recommend(n=4).to_arrow()
    pairs = listed.take(np.random.default_rng(0).permutation(len(listed))).select(["user_id", "item_id"])
    csv.write_csv(pairs, tmp_path / "pairs.csv")
    expected = model.score(pairs).to_arrow()
    found = komd_json("score", plays / f"{name}.komd", tmp_path / "pairs.csv")
    assert found["scores"] == expected.to_pylist()
    assert (found["model"], found["fallback"], found["skipped"]) == (model.text, [], 0)
    told = komd_out("score", plays / f"{name}.komd", tmp_path / "pairs.csv", "-o", tmp_path / f"out.{suffix}")
    assert told.startswith(f"wrote {len(pairs):,} rows to ")
    if suffix == "parquet":
        assert parquet.read_table(tmp_path / "out.parquet").equals(expected)
    elif suffix == "csv":
        assert csv.read_csv(tmp_path / "out.csv").equals(expected)
    else:
        assert json.loads((tmp_path / "out.json").read_text()) == expected.to_pylist()
    text = komd_out("score", plays / f"{name}.komd", tmp_path / "pairs.csv")
    assert "more rows: -o FILE writes all" in text and f"{expected['score'][0].as_py():.4g}" in text


def test_score_strangers_and_unknown_ids(plays, tmp_path, komd_json, komd_out, komd_fails, komd_process):
    model = plays / "ratings.komd"
    (tmp_path / "histories.csv").write_text("who,what,user\nx,7,ana\nx,14,ana\nx,21,bo\n")
    (tmp_path / "pairs.csv").write_text("who,what,user\nx,21,ana\nx,28,bo\nx,7,eve\nx,tea,ana\n")
    words = ["score", model, tmp_path / "pairs.csv", "--histories", tmp_path / "histories.csv", "--user", "user"]
    words += ["--item", "what"]
    assert "unknown user 'eve'" in komd_fails(*words)
    found = komd_json(*words, "--on-unknown", "skip")
    expected = komd.load(model).score([("ana", 21), ("bo", 28)], histories={"ana": [7, 14], "bo": [21]})
    assert found["scores"] == expected.to_arrow().to_pylist() and found["skipped"] == 2
    done = komd_process(*words, "--on-unknown", "skip")
    assert done.returncode == 0 and "2 pairs left out" in done.stderr
    assert "--on-unknown must be" in komd_fails(*words, "--on-unknown", "cry")
    assert "must end in" in komd_fails(*words, "-o", tmp_path / "x.txt")
    assert "unknown user 'user-x'" in komd_fails("score", plays / "plays.komd", _file(tmp_path, "user-x,Nothing"))


def _file(folder, text):
    (folder / "one.csv").write_text(f"user,item\n{text}\n")
    return folder / "one.csv"


@pytest.mark.parametrize("name", ["plays", "ratings"])
def test_similar_is_what_the_library_gives(plays, name, komd_json, komd_out, komd_fails, komd_process):
    model = komd.load(plays / f"{name}.komd")
    items = model.catalogue.items.values.to_pylist()[:2]
    found = komd_json("similar", plays / f"{name}.komd", *items, "-n", 3)
    assert found["similar"] == model.similar_items(items, n=3).to_arrow().to_pylist()
    assert (found["model"], found["skipped"]) == (model.text, 0)
    text = komd_out("similar", plays / f"{name}.komd", *items, "--n", 3)
    assert all(str(row["item_id"]) in text for row in found["similar"]) and "similar to" in text
    assert "-n must be" in komd_fails("similar", plays / f"{name}.komd", items[0], "-n", 0)
    assert "--on-unknown must be" in komd_fails("similar", plays / f"{name}.komd", items[0], "--on-unknown", "cry")
    assert "999" in komd_fails("similar", plays / f"{name}.komd", "999")
    done = komd_process("similar", plays / f"{name}.komd", "999", "--on-unknown", "skip")
    assert "no other item is similar" in done.stdout and "1 unknown ids skipped" in done.stderr


def test_a_long_explanation_adds_up(plays, komd_out):
    items = komd.load(plays / "plays.komd").catalogue.items.values.to_pylist()
    text = komd_out("explain", plays / "plays.komd", "--history", ",".join(items[:30]), items[40])
    assert "15 more items together" in text


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_generate_is_what_the_library_makes(tmp_path, suffix, komd_json):
    file = tmp_path / f"made.{suffix}"
    options = {"users": 40, "items": 30, "activity": 4.0, "tastes": 3, "taste_strength": 0.5, "item_tail": 0.5}
    options |= {"user_tail": 0.2, "rng": 5}
    words = [w for name, value in options.items() for w in (f"--{name.replace('_', '-')}", value)]
    found = komd_json("generate", "-o", file, *words)
    expected = komd.generate(**options)
    assert found["interactions"] == expected.pairs
    assert sorted(komd.read(file).to_arrow().to_pylist(), key=str) == sorted(expected.to_arrow().to_pylist(), key=str)


def test_generate_tells_the_defaults_of_the_library(komd_out):
    # One piece of the help an option, however it is broken into lines.
    pieces = [" ".join(piece.split()) for piece in re.split(r"\n +(?=-)", komd_out("generate", "--help"))]
    for name, parameter in inspect.signature(komd.generate).parameters.items():
        told = next(piece for piece in pieces if piece.startswith(f"--{name.replace('_', '-')} "))
        assert re.search(rf"default: \(?{parameter.default:g}[;)\]]", told), told


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_generate_like_msd(tmp_path, suffix, komd_json, monkeypatch):
    monkeypatch.setattr("komd.cli.generate_command._PAIRS", 1000)  # several pieces
    file = tmp_path / f"made.{suffix}"
    found = komd_json("generate", "--like", "msd", "--users", 200, "--text-ids", "--rng", 3, "-o", file)
    expected = komd.generate_like("msd", users=200, text_ids=True, rng=3)
    assert found["interactions"] == expected.pairs
    assert komd.read(file) == expected
    sized = komd_json("generate", "--like", "msd", "--users", 200, "--items", 90, "--activity", 5, "-o", file)
    assert komd.read(file) == komd.generate_like("msd", users=200, items=90, activity=5.0)
    assert (sized["users"], sized["items"]) == (200, 90)


def test_demo_and_what_it_says_to_try(tmp_path, komd_out, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = komd_out("demo", "--users", 200, "--items", 80, "--activity", 12)
    for words in ("Popularity()", "CFKOMD()", "recommends", "global term", "A new user", "Try next"):
        assert words in text
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("  komd ")]
    assert len(commands) >= 5
    for command in commands:
        assert komd_out(*command[1:])
    assert Path("plays.komd").is_dir()
