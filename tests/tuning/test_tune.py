"""Tuning: it beats the defaults, never sees what is tested later, repeats itself, and refuses bad arguments."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.tuning import inner_fold
from komd.tuning import tune as tune_module
from komd.tuning.search_space import SPACES
from tests.tuning.planted_metric import plant

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


def pairs(data):
    return {(data.users[u], data.items[i]) for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)}


def test_a_model_tunes_itself(data):
    asked = {"metric": "ndcg@20", "trials": 3, "rng": 1}
    assert (
        komd.MSDW(locality=2).tune(data, **asked).model.text == komd.tune("MSDW(locality=2)", data, **asked).model.text
    )


def test_real_searches_beat_the_defaults(data):
    for text in ("CFKOMD", "MSDW", "RP3Beta"):
        found = komd.tune(text, data, metric="ndcg@10", trials=25, rounds=1)
        first = found.trials[0]
        assert first.state == "complete"  # the model as it was given, or the nearest to it
        assert found.best.value >= first.value
    assert found.seconds > 0 and "settings in" in repr(found)


@pytest.mark.parametrize("name", sorted(set(SPACES) - {"CFOMD"}))
def test_every_model_can_be_tuned(name, data):
    if name in ("WRMF", "BPR") and importlib.util.find_spec("implicit") is None:
        pytest.skip("implicit is not installed: the extra rivals")
    small = {"BPR": "BPR(iterations=5)", "BPRKNN": "BPRKNN(epochs=2)"}.get(name, name)
    found = komd.tune(small, data, metric="auc", trials=2, rounds=1)
    assert found.counts() == {"complete": 2, "pruned": 0, "failed": 0}
    assert found.model.fit(data).text == found.text


def test_a_planted_leak_is_refused(data):
    train, test = next(iter(komd.split.folds(data, folds=5, rng=9)))
    assert komd.tune("ECFOMD", train, trials=1, rounds=1, held_out=test).trials
    leaked = data.keep(np.isin(np.arange(data.pairs), np.flatnonzero(_mask(data, test))[:1]) | _mask(data, train))
    with pytest.raises(InputError, match=f"1 of {test.pairs:,} held-out pairs are in the data to tune on"):
        komd.tune("ECFOMD", leaked, trials=1, rounds=1, held_out=test)
    with pytest.raises(InputError, match=f"{test.pairs:,} of {test.pairs:,} held-out pairs"):
        komd.tune("ECFOMD", data, trials=1, rounds=1, held_out=test)


def test_inner_folds_do_not_test_the_users_of_the_outer_one(data):
    """With the same seed for both, too: else all of them would come with half a history."""
    train, test = next(iter(komd.split.folds(data, folds=5, rng=0)))
    (fold,) = tune_module.inner_folds(train, "auc", 5, 1, "random", 0, True, None, None)
    outer, inner = ({u for u, _ in pairs(part)} for part in (test, fold.test))
    assert len(outer & inner) < 0.5 * len(inner)


def _mask(data, part):
    inside = part if isinstance(part, set) else pairs(part)
    return np.array(
        [
            (data.users[u], data.items[i]) in inside
            for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)
        ]
    )


def test_no_model_is_ever_fitted_to_what_an_inner_fold_tests(data, monkeypatch):
    """Whatever is evaluated was learned from the fold's training part alone, and the reused matrices too."""
    train, test = next(iter(komd.split.folds(data, folds=5, rng=9)))
    outer = pairs(test)
    looked = []
    real = inner_fold.evaluate

    def spying(model, tested, **words):
        catalogue = model.catalogue
        rows, columns = catalogue.histories, catalogue.item_ids(catalogue.histories.indices).to_pylist()
        owners = np.repeat(np.arange(len(rows)), rows.lengths)
        learned = {(catalogue.users[int(u)], i) for u, i in zip(owners, columns, strict=True)}
        assert not learned & pairs(tested) and not learned & outer and not pairs(tested) & outer
        fresh = model.clone().fit(data.keep(_mask(data, learned)))
        mine = model.matrix.row(3) if hasattr(model, "matrix") else None
        if mine is not None:
            assert np.allclose(mine, _row_of(fresh, model, 3), atol=2e-5)
        looked.append(model.text)
        return real(model, tested, **words)

    monkeypatch.setattr(inner_fold, "evaluate", spying)
    komd.tune("CFKOMD", train, trials=6, rounds=2)
    assert len(looked) >= 10


def _row_of(fresh, model, item):
    """Row `item` of a fresh model's matrix, in the other model's numbering."""
    to = fresh.catalogue.find_items(
        model.catalogue.item_ids(np.arange(len(model.catalogue.order), dtype=np.int32)), "error"
    )
    return fresh.matrix.row(int(to[item]))[to]


def test_the_same_search_twice(data):
    first, second = (komd.tune("RP3Beta", data, metric="ndcg@10", trials=14, rounds=1, rng=5) for _ in range(2))
    assert [t.text for t in first.trials] == [t.text for t in second.trials]
    assert [t.values for t in first.trials] == [t.values for t in second.trials]


def test_the_budget_ends_the_search(data, monkeypatch):
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(tune_module.time, "monotonic", lambda: float(next(clock)))
    found = komd.tune("EASE", data, budget="5m", rounds=1)
    assert 1 <= len(found.trials) <= 6


def test_settings_that_fail_are_counted(data, monkeypatch):
    def value(model):
        if model.regularization > 100:
            raise komd.SolverError("too stiff")
        return 1 / model.regularization

    plant(monkeypatch, value)
    found = komd.tune("EASE", data, trials=40, rounds=1)
    assert found.counts()["failed"] == sum(v > 100 for v in SPACES["EASE"][0].values)
    assert found.text == "EASE(regularization=1.0)"
    plant(monkeypatch, lambda model: (_ for _ in ()).throw(komd.SolverError("never")))
    with pytest.raises(InputError, match="no setting could be measured: never"):
        komd.tune("EASE", data, trials=2, rounds=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"model": "CFKOM"}, "unknown model 'CFKOM'"),
        ({"model": "Popularity"}, "Popularity has nothing to tune"),
        ({"metric": "auc,ndcg@10"}, "metric must be the name of one metric, got 'auc,ndcg@10'"),
        ({"metric": "ndgc@10"}, "unknown metric"),
        ({"budget": "soon"}, "'10m'"),
        ({"trials": 0}, "trials must be a whole number >= 1, got 0"),
        ({"rounds": 9}, "rounds must not outnumber the folds, got 9 rounds of 5 folds"),
        ({"rng": None}, "rng must be a whole number >= 0, got None"),
        ({"keep": __file__}, "keep must be a folder, and .* is a file"),
    ],
)
def test_refusals(data, words, message):
    with pytest.raises(InputError, match=message):
        komd.tune(**({"model": "EASE", "data": data} | words))
