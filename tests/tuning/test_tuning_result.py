"""The result of a search: the best setting, JSON and the plot."""

from __future__ import annotations

import json

import pytest

from komd.tuning.tuning_result import Trial, Tuning


def test_the_result_and_its_plot(tmp_path):
    pytest.importorskip("matplotlib")
    trials = (
        Trial("CFKOMD()", {"ridge": "None", "kernel": "linear"}, [0.4, 0.5], 1.0, "complete"),
        Trial("CFKOMD(ridge=3.0)", {"ridge": "3.0", "kernel": "rbf"}, [0.6, 0.5], 2.0, "complete"),
        Trial("CFKOMD(ridge=1.0)", {"ridge": "1.0", "kernel": "rbf"}, [0.1], 2.0, "pruned"),
    )
    found = Tuning("auc", trials, 2, 5.0)
    assert found.text == "CFKOMD(ridge=3.0)" and found.best.value == pytest.approx(0.55)
    document = json.loads(found.to_json())
    assert document["best"]["model"] == "CFKOMD(ridge=3.0)" and document["counts"]["pruned"] == 1
    drawn = found.plot(tmp_path / "search.svg").read_text()
    assert "<svg" in drawn and "ridge" in drawn and "best so far" in drawn
