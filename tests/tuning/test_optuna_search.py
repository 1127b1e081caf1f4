"""The search: it finds a planted optimum, tries each setting once, and prunes."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.tuning.optuna_search import OptunaSearch
from komd.tuning.search_space import SPACES, SearchParameter
from tests.tuning.planted_metric import plant

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


def test_a_planted_optimum_is_found(data, monkeypatch):
    """A smooth function of four parameters with its top at one of 2,205 settings that share a kernel."""

    def value(model):
        mu = np.log(1000 if model.ridge is None else model.ridge)
        far = (model.user_damping - 0.75) ** 2 + (model.popularity - 0.3) ** 2 + 0.02 * (mu - np.log(30)) ** 2
        return 1 - far - 0.02 * np.log(model.regularization / 0.1) ** 2 - 0.1 * (model.negatives_weight - 0.25) ** 2

    plant(monkeypatch, value)
    found = komd.tune("CFKOMD", data, trials=150, rounds=1)
    assert len({trial.text for trial in found.trials}) == len(found.trials) == 150  # none twice
    assert found.best.value > 0.97
    chance = np.random.default_rng(0)
    grid = {c.name: c.values for c in SPACES["CFKOMD"]}
    drawn = [
        value(komd.CFKOMD(**{name: values[chance.integers(len(values))] for name, values in grid.items()}))
        for _ in range(150)
    ]
    assert found.best.value >= max(drawn)


def test_every_setting_of_a_small_space_is_tried_once(data, monkeypatch):
    plant(monkeypatch, lambda model: -abs(model.regularization - 0.1))
    lines = []
    found = komd.tune("ECFOMD", data, trials=100, rounds=1, say=lines.append)
    assert len(found.trials) == len(SPACES["ECFOMD"][0].values)
    assert found.text == "ECFOMD(regularization=0.1)"
    assert lines[-1] == "every setting has been tried"
    assert found.model.get_params() == komd.ECFOMD(regularization=0.1).get_params()


def test_bad_settings_are_pruned_after_a_round(data, monkeypatch):
    asked = []

    def value(model):
        asked.append(model.text)
        return -abs(model.alpha - 0.5)

    plant(monkeypatch, value)
    found = komd.tune("MSDW", data, trials=40, rounds=3)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned and all(len(trial.values) < 3 for trial in pruned)
    assert all(asked.count(trial.text) == len(trial.values) for trial in found.trials)
    assert found.best.value == max(trial.value for trial in found.trials)


def test_parameters_without_effect_are_not_searched(data):
    """Without a prior its power means nothing: one setting, not one for each power."""
    lines = []
    rest = {"kernel": "linear", "user_damping": 0.5, "popularity": 0.2, "ridge": 5.0}
    model = komd.CFKOMD(**rest, regularization=1.0, negatives_weight=0.5, target=0.05)
    found = komd.tune(model, data, trials=100, rounds=1, say=lines.append)
    shares, powers = (len(parameter.values) for parameter in SPACES["CFKOMD"] if parameter.name.startswith("prior"))
    assert len({trial.text for trial in found.trials}) == len(found.trials) == (shares - 1) * powers + 1
    assert lines[-1] == "every setting has been tried"


def test_without_a_filter_its_rank_is_not_searched(data, monkeypatch):
    plant(monkeypatch, lambda model: -abs(model.head - 1.0))
    monkeypatch.setattr("komd.tuning.search_space.ridge_fits", lambda items, chosen, memory: False)
    rest = {"kernel": "linear", "user_damping": 0.5, "popularity": 0.2, "target": 0.05, "prior": 0.02}
    model = komd.CFKOMD(**rest, prior_power=2.0, regularization=1.0, negatives_weight=0.5)
    found = komd.tune(model, data, trials=1000, rounds=1)
    ridges, heads = (len(each.values) for each in SPACES["CFKOMD"] if each.name in ("ridge", "head"))
    assert len({trial.text for trial in found.trials}) == len(found.trials) == (ridges * heads - 1) * 3 + 1


def test_without_optuna(data, monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"tuning needs Optuna: pip install '.*\[tune\]'"):
        komd.tune("EASE", data, trials=1)


def test_starts_are_on_the_grid():
    parameters = (SearchParameter("kernel", ("linear", "tanimoto")), *SPACES["CFKOMD"][1:])
    search = OptunaSearch(komd.CFKOMD(kernel="tanimoto"), parameters, 0, [])
    first = search.ask()
    assert first.model.get_params() == komd.CFKOMD(regularization=0.01).get_params()
