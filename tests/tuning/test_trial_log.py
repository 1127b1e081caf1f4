"""The log of trials: an interrupted search is resumed."""

from __future__ import annotations

import importlib.util
import json

import pytest

import komd
from komd.errors import InputError
from komd.tuning.inner_fold import InnerFold

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


def test_a_search_is_resumed(data, tmp_path, monkeypatch):
    first = komd.tune("CFKOMD", data, metric="ndcg@10", trials=7, rounds=1, keep=tmp_path)
    measured = []
    real = InnerFold.measure
    monkeypatch.setattr(InnerFold, "measure", lambda self, model: measured.append(model.text) or real(self, model))
    again = komd.tune("CFKOMD", data, metric="ndcg@10", trials=7, rounds=1, keep=tmp_path)
    assert not measured and again.trials == first.trials
    more = komd.tune("CFKOMD", data, metric="ndcg@10", trials=12, rounds=1, keep=tmp_path)
    assert more.trials[:7] == first.trials and len(more.trials) == 12
    assert len(measured) == 5 and not set(measured) & {trial.text for trial in first.trials}
    komd.tune("CFKOMD", data, metric="auc", trials=1, rounds=1, keep=tmp_path)  # other settings, another file
    assert len(list(tmp_path.iterdir())) == 2
    (file,) = (path for path in tmp_path.iterdir() if len(json.loads(path.read_text())["trials"]) == 12)
    file.write_text(file.read_text()[:100])
    with pytest.raises(InputError, match="is not a log of trials; remove it"):
        komd.tune("CFKOMD", data, metric="ndcg@10", trials=7, rounds=1, keep=tmp_path)


def test_trials_of_an_interrupted_search_are_kept(data, tmp_path, monkeypatch):
    real = InnerFold.measure

    def stopping(self, model):
        if len(list(tmp_path.iterdir())) and len(json.loads(next(tmp_path.iterdir()).read_text())["trials"]) == 3:
            raise KeyboardInterrupt
        return real(self, model)

    monkeypatch.setattr(InnerFold, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        komd.tune("EASE", data, trials=9, rounds=1, keep=tmp_path)
    monkeypatch.setattr(InnerFold, "measure", real)
    assert len(komd.tune("EASE", data, trials=5, rounds=1, keep=tmp_path).trials) == 5
