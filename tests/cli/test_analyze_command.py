"""`komd analyze`: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json

import pytest

import komd
from komd.matrix.density import exact_density


def test_one_data_set(plays, komd_out, komd_json):
    text = komd_out("analyze", plays / "plays.csv")
    data = komd.read(plays / "plays.csv")
    exact = exact_density(data.indptr, data.indices, data.shape[1]).value
    for part in (
        "plays.csv: 120 users",
        f"{100 * exact:.5g} % (exact)",
        "d(K)",
        "saturating",
        "Gini",
        "dense",
        "K is ",
    ):
        assert part in text
    (known,) = komd_json("analyze", plays / "plays.csv")["datasets"]
    assert known["kernel"]["value"] == exact and known["pairs"] == data.pairs


def test_several_and_a_report(plays, tmp_path, komd_out):
    report = tmp_path / "report"
    text = komd_out("analyze", plays / "plays.csv", plays / "ratings.dat", "--report", report, "--memory", "1GB")
    assert "plays.csv" in text and "ratings.dat" in text and "degree-aware" in text
    assert f"report: {report / 'index.html'}" in text
    assert len(json.loads((report / "results.json").read_text())["datasets"]) == 2
    assert "## ratings.dat" in (report / "results.md").read_text()
    assert "<svg" in (report / "index.html").read_text()


def test_above_the_limit_rows_are_sampled(tmp_path, komd_out, komd_json):
    assert komd_out("generate", "-o", tmp_path / "many.csv", "--users", 1500, "--items", 1500, "--activity", 8)
    words = ("analyze", tmp_path / "many.csv", "--work-limit", 1000)
    (first,), (again,) = (komd_json(*words, "--rng", 3)["datasets"] for _ in range(2))
    assert first["kernel"] == again["kernel"] and not first["kernel"]["exact"]
    assert first["kernel"]["low"] < first["kernel"]["value"] < first["kernel"]["high"]


@pytest.mark.data
def test_data_sets_by_name(real_data, komd_json, monkeypatch):
    monkeypatch.setenv("KOMD_DATA", str(real_data))
    (known,) = komd_json("analyze", "filmtrust")["datasets"]
    assert 100 * known["kernel"]["value"] == pytest.approx(11.108, abs=6e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--work-limit", "0"), "work-limit"),
        (("--memory", "much"), "memory must be"),
        (("--threads", "0"), "threads must be"),
        (("--report", __file__), "--report must be a folder"),
        (("--user", "uid"), "'uid' not found"),
    ],
)
def test_mistakes(plays, words, message, komd_process):
    done = komd_process("analyze", plays / "plays.csv", *words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_missing_file(tmp_path, komd_fails):
    assert "no such file" in komd_fails("analyze", tmp_path / "nowhere.csv")
