"""`komd tune`."""

from __future__ import annotations

import pytest

pytest.importorskip("optuna")


def test_a_search_and_the_text_to_paste(plays, komd_out, komd_json, tmp_path):
    words = ("tune", plays / "plays.csv", "--model", "MSDW", "--metric", "ndcg@10", "--trials", 4, "--rounds", 1)
    shown = komd_out(*words, "--keep", tmp_path / "k", "--plot", tmp_path / "search.svg")
    assert "4 settings in" in shown and 'best: --model "MSDW(' in shown
    assert (tmp_path / "search.svg").read_text().count("<svg")
    found = komd_json(*words, "--keep", tmp_path / "k")
    assert found["best"]["model"] in shown and len(found["trials"]) == 4 and found["metric"] == "ndcg@10"


def test_refusals(plays, komd_fails, tmp_path):
    data = plays / "plays.csv"
    assert "Popularity has nothing to tune" in komd_fails("tune", data, "--model", "Popularity")
    assert "unknown metric" in komd_fails("tune", data, "--metric", "ndgc")
    assert "budget must be seconds or a text such as '90s', '10m'" in komd_fails("tune", data, "--budget", "long")
    assert "--plot writes SVG" in komd_fails("tune", data, "--plot", tmp_path / "a.png")
    leak = komd_fails("tune", data, "--model", "EASE", "--trials", 1, "--held-out", data)
    assert "held-out pairs are in the data to tune on" in leak


def test_a_plot_that_cannot_be_drawn_is_refused_before_the_search(plays, komd_fails, tmp_path, monkeypatch):
    monkeypatch.setattr("komd.svg.available", lambda: False)
    said = komd_fails("tune", plays / "plays.csv", "--plot", tmp_path / "search.svg", "--keep", tmp_path / "k")
    assert "plots need matplotlib" in said and not (tmp_path / "k").exists()
