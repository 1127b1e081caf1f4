"""`experiments.filters` from end to end on generated data: chosen on one fold, measured on others."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import komd
from experiments import filters, places

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "WORK", tmp_path)
    monkeypatch.setattr(filters, "RESULTS", tmp_path)
    monkeypatch.setattr(filters, "SETS", ("generated",))
    monkeypatch.setattr(filters, "RANKS", (6,))
    monkeypatch.setattr(filters, "BETAS", (0.0, 0.2))
    return tmp_path / "filters.md"


def test_every_setting_is_a_model_and_stands_once():
    texts = [text for family in filters.FAMILIES for text in filters.grid(family)]
    assert len(set(texts)) == len(texts)
    for text in texts:
        komd.model_from_text(text)
    assert filters.grid("K as it is") == [text for text in texts if "rank" not in text]


def test_the_best_of_each_family_is_measured_on_other_folds(page, monkeypatch):
    data = komd.generate(users=150, items=60, activity=12, rng=0)
    filters.measure("generated", data, {})
    results = places.kept("filters")["generated"]
    for family in filters.FAMILIES:
        tried = {text: results["tried"][text] for text in filters.grid(family)}
        assert tried[results["best"][family]] == max(tried.values())
    assert sorted(results["reported"]) == [str(seed) for seed in filters.SEEDS]
    # The figures of one fold again, by the library alone.
    fold, text = filters.fold_of(data, "ndcg@100", 2), results["best"]["flat"]
    found = komd.evaluate(komd.model_from_text(text).fit(fold.train), fold.test, metrics=["ndcg@100"])
    mean, difference, low, high = results["reported"]["2"]["families"]["flat"]
    assert mean == pytest.approx(found["ndcg@100"].mean, abs=1e-3)
    base = results["reported"]["2"]["families"]["K as it is"][0]
    assert difference == pytest.approx(mean - base, abs=1e-9) and low <= difference <= high
    # λ by length is one of the values measured for each user: no better than the best λ for each of them.
    assert np.isfinite(results["reported"]["2"]["λ by length"]).all()
    filters.write()
    shown = page.read_text(encoding="utf-8")
    assert "## generated: ndcg@100" in shown and f"`{filters._free(text)}`" in shown
    monkeypatch.setattr(filters, "values_of", lambda *words: pytest.fail("measured again"))
    filters.measure("generated", data, places.kept("filters"))
