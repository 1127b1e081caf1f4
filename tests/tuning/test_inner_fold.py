"""Inner folds: cached matrices give what a fit from the data gives."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest

import komd
from komd.tuning.inner_fold import InnerFold
from komd.tuning.search_space import SPACES

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: the extra tune"
)


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
    "CFKOMD(target=0.5)",
    "CFKOMD(target=-0.5, negatives_weight=0.5)",
    "CFKOMD(popularity=0.2, rank=20, head=1, storage='sparse')",
    "CFKOMD(popularity=0.2, rank=20, head=2, target=0.3, storage='sparse')",
    "CFKOMD(popularity=0.2, ridge=10, rank=20, head=1, prior=0.01, negatives_weight=0)",
    "CFKOMD(ridge=30, rank=20, head=1, target=0.3, prior=0.01, storage='streamed')",
    "ECFOMD()",
    "MSDW()",
]


@pytest.mark.parametrize("room", [1 << 30, 0], ids=["kept", "no room"])
def test_cached_matrices_are_those_of_a_fresh_fit(inner, room):
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


def test_a_change_of_cheap_parameters_builds_no_matrix(inner, monkeypatch):
    train, test = inner
    fold = InnerFold(train, test, "auc", room=1 << 30)
    fold.measure(komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=10))
    for name in ("matrix_from_counts", "filter_ridge"):
        monkeypatch.setattr(f"komd.matrix.build.{name}", lambda *words, **more: pytest.fail("made again"))
    for parameter in SPACES["CFKOMD"]:
        for value in parameter.values if parameter.cheap and parameter.name != "half_life" else ():
            fold.measure(komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=10, **{parameter.name: value}))


def test_another_filter_of_low_rank_needs_no_other_eigenvectors(inner, monkeypatch):
    train, test = inner
    fold = InnerFold(train, test, "auc", room=1 << 30)
    fold.measure(komd.CFKOMD(popularity=0.2, ridge=30, rank=20, storage="sparse"))
    monkeypatch.setattr("komd.matrix.build.leading", lambda *words, **more: pytest.fail("found again"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the second filter is approximate, of which a search does not warn every time
        fold.measure(komd.CFKOMD(popularity=0.2, ridge=0.1, rank=20, storage="sparse"))


def test_another_target_or_head_builds_as_little_as_it_can(inner, monkeypatch):
    train, test = inner
    fold, setting = InnerFold(train, test, "auc", room=1 << 30), {"popularity": 0.2, "rank": 20, "storage": "sparse"}
    fold.measure(komd.CFKOMD(**setting, ridge=30))
    for name in ("leading", "matrix_from_counts"):
        monkeypatch.setattr(f"komd.matrix.build.{name}", lambda *words, **more: pytest.fail("made again"))
    fold.measure(komd.CFKOMD(**setting, head=1))
    monkeypatch.setattr("komd.matrix.build.filter_truncated", lambda *words, **more: pytest.fail("filtered again"))
    monkeypatch.setattr("komd.matrix.low_rank.LowRankMatrix.sums", lambda *words: pytest.fail("summed again"))
    for target in (-0.5, 0.5):
        fold.measure(komd.CFKOMD(**setting, head=1, target=target))


def test_a_filter_that_single_precision_cannot_do_is_done_in_double(inner, monkeypatch):
    train, test = inner
    fold = InnerFold(train, test, "auc", room=1 << 30)
    monkeypatch.setattr("komd.matrix.ridge_filter._ALLOWED", 0.0)
    model = komd.CFKOMD(ridge=10)
    quick, fresh = fold.fitted(model), model.clone().fit(train)
    assert np.allclose(quick.matrix.values, fresh.matrix.values, atol=1e-6)
