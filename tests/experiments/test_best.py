"""`experiments.best` from end to end on generated data: tuned inside the training part, tested once, shown as is."""

from __future__ import annotations

import json

import numpy as np
import pytest

import komd
from experiments import best

pytest.importorskip("optuna")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    data = komd.generate(users=200, items=60, activity=12, rng=1)
    monkeypatch.setattr(best, "WORK", tmp_path)
    monkeypatch.setattr(best, "RESULTS", tmp_path)
    monkeypatch.setattr(best, "load", lambda name: data if name == "filmtrust" else None)
    return tmp_path


def test_a_small_run(elsewhere, monkeypatch):
    seen = []
    real = komd.tune

    def watched(model, train, **words):
        seen.append((model, train, words["held_out"]))
        return real(model, train, trials=3, rounds=1, **words)

    monkeypatch.setattr(komd, "tune", watched)
    best.run(("filmtrust", "ml-1m"), ("CFKOMD", "EASE"), ("random",), "ndcg@100", "30s")
    assert [model for model, _, _ in seen] == ["CFKOMD", "EASE"]
    train, test = next(komd.split.folds(best.load("filmtrust"), folds=5, half="random", rng=0))
    assert all(t.pairs == train.pairs and h.pairs == test.pairs for _, t, h in seen)
    page = (elsewhere / "accuracy.md").read_text()
    assert "## filmtrust, random half, tuned for ndcg@100" in page and "ml-1m," not in page
    words = ("best", "first, tied with it", "tied with it", "**behind**")
    (line,) = [line for line in page.splitlines() if line.startswith("| filmtrust | random | ndcg@100 |")]
    assert "| EASE |" in line and any(line.endswith(f"| {word} |") for word in words)
    for model in ("CFKOMD", "EASE", "CFKOMD.recommended"):
        kept = json.loads((elsewhere / "best" / "filmtrust-random-ndcg-100" / f"{model}.json").read_text())
        measured = komd.evaluate(komd.model_from_text(kept["text"]).fit(train), test, metrics=["auc"])["auc"].mean
        assert kept["means"]["auc"] == pytest.approx(measured, abs=1e-4)
        assert f"`{kept['text']}`" in page
    best.run(("filmtrust",), ("CFKOMD", "EASE"), ("random",), "ndcg@100", "30s")  # nothing is done twice
    assert len(seen) == 2
    assert page.count("**.") == len(best.METRICS)  # one best a column


def test_folders_by_name():
    assert best._named("book-crossing-given-auc") == ("book-crossing", "given", "auc")
    with pytest.raises(ValueError, match="no folder of results"):
        best._named("something")


def test_verdicts(tmp_path):
    noise = np.random.default_rng(0).normal(0, 0.01, 200)
    for ours, word in ((0.5, "best"), (0.4001, "first, tied with it"), (0.3999, "tied with it"), (0.3, "**behind**")):
        results = []
        for model, mean, wobble in (("CFKOMD", ours, 0.0), ("EASE", 0.4, 1.0), ("CFKOMD.recommended", 0.9, 0.0)):
            values = mean + wobble * (noise - noise.mean())
            np.save(tmp_path / f"{model}.npy", np.tile(values, (len(best.METRICS), 1)))
            results.append({"model": model, "means": dict.fromkeys(best.METRICS, mean)})
        assert best._verdict(tmp_path, results, "auc")[1:] == ["EASE", ".4000", word]
    assert best._verdict(tmp_path, results[1:], "auc")[0] == "not run"
