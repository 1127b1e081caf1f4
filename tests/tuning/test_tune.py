"""Tuning: it finds what is there, sees nothing it must not, repeats and resumes, and its short cuts change nothing."""

from __future__ import annotations

import importlib.util
import json
import warnings

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.models.registry import MODELS
from komd.tuning import inner_fold
from komd.tuning import tune as tune_module
from komd.tuning.inner_fold import InnerFold
from komd.tuning.optuna_search import OptunaSearch
from komd.tuning.search_space import SPACES, SearchParameter, free_parameters
from komd.tuning.tuning_result import Trial, Tuning

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=250, items=80, activity=12, tastes=4, rng=2)


@pytest.fixture(scope="module")
def inner(data):
    return next(iter(komd.split.folds(data, folds=5, rng=0)))


def pairs(data):
    return {(data.users[u], data.items[i]) for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)}


# ---- what is tried -----------------------------------------------------------------------------------------


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


def test_what_a_model_sets_is_kept():
    free = free_parameters(komd.CFKOMD(kernel="linear", ridge=7.0))
    names = ["user_damping", "popularity", "prior", "prior_power", "regularization", "negatives_weight"]
    assert [parameter.name for parameter in free] == names
    with pytest.raises(InputError, match="leaves nothing to tune"):
        free_parameters(komd.EASE(regularization=3))


# ---- it finds what is there --------------------------------------------------------------------------------


def fake(monkeypatch, value_of):
    """Let a function of the model stand for the measuring."""
    monkeypatch.setattr(InnerFold, "measure", lambda self, model: value_of(model))


def test_a_planted_optimum_is_found(data, monkeypatch):
    """A smooth function of four parameters with its top at one of 2,205 settings that share a kernel."""

    def value(model):
        mu = np.log(1000 if model.ridge is None else model.ridge)
        far = (model.user_damping - 0.75) ** 2 + (model.popularity - 0.3) ** 2 + 0.02 * (mu - np.log(30)) ** 2
        return 1 - far - 0.02 * np.log(model.regularization / 0.1) ** 2 - 0.1 * (model.negatives_weight - 0.25) ** 2

    fake(monkeypatch, value)
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


def test_a_model_tunes_itself(data):
    asked = {"metric": "ndcg@20", "trials": 3, "rng": 1}
    assert (
        komd.MSDW(locality=2).tune(data, **asked).model.text == komd.tune("MSDW(locality=2)", data, **asked).model.text
    )


def test_a_small_space_is_tried_whole_and_then_it_stops(data, monkeypatch):
    fake(monkeypatch, lambda model: -abs(model.regularization - 0.1))
    lines = []
    found = komd.tune("ECFOMD", data, trials=100, rounds=1, say=lines.append)
    assert len(found.trials) == len(SPACES["ECFOMD"][0].values)
    assert found.text == "ECFOMD(regularization=0.1)"
    assert lines[-1] == "every setting has been tried"
    assert found.model.get_params() == komd.ECFOMD(regularization=0.1).get_params()


def test_bad_settings_are_given_up_after_a_round(data, monkeypatch):
    asked = []

    def value(model):
        asked.append(model.text)
        return -abs(model.alpha - 0.5)

    fake(monkeypatch, value)
    found = komd.tune("MSDW", data, trials=40, rounds=3)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned and all(len(trial.values) < 3 for trial in pruned)
    assert all(asked.count(trial.text) == len(trial.values) for trial in found.trials)
    assert found.best.value == max(trial.value for trial in found.trials)


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


# ---- what it sees ------------------------------------------------------------------------------------------


def test_a_planted_leak_is_refused(data):
    train, test = next(iter(komd.split.folds(data, folds=5, rng=9)))
    assert komd.tune("ECFOMD", train, trials=1, rounds=1, held_out=test).trials
    leaked = data.keep(np.isin(np.arange(data.pairs), np.flatnonzero(_mask(data, test))[:1]) | _mask(data, train))
    with pytest.raises(InputError, match=f"1 of {test.pairs:,} held-out pairs are in the data to tune on"):
        komd.tune("ECFOMD", leaked, trials=1, rounds=1, held_out=test)
    with pytest.raises(InputError, match=f"{test.pairs:,} of {test.pairs:,} held-out pairs"):
        komd.tune("ECFOMD", data, trials=1, rounds=1, held_out=test)


def test_inner_folds_do_not_test_the_people_of_the_outer_one(data):
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


# ---- short cuts change nothing -----------------------------------------------------------------------------

SETTINGS = [
    "CFKOMD()",
    "CFKOMD(kernel='linear', user_damping=0.5)",
    "CFKOMD(user_damping=0.5, popularity=0.3, negatives_weight=0.5, regularization=1)",
    "CFKOMD(user_damping=0.5, popularity=0.3, ridge=10, regularization=1, negatives_weight=0)",
    "CFKOMD(user_damping=0.5, popularity=0.3, ridge=10, regularization=0.1, negatives_weight=1)",
    "CFKOMD(user_damping=0.5, ridge=3)",
    "CFKOMD(popularity=0.2, storage='sparse')",
    "CFKOMD(popularity=0.2, storage='streamed')",
    "CFKOMD(popularity=0.2, ridge=30, rank=20, storage='sparse')",
    "CFKOMD(popularity=0.2, ridge=50, rank=20, storage='sparse')",
    "CFKOMD(ridge=30, rank=20)",
    "CFKOMD(ridge=30, rank=20, storage='streamed')",
    "CFKOMD(prior=0.01)",
    "CFKOMD(prior=0.01, prior_power=1, regularization=1)",
    "CFKOMD(prior=0.003, storage='sparse')",
    "CFKOMD(user_damping=0.5, popularity=0.3, ridge=10, prior=0.01)",
    "CFKOMD(popularity=0.2, ridge=30, rank=20, prior=0.01, storage='sparse')",
    "ECFOMD()",
    "MSDW()",
]


@pytest.mark.parametrize("room", [1 << 30, 0], ids=["kept", "no room"])
def test_reused_matrices_are_those_of_a_fresh_fit(inner, room):
    train, test = inner
    fold = InnerFold(train, test, "ndcg@10", room=room)
    slow = InnerFold(train, test, "ndcg@10", room=0, reuse=False)
    for text in SETTINGS + SETTINGS[::-1]:
        model = komd.model_from_text(text)
        quick, fresh = fold.fitted(model), slow.fitted(model)
        assert quick.text == fresh.text == model.text
        some = fresh.catalogue.histories.block(0, 30)
        assert np.allclose(quick.block_scores(some), fresh.block_scores(some), atol=2e-5)
        assert fold.measure(model) == pytest.approx(slow.measure(model), abs=2e-3)


def test_a_change_of_cheap_parameters_makes_no_matrix(inner, monkeypatch):
    train, test = inner
    fold = InnerFold(train, test, "auc", room=1 << 30)
    fold.measure(komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=10))
    for name in ("matrix_from_counts", "filter_ridge"):
        monkeypatch.setattr(f"komd.matrix.build.{name}", lambda *words, **more: pytest.fail("made again"))
    for parameter in SPACES["CFKOMD"]:
        for value in parameter.values if parameter.cheap else ():
            fold.measure(komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=10, **{parameter.name: value}))


def test_another_filter_of_low_rank_needs_no_other_eigenvectors(inner, monkeypatch):
    train, test = inner
    fold = InnerFold(train, test, "auc", room=1 << 30)
    fold.measure(komd.CFKOMD(popularity=0.2, ridge=30, rank=20, storage="sparse"))
    monkeypatch.setattr("komd.matrix.build.leading", lambda *words, **more: pytest.fail("found again"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the second filter is a rough one, which a search does not tell again and again
        fold.measure(komd.CFKOMD(popularity=0.2, ridge=0.1, rank=20, storage="sparse"))


def test_a_filter_that_single_precision_cannot_do_is_done_in_double(inner, monkeypatch):
    train, test = inner
    fold = InnerFold(train, test, "auc", room=1 << 30)
    monkeypatch.setattr("komd.matrix.ridge_filter._ALLOWED", 0.0)
    model = komd.CFKOMD(ridge=10)
    quick, fresh = fold.fitted(model), model.clone().fit(train)
    assert np.allclose(quick.matrix.values, fresh.matrix.values, atol=1e-6)


# ---- the same again, and on from where it stopped ----------------------------------------------------------


def test_the_same_search_twice(data):
    first, second = (komd.tune("RP3Beta", data, metric="ndcg@10", trials=14, rounds=1, rng=5) for _ in range(2))
    assert [t.text for t in first.trials] == [t.text for t in second.trials]
    assert [t.values for t in first.trials] == [t.values for t in second.trials]


def test_it_goes_on_where_it_stopped(data, tmp_path, monkeypatch):
    first = komd.tune("CFKOMD", data, metric="ndcg@10", trials=7, rounds=1, keep=tmp_path)
    measured = []
    real = InnerFold.measure
    monkeypatch.setattr(InnerFold, "measure", lambda self, model: measured.append(model.text) or real(self, model))
    again = komd.tune("CFKOMD", data, metric="ndcg@10", trials=7, rounds=1, keep=tmp_path)
    assert not measured and again.trials == first.trials
    more = komd.tune("CFKOMD", data, metric="ndcg@10", trials=12, rounds=1, keep=tmp_path)
    assert more.trials[:7] == first.trials and len(more.trials) == 12
    assert len(measured) == 5 and not set(measured) & {trial.text for trial in first.trials}
    komd.tune("CFKOMD", data, metric="auc", trials=1, rounds=1, keep=tmp_path)  # another question, another file
    assert len(list(tmp_path.iterdir())) == 2
    (file,) = (path for path in tmp_path.iterdir() if len(json.loads(path.read_text())["trials"]) == 12)
    file.write_text(file.read_text()[:100])
    with pytest.raises(InputError, match="is not a log of trials; remove it"):
        komd.tune("CFKOMD", data, metric="ndcg@10", trials=7, rounds=1, keep=tmp_path)


def test_stopped_in_the_middle_what_was_done_is_kept(data, tmp_path, monkeypatch):
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


def test_the_budget_ends_the_search(data, monkeypatch):
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(tune_module.time, "monotonic", lambda: float(next(clock)))
    found = komd.tune("EASE", data, budget="5m", rounds=1)
    assert 1 <= len(found.trials) <= 6


# ---- failures and words ------------------------------------------------------------------------------------


def test_settings_that_fail_are_told_apart(data, monkeypatch):
    def value(model):
        if model.regularization > 100:
            raise komd.SolverError("too stiff")
        return 1 / model.regularization

    fake(monkeypatch, value)
    found = komd.tune("EASE", data, trials=25, rounds=1)
    assert found.counts()["failed"] == sum(v > 100 for v in SPACES["EASE"][0].values)
    assert found.text == "EASE(regularization=1.0)"
    fake(monkeypatch, lambda model: (_ for _ in ()).throw(komd.SolverError("never")))
    with pytest.raises(InputError, match="no setting could be measured: never"):
        komd.tune("EASE", data, trials=2, rounds=1)


def test_a_parameter_that_says_nothing_is_not_varied(data):
    """Without a prior its power means nothing: one setting, not one for each power."""
    lines = []
    rest = {"kernel": "linear", "user_damping": 0.5, "popularity": 0.2, "ridge": 5.0}
    model = komd.CFKOMD(**rest, regularization=1.0, negatives_weight=0.5)
    found = komd.tune(model, data, trials=100, rounds=1, say=lines.append)
    shares, powers = (len(parameter.values) for parameter in SPACES["CFKOMD"] if parameter.name.startswith("prior"))
    assert len({trial.text for trial in found.trials}) == len(found.trials) == (shares - 1) * powers + 1
    assert lines[-1] == "every setting has been tried"


def test_filters_that_do_not_fit_are_not_tried(data, monkeypatch):
    lines = []
    monkeypatch.setattr("komd.tuning.search_space.ridge_fits", lambda items, chosen, memory: False)
    found = komd.tune("CFKOMD", data, trials=8, rounds=1, say=lines.append)
    assert lines[0] == "filters are of rank 64 or 256: an exact one does not fit the memory, or the time"
    assert any("rank=64" in trial.text for trial in found.trials)
    assert all(("rank=" in trial.text) == ("ridge=" in trial.text) for trial in found.trials)
    monkeypatch.undo()
    found = komd.tune("CFKOMD", data, trials=8, rounds=1, memory="50kB", say=lines.append)
    assert all(trial.params["ridge"] == "None" for trial in found.trials)
    komd.tune("CFKOMD", data, trials=1, rounds=1, budget=1e-6, say=lines.append)
    words = "no filters are tried: neither an exact one nor one of low rank fits the memory and the time"
    assert lines.count(words) == 2


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


def test_starts_are_on_the_grid():
    parameters = (SearchParameter("kernel", ("linear", "tanimoto")), *SPACES["CFKOMD"][1:])
    search = OptunaSearch(komd.CFKOMD(kernel="tanimoto"), parameters, 0, [])
    first = search.ask()
    assert first.model.get_params() == komd.CFKOMD(regularization=0.01).get_params()
