"""What every model promises on data with weights, times and dislikes: in every storage, and whoever asks."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import komd
from komd.cli.main import app
from komd.data.interactions import Interactions
from komd.errors import InputError, UnusedWeightsWarning
from komd.models.registry import MODELS
from tests.budget import THOROUGH
from tests.contracts.variants import HAS_IMPLICIT, RIVALS, ROUNDS_BY_BLOCK, VARIANTS

DAY = 86_400
START = 1_700_000_000  # seconds since 1970
STAGES = [
    {"kernel": "linear"},
    {"user_damping": 0.5, "popularity": 0.2, "negatives": "mean", "storage": "sparse"},
    {"user_damping": 0.5, "negatives_weight": 0.0, "storage": "streamed"},
    {"kernel": "linear", "ridge": 3.0, "regularization": 1.0},
    {"ridge": 30.0, "rank": 12, "prior": 0.01, "storage": "streamed"},
    {"kernel": "linear", "rank": 12, "head": 0.5, "target": 0.2, "storage": "sparse"},
]
WEIGHTS = [
    {"weighting": "log", "weighted_kernel": True, "dislikes_weight": 0.5},
    {"weighting": "sqrt", "half_life": "20d"},
    {"weighting": "linear", "weighted_kernel": True, "half_life": "20d", "dislikes_weight": 1.0},
    {"weighting": "none", "half_life": "1d", "dislikes_weight": 1.0},
]
WEIGHTED = [komd.CFKOMD(**stages, **WEIGHTS[k % 4]) for k, stages in enumerate(STAGES)]
WEIGHTED += [komd.CFKOMD(**STAGES[k], **WEIGHTS[(k + 1) % 4]) for k in (2, 4, 5)]
WEIGHTED += [komd.ECFOMD(half_life="20d"), komd.CFOMD(half_life="20d", weighting="sqrt")]
WEIGHTED += [komd.WRMF(factors=4, half_life="20d", weighting="linear")]
_FITTED = {}


@pytest.fixture(scope="module")
def rich(small):
    """The small data with weights from 1 to some 100, times over a year, and a few dislikes of every user."""
    rng = np.random.default_rng(3)
    weights = np.ceil(rng.lognormal(1, 1.5, small.pairs)).astype(np.float32)
    times = START + rng.integers(0, 365 * DAY, small.pairs)
    R = small.to_csr().toarray() > 0
    disliked = ~R & (rng.random(R.shape) < 0.08)
    users, items = (part.astype(np.int32) for part in np.nonzero(disliked))
    dislikes = Interactions.from_numbers(small.users, small.items, users, items)
    return Interactions(
        small.users, small.items, small.indptr, small.indices, times, weights=weights, time_unit="s", dislikes=dislikes
    )


@pytest.fixture(params=WEIGHTED, ids=repr)
def model(request, rich):
    if type(request.param).__name__ in RIVALS and not HAS_IMPLICIT:
        pytest.skip("implicit is not installed: the extra rivals")
    key = repr(request.param)
    if key not in _FITTED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", komd.FilterWarning)
            _FITTED[key] = request.param.clone().fit(rich)
    return _FITTED[key]


READING = {"weight": "plays", "time": "when", "rating": "stars", "liked": 4, "disliked": 2}


def ratings_table(rich):
    """The rich data as a table of rated plays."""
    history, dislikes = rich.to_arrow(), rich.dislikes.to_arrow()
    return pa.table(
        {
            "user": history["user_id"].to_pylist() + dislikes["user_id"].to_pylist(),
            "item": history["item_id"].to_pylist() + dislikes["item_id"].to_pylist(),
            "plays": [int(w) for w in history["weight"].to_pylist()] + [1] * len(dislikes),
            "when": history["time"].to_pylist() + [START] * len(dislikes),
            "stars": [5] * len(history) + [1] * len(dislikes),
        }
    )


def exact(model):
    return type(model).__name__ not in ROUNDS_BY_BLOCK


def agree(first, second, model, atol=1e-9):
    first, second = first.to_arrow(), second.to_arrow()
    if exact(model) and atol == 0:
        assert first.equals(second)
        return
    assert first.select(["user_id", "item_id"]).equals(second.select(["user_id", "item_id"]))
    assert np.allclose(first["score"], second["score"], atol=atol)


def dislikes_of(data, user):
    return data.dislikes.history(user) if data.dislikes is not None else []


def as_weights(data, user):
    row = data.users.number(user)
    return dict(zip(data.history(user), data.weights[data.indptr[row] : data.indptr[row + 1]].tolist(), strict=True))


def without_times(model):
    return model.clone().set_params(half_life=None)


def test_weights_times_and_dislikes_make_a_difference(model, rich):
    plain = Interactions(rich.users, rich.items, rich.indptr, rich.indices)
    binary = without_times(model).fit(plain).recommend(n=10).to_arrow()
    assert not binary.equals(model.recommend(n=10).to_arrow())


@pytest.mark.parametrize("variant", WEIGHTED, ids=repr)
def test_weights_of_one_are_no_weights_to_the_last_bit(variant, rich):
    if type(variant).__name__ in RIVALS and not HAS_IMPLICIT:
        pytest.skip("implicit is not installed: the extra rivals")
    plain = Interactions(rich.users, rich.items, rich.indptr, rich.indices)
    ones = plain.with_weights(np.ones(plain.pairs, np.float32))
    variant = without_times(variant)
    found = [variant.clone().fit(data).recommend(n=8).to_arrow() for data in (plain, ones)]
    assert found[0].equals(found[1])


def test_a_known_user_is_a_stranger_with_the_same_history(model, rich):
    users = list(rich.users)[:9]
    keep = np.isin(rich.rows, np.arange(9))
    strangers = rich.keep(keep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FallbackWarning)
        found = model.recommend(histories=strangers, n=6).to_arrow()
    found = found.filter(pa.compute.is_in(found["user_id"], pa.array(users)))
    known = model.recommend(users, n=6).to_arrow()
    assert found.select([0, 1]).equals(known.select([0, 1]))
    assert np.allclose(found["score"], known["score"], atol=0 if exact(model) else 1e-9)


def test_a_mapping_to_weights_is_a_history_with_weights(model, rich):
    timeless = without_times(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FilterWarning)
        timeless.fit(rich)
    users = list(rich.users)[3:40:7]
    histories = {user: as_weights(rich, user) for user in users}
    dislikes = {user: dislikes_of(rich, user) for user in users}
    agree(timeless.recommend(histories=histories, dislikes=dislikes, n=6), timeless.recommend(users, n=6), model)
    user = users[2]
    item = timeless.recommend(user, n=1).items(user)[0]
    stranger = timeless.explain(item=item, history=histories[user], dislikes=dislikes[user])
    assert stranger.score == pytest.approx(timeless.explain(user, item).score, abs=1e-12)
    pairs = [(name, item) for name in users]
    scores = [
        timeless.score(pairs, **how).to_arrow()["score"] for how in ({}, {"histories": histories, "dislikes": dislikes})
    ]
    assert np.allclose(*scores, atol=1e-12)


def test_dislikes_are_never_recommended(model, rich):
    for exclude_seen in (True, False):
        lists = model.recommend(n=len(rich.items), exclude_seen=exclude_seen, exclude_low_rated=False)
        for user in list(rich.users)[::7]:
            listed = set(lists.items(user))
            assert not listed & set(dislikes_of(rich, user))
            assert exclude_seen or set(rich.history(user)) <= listed
    batch = list(model.ranked_blocks(model.catalogue.histories, _everything(model, rich)))
    assert sum(int(block.counts.sum()) for block in batch) == lists.to_arrow().num_rows


def _everything(model, rich):
    from komd.engine.ranking import RankingRequest

    return RankingRequest(len(rich.items), model.catalogue.candidates(), exclude_seen=False)


def test_explanations_sum_to_the_score_and_show_dislikes(model, rich):
    user = rich.users[7]
    for item in model.recommend(user, n=3).items(user):
        why = model.explain(user, item)
        parts = why.to_arrow()
        assert parts["contribution"].to_numpy().sum() + why.global_term == pytest.approx(why.score, abs=1e-11)
        if getattr(model, "dislikes_weight", 0):
            disliked = parts.filter(pa.compute.is_in(parts["item_id"], pa.array(dislikes_of(rich, user))))
            assert len(disliked) == len(dislikes_of(rich, user)) > 0
            assert (disliked["weight"].to_numpy() == -model.dislikes_weight / len(disliked)).all()


def test_batches_threads_and_files_change_nothing(model, rich, tmp_path):
    everybody = model.recommend(n=6)
    agree(model.recommend(n=6, threads=1), everybody, model, atol=0 if exact(model) else 1e-9)
    for user in list(rich.users)[::17]:
        alone = model.recommend(user, n=6).to_arrow()
        mine = everybody.to_arrow().filter(pa.compute.equal(everybody.to_arrow()["user_id"], user))
        assert alone.select([0, 1]).equals(mine.select([0, 1]))
        assert np.allclose(alone["score"], mine["score"], atol=0 if exact(model) else 1e-9)
    model.save(tmp_path / "m.komd")
    again = komd.load(tmp_path / "m.komd")
    assert again.recommend(n=6).to_arrow().equals(everybody.to_arrow())
    assert again.recommend(n=6, at="2026-01-01").to_arrow().equals(model.recommend(n=6, at="2026-01-01").to_arrow())
    assert repr(again.catalogue.histories.dislikes.indices) == repr(model.catalogue.histories.dislikes.indices)


def test_scores_of_pairs_are_those_of_the_lists(model):
    listed = model.recommend(n=50, exclude_seen=False).to_arrow()
    found = model.score(listed).to_arrow()
    tolerance = 0 if exact(model) else 1e-12
    assert np.allclose(found["score"], listed["score"], rtol=tolerance, atol=tolerance)


def test_renamed_items_rename_the_answer(model, rich):
    """Ids of items in another order: the same scores, but for the order of sums."""
    if getattr(model, "rank", None) or type(model).__name__ == "WRMF":
        pytest.skip("eigenvectors and factors are found from a start that depends on the order")
    names = [f"{(7 * k) % len(rich.items):03d} {name}" for k, name in enumerate(rich.items)]
    renamed = dict(zip(rich.items, names, strict=True))
    table = ratings_table(rich)
    table = table.set_column(1, "item", pa.array([renamed[item] for item in table["item"].to_pylist()]))
    other = komd.read(table, **READING)
    again = model.clone().fit(other)
    user = rich.users[11]
    pairs = [(user, item) for item in rich.items]
    ours = model.score(pairs).to_arrow()["score"]
    theirs = again.score([(user, renamed[item]) for _, item in pairs]).to_arrow()["score"]
    assert np.allclose(ours, theirs, atol=1e-5)


def test_ages_are_measured_from_the_moment_asked_for(model, rich):
    last = int(rich.times.max())
    if model.half_life is None:
        assert model.recommend(n=6, at="2030-01-01").to_arrow().equals(model.recommend(n=6).to_arrow())
        return
    moments = [model.recommend(n=6, at=np.datetime64(last + k * DAY, "s")).to_arrow() for k in (0, 30, 300_000)]
    assert not moments[0].equals(moments[1])
    # Everything of one age, however old: the proportions stay.
    user = rich.users[5]
    row = rich.users.number(user)
    only = rich.keep(rich.rows == row)
    early = Interactions(
        only.users,
        only.items,
        only.indptr,
        only.indices,
        np.full(only.pairs, START),
        weights=only.weights,
        time_unit="s",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FallbackWarning)
        now, later = (
            model.recommend(histories=early, n=4, at=at).items(user) for at in (None, np.datetime64(START, "s"))
        )
    assert now == later


def test_a_half_life_needs_times(rich):
    plain = Interactions(rich.users, rich.items, rich.indptr, rich.indices)
    unknown = Interactions(rich.users, rich.items, rich.indptr, rich.indices, np.arange(rich.pairs))
    for variant in WEIGHTED:
        if getattr(variant, "half_life", None) is None or (type(variant).__name__ in RIVALS and not HAS_IMPLICIT):
            continue
        with pytest.raises(InputError, match="the data has no times: read it with time="):
            variant.clone().fit(plain)
        fitted = variant.clone().fit(rich)
        for call in (
            lambda v=variant: v.clone().fit(unknown),
            lambda m=fitted: m.recommend(histories=unknown),
            lambda m=fitted: komd.evaluate(m, plain, history=unknown),
        ):
            with pytest.raises(InputError, match=r"the unit of the times is not known .* time_unit="):
                call()


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"CFKOMD", "ECFOMD", "CFOMD", "WRMF"}))
def test_models_without_weights_say_so_and_count_every_pair_once(name, rich):
    if name in RIVALS and not HAS_IMPLICIT:
        pytest.skip("implicit is not installed: the extra rivals")
    params = VARIANTS.get(name, [{}])[0]
    with pytest.warns(UnusedWeightsWarning, match=f"{name} does not use weights: every pair counts 1"):
        fitted = MODELS[name](**params).fit(rich)
    plain = MODELS[name](**params).fit(Interactions(rich.users, rich.items, rich.indptr, rich.indices))
    user = rich.users[5]
    ours = fitted.recommend(user, n=len(rich.items)).items(user)
    assert ours == [i for i in plain.recommend(user, n=len(rich.items)).items(user) if i not in dislikes_of(rich, user)]
    if fitted.serves_strangers:
        with pytest.warns(UnusedWeightsWarning):
            fitted.recommend(histories={"guest": {rich.items[0]: 3.0}})


# ---- limits of the mathematics ------------------------------------------------------------------------------------


def test_a_large_regularization_weighs_by_the_given_weights(rich):
    """λ → ∞: the score is the weighted mean of the rows of K."""
    model = komd.CFKOMD(kernel="linear", regularization=1e9, negatives_weight=0.0, weighting="linear").fit(rich)
    K = np.array([model.matrix.row(i) for i in range(len(rich.items))])
    histories = model.catalogue.histories
    for u in (0, 5, 77):
        row = slice(histories.indptr[u], histories.indptr[u + 1])
        h = histories.weights[row].astype(float)
        expected = (h / h.sum()) @ K[histories.indices[row]]
        pairs = [
            (rich.users[u], item) for item in model.catalogue.item_ids(np.arange(len(K), dtype=np.int32)).to_pylist()
        ]
        assert np.allclose(model.score(pairs).to_arrow()["score"], expected, atol=1e-7)
        assert model.solve(rich.users[u]).alpha == pytest.approx(h / h.sum(), rel=1e-6)


@pytest.mark.parametrize("factor", [0.25, 3.0, 1000.0])
def test_weights_and_regularization_scaled_alike_change_nothing(rich, factor):
    weights = {"weighting": "linear", "dislikes_weight": 0.5}
    scaled = rich.with_weights((rich.weights * factor).astype(np.float32))
    for kind, more in (
        (komd.CFKOMD, weights),
        (komd.ECFOMD, {"weighting": "linear"}),
        (komd.CFOMD, {"weighting": "linear"}),
    ):
        ours = kind(regularization=0.1, tolerance=1e-10, **more).fit(rich)
        theirs = kind(regularization=0.1 * factor, tolerance=1e-10, **more).fit(scaled)
        for user in list(rich.users)[::25]:
            assert theirs.solve(user).alpha == pytest.approx(ours.solve(user).alpha, abs=1e-5)


def test_the_problem_with_weights_against_cvxopt(rich):
    from tests import reference

    model = komd.CFKOMD(kernel="linear", regularization=0.3, dislikes_weight=0.7, half_life="20d", tolerance=1e-10)
    model.fit(rich)
    K = np.array([model.matrix.row(i) for i in range(len(rich.items))], float)
    histories = model.catalogue.histories
    for u in range(0, 120, 13):
        mine, disliked = histories.row(u), histories.dislikes.row(u)
        times = histories.times[histories.indptr[u] : histories.indptr[u + 1]]
        weights = histories.weights[histories.indptr[u] : histories.indptr[u + 1]].astype(float)
        h = np.log2(1 + weights) * 2.0 ** (-(times.max() - times) / (20 * DAY * 1e6))
        q = reference.q_exact(K, mine)
        if len(disliked):
            q = q + 0.7 * K[np.ix_(mine, disliked)].mean(axis=1)
        found = model.solve(rich.users[u])
        assert found.gap <= 1e-10 + 1e-15
        reference.assert_optimal(K[np.ix_(mine, mine)], q, 0.3 / h, np.maximum(found.alpha, 0), 1e-5)


# ---- the other ways in --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ratings(rich, tmp_path_factory):
    """The rich data as a file."""
    file = tmp_path_factory.mktemp("ratings") / "ratings.csv"
    pa.csv.write_csv(ratings_table(rich), file)
    return file


def document(*words):
    done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_commands_give_what_the_library_gives(model, ratings, rich, tmp_path):
    saved, user = tmp_path / "m.komd", rich.users[5]
    options = [word for name, value in READING.items() for word in (f"--{name}", value)]
    assert document("fit", ratings, "-o", saved, "--model", model.text, *options)["model"] == model.text
    assert document("recommend", saved, "--n", 4)["recommendations"] == model.recommend(n=4).to_arrow().to_pylist()
    item = model.recommend(user, n=1).items(user)[0]
    why = model.explain(user, item).to_dict()
    assert document("explain", saved, user, item) == {"model": model.text} | json.loads(json.dumps(why))


def test_compared_and_tuned_figures_are_those_of_evaluate(rich, ratings):
    pytest.importorskip("optuna")
    metrics = "auc,ndcg@10"
    data = komd.read(ratings, **READING)
    # Every way of weighting and every model; every stage as well where there is time for so many processes.
    models = WEIGHTED if THOROUGH else [*WEIGHTED[: len(WEIGHTS)], *WEIGHTED[-3:]]
    models = [model for model in models if HAS_IMPLICIT or type(model).__name__ not in RIVALS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FilterWarning)
        found = komd.compare(data, models, metrics=metrics, folds=2, half="rolling", rng=1)
        folds = list(komd.split.folds(data, folds=2, half="rolling", rng=1))
        for model in models:
            alone = [komd.evaluate(model.clone().fit(train), test, metrics=metrics) for train, test in folds]
            assert found[model.text].failed is None, found[model.text].failed
            for metric in metrics.split(","):
                ours = found[model.text][metric].values
                assert ours == pytest.approx([each[metric].mean for each in alone], abs=1e-9)
        tuned = komd.tune("CFKOMD", data, half="rolling", folds=3, rounds=1, trials=12, metric="ndcg@10")
        again = komd.tune("CFKOMD", data, half="rolling", folds=3, rounds=1, trials=12, metric="ndcg@10", reuse=False)
    params = tuned.trials[0].params
    assert {"weighting", "weighted_kernel", "half_life", "dislikes_weight"} <= params.keys()
    assert [trial.value for trial in tuned.trials] == pytest.approx([trial.value for trial in again.trials], abs=2e-3)
