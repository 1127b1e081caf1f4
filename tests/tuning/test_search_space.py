"""The search space: every model has one, what a model sets is kept, filters that do not fit are left out."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import komd
from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.models.registry import MODELS
from komd.tuning.search_space import SPACES, affordable, free_parameters

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


def test_every_model_but_popularity_has_a_space_and_every_value_makes_a_model():
    assert set(SPACES) == set(MODELS) - {"Popularity"}
    for name, parameters in SPACES.items():
        for parameter in parameters:
            assert len(set(map(str, parameter.values))) == len(parameter.values)
            for value in parameter.values:
                made = MODELS[name](**{parameter.name: value})
                assert komd.model_from_text(made.text).get_params() == made.get_params()
    with pytest.raises(InputError, match="Popularity has nothing to tune"):
        free_parameters(komd.Popularity())


OF_HISTORIES = ["weighting", "weighted_kernel", "half_life", "dislikes_weight"]


def test_what_data_have_is_searched(data):
    def searched(found, model=None):
        return {p.name: p.values for p in free_parameters(model or komd.CFKOMD(), found) if p.name in OF_HISTORIES}

    def timed(last, unit):
        times = np.linspace(0, last, data.pairs).astype(np.int64)
        return Interactions(data.users, data.items, data.indptr, data.indices, times, time_unit=unit)

    assert searched(data) == {}
    weighted = data.with_weights(np.ones(data.pairs, np.float32))
    assert list(searched(weighted)) == ["weighting", "weighted_kernel"]
    assert list(searched(weighted, komd.WRMF())) == list(searched(weighted, komd.ECFOMD())) == ["weighting"]
    assert list(searched(data.with_dislikes(data))) == ["dislikes_weight"]
    assert searched(timed(100, "d"))["half_life"] == ("6h", "1d", "3d", "7d", "14d", "30d", "60d", None)
    assert searched(timed(10, "h"))["half_life"] == ("1h", "6h", None)
    assert searched(timed(100, None)) == searched(timed(100, "s")) == {}  # no unit, or all within a minute or two
    assert "half_life" not in searched(timed(100, "d"), komd.CFKOMD(half_life="5d"))


def test_what_a_model_sets_is_kept(data):
    free = free_parameters(komd.CFKOMD(kernel="linear", ridge=7.0))
    names = ["user_damping", "popularity", "head", "prior", "prior_power", "target", "regularization"]
    names += ["negatives_weight"]
    assert [parameter.name for parameter in free] == [*names, *OF_HISTORIES]
    assert [parameter.name for parameter in free_parameters(komd.CFKOMD(kernel="linear", ridge=7.0), data)] == names
    with pytest.raises(InputError, match="leaves nothing to tune"):
        free_parameters(komd.EASE(regularization=3))


def test_filters_that_do_not_fit_are_not_tried(data, monkeypatch):
    lines = []
    monkeypatch.setattr("komd.tuning.search_space.ridge_fits", lambda items, chosen, memory: False)
    found = komd.tune("CFKOMD", data, trials=8, rounds=1, say=lines.append)
    assert lines[0] == "filters are of rank 64 or 256 or 512: an exact one does not fit the memory, or the time"
    assert any("rank=64" in trial.text for trial in found.trials)
    assert any("head=" in trial.text for trial in found.trials)
    assert all(("rank=" in trial.text) == ("ridge=" in trial.text or "head=" in trial.text) for trial in found.trials)
    monkeypatch.undo()
    found = komd.tune("CFKOMD", data, trials=8, rounds=1, memory="50kB", say=lines.append)
    assert all(trial.params["ridge"] == "None" and trial.params["head"] == "0.0" for trial in found.trials)
    komd.tune("CFKOMD", data, trials=1, rounds=1, budget=1e-6, say=lines.append)
    words = "no filters are tried: neither an exact one nor one of low rank fits the memory and the time"
    assert lines.count(words) == 2


def test_a_head_is_searched_where_filters_are_of_low_rank(data, monkeypatch):
    def searched(model):
        return {
            parameter.name: parameter
            for parameter in affordable(model, free_parameters(model), data, 600, None, lambda line: None)
        }

    exact = searched(komd.CFKOMD())
    assert "head" not in exact and "rank" not in exact and not exact["ridge"].cheap
    given = searched(komd.CFKOMD(head=1.0))  # which makes every filter one of low rank
    assert given["ridge"].cheap and given["rank"].values == (64, 256, 512)
    monkeypatch.setattr("komd.tuning.search_space.ridge_fits", lambda items, chosen, memory: False)
    low = searched(komd.CFKOMD())
    assert low["head"].cheap and low["ridge"].cheap and not low["popularity"].cheap
    assert "rank" not in searched(komd.CFKOMD(rank=12))
