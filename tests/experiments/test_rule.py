"""`experiments.rule` from end to end on generated data: the page shows what was measured."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from experiments import places, rule

pytest.importorskip("optuna")


def test_a_small_run(tmp_path, monkeypatch):
    data = komd.generate(users=200, items=60, activity=12, rng=1)
    monkeypatch.setattr(places, "WORK", tmp_path)
    monkeypatch.setattr(rule, "RESULTS", tmp_path)
    some = ["β = 0.2", "μ = 10, β = 0.3, θ = ½, c = 0.003"]
    monkeypatch.setattr(rule, "CANDIDATES", {label: rule.CANDIDATES[label] for label in some})
    rule.measure("filmtrust", data, {})
    rule.write()
    results = places.kept("rule")
    page = (tmp_path / "rule.md").read_text()
    train, _ = next(komd.split.folds(data, folds=5, half="random", rng=0))
    inner, judged = next(komd.split.folds(train, folds=5, half="random", rng=np.random.default_rng([0, 6])))
    tried = {text: found for text, found in results["filmtrust"].items() if text != "data"}
    assert len(tried) == 3 and results["texts"]["filmtrust"]["the rule"] in tried
    for label, text in results["texts"]["filmtrust"].items():
        found = komd.evaluate(komd.model_from_text(text).fit(inner), judged, metrics=rule.METRICS)
        for metric in rule.METRICS:
            assert tried[text][metric] == pytest.approx(found[metric].mean, abs=1e-3)
            assert f"{tried[text][metric]:.4f}".removeprefix("0") in page
        assert f"| {label} |" in page
    monkeypatch.setattr(komd, "evaluate", lambda *words, **more: pytest.fail("measured again"))
    rule.measure("filmtrust", data, results)  # nothing is done twice


def test_filters_of_large_catalogues_are_of_low_rank():
    assert rule._sized("CFKOMD(ridge=10)", rule.LARGE + 1) == "CFKOMD(ridge=10, rank=96)"
    assert rule._sized("CFKOMD(ridge=10)", rule.LARGE) == "CFKOMD(ridge=10)"
    assert rule._sized("CFKOMD()", rule.LARGE + 1) == "CFKOMD()"
