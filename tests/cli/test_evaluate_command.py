"""`komd evaluate`: the numbers of the library, in the form that DESIGN.md fixes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import komd

KEYS = ["model", "train", "test_users", "metrics", "ties", "seconds", "peak_memory_mb"]


def cut(plays: Path, folder: Path, name: str) -> tuple[Path, Path]:
    """The first fold as two files."""
    from pyarrow import csv

    train, test = next(komd.split.folds(komd.read(plays / name), rng=0))
    for label, part in (("a", train), ("b", test)):
        csv.write_csv(part.to_arrow(), folder / f"{label}.csv")
    return folder / "a.csv", folder / "b.csv"


@pytest.mark.parametrize("name", ["plays.csv", "ratings.dat"])
def test_train_and_test(plays, tmp_path, name, komd_json):
    a, b = cut(plays, tmp_path, name)
    found = komd_json("evaluate", "--train", a, "--test", b, "--model", "ECFOMD", "--metrics", "auc,map@500")
    assert list(found) == KEYS
    train = komd.read(a)
    assert found["train"] == {"users": train.shape[0], "items": train.shape[1], "interactions": train.pairs}
    assert list(found["metrics"]) == ["auc", "map@500"]
    assert {"mean", "std"} <= set(found["metrics"]["auc"])
    assert list(found["seconds"]) == ["read", "fit", "rank"]
    assert found["model"] == "ECFOMD()" and found["ties"] == "half"
    learned, asked = komd.align(train, komd.read(b))
    expected = komd.evaluate(komd.ECFOMD().fit(learned), asked, metrics="auc,map@500")
    assert found["metrics"]["auc"]["mean"] == expected["auc"].mean
    assert found["metrics"]["map@500"]["std"] == expected["map@500"].std
    assert found["test_users"] == len(expected.users)


def test_several_models_are_a_list(plays, tmp_path, komd_json, komd_out):
    a, b = cut(plays, tmp_path, "plays.csv")
    words = ("evaluate", "--train", a, "--test", b, "--model", "Popularity", "--model", "CFKOMD", "--ties", "strict")
    found = komd_json(*words)
    assert [each["model"] for each in found] == ["Popularity()", "CFKOMD()"]
    assert found[0]["ties"] == "strict"
    text = komd_out(*words)
    assert "Popularity()" in text and f"{found[1]['metrics']['auc']['mean']:.4f}" in text


def test_ties_by_appearance(plays, tmp_path, komd_json, komd_out, komd_fails):
    a, b = cut(plays, tmp_path, "plays.csv")
    words = ("--model", "MSDW", "--metrics", "auc", "--ties", "appearance")
    found = komd_json("evaluate", "--train", a, "--test", b, *words)
    train, test = komd.align(komd.read(a), komd.read(b))
    expected = komd.evaluate(komd.MSDW().fit(train), test, metrics="auc", ties=train.items_by_appearance)
    assert (found["ties"], found["metrics"]["auc"]["mean"]) == ("appearance", expected["auc"].mean)
    assert komd_json("evaluate", a, "--folds", 2, *words)["ties"] == "appearance"
    komd_out("fit", a, "-o", tmp_path / "m.komd")
    failed = komd_fails("evaluate", "--test", b, "--model", tmp_path / "m.komd", "--ties", "appearance")
    assert "--ties appearance needs --train" in failed


def test_strangers_new_items_and_repeats(tmp_path, komd_process):
    """Test users without history are served by popularity; items are those of both; known pairs are left out."""
    rows = [f"u{k},i{(k * j) % 7}" for k in range(12) for j in range(1, 5)]
    (tmp_path / "a.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    (tmp_path / "b.csv").write_text("user,item\nu1,new\nu1,i1\nu2,i1\nzed,i3\nyan,i0\n")
    files = ("--train", tmp_path / "a.csv", "--test", tmp_path / "b.csv")
    done = komd_process("evaluate", *files, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == KEYS
    assert found["train"]["users"] == 12 and found["train"]["items"] == 7
    assert found["test_users"] == 3
    notes = done.stderr.splitlines()
    assert len(notes) == 2 and all(line.startswith("komd: note: ") for line in notes)
    assert "2 test pairs left out" in notes[0] and "2 test users" in notes[1]


def test_folds(plays, komd_json, komd_out):
    import numpy as np

    data = komd.read(plays / "plays.csv")
    words = ("evaluate", plays / "plays.csv", "--folds", 3, "--half", "given", "--rng", 4, "--model", "CFKOMD")
    found = komd_json(*words, "--metrics", "auc,recall@5")
    folds = list(komd.split.folds(data, folds=3, half="given", rng=4))
    values = [komd.evaluate(komd.CFKOMD().fit(a), b, metrics="auc")["auc"].mean for a, b in folds]
    auc = found["metrics"]["auc"]
    assert auc["values"] == values
    assert (auc["mean"], auc["std"]) == (pytest.approx(np.mean(values)), pytest.approx(np.std(values)))
    assert found["folds"] == 3
    assert found["data"]["interactions"] == data.pairs
    text = komd_out(*words, "--model", "Popularity")
    assert "over 3 folds, half given, rng 4; ties half; " in text and "±" in text and "Popularity()" in text


def test_folds_by_time(plays, komd_json):
    found = komd_json("evaluate", plays / "ratings.dat", "--half", "time", "--time", 3, "--metrics", "hit@10")
    assert 0 <= found["metrics"]["hit@10"]["mean"] <= 1


def test_a_saved_model(plays, tmp_path, komd_json, komd_out):
    a, b = cut(plays, tmp_path, "plays.csv")
    komd_out("fit", a, "-o", tmp_path / "m.komd")
    found = komd_json("evaluate", "--test", b, "--model", tmp_path / "m.komd", "--metrics", "auc")
    assert list(found) == KEYS
    expected = komd.evaluate(komd.load(tmp_path / "m.komd"), komd.read(b), metrics="auc", on_unknown="skip")
    assert found["metrics"]["auc"]["mean"] == expected["auc"].mean


def test_a_saved_model_of_text_ids_on_a_file_that_looks_like_integers(tmp_path, komd_json, komd_out):
    rows = [f"u{k},{(k * j) % 7}" for k in range(12) for j in range(1, 5)] + ["12,x", "12,3", "12,4", "13,x"]
    (tmp_path / "a.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    (tmp_path / "b.csv").write_text("user,item\n12,5\n13,6\n")
    komd_out("fit", tmp_path / "a.csv", "-o", tmp_path / "m.komd")
    assert komd_json("evaluate", "--test", tmp_path / "b.csv", "--model", tmp_path / "m.komd")["test_users"] == 2
