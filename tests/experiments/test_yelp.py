"""`experiments.yelp` from end to end on generated data: the test file is read only for the table."""

from __future__ import annotations

import importlib.util
import sys

import pytest

import komd
from experiments import places, yelp

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


def test_settings_are_chosen_without_the_test_file(tmp_path, monkeypatch):
    train, test = next(komd.split.folds(komd.generate(users=150, items=60, activity=12, rng=0), rng=0))
    reads, chosen = [], []

    def read(part):
        reads.append(part)
        if part == "test":
            assert {"tuned", "ranks"} <= places.kept("yelp").keys()
            chosen.append(part)
        return {"train": train, "test": test}[part]

    monkeypatch.setattr(yelp, "read", read)
    monkeypatch.setattr(yelp, "BUDGET", "1s")
    monkeypatch.setattr(yelp, "RANKS", (256, 300))
    monkeypatch.setattr(yelp, "data_folder", lambda: tmp_path)
    (tmp_path / "yelp2018").mkdir()
    for module in (places, yelp):
        monkeypatch.setattr(module, "WORK", tmp_path)
    monkeypatch.setattr(yelp, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["yelp"])
    yelp.main()
    assert chosen == ["test"] and reads[0] == "train"
    page = (tmp_path / "yelp2018.md").read_text(encoding="utf-8")
    results = places.kept("yelp")
    assert f"`{results['tuned']['text']}`" in page and "BSPM (published)" in page
    found = komd.evaluate(komd.RP3Beta().fit(train), test, metrics=["ndcg@20"])["ndcg@20"]
    assert results["tested"]["RP3Beta()"]["ndcg@20"][0] == pytest.approx(found.mean)
    rows = [line for line in page.splitlines() if line.startswith(("| MF-BPR", "| BSL"))]
    assert len(rows) == 2 and ".0576" in rows[0]
